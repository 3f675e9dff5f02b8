//! Visibility: the version of each key that a walk shows.

use super::merged::Merged;
use crate::types::entry::Kind;
use crate::types::error::Result;
use bytes::Bytes;
use std::cmp::Ordering;

/// Entries that a walk passed over without showing them: sorting the runs would spare that time.
#[derive(Debug, Default, Clone, Copy)]
pub struct Passed {
    /// Versions that are not shown.
    pub versions: u64,
    /// Keys without a visible value since the last pair.
    pub dead: u64,
    /// The most of them between two pairs.
    pub dead_most: u64,
}

/// The value of the next pair that is visible at `at`; its key is then in `key`. `None` where there is none.
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
        // Of the versions of this key the newest that is visible counts. Forward it comes first; backward last.
        let mut newest: Option<(Kind, Bytes)> = None;
        while let Some(entry) = merged.cursor.entry() {
            if merged.order().compare(entry.key, key) != Ordering::Equal {
                break;
            }
            let (kind, version) = (entry.kind, entry.version);
            if (newest.is_none() || !forward) && version <= at && merged.is_alive(version) {
                if entry.key != key.as_slice() {
                    // Equal, but not identical: each version has its own spelling.
                    key.clear();
                    key.extend_from_slice(entry.key);
                }
                let (source, position) = (merged.cursor.source(), merged.cursor.position());
                let deleted = merged.is_deleted(key, at, source, position);
                newest =
                    Some(if deleted { (Kind::Delete, Bytes::new()) } else { (kind, merged.cursor.value()?) });
            } else {
                passed.versions += 1;
            }
            merged.cursor.advance()?;
        }
        match newest {
            Some((Kind::Put, value)) => {
                passed.dead_most = passed.dead_most.max(std::mem::take(&mut passed.dead));
                return Ok(Some(value));
            }
            _ => {
                passed.versions += 1;
                passed.dead += 1;
            }
        }
    }
    Ok(None)
}
