//! Reads of logs: in batches and at once by merges, as read debt by gets and scans, and around bad
//! sectors.

use super::Chunks;
use super::life_tests::{Random, key, left_alone, open};
use crate::Db;
use crate::run::merged::Merged;
use crate::run::stack::RunStack;
use crate::sync::Arc;
use crate::sync::counter::Counter;
use crate::types::span::Span;
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict, Vfs};

/// A store with one chunk, whose log has several indexed parts.
fn with_a_log(disk: &(impl Vfs + Clone + 'static), records: u64) -> (Db, Arc<Chunks>) {
    let (db, chunks) = open(disk, 8 << 20, 1 << 20);
    let mut random = Random(7);
    let mut order: Vec<u64> = (0..records).collect();
    order.sort_by_cached_key(|_| random.below(u64::MAX));
    for number in order {
        db.put(key(number), [number as u8; 200]).unwrap();
    }
    assert!(
        chunks.index.find(b"").funk.load().logs().all(|log| log
            .parts(&chunks.context)
            .unwrap()
            .indexed
            .len()
            > 3)
    );
    (db, chunks)
}

#[test]
fn who_merges_a_log_once_reads_it_at_once() {
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = with_a_log(&disk, 4000);
    let before = disk.count(Operation::ReadAt);
    db.compact_range(..).unwrap();
    let reads = disk.count(Operation::ReadAt) - before;
    assert!(reads < 1000, "{reads} reads for 4,000 records");
    assert_eq!(db.range(..).count(), 4000);
    drop(chunks);
}

#[test]
fn who_merges_a_log_while_others_have_the_memory_reads_its_records_in_batches() {
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = with_a_log(&disk, 4000);
    let budget = &chunks.context.substrate.budget;
    let limit = budget.total_bytes / 16;
    assert!(budget.logs.merges.charge(limit + 1).is_none());
    let taken = budget.logs.merges.charge(limit).expect("nobody else merges");
    assert_eq!(budget.stats().merges.used, limit);
    let munks = budget.resident_limit_bytes();
    let before = disk.count(Operation::ReadAt);
    db.compact_range(..).unwrap();
    let reads = disk.count(Operation::ReadAt) - before;
    assert!((20..1000).contains(&reads), "{reads} reads for 4,000 records");
    let counters = &chunks.context.log.counters;
    let [batches, bytes] = [&counters.log_batches, &counters.log_batch_bytes].map(Counter::get);
    assert!(
        (1..=reads).contains(&batches) && bytes > 3000 * 200,
        "{batches} batches of {bytes} bytes in {reads} reads"
    );
    drop(taken);
    assert_eq!(budget.stats().merges.used, 0);
    assert!(budget.resident_limit_bytes() > munks, "it is lent to munks");
    assert_eq!(db.range(..).count(), 4000);
    assert!(db.range(..).enumerate().all(|(number, pair)| pair.unwrap().1 == [number as u8; 200][..]));
}

/// Like chunks that share the logs of their former parent: each reads only its own records.
#[test]
fn who_merges_a_piece_of_a_log_reads_its_records_in_batches() {
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (_db, chunks) = with_a_log(&disk, 4000);
    let mut funk = RunStack::clone(&chunks.index.find(b"").funk.load());
    let log_bytes = funk.sizes().log_bytes;
    for file in &mut funk.files {
        file.span = Span { start: Some(key(1000).into()), end: Some(key(1400).into()) }.into();
        file.share_bytes = Some(file.bytes() / 10);
    }
    let before = disk.count(Operation::ReadAt);
    let budget = &chunks.context.substrate.budget;
    let mut merged = Merged::new(&chunks.context.run, &funk, true, |_| true).unwrap();
    merged.cursor.seek_to_first().unwrap();
    let (mut found, mut most) = (0, 0);
    while let Some(entry) = merged.cursor.entry() {
        let number = 1000 + found;
        assert_eq!(entry.key, key(number).as_bytes());
        assert_eq!(merged.cursor.value().unwrap(), [number as u8; 200][..]);
        found += 1;
        most = most.max(budget.stats().merges.used);
        merged.cursor.advance().unwrap();
    }
    assert_eq!(found, 400);
    let reads = disk.count(Operation::ReadAt) - before;
    assert!(reads < 200, "{reads} reads for 400 records");
    assert!(most > 0 && most < log_bytes / 5, "{most} bytes in memory, of a log of {log_bytes}");
    assert_eq!(budget.stats().merges.used, 0, "what was taken is given back");
}

#[test]
fn reads_of_a_log_are_debts_of_its_chunk_and_those_of_a_table_are_not() {
    let (db, chunks) = with_a_log(&MemVfs::new(), 2000);
    let debt = || chunks.index.find(b"").read_debt();
    // This many reads would pay for sorting it.
    let alone = left_alone(&chunks.index.find(b""));
    let read_all = || (0..2000).for_each(|number| drop(db.get(key(number)).unwrap()));
    read_all();
    let of_gets = debt();
    assert!(of_gets > 2000, "{of_gets}");
    assert_eq!(db.range(..).count(), 2000);
    let of_scan = debt() - of_gets;
    assert!((1000..=2000).contains(&of_scan), "{of_scan}: some happen to lie behind one another");
    assert_eq!(db.stats().keyspaces[0].scan_log_reads, of_scan);
    drop(alone);
    db.compact_range(..).unwrap();
    assert_eq!(debt(), 0);
    read_all();
    assert_eq!(db.range(..).count(), 2000);
    assert_eq!(debt(), 0);
    assert_eq!(db.stats().keyspaces[0].scan_log_reads, of_scan);
}

/// A chunk whose log has many parts: the filter of at least one lets any key pass.
#[test]
fn inserts_in_order_are_not_taken_for_overwrites() {
    let (db, chunks) = open(&MemVfs::new(), 64 << 20, u64::MAX);
    let put = |number: u64| db.put(number.to_be_bytes(), [1; 1000]).unwrap();
    (0..40_000).for_each(put);
    let garbage_bytes = || chunks.chunk_sizes(&chunks.index.find(b"")).garbage_bytes;
    // A put that was the last of its part is itself found there.
    assert!(garbage_bytes() < 20_000, "{}", garbage_bytes());
    (0..8_000).for_each(put);
    // Sampled.
    assert!(garbage_bytes() > 4_000_000, "{}", garbage_bytes());
}

#[test]
fn a_bad_sector_ahead_of_a_scan_harms_nobody_before_it() {
    const PAIRS: u64 = 2000;
    let disk = FaultVfs::over_memory(MemVfs::new());
    let (db, chunks) = open(&disk, 8 << 20, 8 << 20);
    (0..PAIRS).for_each(|number| db.put(key(number), [1; 1000]).unwrap());
    for sorted in [false, true] {
        if sorted {
            db.compact_range(..).unwrap();
        }
        let chunk = chunks.index.find(b"");
        let _alone = left_alone(&chunk);
        let (id, path, len) = {
            let funk = chunk.funk.load();
            let file = funk.files.iter().max_by_key(|file| file.bytes()).unwrap();
            (file.file().id, file.file().path.clone(), file.bytes())
        };
        for bad in (1..16).map(|part| len / 20 * part + 777) {
            chunks.context.cache.forget(&[id]);
            let path = path.clone();
            disk.set_rule(move |call| {
                let covers = (call.offset..call.offset + call.len).contains(&bad);
                let is_there = call.operation == Operation::ReadAt && call.path == path && covers;
                if is_there { Verdict::Fail(Failure::EIO) } else { Verdict::Pass }
            });
            let read = db.range(..).take_while(|pair| pair.is_ok()).count() as u64;
            disk.clear_rule();
            // Indexes stand between the records.
            let (at, slack) = (read * len / PAIRS, 40 << 10);
            assert!(
                read < PAIRS && at + slack > bad,
                "{read} pairs, about {at} bytes, before {bad}; {sorted}"
            );
        }
    }
}
