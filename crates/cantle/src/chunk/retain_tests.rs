//! Merges of only the newest runs, and of all.

use super::Chunks;
use super::test_support::chunks_of;
use crate::mvcc::Keep;
use crate::run::merged::Merged;
use crate::run::retain::{Bottom, keep_versions};
use crate::run::run::Source;
use crate::sync::Arc;
use crate::types::entry::Kind;
use crate::types::span::contains;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, Db, KeyspaceOptions, Options};
use bytes::Bytes;

const KEY: &str = "k";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Put,
    Delete,
    DeleteRange,
}

/// A table that has the key, if `has_table`, and then a log of these writes; with the version of
/// each write of the log.
fn runs(has_table: bool, writes: &[Write]) -> (Db, Arc<Chunks>, Vec<u64>) {
    let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false).log_bytes(u64::MAX));
    let options = Options::new().memory_budget(8 << 20).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(MemVfs::without_history())).open("store").unwrap();
    if has_table {
        ["a", KEY, "z"].iter().for_each(|key| db.put(key, "old").unwrap());
        db.compact_range(..).unwrap();
    }
    // Writes have the same version until a snapshot is taken.
    drop(db.snapshot());
    let write = |write: &Write| {
        match write {
            Write::Put => db.put(KEY, "new").unwrap(),
            Write::Delete => db.delete(KEY).unwrap(),
            Write::DeleteRange => db.delete_range("a".."z").unwrap(),
        }
        let version = db.stats().version;
        drop(db.snapshot());
        version
    };
    let versions = writes.iter().map(write).collect();
    let chunks = chunks_of(&db);
    (db, chunks, versions)
}

/// Versions and kinds of the key that a merge keeps: a merge of logs only, or of all runs. Range
/// deletes that a merge of logs carries on count as deletes of the key.
fn kept(chunks: &Chunks, snapshots: &[u64], bottom: Bottom) -> Vec<(u64, Kind)> {
    let funk = chunks.index.find(b"").funk.load_full();
    let takes_all = bottom == Bottom::Reached;
    let env = &chunks.context.run;
    let mut merged =
        Merged::new(env, &funk, true, |run| takes_all || matches!(run.source, Source::Log(_))).unwrap();
    merged.cursor.seek(KEY.as_bytes()).unwrap();
    let (key, keep) = (Bytes::from(KEY), Keep::new(snapshots.to_vec()));
    let kept = keep_versions(env, &mut merged, &key, &keep, u64::MAX, bottom).unwrap();
    let carried = if takes_all { Vec::new() } else { merged.carried(&keep) };
    let covering = carried.iter().filter(|range| contains(&range.bounds, &env.order, KEY.as_bytes()));
    let deleted = covering.flat_map(|range| &range.versions).map(|&version| (version, Kind::Delete));
    let mut kept: Vec<(u64, Kind)> =
        kept.iter().map(|entry| (entry.version, entry.kind)).chain(deleted).collect();
    kept.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    kept
}

/// True if a reader at this version finds the key in these entries, newest first, or else in older
/// runs.
fn finds(entries: &[(u64, Kind)], at: u64, older: bool) -> bool {
    let newest = entries.iter().find(|(version, _)| *version <= at);
    newest.map_or(older, |(_, kind)| *kind == Kind::Put)
}

#[test]
fn deletes_of_every_kind_hide_what_older_runs_have() {
    for write in [Write::Delete, Write::DeleteRange] {
        let (_db, chunks, versions) = runs(true, &[Write::Put, write]);
        assert_eq!(kept(&chunks, &[], Bottom::Deeper), [(versions[1], Kind::Delete)], "{write:?}");
        assert_eq!(kept(&chunks, &[], Bottom::Reached), [], "{write:?}");
    }
}

#[test]
fn a_range_delete_that_is_older_than_the_key_is_kept_for_who_sees_it() {
    let (_db, chunks, versions) = runs(true, &[Write::DeleteRange, Write::Put]);
    let [deleted, put] = versions[..] else { panic!("two writes") };
    let both = [(put, Kind::Put), (deleted, Kind::Delete)];
    assert_eq!(kept(&chunks, &[deleted], Bottom::Deeper), both);
    assert_eq!(kept(&chunks, &[], Bottom::Deeper), both, "older runs may have other keys of the range");
    assert_eq!(kept(&chunks, &[deleted], Bottom::Reached), both[..1], "nothing is left beneath it");
}

#[test]
fn no_reader_notices_a_merge_whatever_was_written() {
    const WRITES: [Write; 3] = [Write::Put, Write::Delete, Write::DeleteRange];
    let mut versions_seen = 0;
    for number in 0..3_usize.pow(4) {
        let writes = [1, 3, 9, 27].map(|digit| WRITES[number / digit % 3]);
        for has_table in [true, false] {
            let (_db, chunks, versions) = runs(has_table, &writes);
            // A range delete of nothing writes nothing and has no version.
            versions_seen += versions.windows(2).filter(|pair| pair[0] < pair[1]).count();
            let before = versions[0] - 1;
            for at in std::iter::once(before).chain(versions.iter().copied()) {
                let last = versions.iter().zip(writes).take_while(|(version, _)| **version <= at).last();
                let expected = last.map_or(has_table, |(_, write)| write == Write::Put);
                let what = format!("{writes:?} at {at} of {versions:?}, with a table: {has_table}");
                let deeper = kept(&chunks, &[at], Bottom::Deeper);
                assert_eq!(finds(&deeper, at, has_table), expected, "{what}, above others: {deeper:?}");
                let reached = kept(&chunks, &[at], Bottom::Reached);
                assert_eq!(finds(&reached, at, false), expected, "{what}, all: {reached:?}");
                assert!(reached.last().is_none_or(|(_, kind)| *kind == Kind::Put), "{what}: {reached:?}");
                for kept in [deeper, reached] {
                    let newest = writes[3] == Write::Put;
                    assert_eq!(finds(&kept, u64::MAX, false), newest, "{what}, at last: {kept:?}");
                }
            }
        }
    }
    assert!(versions_seen > 243, "most writes have versions of their own: {versions_seen} of 486");
}

#[test]
fn range_deletes_of_keys_that_only_older_runs_have_are_the_callers() {
    let (_db, chunks, _) = runs(true, &[Write::DeleteRange]);
    let funk = chunks.index.find(b"").funk.load_full();
    let mut merged =
        Merged::new(&chunks.context.run, &funk, true, |run| matches!(run.source, Source::Log(_))).unwrap();
    merged.cursor.seek_to_first().unwrap();
    assert!(merged.cursor.entry().is_none(), "the log has no key");
    assert_eq!(merged.range_deletes().count(), 1);
}
