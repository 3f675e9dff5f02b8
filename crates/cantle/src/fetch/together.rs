//! The reads of many gets, made at the same time.
//!
//! ```text
//!   pass 1   get 1 ──▶ index of A?   get 2 ──▶ index of A?   get 3 ──▶ block of B?
//!            ├─ read: index of A, block of B
//!   pass 2   get 1 ──▶ block of A?   get 2 ──▶ block of A?   get 3 ──▶ its value
//!            ├─ read: block of A
//!   pass 3   get 1 ──▶ its value     get 2 ──▶ its value
//! ```
//!
//! A block that several threads need is read once, as for other gets (`cache::flights`): the batch *leads*
//! the loads of the blocks that it reads, until its gets have put them into the cache. It waits for the
//! load of another thread only while it leads none, so that no two batches wait for each other. It leads
//! none, either, while it hands out results: the caller may read the same blocks.
//!
//! Bytes that were read stay with the batch as long as each pass uses them, whether a cache keeps them or
//! not: a get comes at least one read further in each pass. A read that fails, or finds the end of the
//! file, is repeated by the get that needs it, which reports the error.
//!
//! Thread safety: a batch belongs to one thread.

use super::{Fetch, Place, Unfetched};
use crate::cache::{BlockCache, CacheValue, Loading};
use crate::sync::Arc;
use crate::types::error::Result;
use crate::vfs::{ReadQueue, ReadRequest, VfsFile};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// Maximum number of gets that wait for reads at the same time. Devices gain little by longer queues.
const WAITING_MAX: usize = 64;
/// Gets begin as long as the requested reads have fewer bytes, and results are handed out when they have
/// more.
const REQUESTED_BYTES: u64 = 512 << 10;
/// Maximum bytes that were read or are requested. Gets that need more are made by themselves.
const HELD_BYTES: u64 = 2 << 20;
/// Number of entries of a cache whose uses by a batch are counted once each.
const COUNTED_MAX: usize = 4096;
/// Longer reads are made by gets of their own. The indexes of most tables are shorter.
pub(super) const APART_BYTES: u64 = 256 << 10;
/// A get that has no result after this number of passes is made by itself. Each pass brings it further unless the
/// files of its key change all the time.
const PASSES_MAX: usize = 100;

/// The requested reads of some gets, and what was read.
#[derive(Default)]
pub(crate) struct Together(RefCell<State>);

#[derive(Default)]
struct State {
    requested: Vec<Request>,
    /// Bytes that were read, and the last pass that used them. `None` if the read failed.
    read: HashMap<Place, (Option<Bytes>, usize)>,
    /// Loads of the blocks that the last pass requested, by file and offset.
    leads: HashMap<(u64, u64), Loading>,
    /// Entries of the cache that gets of the batch have asked for, by file and offset: a get that begins again
    /// is no further use of what it has read.
    counted: HashSet<(u64, u64)>,
    pass: usize,
    /// True if other threads read all that the last pass requested.
    may_wait: bool,
}

struct Request {
    place: Place,
    file: Arc<dyn VfsFile>,
    /// The cache that the bytes are read for.
    cache: Option<BlockCache>,
}

impl State {
    /// Leads the load of a requested block. False if another thread does or did.
    fn lead(&mut self, request: &Request) -> bool {
        let Request { place: Place { file, offset, .. }, cache: Some(cache), .. } = request else {
            return true;
        };
        let Some(loading) = cache.begin_load(*file, *offset) else { return false };
        // Another thread may have published it just before.
        match cache.peek(*file, *offset) {
            Some(found) => loading.pass_on(found),
            None => return self.leads.insert((*file, *offset), loading).is_none(),
        }
        false
    }

    fn requested_bytes(&self) -> u64 {
        self.requested.iter().map(|request| request.place.len).sum()
    }

    fn held_bytes(&self) -> u64 {
        self.read.keys().map(|place| place.len).sum::<u64>() + self.requested_bytes()
    }
}

impl Together {
    /// True if another get may begin beside those that wait.
    fn has_room(&self, waiting: usize) -> bool {
        let mut state = self.0.borrow_mut();
        if waiting == 0 {
            // Requests of gets that failed.
            state.requested.clear();
        }
        waiting < WAITING_MAX && state.requested_bytes() < REQUESTED_BYTES
    }

    /// True if a place was requested, or read in the last passes.
    pub(super) fn knows(&self, place: Place) -> bool {
        let state = self.0.borrow();
        state.read.contains_key(&place) || state.requested.iter().any(|request| request.place == place)
    }

    /// Reads what was requested, unless other threads read it. Returns the number of places.
    pub(super) fn read(&self, queue: &ReadQueue) -> usize {
        let mut state = self.0.borrow_mut();
        let mut requested = std::mem::take(&mut state.requested);
        requested.retain(|request| state.lead(request));
        let mut buffers: Vec<Vec<u8>> =
            requested.iter().map(|request| vec![0; request.place.len as usize]).collect();
        let mut reads: Vec<ReadRequest<'_>> = requested
            .iter()
            .zip(&mut buffers)
            .map(|(Request { place, file, .. }, buffer)| ReadRequest {
                file: &**file,
                offset: place.offset,
                buffer,
            })
            .collect();
        let reads_made = reads.len();
        let outcomes = queue.read_all(&mut reads);
        state.may_wait = requested.is_empty();
        state.pass += 1;
        let pass = state.pass;
        state.read.retain(|_, (_, used)| *used + 1 >= pass);
        for ((Request { place, .. }, buffer), outcome) in requested.into_iter().zip(buffers).zip(outcomes) {
            let is_whole = outcome.is_ok_and(|read| read == buffer.len());
            state.read.insert(place, (is_whole.then(|| Bytes::from(buffer)), pass));
        }
        reads_made
    }

    /// The last request is for this entry of a cache, which was not there.
    pub(super) fn requested_for(&self, cache: &BlockCache, file: u64, offset: u64) {
        let mut state = self.0.borrow_mut();
        state.counted.insert((file, offset));
        let is_this = |Request { place, .. }: &&mut Request| (place.file, place.offset) == (file, offset);
        if let Some(request) = state.requested.iter_mut().find(is_this) {
            request.cache = Some(cache.clone());
        }
    }

    /// Leaves loads that no get has finished to other threads: gets may go another way than before.
    pub(super) fn end_leads(&self) {
        let leads = std::mem::take(&mut self.0.borrow_mut().leads);
        drop(leads);
    }
}

impl Fetch for Together {
    type Stop = Unfetched;

    fn bytes(
        &self,
        place: Place,
        open: impl FnOnce() -> Result<Arc<dyn VfsFile>>,
        read: impl FnOnce() -> Result<Bytes>,
    ) -> Result<Bytes, Unfetched> {
        let mut state = self.0.borrow_mut();
        let pass = state.pass;
        if let Some((bytes, used)) = state.read.get_mut(&place) {
            *used = pass;
            return Ok(match bytes {
                Some(bytes) => bytes.clone(),
                None => read()?,
            });
        }
        if state.requested.iter().any(|request| request.place == place) {
            return Err(Unfetched::Requested);
        }
        if place.len > APART_BYTES || state.held_bytes() + place.len > HELD_BYTES {
            return Err(Unfetched::Apart);
        }
        // The process may have too many files open for all reads of a pass.
        let file = open().map_err(|_| Unfetched::Apart)?;
        state.requested.push(Request { place, file, cache: None });
        Err(Unfetched::Requested)
    }

    fn before_long_read(&self) -> Result<(), Unfetched> {
        Err(Unfetched::Apart)
    }

    fn entry(
        &self,
        cache: &BlockCache,
        file: u64,
        offset: u64,
        load: impl FnOnce() -> Result<CacheValue, Unfetched>,
    ) -> Result<CacheValue, Unfetched> {
        let found = {
            let counted = &mut self.0.borrow_mut().counted;
            if counted.len() >= COUNTED_MAX {
                counted.clear();
            }
            if counted.insert((file, offset)) { cache.get(file, offset) } else { cache.peek(file, offset) }
        };
        if let Some(found) = found {
            return Ok(found);
        }
        let lead = self.0.borrow_mut().leads.remove(&(file, offset));
        canary!(BLOCK_OF_ANOTHER_LOAD => let lead =
            lead.and(self.0.borrow_mut().leads.drain().next().map(|(_, lead)| lead)));
        let may_wait = {
            let state = self.0.borrow();
            lead.is_none() && state.may_wait && state.leads.is_empty()
        };
        if may_wait && let Some(loaded) = cache.join_load(file, offset) {
            return Ok(loaded);
        }
        let loaded = load();
        match &loaded {
            Ok(value) => match lead {
                Some(lead) => lead.end(value),
                None => cache.insert(file, offset, value.clone()),
            },
            Err(Unfetched::Requested) => self.requested_for(cache, file, offset),
            Err(_) => {}
        }
        loaded
    }
}

/// The result of a get of a batch.
type Fetched = Result<Option<Bytes>, Unfetched>;

/// A get that waits.
struct Waiting<K> {
    number: usize,
    key: K,
    passes: usize,
}

/// Gets of many keys.
pub(crate) struct Many<'a, G, D> {
    pub(crate) queue: &'a ReadQueue,
    /// Looks up a key with the reads of a batch.
    pub(crate) together: G,
    /// Looks up a key by itself.
    pub(crate) apart: D,
}

impl<G, D> Many<'_, G, D> {
    /// Looks up all keys, and calls `answer` with the number of each key and its result, in the order in
    /// which results are known. In memory are at most a single one, and [`REQUESTED_BYTES`] of others.
    pub(crate) fn run<K>(
        &self,
        keys: impl IntoIterator<Item = K>,
        mut answer: impl FnMut(usize, Result<Option<Bytes>>),
    ) where
        G: Fn(&K, &Together) -> Fetched,
        D: Fn(&K) -> Result<Option<Bytes>>,
    {
        let batch = Together::default();
        let mut keys = keys.into_iter().enumerate();
        let mut waiting: Vec<Waiting<K>> = Vec::new();
        loop {
            let (mut still, mut results, mut bytes) = (Vec::new(), Vec::new(), 0);
            let mut hand_out = |results: Vec<(Waiting<K>, Fetched)>| {
                batch.end_leads();
                for (Waiting { number, key, .. }, result) in results {
                    answer(number, self.result(&key, result));
                }
            };
            for get in waiting {
                let result = match (self.together)(&get.key, &batch) {
                    Err(Unfetched::Requested) if get.passes < PASSES_MAX => {
                        still.push(Waiting { passes: get.passes + 1, ..get });
                        continue;
                    }
                    Err(Unfetched::Requested) => Err(Unfetched::Apart),
                    result => result,
                };
                bytes +=
                    result.as_ref().map_or(0, |found| found.as_ref().map_or(0, |value| value.len() as u64));
                results.push((get, result));
                if bytes > REQUESTED_BYTES {
                    hand_out(std::mem::take(&mut results));
                    bytes = 0;
                }
            }
            hand_out(results);
            // There is room if nothing waits.
            while batch.has_room(still.len())
                && let Some((number, key)) = keys.next()
            {
                match (self.together)(&key, &batch) {
                    Err(Unfetched::Requested) => still.push(Waiting { number, key, passes: 1 }),
                    result => answer(number, self.result(&key, result)),
                }
            }
            if still.is_empty() {
                return;
            }
            batch.read(self.queue);
            waiting = still;
        }
    }

    fn result<K>(&self, key: &K, result: Fetched) -> Result<Option<Bytes>>
    where
        D: Fn(&K) -> Result<Option<Bytes>>,
    {
        match result {
            Ok(found) => Ok(found),
            Err(Unfetched::Failed(error)) => Err(error),
            Err(Unfetched::Requested | Unfetched::Apart) => (self.apart)(key),
        }
    }
}
