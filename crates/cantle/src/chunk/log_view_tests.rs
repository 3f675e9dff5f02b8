//! Scans return the same through a view of a log as through its parts.

use super::Chunks;
use crate::chunk::rules::Rules;
use crate::chunk::test_support::{adjust, chunks_of};
use crate::log::index::indexed_part::LogSearch;
use crate::log::segment::Segment;
use crate::run::run::Source;
use crate::sync::Arc;
use crate::vfs::MemVfs;
use crate::{ChunkOptions, KeyspaceOptions, Options};
use crate::{Db, Snapshot};
use std::collections::BTreeMap;

type Pairs = BTreeMap<String, Vec<u8>>;

const MIB: u64 = 1 << 20;

/// One chunk. Its log, in parts of half a MiB, is not sorted before it is 8 MiB long, however often
/// it is read.
fn open(disk: &MemVfs, memory_bytes: u64) -> (Db, Arc<Chunks>) {
    let published = ChunkOptions::as_published().munks(false);
    let keyspace = KeyspaceOptions::new().layout(published.chunk_bytes(64 * MIB).log_bytes(8 * MIB));
    let options = Options::new().memory_budget(memory_bytes).default_keyspace(keyspace);
    let db = options.vfs(Arc::new(disk.clone())).open("store").unwrap();
    let chunks = chunks_of(&db);
    adjust(&chunks, |settings| {
        settings.rules = Box::leak(Box::new(Rules { log_search: LogSearch::Indexed, ..*settings.rules }));
    });
    (db, chunks)
}

fn put(db: &Db, pairs: &mut Pairs, number: u64, value: Vec<u8>) {
    let key = format!("{:05}", number * 7919 % 10_000);
    db.put(&key, &value).unwrap();
    pairs.insert(key, value);
}

fn assert_holds(db: &Db, snapshot: Option<&Snapshot>, expected: &Pairs, what: &str) {
    let range = || snapshot.map_or_else(|| db.range("02".."08"), |snapshot| snapshot.range("02".."08"));
    let to_pair = |pair: crate::Result<(crate::Key, crate::Value)>| {
        let (key, value) = pair.unwrap();
        (String::from_utf8(key.to_vec()).unwrap(), value.to_vec())
    };
    let wanted = || {
        let within = expected.range("02".to_string().."08".to_string());
        within.map(|(key, value)| (key.clone(), value.clone()))
    };
    assert!(range().map(to_pair).eq(wanted()), "a range differs {what}");
    assert!(range().rev().map(to_pair).eq(wanted().rev()), "a range backwards differs {what}");
}

fn scans_log_view(db: &Db) -> u64 {
    db.stats().keyspaces[0].chunk().unwrap().scans_log_view
}

/// Number of parts of the only log.
fn parts(chunks: &Chunks) -> usize {
    let funk = chunks.first().funk.load_full();
    let logs: Vec<&Arc<Segment>> = funk
        .files
        .iter()
        .filter_map(|file| match &file.source {
            Source::Log(segment) => Some(segment),
            Source::Table(_) => None,
        })
        .collect();
    assert_eq!(logs.len(), 1);
    logs[0].parts(&chunks.context).unwrap().indexed.len()
}

#[test]
fn ranges_by_a_view_are_those_by_the_parts_while_parts_are_added() {
    let disk = MemVfs::new();
    let (db, chunks) = open(&disk, 256 * MIB);
    let mut pairs = Pairs::new();
    let mut held: Vec<(Snapshot, Pairs)> = Vec::new();
    let mut scans_by_view = Vec::new();
    for round in 0..8_u64 {
        for number in 0..1_000 {
            put(&db, &mut pairs, round * 617 + number, vec![round as u8; 600]);
        }
        db.delete_range(format!("0{round}3")..format!("0{round}5")).unwrap();
        pairs.retain(|key, _| *key < format!("0{round}3") || *key >= format!("0{round}5"));
        let key = format!("0{round}777");
        db.delete(&key).unwrap();
        pairs.remove(&key);
        held.push((db.snapshot(), pairs.clone()));
        let before = scans_log_view(&db);
        for scan in 0..100 {
            if !(3..=96).contains(&scan) {
                assert_holds(&db, None, &pairs, &format!("scan {scan} of round {round}"));
                for (at, (snapshot, pairs)) in held.iter().enumerate() {
                    let what = format!("at snapshot {at}, scan {scan} of round {round}");
                    assert_holds(&db, Some(snapshot), pairs, &what);
                }
            } else {
                assert!(db.range("02"..).next().is_some());
            }
        }
        scans_by_view.push((parts(&chunks), scans_log_view(&db) - before));
    }
    println!("(parts, scans by their view): {scans_by_view:?}");
    assert!(scans_by_view.iter().all(|&(parts, scans)| (parts >= 3) == (scans > 0)), "{scans_by_view:?}");
    assert!(chunks.context.substrate.budget.logs.views.used_bytes() > 0);
    assert!(scans_by_view.last().is_some_and(|&(parts, _)| parts > 5), "{scans_by_view:?}");
    db.close().unwrap();
    drop((db, held));
    let counted = chunks.context.substrate.budget.logs.views.clone();
    drop(chunks);
    assert_eq!(counted.used_bytes(), 0, "what is gone is counted");

    let (db, _) = open(&disk, 256 * MIB);
    for scan in 0..100 {
        assert_holds(&db, None, &pairs, &format!("once reopened, scan {scan}"));
    }
    assert!(scans_log_view(&db) > 0, "a log of an earlier epoch has a view too");
}

#[test]
fn a_view_that_exceeds_its_budget_is_not_made() {
    let disk = MemVfs::new();
    let (db, chunks) = open(&disk, 4 * MIB);
    let mut pairs = Pairs::new();
    for number in 0..50_000 {
        put(&db, &mut pairs, number % 9_000, vec![1; 8]);
    }
    chunks.index_all_parts().unwrap();
    for number in 0..40_000 {
        put(&db, &mut pairs, number % 9_000, vec![2; 30]);
    }
    assert!(parts(&chunks) >= 3, "{}", parts(&chunks));
    for scan in 0..200 {
        assert!(db.range("02"..).next().is_some());
        if scan % 50 == 0 {
            assert_holds(&db, None, &pairs, "without a view");
        }
    }
    assert_eq!(scans_log_view(&db), 0);
}
