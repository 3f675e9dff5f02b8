//! Leaves spans of keys out of a source. The entries in them are not read, except one where a walk
//! comes to a span.

use crate::sync::Arc;
use crate::types::entry::{EntryCursor, EntryRef};
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use bytes::Bytes;
use std::cmp::Ordering;

/// A cursor that never stays within one of some spans, which ascend and do not overlap.
pub struct SkippingCursor<C> {
    inner: C,
    spans: Arc<[Span]>,
    order: KeyOrder,
    /// Number of spans that begin at or before the present key, or did before the last movement.
    begun: usize,
    /// True once the cursor is past the first or the last entry, whatever `inner` is at.
    is_past: bool,
}

impl<C: EntryCursor> SkippingCursor<C> {
    pub fn new(inner: C, spans: Arc<[Span]>, order: KeyOrder) -> Self {
        Self { inner, spans, order, begun: 0, is_past: false }
    }

    /// The number of the span that has the present key, if one does. A walk finds it near the last one.
    fn find(&mut self) -> Option<usize> {
        let Self { inner, spans, order, begun, .. } = self;
        let key = inner.entry()?.key;
        let begins = |span: &Span| !span.starts_behind(order, key);
        while spans.get(*begun).is_some_and(begins) {
            *begun += 1;
        }
        while *begun > 0 && !begins(&spans[*begun - 1]) {
            *begun -= 1;
        }
        let number = begun.checked_sub(1)?;
        (!spans[number].ends_before(order, key)).then_some(number)
    }

    /// Moves to the first entry after this span, and after those that the movement comes to.
    fn pass(&mut self, mut span: Option<usize>) -> Result<()> {
        while let Some(number) = span {
            let Some(end) = self.spans[number].end.clone() else {
                self.is_past = true;
                return Ok(());
            };
            self.inner.seek(&end)?;
            span = self.find();
        }
        Ok(())
    }

    /// Moves to the last entry before this span, and before those that the movement comes to.
    fn pass_back(&mut self, mut span: Option<usize>) -> Result<()> {
        while let Some(number) = span {
            let Some(start) = self.spans[number].start.clone() else {
                self.is_past = true;
                return Ok(());
            };
            self.inner.seek_before(&start)?;
            span = self.find();
        }
        Ok(())
    }
}

impl<C: EntryCursor> EntryCursor for SkippingCursor<C> {
    fn seek_to_first(&mut self) -> Result<()> {
        self.is_past = false;
        self.inner.seek_to_first()?;
        let span = self.find();
        self.pass(span)
    }

    fn seek_to_last(&mut self) -> Result<()> {
        self.is_past = false;
        self.inner.seek_to_last()?;
        let span = self.find();
        self.pass_back(span)
    }

    fn seek(&mut self, key: &[u8]) -> Result<()> {
        self.is_past = false;
        let order = &self.order;
        let within = self.spans.iter().position(|span| span.contains(order, key));
        if within.is_some() {
            return self.pass(within);
        }
        self.inner.seek(key)?;
        let span = self.find();
        self.pass(span)
    }

    fn seek_before(&mut self, key: &[u8]) -> Result<()> {
        self.is_past = false;
        let order = &self.order;
        // The keys right before `key` are in a span that ends at it, too.
        let has_keys_before = |span: &Span| {
            span.start.as_ref().is_none_or(|start| order.compare(start, key) == Ordering::Less)
                && span.end.as_ref().is_none_or(|end| order.compare(end, key) != Ordering::Less)
        };
        let within = self.spans.iter().position(has_keys_before);
        if within.is_some() {
            return self.pass_back(within);
        }
        self.inner.seek_before(key)?;
        let span = self.find();
        self.pass_back(span)
    }

    fn announce_index(&mut self, begin: bool) -> bool {
        self.inner.announce_index(begin)
    }

    /// A seek of a key within a span goes to one of its ends, by the direction, which is not known here. The
    /// block of the key would be read in vain.
    fn announce(&mut self, key: &[u8], begin: bool) -> bool {
        let is_skipped = self.spans.iter().any(|span| span.contains(&self.order, key));
        !is_skipped && self.inner.announce(key, begin)
    }

    fn next(&mut self) -> Result<()> {
        if self.entry().is_none() {
            return Ok(());
        }
        self.inner.next()?;
        let span = self.find();
        self.pass(span)
    }

    fn prev(&mut self) -> Result<()> {
        if self.entry().is_none() {
            return Ok(());
        }
        self.inner.prev()?;
        let span = self.find();
        self.pass_back(span)
    }

    #[inline]
    fn entry(&self) -> Option<EntryRef<'_>> {
        if self.is_past { None } else { self.inner.entry() }
    }

    fn position(&self) -> u64 {
        self.inner.position()
    }

    fn value(&mut self) -> Result<Bytes> {
        self.inner.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::entry::Kind;
    use proptest::prelude::*;

    /// Keys of one byte.
    struct Keys {
        keys: Vec<u8>,
        at: Option<usize>,
    }

    impl Keys {
        fn new(keys: impl IntoIterator<Item = u8>) -> Self {
            Self { keys: keys.into_iter().collect(), at: None }
        }
    }

    impl EntryCursor for Keys {
        fn seek_to_first(&mut self) -> Result<()> {
            self.at = Some(0);
            Ok(())
        }

        fn seek_to_last(&mut self) -> Result<()> {
            self.at = self.keys.len().checked_sub(1);
            Ok(())
        }

        fn seek(&mut self, key: &[u8]) -> Result<()> {
            self.at = Some(self.keys.partition_point(|own| &[*own][..] < key));
            Ok(())
        }

        fn seek_before(&mut self, key: &[u8]) -> Result<()> {
            self.at = self.keys.partition_point(|own| &[*own][..] < key).checked_sub(1);
            Ok(())
        }

        /// Each block must be waited for.
        fn announce(&mut self, _: &[u8], _: bool) -> bool {
            true
        }

        fn next(&mut self) -> Result<()> {
            self.at = self.at.map(|at| at + 1);
            Ok(())
        }

        fn prev(&mut self) -> Result<()> {
            self.at = self.at.and_then(|at| at.checked_sub(1));
            Ok(())
        }

        fn entry(&self) -> Option<EntryRef<'_>> {
            let at = self.at?;
            let key = self.keys.get(at..=at)?;
            Some(EntryRef { key, version: 1, kind: Kind::Put })
        }

        fn value(&mut self) -> Result<Bytes> {
            Ok(Bytes::new())
        }
    }

    fn walk(cursor: &mut impl EntryCursor, step: impl Fn(&mut dyn EntryCursor) -> Result<()>) -> Vec<u8> {
        let mut found = Vec::new();
        while let Some(entry) = cursor.entry() {
            found.push(entry.key[0]);
            step(cursor).unwrap();
        }
        found
    }

    proptest! {
        #[test]
        fn a_walk_shows_the_keys_outside_of_the_spans(
            keys in prop::collection::btree_set(0..40u8, 0..30),
            ends in prop::collection::btree_set(0..42u8, 0..8),
            touching in any::<bool>(),
            unbounded in (any::<bool>(), any::<bool>()),
        ) {
            let ends: Vec<u8> = ends.into_iter().collect();
            let key = |number: u8| Some(Bytes::from(vec![number]));
            let step = if touching { 1 } else { 2 };
            let mut spans: Vec<Span> = ends.windows(2).step_by(step)
                .map(|ends| Span { start: key(ends[0]), end: key(ends[1]) }).collect();
            if let Some(first) = spans.first_mut().filter(|_| unbounded.0) {
                first.start = None;
            }
            if let Some(last) = spans.last_mut().filter(|_| unbounded.1) {
                last.end = None;
            }
            let order = KeyOrder::Bytewise;
            let is_left = |key: &u8| !spans.iter().any(|span| span.contains(&order, &[*key]));
            let left: Vec<u8> = keys.iter().copied().filter(is_left).collect();
            let source = Keys::new(keys);
            let mut cursor = SkippingCursor::new(source, spans.clone().into(), order.clone());
            cursor.seek_to_first().unwrap();
            prop_assert_eq!(walk(&mut cursor, |cursor| cursor.next()), left.clone());
            cursor.seek_to_last().unwrap();
            let mut back = walk(&mut cursor, |cursor| cursor.prev());
            back.reverse();
            prop_assert_eq!(back, left.clone());
            for at in 0..42u8 {
                cursor.seek(&[at]).unwrap();
                let from: Vec<u8> = left.iter().copied().filter(|key| *key >= at).collect();
                prop_assert_eq!(walk(&mut cursor, |cursor| cursor.next()), from);
                cursor.seek_before(&[at]).unwrap();
                let upto: Vec<u8> = left.iter().rev().copied().filter(|key| *key < at).collect();
                prop_assert_eq!(walk(&mut cursor, |cursor| cursor.prev()), upto);
            }
        }
    }

    #[test]
    fn a_seek_that_skips_the_key_announces_no_block() {
        let key = |number: u8| Some(Bytes::from(vec![number]));
        let spans = [Span { start: key(3), end: key(5) }, Span { start: key(8), end: None }];
        let mut cursor = SkippingCursor::new(Keys::new(0..10), spans.into(), KeyOrder::Bytewise);
        let announced: Vec<u8> = (0..10).filter(|key| cursor.announce(&[*key], true)).collect();
        assert_eq!(announced, [0, 1, 2, 5, 6, 7]);
    }
}
