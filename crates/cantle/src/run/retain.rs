//! The versions that a merge keeps of one key.
//!
//! Invariant: every open snapshot, and every read of the newest version, gets the same result from
//! the kept entries followed by older runs as from the merged entries followed by older runs.

use super::env::RunEnv;
use super::merged::{Covering, Merged};
use super::writer::KeptEntry;
use crate::mvcc::Keep;
use crate::types::entry::Kind;
use crate::types::error::Result;
use bytes::Bytes;
use std::cmp::Ordering;

/// Says if a merge includes the oldest run of its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottom {
    /// The oldest run is included: there are no older entries for a delete to hide. Range deletes go.
    /// One that hides an entry which an open snapshot sees becomes a delete of its key.
    Reached,
    /// Older runs may have entries that a delete hides. The oldest deletes of a key stay. The caller
    /// carries the range deletes on as ranges ([`Merged::carried`]), or does not merge runs that
    /// have any.
    Deeper,
}

/// Reads all entries of `key` from the cursor. Returns the kept ones of the versions up to `upto`,
/// newest first.
pub fn keep_versions(
    env: &RunEnv,
    merged: &mut Merged,
    key: &Bytes,
    keep: &Keep,
    upto: u64,
    bottom: Bottom,
) -> Result<Vec<KeptEntry>> {
    let mut deletes: Vec<Covering> =
        if merged.has_tombstones() { merged.covering(key, upto).collect() } else { Vec::new() };
    // The most recent is last, as deletes are popped from the end.
    deletes.sort_by(|a, b| b.source.cmp(&a.source).then(a.offset.cmp(&b.offset)));
    let mut kept = Vec::new();
    let mut newer: Option<u64> = None;
    let is_bottom = bottom == Bottom::Reached;
    let take = |version: u64, newer: &mut Option<u64>| {
        let needed = keep.needed(*newer, version);
        canary!(SNAPSHOT_VERSIONS_DROPPED => let needed = needed && newer.is_none());
        // The version of a range delete that is noted for a run may be higher than those of newer entries.
        *newer = Some(newer.map_or(version, |newer| newer.min(version)));
        needed
    };
    while let Some(entry) = merged.cursor.entry() {
        if env.order.compare(entry.key, key) != Ordering::Equal {
            break;
        }
        let (version, kind) = (entry.version, entry.kind);
        let (source, position) = (merged.cursor.source(), merged.cursor.position());
        // A range delete that is more recent than this entry acts as a delete of the key.
        while let Some(delete) =
            deletes.pop_if(|d| d.source < source || (d.source == source && d.offset > position))
        {
            if take(delete.version, &mut newer) && is_bottom {
                let (key, version) = (key.clone(), delete.version);
                kept.push(KeptEntry { key, version, kind: Kind::Delete, value: Bytes::new() });
            }
        }
        if version <= upto && merged.is_alive(version) && take(version, &mut newer) {
            // Under some comparators equal keys may differ in their bytes.
            let key = if entry.key == key { key.clone() } else { Bytes::copy_from_slice(entry.key) };
            let (kind, value) = merged.pass_on(&key, kind)?;
            kept.push(KeptEntry { key, version, kind, value });
        }
        merged.cursor.advance()?;
    }
    canary!(DELETES_FORGOTTEN => let bottom = Bottom::Reached);
    if bottom == Bottom::Deeper {
        return Ok(kept);
    }
    // There is nothing older for these deletes to hide.
    while kept.pop_if(|entry| entry.kind == Kind::Delete).is_some() {}
    Ok(kept)
}
