//! The keys of a file that count for a chunk, and which parts of a log have some of them.
//!
//! A log that was written in key order, and is shared since its chunk was split, has dozens of parts, of which each chunk
//! needs a few. To ask all of them where their keys begin and end costs a get or scan about as many reads of memory that is
//! in no cache of the processor: so the answer is kept with the chunk's reference to the log, and beside it eight bytes of
//! each end, by which nearly all gets are decided.

use super::indexed_part::IndexedPart;
use super::segment::Parts;
use crate::order::KeyOrder;
use crate::prefix::PrefixOf;
use crate::span::Span;
use crate::sync::Arc;
use arc_swap::{ArcSwapOption, Guard};
use std::ops::{Deref, RangeInclusive};

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
}

struct Candidate {
    number: u32,
    /// Of its least and its greatest key, as far as these are known.
    prefixes: RangeInclusive<u64>,
}

impl Within {
    fn new(order: &KeyOrder, span: &Span, parts: &Parts, of: (usize, usize)) -> Self {
        let candidates: Vec<_> =
            (0..).zip(&parts.indexed).filter(|(_, part)| !part.is_outside(order, span)).collect();
        let known = || candidates.iter().filter_map(|(_, part)| part.known_keys());
        let first = known().map(|(first, _)| first).min_by(|a, b| order.compare(a, b));
        let last = known().map(|(_, last)| last).max_by(|a, b| order.compare(a, b));
        let prefix = PrefixOf::between(order, first.unwrap_or_default(), last.unwrap_or_default());
        let prefixes = |part: &IndexedPart| match part.known_keys() {
            Some((first, last)) => prefix.of(order, first)..=prefix.of(order, last),
            None => 0..=u64::MAX,
        };
        let candidate = |(number, part): &(u32, &Arc<IndexedPart>)| Candidate {
            number: *number,
            prefixes: prefixes(part),
        };
        let parts = candidates.iter().map(candidate).collect();
        Self { of, parts, prefix }
    }
}

/// The parts of a log that may have something for a span.
pub struct PartsWithin(Guard<Option<Arc<Within>>>);

impl PartsWithin {
    /// Their numbers, newest first.
    pub fn numbers(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|within| within.parts.iter().map(|part| part.number as usize))
    }

    /// The numbers of those that may have something for this key, newest first.
    pub fn numbers_for(&self, order: &KeyOrder, key: &[u8]) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(move |within| {
            let prefix = within.prefix.of(order, key);
            let has = move |part: &&Candidate| part.prefixes.contains(&prefix);
            within.parts.iter().filter(has).map(|part| part.number as usize)
        })
    }

    /// Whether both are of one look at the parts.
    #[cfg(test)]
    pub fn is(&self, other: &Self) -> bool {
        self.0.as_ref().zip(other.0.as_ref()).is_some_and(|(a, b)| Arc::ptr_eq(a, b))
    }

    /// How many of the log's parts are not among them.
    pub fn passed_over(&self) -> u64 {
        self.0.as_ref().map_or(0, |within| within.of.0 - within.parts.len()) as u64
    }
}

impl FileSpan {
    pub fn keys(&self) -> &Arc<Span> {
        &self.keys
    }

    /// Those of a log's indexed parts that are not known to have nothing for the span. What is known of a part's keys never
    /// changes: an answer from before more was known has too many parts, and none too few.
    pub fn parts_within(&self, order: &KeyOrder, parts: &Parts) -> PartsWithin {
        let of = (parts.indexed.len(), parts.ends_known());
        let known = self.within.load();
        if known.as_ref().is_some_and(|within| within.of == of) {
            return PartsWithin(known);
        }
        let within = Some(Arc::new(Within::new(order, &self.keys, parts, of)));
        self.within.store(within.clone());
        PartsWithin(Guard::from_inner(within))
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
