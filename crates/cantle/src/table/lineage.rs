//! The lineage of a table: the files that it replaces, for a repair without a manifest.
//!
//! Logs are numbered in the order in which they are written, and merged in this order. The operations
//! of a key are therefore known by the newest log among them, its *age*. If two files have the key, the
//! one with the higher age is newer. This order needs no manifest, and also tells entries of the same
//! version apart.
//!
//! A merge that includes the oldest run of a key drops deletes: nothing is left that they could hide.
//! But the files that it replaces stay in the directory for a while, and one that other groups share
//! for longer. Such a table says so: every file that was created before it counts no more for the key
//! if its age is not above `replaced`. This includes all its inputs, their inputs, and files that range
//! deletes dropped whole. Later merges carry the statement on; it stays true for these files.
//!
//! Age and statement are the same for the keys of a [`Step`], whose bounds are those of the inputs.

use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// Maximum length in bytes of a lineage. A longer one is reduced to one step: reading it costs no more
/// than reading a few blocks, whatever the keys are.
const LINEAGE_BYTES_MAX: usize = 16 << 10;

/// Keys with the same age.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// The first key; `None` if there is none before it. The step ends where the next one begins.
    pub start: Option<Bytes>,
    /// The number of the newest log whose operations the table has.
    pub age: u64,
    /// Older files count no more if their age is at most this; 0 if none is replaced.
    pub replaced: u64,
}

/// The lineage of a table, for the span of keys that its part of a merge has.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Lineage {
    /// The current version when the merge began: no delete of a later one was applied.
    pub upto: u64,
    /// Ascending.
    pub steps: Vec<Step>,
    /// The first key after the span.
    pub end: Option<Bytes>,
}

/// A part of the inputs of a merge.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub span: Span,
    pub age: u64,
    pub replaced: u64,
}

/// Compares starts: `None` is before all keys.
fn compare_starts(order: &KeyOrder, a: Option<&Bytes>, b: Option<&Bytes>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => order.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Length in bytes of a step that begins at this key, at most.
fn step_bytes(start: Option<&Bytes>) -> usize {
    start.map_or(1, |key| key.len() + 4) + 20
}

impl Lineage {
    /// The lineage of the output of a merge within `span`. A merge of everything (`is_bottom`) replaces
    /// all that is not newer than its inputs.
    pub(crate) fn of(order: &KeyOrder, span: &Span, upto: u64, parts: &[Part], is_bottom: bool) -> Self {
        let parts: Vec<Part> = parts
            .iter()
            .filter_map(|part| Some(Part { span: part.span.intersect(order, span)?, ..part.clone() }))
            .collect();
        let bounds = parts.iter().flat_map(|part| [part.span.start.as_ref(), part.span.end.as_ref()]);
        let within = |bound: &&Bytes| {
            span.contains(order, bound)
                && compare_starts(order, span.start.as_ref(), Some(*bound)) == Ordering::Less
        };
        let mut starts: Vec<Option<Bytes>> =
            bounds.flatten().filter(within).map(|bound| Some(bound.clone())).collect();
        starts.push(span.start.clone());
        order.sort_by(&mut starts, |a, b| compare_starts(order, a.as_ref(), b.as_ref()));
        starts.dedup_by(|a, b| compare_starts(order, a.as_ref(), b.as_ref()) == Ordering::Equal);
        let mut lineage = Self { upto, steps: Vec::new(), end: span.end.clone() };
        for start in starts {
            let has_start = |part: &&Part| match &start {
                Some(start) => part.span.contains(order, start),
                None => part.span.start.is_none(),
            };
            let (age, replaced) = parts
                .iter()
                .filter(has_start)
                .fold((0, 0), |(age, replaced), part| (age.max(part.age), part.replaced.max(replaced)));
            let replaced = if is_bottom { age.max(replaced) } else { replaced };
            if lineage.steps.last().is_none_or(|last| (last.age, last.replaced) != (age, replaced)) {
                lineage.steps.push(Step { start, age, replaced });
            }
        }
        lineage.reduced()
    }

    /// These statements in as few lineages as possible of which none is reduced.
    pub(crate) fn of_statements(order: &KeyOrder, upto: u64, parts: &[Part]) -> Vec<Self> {
        let key_bytes = |key: &Option<Bytes>| step_bytes(key.as_ref());
        let mut lineages = Vec::new();
        let mut left = parts;
        while !left.is_empty() {
            let mut bytes = step_bytes(None);
            let fits = left.iter().take_while(|part| {
                // A step begins at each of its ends.
                bytes += key_bytes(&part.span.start) + key_bytes(&part.span.end);
                bytes <= LINEAGE_BYTES_MAX
            });
            let (some, rest) = left.split_at(fits.count().max(1));
            // A part whose keys are long is a single step.
            let span = if let [one] = some { one.span.clone() } else { Span::default() };
            lineages.push(Self::of(order, &span, upto, some, false));
            left = rest;
        }
        lineages
    }

    /// One step in the place of very many. A file is then taken to be replaced by fewer tables.
    fn reduced(mut self) -> Self {
        let length: usize = self.steps.iter().map(|step| step_bytes(step.start.as_ref())).sum();
        if self.steps.len() > 1 && length > LINEAGE_BYTES_MAX {
            let replaced = self.steps.iter().map(|step| step.replaced).min().unwrap_or(0);
            // Runs below a table that replaces something are replaced; the others are above it.
            let ages = self.steps.iter().map(|step| step.age);
            let age = if replaced > 0 { ages.min() } else { ages.max() }.unwrap_or(0);
            let start = self.steps.first().and_then(|first| first.start.clone());
            self.steps = vec![Step { start, age, replaced }];
        }
        self
    }

    /// The part within a span.
    pub(crate) fn within(&self, order: &KeyOrder, span: &Span) -> Self {
        Self::of(order, span, self.upto, &self.parts(), false)
    }

    /// The steps with their spans.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let ends = self.steps.iter().skip(1).map(|next| next.start.clone()).chain([self.end.clone()]);
        let part = |(step, end): (&Step, Option<Bytes>)| Part {
            span: Span { start: step.start.clone(), end },
            age: step.age,
            replaced: step.replaced,
        };
        self.steps.iter().zip(ends).map(part).collect()
    }

    /// True if it replaces any file.
    pub(crate) fn replaces(&self) -> bool {
        self.steps.iter().any(|step| step.replaced > 0)
    }

    /// The age of a key of the table.
    pub(crate) fn age_of(&self, order: &KeyOrder, key: &[u8]) -> u64 {
        let begins = |step: &Step| step.start.as_ref().is_none_or(|start| order.compare(start, key).is_le());
        let place = self.steps.partition_point(begins).saturating_sub(1);
        self.steps.get(place).map_or(0, |step| step.age)
    }

    /// The bytes in the properties of a table.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.upto);
        put_varint(out, self.steps.len() as u64);
        for step in &self.steps {
            put_key(out, step.start.as_ref());
            put_varint(out, step.age);
            put_varint(out, step.replaced);
        }
        put_key(out, self.end.as_ref());
    }

    pub(super) fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let upto = decoder.varint()?;
        let mut steps = Vec::new();
        for _ in 0..decoder.varint()? {
            steps.push(Step { start: key(decoder)?, age: decoder.varint()?, replaced: decoder.varint()? });
        }
        if steps.is_empty() {
            return Err(Malformed("the lineage has no step"));
        }
        Ok(Self { upto, steps, end: key(decoder)? })
    }
}

/// Encodes a key, or that there is none.
fn put_key(out: &mut Vec<u8>, key: Option<&Bytes>) {
    put_varint(out, key.map_or(0, |key| key.len() as u64 + 1));
    out.extend_from_slice(key.map_or(&[][..], |key| &key[..]));
}

fn key(decoder: &mut Decoder<'_>) -> Result<Option<Bytes>, Malformed> {
    match decoder.length()? {
        0 => Ok(None),
        length => decoder.take(length - 1).map(|key| Some(Bytes::copy_from_slice(key))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &KeyOrder = &KeyOrder::Bytewise;

    fn key(text: &str) -> Option<Bytes> {
        (!text.is_empty()).then(|| Bytes::copy_from_slice(text.as_bytes()))
    }

    fn span(start: &str, end: &str) -> Span {
        Span { start: key(start), end: key(end) }
    }

    fn part(start: &str, end: &str, age: u64, replaced: u64) -> Part {
        Part { span: span(start, end), age, replaced }
    }

    fn told(lineage: &Lineage) -> String {
        let text = |key: &Option<Bytes>| String::from_utf8(key.clone().unwrap_or_default().to_vec()).unwrap();
        let steps = lineage.steps.iter();
        let steps = steps.map(|step| format!("{}:{}/{}", text(&step.start), step.age, step.replaced));
        format!("{} ..{}", steps.collect::<Vec<_>>().join(" "), text(&lineage.end))
    }

    #[test]
    fn a_table_has_the_age_of_its_newest_input_for_each_key() {
        let parts = [part("", "m", 6, 0), part("c", "", 2, 2), part("k", "n", 4, 0)];
        let of = |from: &str, to: &str, is_bottom| {
            told(&Lineage::of(ORDER, &span(from, to), 9, &parts, is_bottom))
        };
        assert_eq!(of("", "", false), ":6/0 c:6/2 m:4/2 n:2/2 ..");
        assert_eq!(of("", "", true), ":6/6 m:4/4 n:2/2 ..");
        assert_eq!(of("d", "x", true), "d:6/6 m:4/4 n:2/2 ..x");
        assert_eq!(told(&Lineage::of(ORDER, &span("a", "b"), 9, &[], true)), "a:0/0 ..b");
    }

    #[test]
    fn statements_of_many_tables_lose_nothing() {
        let name = |number: u64| format!("{number:0200}");
        let mut parts: Vec<Part> = (0..300)
            .map(|number| part(&name(2 * number), &name(2 * number + 1), number, number + 1))
            .collect();
        assert!(Lineage::of(ORDER, &Span::default(), 9, &parts, false).steps.len() == 1, "it is reduced");
        // One that has no room for its keys.
        let long = "x".repeat(LINEAGE_BYTES_MAX);
        parts.push(part(&long, &format!("{long}y"), 7, 1000));
        let lineages = Lineage::of_statements(ORDER, 9, &parts);
        assert!(lineages.len() > 2 && lineages.len() < 20, "{}", lineages.len());
        let said = lineages.iter().flat_map(Lineage::parts).filter(|part| part.replaced > 0);
        let told = |part: &Part| (part.span.clone(), part.age, part.replaced);
        assert!(said.map(|part| told(&part)).eq(parts.iter().map(told)));
        assert!(Lineage::of_statements(ORDER, 9, &[]).is_empty());
    }

    #[test]
    fn a_lineage_is_read_as_it_was_written() {
        let parts = [part("", "m", 6, 0), part("c", "", 2, 2)];
        let lineage = Lineage::of(ORDER, &span("b", "x"), 300, &parts, false);
        let mut bytes = Vec::new();
        lineage.encode(&mut bytes);
        let mut decoder = Decoder::new(&bytes);
        assert_eq!(Lineage::decode(&mut decoder).as_ref(), Ok(&lineage));
        assert_eq!(decoder.finish(), Ok(()));
        for end in 0..bytes.len() {
            assert!(Lineage::decode(&mut Decoder::new(&bytes[..end])).is_err(), "{end} bytes");
        }
        assert!(Lineage::decode(&mut Decoder::new(&[1, 0, 0])).is_err());
        for (key, age) in [("b", 6), ("l", 6), ("m", 2), ("w", 2)] {
            assert_eq!(lineage.age_of(ORDER, key.as_bytes()), age, "{key}");
        }
        assert_eq!(told(&lineage.within(ORDER, &span("k", "x"))), "k:6/2 m:2/2 ..x");
    }

    /// The example of `docs/format/table.md`.
    #[test]
    fn the_documented_lineage_is_what_is_written() {
        let mut bytes = Vec::new();
        Lineage::of(ORDER, &span("m", ""), 300, &[part("", "", 9, 0)], true).encode(&mut bytes);
        let page = include_str!("../../docs/format/table.md");
        let rows = page.split("For example, a table for the keys from `m`").nth(1).unwrap().lines();
        let cells = rows.filter_map(|row| row.strip_prefix("| `")?.split(" | ").next());
        let hex = cells.take(4).collect::<String>().replace(['`', ' '], "");
        let written: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, written);
    }

    #[test]
    fn a_lineage_of_very_many_steps_becomes_one_that_replaces_less() {
        let long = "k".repeat(200);
        let parts: Vec<Part> = (0..200)
            .map(|n| part(&format!("{long}{n:03}"), &format!("{long}{:03}", n + 1), n % 7 + 3, n % 2 * 3))
            .collect();
        let lineage = Lineage::of(ORDER, &Span::default(), 1, &parts, false);
        assert_eq!(told(&lineage), ":9/0 ..");
        let mut bytes = Vec::new();
        lineage.encode(&mut bytes);
        assert!(bytes.len() < 20);
        let parts = [parts, vec![part("", "", 2, 2)]].concat();
        assert_eq!(told(&Lineage::of(ORDER, &Span::default(), 1, &parts, true)), ":2/2 ..");
    }
}
