//! Queues: threads insert pairs and others pop them from both ends, and the store is closed amid
//! them.

use super::support::{Course, StopOnDrop, dir, number, options, shake, value};
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::{Db, Durability, Error};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::Duration;

const PRODUCERS: usize = 2;
/// Threads that pop; every third one from the back.
const POPPERS: usize = 3;

/// The key of a producer's pair. Its keys ascend, so its pairs leave the front in their order.
fn key(producer: usize, number: u64) -> String {
    format!("c{number:08}/{producer}")
}

/// The length of the queue, roughly. In a short queue the ends meet, in a long one there are chunks.
struct Length {
    now: AtomicI64,
    most: i64,
    stop: AtomicBool,
}

impl Length {
    /// Waits for pops while the queue is too long.
    fn wait(&self) {
        while self.now.load(SeqCst) >= self.most && !self.stop.load(SeqCst) {
            std::thread::yield_now();
        }
        self.now.fetch_add(1, SeqCst);
    }
}

/// Inserts numbered pairs until the store is closed. Returns the number of the first pair that was
/// not acknowledged, which may have been inserted.
fn insert_until_closed(db: &Db, producer: usize, first: u64, length: &Length, mut rng: Rng) -> u64 {
    for next in first.. {
        length.wait();
        match db.insert_if_absent(key(producer, next), value(next, &mut rng)) {
            Ok(is_new) => assert!(is_new, "{} was there", key(producer, next)),
            Err(Error::Closed) => return next,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("a store is closed before the numbers end")
}

/// Pops pairs until the store is closed. Returns their keys. One more may have been popped.
fn pop_until_closed(db: &Db, is_back: bool, length: &Length) -> Vec<String> {
    let mut popped = Vec::new();
    // The last number of each producer's that left the front.
    let mut last: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        match if is_back { db.pop_last() } else { db.pop_first() } {
            Ok(None) => std::thread::yield_now(),
            Ok(Some((key, value))) => {
                length.now.fetch_sub(1, SeqCst);
                let key = String::from_utf8(key.to_vec()).unwrap();
                let (count, producer) = key[1..].split_once('/').unwrap();
                let count: u64 = count.parse().unwrap();
                assert_eq!(number(&value), count, "{key} has the value of another key");
                if !is_back {
                    let before = last.insert(producer.to_owned(), count);
                    assert!(before < Some(count), "{key} left the front after {before:?}");
                }
                popped.push(key);
            }
            Err(Error::Closed) => return popped,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Each pair is popped once, from the front in order, and neither an insertion nor a pop that was
/// acknowledged is missing after the store was closed amid them.
pub fn each_pair_of_a_queue_is_popped_once(visit: &Visit, seed: u64) {
    let mut rng = Rng::new(seed);
    for durability in [Durability::Process, Durability::Buffered, Durability::Sync] {
        let dir = dir();
        let path = dir.path().join("store");
        let mut next = [0_u64; PRODUCERS];
        let mut there: BTreeSet<String> = BTreeSet::new();
        let (mut pops, course) = (0, Course::new(visit, 1000));
        while course.goes_on(|| pops > 0) {
            let db = options(visit, durability, &mut rng).open(&path).unwrap();
            let most = if rng.below(2) == 0 { 3 } else { i64::MAX };
            let length =
                Length { now: AtomicI64::new(there.len() as i64), most, stop: AtomicBool::new(false) };
            let pause = Duration::from_millis(20 + rng.below(100));
            let (first, mut popped) = (next, Vec::new());
            std::thread::scope(|scope| {
                let producers: Vec<_> = (0..PRODUCERS)
                    .map(|producer| {
                        let (db, length, rng) = (&db, &length, rng.fork());
                        scope.spawn(move || insert_until_closed(db, producer, first[producer], length, rng))
                    })
                    .collect();
                let poppers: Vec<_> = (0..POPPERS)
                    .map(|popper| {
                        let (db, length) = (&db, &length);
                        scope.spawn(move || pop_until_closed(db, popper % 3 == 2, length))
                    })
                    .collect();
                let shaking = rng.fork();
                let shaker = scope.spawn(|| shake(&db, shaking, &length.stop));
                std::thread::sleep(pause);
                drop(StopOnDrop(&length.stop));
                // A closed store ends the other threads, also after a finding.
                let shaken = shaker.join();
                let closed = db.close();
                shaken.unwrap();
                closed.unwrap();
                for (next, producer) in next.iter_mut().zip(producers) {
                    *next = producer.join().unwrap();
                }
                popped.extend(poppers.into_iter().flat_map(|popper| popper.join().unwrap()));
            });
            for producer in 0..PRODUCERS {
                there.extend((first[producer]..next[producer]).map(|number| key(producer, number)));
            }
            let mut doubtful: BTreeSet<String> =
                (0..PRODUCERS).map(|producer| key(producer, next[producer])).collect();
            for key in &popped {
                assert!(there.remove(key) || doubtful.remove(key), "{key} was popped twice; {durability:?}");
            }
            let db = options(visit, durability, &mut rng).open(&path).unwrap();
            let left = db.range(..).map(|pair| String::from_utf8(pair.unwrap().0.to_vec()).unwrap());
            let left: BTreeSet<String> = left.collect();
            let back: Vec<_> = left.difference(&there).filter(|key| !doubtful.contains(*key)).collect();
            assert!(back.is_empty(), "{back:?} came back; {durability:?}");
            let lost: Vec<_> = there.difference(&left).collect();
            assert!(lost.len() <= POPPERS, "{lost:?} are lost; {durability:?}");
            there = left;
            // The doubtful pairs are not inserted again.
            next.iter_mut().for_each(|next| *next += 1);
            pops += popped.len() as u64;
        }
        assert!(pops > 0, "nothing was popped");
        visit.count("pairs popped", pops);
    }
}
