//! Parallel search (SifrDB §4.3): a get reads in several runs at the same time.
//!
//! A get searches the newest run first, and the next one if that has not the key. While memory answers, this is all.
//! At the first read that has to wait for a device it becomes a [`Query`], which goes on with the runs behind that one
//! meanwhile: each is searched up to its own first read, and then all these reads are made at the same time. So
//! a get of a key in the last of ten trees waits for two reads, of an index and of a block, in place of twenty.
//!
//! | SifrDB §4.3 | here |
//! | --- | --- |
//! | COUNTER: the trees that were selected | the length of [`Query::local`] |
//! | LOCALR: the result of each tree | [`Local`]; a delete is a result |
//! | GLOBALR: the newest one, once all newer trees are known to lack the key | [`Query::global`] |
//! | late results are discarded | runs behind the first one that has the key are not searched any further |
//! | search threads: 16 | runs that wait at a time: as many as the device gains by (`vfs/read_depth.rs`), 16 at most |
//! | the server thread, which waits for them | the thread that asks; it waits for the device itself |
//!
//! The paper has threads because each can wait for one read. Here one thread waits for many, so no thread has to be
//! woken, none outlives a query, and a query ends with the call that made it. Its errors are those of a get run by run: a
//! run that cannot be searched so, because a read is long or fails, is searched by itself, once no newer run has
//! the key.
//!
//! Thread safety: a query belongs to one thread. Queries that want the same block share its read (`cache::flights`).

use super::env::RunEnv;
use super::get::{Answer, Found, Search, Served, answer};
use super::run::{Run, Source};
use crate::fetch::{Directly, InParallel, Unfetched};
use crate::sync::time::now;
use crate::types::error::Result;

/// Number of reads one after the other from which on a query goes on run by run. Each brings all that wait further, so
/// it needs few.
const READS_MAX: usize = 100;

/// Looks up `key` as [`get`](super::get::get) does, in at most `runs_max` runs at the same time, which is asked at
/// the first read that waits.
pub fn search<'a>(
    env: &RunEnv,
    mut runs: impl Iterator<Item = &'a Run>,
    (key, hash): (&[u8], u64),
    at: u64,
    runs_max: impl FnOnce() -> u32,
) -> Result<Answer> {
    let begun = now();
    let fetch = InParallel::default();
    let (passed, has_key) = Default::default();
    let search = Search { env, key, hash, at, fetch: &fetch, passed: &passed, has_key: &has_key };
    while let Some(run) = runs.next() {
        match search.in_run(run) {
            Ok(None) => {}
            Ok(found) => return Ok(answer(env, found, &passed, begun)),
            Err(Unfetched::Failed(error)) => return Err(error),
            Err(_) => {
                let query = Query::new(&search, std::iter::once(run).chain(runs).collect());
                let found = query.run(runs_max() as usize)?;
                return Ok(answer(env, found, &passed, begun));
            }
        }
    }
    Ok(answer(env, None, &passed, begun))
}

/// The result of a run (LOCALR).
enum Local {
    /// It waits for a read.
    Waits,
    /// It has the key, and waits for the value.
    Holds,
    Found(Found, Served),
    Absent,
    /// It is to be searched by itself: a read is long, a resource is short, or something failed.
    Apart,
}

impl Local {
    fn waits(&self) -> bool {
        matches!(self, Self::Waits | Self::Holds)
    }

    /// True if no older run can matter.
    fn has_key(&self) -> bool {
        matches!(self, Self::Holds | Self::Found(..))
    }
}

struct Query<'q, 'r> {
    search: &'q Search<'q, InParallel>,
    /// Newest first.
    runs: Vec<&'r Run>,
    /// The results of the runs that were selected, which are the first ones.
    local: Vec<Local>,
    /// The most that were selected, and those of them that were of no use.
    selected: usize,
    in_vain: usize,
}

impl<'q, 'r> Query<'q, 'r> {
    /// The first of these runs waits for a read.
    fn new(search: &'q Search<'q, InParallel>, runs: Vec<&'r Run>) -> Self {
        let waits = if search.has_key.get() { Local::Holds } else { Local::Waits };
        Self { search, runs, local: vec![waits], selected: 1, in_vain: 0 }
    }

    #[cold]
    fn run(mut self, runs_max: usize) -> Result<Option<(Found, Served)>> {
        let Search { env, fetch, .. } = *self.search;
        let width = env.queue.depth.now().min(runs_max).max(1);
        let (mut reads, mut at_once) = (0, 0);
        let found = loop {
            while self.local.iter().filter(|local| local.waits()).count() < width && self.select() {}
            let first = self.global();
            match self.local.get_mut(first) {
                Some(Local::Found(..)) => break self.local.drain(..).nth(first),
                Some(local @ Local::Apart) => *local = apart(self.search, self.runs[first])?,
                Some(_) if reads == READS_MAX => self.local[first] = Local::Apart,
                Some(_) => {
                    reads += 1;
                    at_once = at_once.max(fetch.read(&env.queue));
                    self.go_on();
                    fetch.end_leads();
                }
                None if first == self.runs.len() => break None,
                // All that were selected lack the key.
                None => {}
            }
        };
        if at_once > 1 {
            env.counters.parallel_gets.add(1);
            env.counters.parallel_get_runs.add(self.selected as u64);
            env.counters.parallel_get_runs_in_vain.add(self.in_vain as u64);
        }
        match found {
            Some(Local::Found(found, served)) => Ok(Some((found, served))),
            _ => Ok(None),
        }
    }

    /// Searches the next run up to its first read. False if there is none, or if none is needed.
    fn select(&mut self) -> bool {
        let Some(run) = self.runs.get(self.local.len()) else { return false };
        if self.local.last().is_some_and(Local::has_key) {
            return false;
        }
        let is_first = self.global() == self.local.len();
        let local = match &run.source {
            // It may be loaded in vain.
            Source::Log(log) if !is_first && log.loaded().is_none() => Local::Apart,
            _ => step(self.search, run),
        };
        self.local.push(local);
        self.selected = self.selected.max(self.local.len());
        true
    }

    /// Searches the runs that wait with what was read.
    fn go_on(&mut self) {
        for at in 0..self.local.len() {
            if self.local[at].waits() {
                self.local[at] = step(self.search, self.runs[at]);
            }
            if self.local[at].has_key() {
                self.in_vain += self.local.len() - at - 1;
                self.local.truncate(at + 1);
                return;
            }
        }
    }

    /// The run whose result is that of the query (GLOBALR), once it is known: the first one that is not known to lack
    /// the key.
    fn global(&self) -> usize {
        canary!(LATE_RESULT_IGNORED => if let Some(found) =
            self.local.iter().position(|local| matches!(local, Local::Found(..)))
        {
            return found;
        });
        let may_have = |local: &Local| !matches!(local, Local::Absent);
        self.local.iter().position(may_have).unwrap_or(self.local.len())
    }
}

/// Searches a run with what was read.
fn step(search: &Search<'_, InParallel>, run: &Run) -> Local {
    search.has_key.set(false);
    match search.in_run(run) {
        Ok(None) => Local::Absent,
        Ok(Some((found, served))) => {
            canary!(DELETE_IS_NO_RESULT => if matches!(found, Found::Deleted) { return Local::Absent });
            Local::Found(found, served)
        }
        Err(Unfetched::Requested) if search.has_key.get() => Local::Holds,
        Err(Unfetched::Requested) => Local::Waits,
        Err(Unfetched::Apart | Unfetched::Failed(_)) => Local::Apart,
    }
}

/// Searches a run by itself. The query leads no load.
fn apart(search: &Search<'_, InParallel>, run: &Run) -> Result<Local> {
    let Search { env, key, hash, at, passed, has_key, .. } = *search;
    let directly = Search { env, key, hash, at, fetch: &Directly, passed, has_key };
    Ok(directly.in_run(run)?.map_or(Local::Absent, |(found, served)| Local::Found(found, served)))
}
