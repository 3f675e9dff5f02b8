//! The keys of a file that count for a chunk, and which parts of a log have some of them.
//!
//! A log that was written in key order, and is shared since its chunk was split, has dozens of parts, of which each chunk
//! needs a few. To ask all of them where their keys begin and end costs a get or scan about as many reads of memory that is
//! in no cache of the processor: so the answer is kept with the chunk's reference to the log, and beside it eight bytes of
//! each end, by which nearly all gets are decided. It counts as memory for ends; where there is none left, all parts are asked.

use crate::log::env::LogEnv;
use crate::log::index::indexed_part::IndexedPart;
use crate::log::index::parts::Parts;
use crate::memory::account::Charge;
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::prefix::PrefixOf;
use crate::types::span::Span;
use arc_swap::{ArcSwapOption, Guard};
use std::ops::Deref;

/// A span of keys of one file. Clones share what is found out.
#[derive(Clone)]
pub struct FileSpan {
    keys: Arc<Span>,
    within: Arc<ArcSwapOption<Within>>,
}

/// What is known of a log's parts.
struct Within {
    /// How many there were then, and of how many the ends were known.
    of: (usize, usize),
    /// Those that may have something for the span, newest first.
    parts: Box<[Candidate]>,
    prefix: PrefixOf,
    _taken: Charge,
}

struct Candidate {
    number: u32,
    /// Of its least and its greatest key, as far as these are known.
    prefixes: (u64, u64),
}

impl Within {
    /// `None` where memory does not suffice.
    fn new(env: &LogEnv, span: &Span, parts: &Parts, of: (usize, usize)) -> Option<Self> {
        let order = &env.order;
        let candidates: Vec<_> =
            (0..).zip(&parts.indexed).filter(|(_, part)| !part.is_outside(order, span)).collect();
        let known = || candidates.iter().filter_map(|(_, part)| part.known_keys());
        let first = known().map(|(first, _)| first).min_by(|a, b| order.compare(a, b));
        let last = known().map(|(_, last)| last).max_by(|a, b| order.compare(a, b));
        let prefix = PrefixOf::between(order, first.unwrap_or_default(), last.unwrap_or_default());
        let prefixes = |part: &IndexedPart| match part.known_keys() {
            Some((first, last)) => {
                (prefix.of(order, first).unwrap_or(0), prefix.of(order, last).unwrap_or(u64::MAX))
            }
            None => (0, u64::MAX),
        };
        let candidate = |(number, part): &(u32, &Arc<IndexedPart>)| Candidate {
            number: *number,
            prefixes: prefixes(part),
        };
        let bytes = size_of::<Self>() + candidates.len() * size_of::<Candidate>();
        let taken = env.memory.views.charge(bytes as u64 + prefix.bytes())?;
        Some(Self { of, parts: candidates.iter().map(candidate).collect(), prefix, _taken: taken })
    }
}

/// The parts of a log that may have something for a span: all that there are, if it is not known which.
pub struct PartsWithin {
    known: Guard<Option<Arc<Within>>>,
    all: usize,
}

impl PartsWithin {
    /// Their numbers, newest first.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        let known = self.known.iter().flat_map(|within| &within.parts).map(|part| part.number as usize);
        known.chain(0..self.all_if_unknown())
    }

    /// The numbers of those that may have something for this key, newest first.
    pub fn numbers_for(&self, order: &KeyOrder, key: &[u8]) -> impl Iterator<Item = usize> {
        let known = self.known.iter().flat_map(move |within| {
            let prefix = within.prefix.of(order, key);
            let has = move |part: &&Candidate| {
                prefix.is_none_or(|prefix| part.prefixes.0 <= prefix && prefix <= part.prefixes.1)
            };
            within.parts.iter().filter(has).map(|part| part.number as usize)
        });
        known.chain(0..self.all_if_unknown())
    }

    fn all_if_unknown(&self) -> usize {
        if self.known.is_some() { 0 } else { self.all }
    }

    /// Whether both are of one look at the parts.
    #[cfg(test)]
    pub fn is(&self, other: &Self) -> bool {
        self.known.as_ref().zip(other.known.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }
}

impl FileSpan {
    pub fn keys(&self) -> &Arc<Span> {
        &self.keys
    }

    /// Those of a log's indexed parts that are not known to have nothing for the span. What is known of a part's keys never
    /// changes: an answer from before more was known has too many parts, and none too few.
    pub fn parts_within(&self, env: &LogEnv, parts: &Parts) -> PartsWithin {
        let (all, ends_known) = (parts.indexed.len(), parts.ends_known());
        let of = (all, ends_known);
        let known = self.within.load();
        if known.as_ref().is_some_and(|within| within.of == of) {
            return PartsWithin { known, all };
        }
        let room = ends_known > 0 && env.memory.has_room_for_ends();
        let within = if room { Within::new(env, &self.keys, parts, of).map(Arc::new) } else { None };
        if within.is_some() || known.is_some() {
            // What was known is of other parts.
            self.within.store(within.clone());
        }
        PartsWithin { known: Guard::from_inner(within), all }
    }
}

impl From<Span> for FileSpan {
    fn from(keys: Span) -> Self {
        Self { keys: Arc::new(keys), within: Arc::default() }
    }
}

impl Deref for FileSpan {
    type Target = Span;

    fn deref(&self) -> &Span {
        &self.keys
    }
}
