//! The files of a keyspace that count for a key, if there is no manifest. The lineage of tables
//! (`table::lineage`) tells which others they replace.
//!
//! A table replaces the files that its lineage says only for keys that can be read of it. A key that
//! lies in a damaged part may have been in these files, so they count there: its newest value may be
//! among them, and so may a pair that was deleted.

use super::area::{AreaFile, bounds_of};
use super::plan::Origin;
use super::report::Findings;
use crate::format::header::FileKind;
use crate::mvcc::Recovery;
use crate::table::{Lineage, Part, TableSalvage, read_lineage};
use crate::types::error::{Attempt, Error, Result};
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::{OpenMode, Vfs};
use bytes::Bytes;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::rc::Rc;

/// The place of a file among others with the same keys.
#[derive(Debug, Clone, Default)]
pub(super) struct Standing {
    pub age: Age,
    /// Disjoint and ascending: the keys for which others replace the file.
    pub replaced: Rc<[Span]>,
}

/// The age of a file's entries, which decides which of two entries of the same version is newer.
#[derive(Debug, Clone, Default)]
pub(super) enum Age {
    /// By the place in the list of files.
    #[default]
    Listed,
    Number(u64),
    Lineage(Rc<Lineage>),
}

impl Standing {
    /// True if another file replaces this one for the key.
    pub fn is_replaced(&self, order: &KeyOrder, key: &[u8]) -> bool {
        let place = self.replaced.partition_point(|span| !span.starts_behind(order, key));
        place.checked_sub(1).is_some_and(|place| self.replaced[place].contains(order, key))
    }

    /// True if others replace the file for all keys from one to the other.
    pub fn is_replaced_between(
        &self,
        order: &KeyOrder,
        (from, to): (&Bound<Vec<u8>>, &Bound<Vec<u8>>),
    ) -> bool {
        let covers = |span: &Span| {
            let begins = match (&span.start, from) {
                (None, _) => true,
                (Some(_), Bound::Unbounded) => false,
                (Some(start), Bound::Included(from) | Bound::Excluded(from)) => {
                    order.compare(start, from).is_le()
                }
            };
            let ends = match (&span.end, to) {
                (None, _) => true,
                (Some(_), Bound::Unbounded) => false,
                (Some(end), Bound::Included(to)) => order.compare(end, to).is_gt(),
                (Some(end), Bound::Excluded(to)) => order.compare(end, to).is_ge(),
            };
            begins && ends
        };
        self.replaced.iter().any(covers)
    }
}

/// A statement of a table: for the keys of the span, files that were created before it count no more
/// if their age is at most `replaced`.
struct Claim {
    /// The index of the table.
    by: usize,
    number: u64,
    span: Span,
    replaced: u64,
}

/// A file that a table replaces in a span.
struct Replacement {
    file: usize,
    by: usize,
    span: Span,
}

/// Sets the standing of each file of a keyspace. Files of which nothing counts are left out. False if no
/// table has a lineage.
pub(super) fn set_standing(
    origin: &Origin<'_>,
    files: &mut Vec<AreaFile>,
    (name, order): (&str, &KeyOrder),
    recovery: Option<&Recovery>,
    findings: &mut Findings,
) -> Result<bool> {
    let mut ages = Vec::with_capacity(files.len());
    let mut unread = Vec::new();
    for (index, file) in files.iter().enumerate() {
        ages.push(match file.header.kind {
            FileKind::Table => match lineage_of(origin, file) {
                Ok(Some(lineage)) => Age::Lineage(Rc::new(lineage)),
                Ok(None) => Age::Number(file.header.file),
                Err(error) => {
                    unread.push((index, error));
                    Age::Number(file.header.file)
                }
            },
            _ => Age::Number(file.header.file),
        });
    }
    if !ages.iter().any(|age| matches!(age, Age::Lineage(_))) {
        return Ok(false);
    }
    for (index, error) in unread {
        // Its age is not known either, nor the keys for which it replaces others.
        let path = &files[index].path;
        findings.note(format!(
            "the description of {} is damaged: which files it replaces is not known, and pairs that had been \
             deleted may be back",
            path.display()
        ));
        findings.lost(error, name, (Bound::Unbounded, Bound::Unbounded));
        for file in files.iter().filter(|file| file.header.file < files[index].header.file) {
            findings.may_return(&file.path, name, bounds_of(&file.span));
        }
    }
    let claims = claims(order, files, &ages, recovery);
    let found = replacements(order, files, &ages, &claims);
    let replacing: BTreeSet<usize> = found.iter().map(|replacement| replacement.by).collect();
    let mut holes: BTreeMap<usize, Vec<Span>> = BTreeMap::new();
    for by in replacing {
        holes.insert(by, holes_of(origin.vfs, &files[by], order));
    }
    let mut replaced: Vec<Vec<Span>> = files.iter().map(|_| Vec::new()).collect();
    let mut kept: Vec<Replacement> = Vec::new();
    for Replacement { file, by, span } in found {
        let mut left = vec![span];
        for hole in &holes[&by] {
            kept.extend(left.iter().filter_map(|span| {
                let span = span.intersect(order, hole)?;
                Some(Replacement { file, by, span })
            }));
            left = left.iter().flat_map(|span| span.without(order, hole)).collect();
        }
        replaced[file].extend(left);
    }
    let replaced: Vec<Rc<[Span]>> = replaced.into_iter().map(|spans| joined(order, spans).into()).collect();
    for Replacement { file, by, span } in kept {
        let standing = Standing { age: Age::Listed, replaced: replaced[file].clone() };
        let keys = bounds_of(&span);
        if standing.is_replaced_between(order, (&keys.0, &keys.1)) {
            continue;
        }
        let (old, new) = (files[file].path.display(), files[by].path.display());
        findings.note(format!(
            "pairs that had been deleted may be back from {old}: {new}, which replaced it, is damaged"
        ));
        findings.may_return(&files[file].path, name, keys);
    }
    for ((file, age), replaced) in files.iter_mut().zip(ages).zip(replaced) {
        file.standing = Standing { age, replaced };
    }
    files.retain(|file| {
        let (from, to) = bounds_of(&whole_span(file, &file.standing.age));
        let is_left = !file.standing.is_replaced_between(order, (&from, &to));
        if !is_left {
            findings.leave_out(&file.path, "tables replaced it: it waited for its removal", false);
        }
        is_left
    });
    Ok(true)
}

fn lineage_of(origin: &Origin<'_>, file: &AreaFile) -> Result<Option<Lineage>> {
    let opened = origin.vfs.open(&file.path, OpenMode::Read);
    let opened = opened.map_err(|error| Error::io(Attempt::Open, &file.path, error))?;
    read_lineage(&*opened, &file.path, &file.header)
}

/// The parts of a file with their ages.
fn parts_of(file: &AreaFile, age: &Age) -> Vec<Part> {
    match age {
        Age::Lineage(lineage) => lineage.parts(),
        Age::Number(number) => vec![Part { span: file.span.clone(), age: *number, replaced: 0 }],
        Age::Listed => Vec::new(),
    }
}

/// The span of all keys that a file may have.
fn whole_span(file: &AreaFile, age: &Age) -> Span {
    match age {
        Age::Lineage(lineage) => {
            let start = lineage.steps.first().and_then(|first| first.start.clone());
            Span { start, end: lineage.end.clone() }
        }
        _ => file.span.clone(),
    }
}

fn starts_before(order: &KeyOrder, a: Option<&Bytes>, b: Option<&Bytes>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => order.compare(a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// All claims that count, in the order of their starts.
fn claims(order: &KeyOrder, files: &[AreaFile], ages: &[Age], recovery: Option<&Recovery>) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (by, (file, age)) in files.iter().zip(ages).enumerate() {
        let Age::Lineage(lineage) = age else { continue };
        // After a power loss the deletes that such a table applied are dead, and its inputs alive.
        if recovery.is_some_and(|recovery| !recovery.is_alive(lineage.upto)) {
            continue;
        }
        let number = file.header.file;
        let parts = lineage.parts().into_iter().filter(|part| part.replaced > 0);
        claims.extend(parts.map(|part| Claim { by, number, span: part.span, replaced: part.replaced }));
    }
    order.sort_by(&mut claims, |a, b| starts_before(order, a.span.start.as_ref(), b.span.start.as_ref()));
    claims
}

/// The files that tables replace, if these can be read.
fn replacements(order: &KeyOrder, files: &[AreaFile], ages: &[Age], claims: &[Claim]) -> Vec<Replacement> {
    // The greatest end of the claims up to each: those before a part need not be looked at.
    let mut reach: Vec<Option<Bytes>> = Vec::with_capacity(claims.len());
    for claim in claims {
        let end = match (reach.last(), &claim.span.end) {
            (Some(Some(before)), Some(end)) if order.compare(before, end).is_gt() => Some(before.clone()),
            (Some(None), _) => None,
            (_, end) => end.clone(),
        };
        reach.push(end);
    }
    let mut found = Vec::new();
    for (index, (file, age)) in files.iter().zip(ages).enumerate() {
        for part in parts_of(file, age) {
            let begins_before_end = |claim: &Claim| match (&claim.span.start, &part.span.end) {
                (Some(start), Some(end)) => order.compare(start, end).is_lt(),
                _ => true,
            };
            let upto = claims.partition_point(begins_before_end);
            for (claim, reach) in claims[..upto].iter().zip(&reach).rev() {
                let is_behind = match (reach, &part.span.start) {
                    (Some(reach), Some(start)) => order.compare(reach, start).is_le(),
                    _ => false,
                };
                if is_behind {
                    break;
                }
                let is_older = file.header.file < claim.number && part.age <= claim.replaced;
                if claim.by != index
                    && is_older
                    && let Some(span) = claim.span.intersect(order, &part.span)
                {
                    found.push(Replacement { file: index, by: claim.by, span });
                }
            }
        }
    }
    found
}

/// The spans of keys of which a table has lost something.
pub(super) fn holes_of(vfs: &dyn Vfs, file: &AreaFile, order: &KeyOrder) -> Vec<Span> {
    let everything = || vec![Span::default()];
    let Ok(opened) = vfs.open(&file.path, OpenMode::Read) else { return everything() };
    let walk = TableSalvage::new(opened, file.path.clone(), file.header, order.clone());
    let Ok(mut walk) = walk else { return everything() };
    let mut holes: Vec<Span> = Vec::new();
    // Versions of the key after a hole may be lost: the hole ends at the key after that.
    let mut open: Vec<(Option<Bytes>, Vec<u8>)> = Vec::new();
    loop {
        let more = walk.advance();
        let key = walk.entry().filter(|_| more).map(|entry| Bytes::copy_from_slice(entry.key));
        open.retain(|(start, before)| {
            let is_beyond = key.as_ref().filter(|key| order.compare(key, before).is_gt());
            if let Some(key) = is_beyond {
                holes.push(Span { start: start.clone(), end: Some(key.clone()) });
            }
            is_beyond.is_none()
        });
        for loss in walk.take_losses().into_iter().filter(|loss| loss.entries) {
            let start = loss.after.map(Bytes::from);
            match loss.before {
                Some(before) => open.push((start, before)),
                None => holes.push(Span { start, end: None }),
            }
        }
        if !more {
            break;
        }
    }
    holes.extend(open.into_iter().map(|(start, _)| Span { start, end: None }));
    holes
}

/// The same keys as disjoint spans, ascending.
fn joined(order: &KeyOrder, mut spans: Vec<Span>) -> Vec<Span> {
    order.sort_by(&mut spans, |a, b| starts_before(order, a.start.as_ref(), b.start.as_ref()));
    let mut joined: Vec<Span> = Vec::new();
    for span in spans {
        let Some(last) = joined.last_mut() else {
            joined.push(span);
            continue;
        };
        let meets = match (&last.end, &span.start) {
            (Some(end), Some(start)) => order.compare(start, end).is_le(),
            _ => true,
        };
        if !meets {
            joined.push(span);
            continue;
        }
        let is_longer = match (&last.end, &span.end) {
            (Some(last), Some(end)) => order.compare(end, last).is_gt(),
            (last, end) => last.is_some() && end.is_none(),
        };
        if is_longer {
            last.end = span.end;
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORDER: &KeyOrder = &KeyOrder::Bytewise;

    fn span(text: &str) -> Span {
        let key = |text: &str| (!text.is_empty()).then(|| Bytes::copy_from_slice(text.as_bytes()));
        let (start, end) = text.split_once('-').unwrap();
        Span { start: key(start), end: key(end) }
    }

    fn spans(text: &str) -> Vec<Span> {
        text.split_whitespace().map(span).collect()
    }

    #[test]
    fn spans_that_meet_are_joined() {
        for (given, expected) in [
            ("c-d a-b", "a-b c-d"),
            ("b-c a-b", "a-c"),
            ("a-f b-c", "a-f"),
            ("-b b-", "-"),
            ("a- -b", "-"),
            ("d- a-b b-c", "a-c d-"),
        ] {
            assert_eq!(joined(ORDER, spans(given)), spans(expected), "{given}");
        }
    }

    #[test]
    fn a_hole_is_taken_out_of_a_span() {
        for (given, hole, expected) in [
            ("a-f", "c-d", "a-c d-f"),
            ("a-f", "-d", "d-f"),
            ("a-f", "c-", "a-c"),
            ("a-f", "-", ""),
            ("a-f", "f-g", "a-f"),
            ("-", "c-d", "-c d-"),
        ] {
            assert_eq!(span(given).without(ORDER, &span(hole)), spans(expected), "{given} without {hole}");
        }
    }

    #[test]
    fn a_file_counts_for_the_keys_that_no_other_replaces() {
        let standing = Standing { age: Age::Listed, replaced: spans("b-d m-").into() };
        let counted: String =
            ('a'..='p').filter(|key| !standing.is_replaced(ORDER, key.to_string().as_bytes())).collect();
        assert_eq!(counted, "adefghijkl");
        let key = |key: &str| Bound::Included(key.as_bytes().to_vec());
        let between = |from: &str, to: &str| standing.is_replaced_between(ORDER, (&key(from), &key(to)));
        assert!(between("b", "c") && between("n", "z") && !between("b", "d") && !between("c", "n"));
        assert!(standing.is_replaced_between(ORDER, (&key("b"), &Bound::Excluded(b"d".to_vec()))));
        assert!(standing.is_replaced_between(ORDER, (&key("m"), &Bound::Unbounded)));
        assert!(!standing.is_replaced_between(ORDER, (&Bound::Unbounded, &key("c"))));
    }
}
