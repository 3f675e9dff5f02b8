//! Several writers: if a write is there, every write that had completed before it began is there as
//! well.

use crate::history::Death;
use crate::rng::Rng;
use crate::setup::Setup;
use crate::visit::Visit;
use cantle::vfs::{CrashPlan, FaultVfs, MemVfs, Verdict};
use cantle::{Durability, WriteBatch};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

const THREADS: usize = 4;
const KEYS: u64 = 30;

/// Times at which each write of each thread began and ended, on a clock that ticks with every
/// event.
type Times = Mutex<[Vec<(u64, Option<u64>)>; THREADS]>;

struct Image {
    vfs: MemVfs,
    acknowledged: [u64; THREADS],
    begun: [u64; THREADS],
}

fn marks(times: &Times) -> ([u64; THREADS], [u64; THREADS]) {
    let times = times.lock().unwrap();
    let acknowledged =
        std::array::from_fn(|t| times[t].iter().filter(|(_, end)| end.is_some()).count() as u64);
    (acknowledged, std::array::from_fn(|t| times[t].len() as u64))
}

/// Stores of a round.
const STORES: u64 = 6;

/// Runs a sample.
pub fn some(visit: &Visit, seed: u64) {
    let seeds: Vec<u64> = (0..STORES).map(|n| seed.wrapping_add(n) % 1_000_000_007).collect();
    visit.each(&seeds, |&seed| one(visit, seed));
}

/// Runs the store of a seed. The timing of its threads differs each time.
pub fn one(visit: &Visit, seed: u64) {
    let durability = [Durability::Buffered, Durability::Process, Durability::Sync][(seed % 3) as usize];
    check(visit, seed, durability);
}

fn check(visit: &Visit, seed: u64, durability: Durability) {
    let mut rng = Rng::new(seed);
    let setup = Setup { layout: visit.layout, ..Setup::random(&mut rng, durability) };
    let (memory, clock, times) = (MemVfs::new(), Arc::new(AtomicU64::new(0)), Arc::new(Times::default()));
    let fault = FaultVfs::over_memory(memory.clone());
    let images: Arc<Mutex<Vec<Image>>> = Arc::default();
    let (taken, seen, count, step) = (images.clone(), times.clone(), AtomicU64::new(0), 5 + rng.below(60));
    let (live, still) = (memory.clone(), Mutex::new(()));
    fault.set_rule(move |call| {
        if call.operation.changes() {
            let _still = still.lock().unwrap();
            if count.fetch_add(1, SeqCst) % step == 0 && taken.lock().unwrap().len() < 25 {
                let (acknowledged, _) = marks(&seen);
                let vfs = live.kill();
                let (_, begun) = marks(&seen);
                taken.lock().unwrap().push(Image { vfs, acknowledged, begun });
            }
        }
        Verdict::Pass
    });
    let db = setup.open(Arc::new(fault.clone())).unwrap();
    let second = db.keyspace_with("second", setup.keyspace()).unwrap();
    std::thread::scope(|scope| {
        for t in 0..THREADS {
            let (db, second, clock, times) = (&db, &second, &clock, &times);
            let mut rng = Rng::new(seed * 100 + t as u64);
            scope.spawn(move || {
                for n in 0..120u64 {
                    let (key, value) = (format!("{:02}-{t}", n % KEYS), format!("{n:08}").repeat(60));
                    times.lock().unwrap()[t].push((clock.fetch_add(1, SeqCst), None));
                    // In both variants the two keyspaces have the same pair in the end.
                    let mut batch = WriteBatch::new();
                    batch.put(&key, &value).keyspace(second).put(&key, &value);
                    db.write(batch).unwrap();
                    times.lock().unwrap()[t][n as usize].1 = Some(clock.fetch_add(1, SeqCst));
                    if rng.below(60) == 0 {
                        db.compact_range(..).unwrap();
                    }
                }
            });
        }
    });
    fault.clear_rule();
    let times = times.lock().unwrap();
    for (index, image) in std::mem::take(&mut *images.lock().unwrap()).into_iter().enumerate() {
        let deaths = [
            (image.vfs.kill(), Death::Process),
            (image.vfs.crash(&CrashPlan::LOSE_UNSYNCED), Death::Power),
            (image.vfs.crash(&CrashPlan::random(rng.next())), Death::Power),
        ];
        for (vfs, death) in deaths {
            let context = format!("CANTLE_TEST_CASE=threads:{seed}, image {index}, {death:?}, {setup:?}");
            let db = setup.open_image(Arc::new(vfs)).unwrap_or_else(|error| panic!("{context}: {error}"));
            let read = |space: &str| -> Vec<(String, String)> {
                let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
                let space = db.keyspace_with(space, setup.keyspace()).unwrap();
                space.range(..).map(|pair| pair.unwrap()).map(|(k, v)| (text(&k), text(&v))).collect()
            };
            let pairs = read("default");
            assert_eq!(pairs, read("second"), "{context}: a batch is there in part");
            // Number of writes of each thread that are there.
            let mut there = [0u64; THREADS];
            for (key, value) in &pairs {
                let t: usize = key[3..].parse().unwrap();
                there[t] = there[t].max(value[..8].parse::<u64>().unwrap() + 1);
            }
            let expected: std::collections::BTreeMap<_, _> = (0..THREADS)
                .flat_map(|t| {
                    (0..there[t]).map(move |n| (format!("{:02}-{t}", n % KEYS), format!("{n:08}").repeat(60)))
                })
                .collect();
            assert!(pairs.iter().cloned().eq(expected), "{context}: a thread's writes are no prefix");
            let kept = match (death, durability) {
                (Death::Power, Durability::Sync) => true,
                (Death::Process, durability) => durability != Durability::Buffered,
                _ => false,
            };
            for t in 0..THREADS {
                assert!(there[t] <= image.begun[t], "{context}");
                assert!(
                    !kept || there[t] >= image.acknowledged[t],
                    "{context}: {there:?} of {:?}",
                    image.acknowledged
                );
                let Some(last) = there[t].checked_sub(1) else { continue };
                let began = times[t][last as usize].0;
                for other in 0..THREADS {
                    let missing = times[other].get(there[other] as usize).and_then(|(_, end)| *end);
                    assert!(
                        missing.is_none_or(|end| end > began),
                        "{context}: write {last} of thread {t} is there, but not {} of {other}, which ended before",
                        there[other]
                    );
                }
            }
            visit.count("states of several writers", 1);
        }
    }
}
