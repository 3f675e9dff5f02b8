//! The resident memory of a process with one store, against the store's budget: many idle
//! keyspaces, tiny pairs, long keys, iterators that were closed. At most the budget and 64 MiB
//! should be resident. If that does not hold yet, a case states the excess, so that it does not
//! grow.
//!
//! `cargo test` has a twentieth of each; `cantle-faults --doors resident --minutes …` has all of
//! it, and `--case NAME` one of them.

use super::child::{Part, Role, Running, say};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, KeyspaceOptions, Options};
use std::time::Duration;

const BUDGET_BYTES: u64 = 64 << 20;
const BESIDE_BYTES: u64 = 64 << 20;
/// A short visit has a twentieth of the data.
const SHORT: u64 = 20;

struct Case {
    name: &'static str,
    play: fn(&Part, u64),
    /// Excess that a long visit finds above `BESIDE_BYTES`, with some margin, and a short one.
    more_bytes: [u64; 2],
}

const CASES: [Case; 4] = [
    // About 6 KiB for each keyspace that was written to since the opening, most of them in small
    // allocations that no budget counts.
    Case { name: "keyspaces", play: keyspaces, more_bytes: [36 << 20, 0] },
    // Less than half of it is charged; the rest was not examined.
    Case { name: "pairs", play: pairs, more_bytes: [36 << 20, 0] },
    // Keys at both ends of open tables, and in merges. Short visits had 87 to 126 MB in twelve runs, and 143 in another:
    // free memory that the allocator keeps.
    Case { name: "keys", play: keys, more_bytes: [44 << 20, 24 << 20] },
    // Free memory between cached blocks, which the allocator does not return to the system.
    Case { name: "iterators", play: iterators, more_bytes: [24 << 20, 0] },
];

pub fn enter(visit: &Visit) {
    if !visit.is_capable("keep memory within the budget", |layout| layout.bounds_memory) {
        return;
    }
    if let Some(wanted) = &visit.case {
        assert!(CASES.iter().any(|case| case.name == wanted), "there is no case {wanted:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    for _ in visit.rounds() {
        for (number, Case { name, more_bytes, .. }) in CASES.into_iter().enumerate() {
            if visit.is_over() {
                return;
            }
            if visit.case.as_ref().is_some_and(|case| case != name) {
                continue;
            }
            let less = if visit.is_long() { 1 } else { SHORT };
            let path = dir.path().join(name);
            let (layout, durability) = (visit.layout, Durability::Process);
            // The case, and the divisor of its size.
            let seed = less * CASES.len() as u64 + number as u64;
            let part = Part { role: Role::Resident, path, layout, durability, seed };
            let ended = Running::start(&mut part.command(&visit.program)).wait(Duration::from_secs(3600));
            let said = |name: &str| {
                let value = ended.lines.iter().rev().find_map(|line| line.strip_prefix(name));
                value.and_then(|value| value.trim().parse::<u64>().ok())
            };
            // Memory that open iterators hold belongs to the caller.
            let measured = said(if name == "iterators" { "resident" } else { "peak" });
            let (Some(measured), Some(_)) = (measured, said("peak")) else {
                panic!("{name}: {:?}; {}", ended.lines.last(), ended.errors.trim());
            };
            println!("{name}, 1/{less}: {}", ended.lines.join("; "));
            let most = BUDGET_BYTES + BESIDE_BYTES + more_bytes[usize::from(!visit.is_long())];
            let said = ended.lines.join("; ");
            assert!(measured <= most, "{name}: {measured} bytes resident at most, of {most}; {said}");
            visit.count("processes measured", 1);
            let _ = std::fs::remove_dir_all(&part.path);
        }
    }
}

/// Runs one case, in a process that does nothing else.
pub fn play(part: &Part) {
    let cases = CASES.len() as u64;
    (CASES[(part.seed % cases) as usize].play)(part, part.seed / cases);
    say(format!("peak {}", of_process("VmHWM:")));
}

/// A line of `/proc/self/status`, in bytes.
fn of_process(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn keyspace(part: &Part) -> KeyspaceOptions {
    KeyspaceOptions::new().layout(part.layout)
}

fn open(part: &Part) -> Db {
    Options::new().memory_budget(BUDGET_BYTES).default_keyspace(keyspace(part)).open(&part.path).unwrap()
}

fn tell(what: &str, db: &Db) {
    let stats = db.stats();
    let memory = &stats.memory;
    let parts = [
        ("resident", memory.resident.used),
        ("rows", memory.rows.used),
        ("blocks", memory.blocks.used),
        ("log indexes", memory.log_indexes.used),
        ("log views", memory.log_views.used),
        ("merges", memory.merges.used),
        ("recent", memory.recent.used),
        ("write_buffer", memory.write_buffer.used),
        ("keyspaces", memory.keyspaces.used),
        ("freed", memory.freed),
    ];
    let parts = parts.map(|(name, bytes)| format!("{name} {bytes}")).join(", ");
    say(format!("{what}: {} counted ({parts}), {} resident", stats.memory_used, of_process("VmRSS:")));
    say(format!("resident {}", of_process("VmRSS:")));
}

fn keyspaces(part: &Part, less: u64) {
    let db = open(part);
    let before = of_process("VmRSS:");
    let count = 20_000 / less;
    for number in 0..count {
        let keyspace = db.keyspace_with(&format!("{number:05}"), keyspace(part)).unwrap();
        keyspace.put("key", "value").unwrap();
    }
    tell("filled", &db);
    db.close().unwrap();
    drop(db);
    let db = open(part);
    tell("opened again", &db);
    let each = of_process("VmRSS:").saturating_sub(before) / count;
    say(format!("bytes for each keyspace: {each}"));
}

fn pairs(part: &Part, less: u64) {
    let db = open(part);
    let mut rng = Rng::new(1);
    for number in 0..10_000_000 / less {
        db.put(rng.next().to_be_bytes(), number.to_be_bytes()).unwrap();
    }
    tell("filled", &db);
    for _ in 0..200_000 / less {
        let _ = db.get(rng.next().to_be_bytes()).unwrap();
    }
    db.range(..).take(100_000).for_each(|pair| drop(pair.unwrap()));
    tell("read", &db);
}

fn keys(part: &Part, less: u64) {
    let db = open(part);
    let mut rng = Rng::new(1);
    let count = 20_000 / less;
    let key = |number: u64| {
        let mut key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes().to_vec();
        key.resize(64 << 10, number as u8);
        key
    };
    (0..count).for_each(|number| db.put(key(number), number.to_be_bytes()).unwrap());
    tell("filled", &db);
    for _ in 0..2 * count {
        assert!(db.get(key(rng.below(count))).unwrap().is_some());
    }
    assert_eq!(db.range(..).count() as u64, count);
    tell("read", &db);
}

fn iterators(part: &Part, less: u64) {
    let db = open(part);
    (0..1_000_000 / less).for_each(|number: u64| db.put(number.to_be_bytes(), [1; 100]).unwrap());
    tell("filled", &db);
    let mut rng = Rng::new(1);
    let mut open = Vec::new();
    for _ in 0..10_000 / less {
        let mut range = db.range(rng.below(1_000_000 / less).to_be_bytes()..);
        drop(range.next());
        open.push(range);
    }
    // Memory that open iterators hold belongs to the caller.
    say(format!("open: {} resident", of_process("VmRSS:")));
    drop(open);
    std::thread::sleep(Duration::from_secs(2));
    tell("closed", &db);
}
