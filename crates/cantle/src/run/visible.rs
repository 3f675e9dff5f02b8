//! Visibility: the version of each key that a walk shows.

use super::merged::Merged;
use crate::types::entry::Kind;
use crate::types::error::Result;
use bytes::Bytes;
use std::cmp::Ordering;

/// Entries that a walk skipped without showing them. Sorting the runs would save that time.
#[derive(Debug, Default, Clone, Copy)]
pub struct Passed {
    /// Number of versions that are not shown.
    pub versions: u64,
    /// Number of these that are in the newest logs.
    pub in_level0: u64,
    /// Number of keys without a visible value since the last pair.
    pub dead: u64,
    /// Maximum of these keys between two pairs.
    pub dead_most: u64,
}

impl Passed {
    fn count(&mut self, merged: &Merged, source: usize) {
        self.versions += 1;
        self.in_level0 += u64::from(source < merged.in_level0);
    }
}

/// Moves to the next pair that is visible at `at`: sets `key` and returns the value. `None` if
/// there is no further pair.
pub fn next_visible(
    merged: &mut Merged,
    key: &mut Vec<u8>,
    at: u64,
    forward: bool,
    passed: &mut Passed,
) -> Result<Option<Bytes>> {
    while let Some(entry) = merged.cursor.entry() {
        key.clear();
        key.extend_from_slice(entry.key);
        // The newest visible version of the key counts. It comes first when walking forward, last
        // when walking backward.
        let mut newest: Option<(Kind, Bytes)> = None;
        let mut newest_source = 0;
        while let Some(entry) = merged.cursor.entry() {
            if merged.order().compare(entry.key, key) != Ordering::Equal {
                break;
            }
            let (kind, version) = (entry.kind, entry.version);
            if (newest.is_none() || !forward) && version <= at && merged.is_alive(version) {
                if entry.key != key.as_slice() {
                    // Equal, but not identical: each version has its key's own bytes.
                    key.clear();
                    key.extend_from_slice(entry.key);
                }
                let (source, position) = (merged.cursor.source(), merged.cursor.position());
                newest_source = source;
                let deleted = merged.is_deleted(key, at, source, position)?;
                newest =
                    Some(if deleted { (Kind::Delete, Bytes::new()) } else { (kind, merged.cursor.value()?) });
            } else {
                passed.count(merged, merged.cursor.source());
            }
            merged.cursor.advance()?;
        }
        match newest {
            Some((kind, value)) if kind.is_put() => {
                passed.dead_most = passed.dead_most.max(std::mem::take(&mut passed.dead));
                return match kind {
                    Kind::PutApart => merged.read_referred(key, &value).map(Some),
                    _ => Ok(Some(value)),
                };
            }
            _ => {
                passed.count(merged, newest_source);
                passed.dead += 1;
            }
        }
    }
    Ok(None)
}
