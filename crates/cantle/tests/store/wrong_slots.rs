//! A slot of the write buffer whose word is wrong, though its 8-bit check is right, as in one of
//! 256 wrong words. Records have checksums of their own, which include the store, the file and the
//! offset. Hence reads return right data, and only data that were buffered there are lost.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{Db, Options};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const STORE: &str = "/store";
const WRITE_BUFFER: &str = "/store/WRITE-BUFFER";
/// See `docs/format/write-buffer.md`.
const HEAD_BYTES: u64 = 4096;
const KEYSPACES: [&str; 2] = ["one", "two"];
const KEYS: u64 = 12;
/// Number of keys in logs that were synced.
const DURABLE: u64 = 4;

fn open(vfs: &MemVfs) -> Db {
    let options = Options::new().vfs(Arc::new(vfs.clone())).memory_budget(16 << 20);
    options.checkpoint_interval(Duration::from_secs(3600)).open(STORE).unwrap()
}

fn put(db: &Db, numbers: std::ops::Range<u64>) {
    for name in KEYSPACES {
        let keyspace = db.keyspace(name).unwrap();
        numbers
            .clone()
            .for_each(|number| keyspace.put(number.to_be_bytes(), format!("{name} {number}")).unwrap());
    }
}

fn write_buffer_bytes(vfs: &MemVfs) -> Vec<u8> {
    let file = vfs.open(Path::new(WRITE_BUFFER), OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The word of a slot for this log, with a right check.
fn word(log: u64, base: u64, len: u64) -> u64 {
    let fields = base << 24 | len;
    let check = (log ^ fields).to_le_bytes().into_iter().fold(0, |check, byte| check ^ byte);
    fields | u64::from(check) << 16
}

#[test]
fn a_wrong_slot_with_a_right_check_puts_nothing_in_the_place_of_anything() {
    let vfs = MemVfs::new();
    let db = open(&vfs);
    put(&db, 0..DURABLE);
    db.sync().unwrap();
    put(&db, DURABLE..KEYS);
    let killed = vfs.kill();
    drop(db);
    let write_buffer = write_buffer_bytes(&killed);
    let slot_bytes = u32::from_le_bytes(write_buffer[32..36].try_into().unwrap()) as usize;
    let slots: Vec<(u64, u64, u64)> = (HEAD_BYTES as usize..write_buffer.len())
        .step_by(slot_bytes)
        .map(|at| (at as u64, word_at(&write_buffer, at), word_at(&write_buffer, at + 8)))
        .filter(|(_, _, word)| word & 0xffff > 0)
        .collect();
    assert_eq!(slots.len(), KEYSPACES.len(), "each has some of a log");
    let mut cases = 0;
    for &(at, log, right) in &slots {
        let (base, len) = (right >> 24, right & 0xffff);
        assert_eq!(word(log, base, len), right, "as documented");
        let bases = (0..8).flat_map(|bit| [base ^ 1 << bit, base + bit, base.saturating_sub(bit)]);
        let wrong_bases = bases.chain([0, 63, 64, 65]).map(|base| (log, base, len));
        let lens = (0..16).map(|bit| len ^ 1 << bit).chain([1, len - 1, len + 1]);
        let wrong_lens = lens.map(|len| (log, base, len));
        let others = slots.iter().map(|slot| slot.1).chain([0, 1, log + 1, log + 100]);
        let wrong_logs = others.map(|log| (log, base, len));
        let all: BTreeSet<_> = wrong_bases.chain(wrong_lens).chain(wrong_logs).collect();
        for (wrong_log, base, len) in all {
            cases += 1;
            let disk = killed.kill();
            let file = disk.open(Path::new(WRITE_BUFFER), OpenMode::ReadWrite).unwrap();
            file.write_at(&wrong_log.to_le_bytes(), at).unwrap();
            file.write_at(&word(wrong_log, base, len).to_le_bytes(), at + 8).unwrap();
            let db = open(&disk);
            let context = format!("slot at {at}: log {wrong_log}, base {base}, {len} bytes");
            let mut harmed = BTreeSet::new();
            for name in KEYSPACES {
                let keyspace = db.keyspace(name).unwrap();
                for number in 0..KEYS {
                    match keyspace.get(number.to_be_bytes()).unwrap() {
                        Some(value) => {
                            assert_eq!(*value, *format!("{name} {number}").as_bytes(), "{context}")
                        }
                        None => {
                            assert!(
                                number >= DURABLE,
                                "{context}: {name} {number} was not buffered, and is gone"
                            );
                            harmed.insert(name);
                        }
                    }
                }
            }
            assert!(harmed.len() <= 1, "{context}: one slot, and {harmed:?}");
            let damage = db.verify().unwrap().damage;
            let is_of_slot =
                |what: &String| what.contains("WRITE-BUFFER") || what.contains("what was buffered");
            let told: Vec<_> = damage.iter().map(|damage| format!("{damage:?}")).collect();
            assert!(told.iter().all(is_of_slot), "{context}: {told:?}");
        }
    }
    assert!(cases > 60, "{cases} cases");
}
