//! Turns: threads that repeat one operation over keys that were drawn before.
//!
//! Keys are drawn before the clock starts, since drawing one costs about as much as finding it in a
//! map. All sides of a round get the same keys in the same order; a thread that has used all of its
//! keys begins again with the first.

use crate::failure::{Failure, Result};
use crate::measure::process::thread_cpu_time;
use cantle_workloads::generator::{Chooser, Random};
use cantle_workloads::records::{self, KEY_BYTES};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// A record's key.
pub type Key = [u8; KEY_BYTES];

/// The keys of one round, separately for each thread.
pub struct Keys(Vec<Vec<Key>>);

impl Keys {
    /// Draws `counts` keys for each thread; `round` has random streams of its own.
    pub fn draw(chooser: &Chooser, records: u64, counts: &[u64], seed: u64, round: u64) -> Self {
        let draw = |thread: usize| {
            let mut random = Random::stream(Random::stream(seed, round).bits(), thread as u64);
            let mut chooser = chooser.clone();
            (0..counts[thread]).map(|_| records::key(chooser.next(&mut random, records))).collect()
        };
        Self((0..counts.len()).map(draw).collect())
    }
}

/// The length of a turn.
#[derive(Debug, Clone, Copy)]
pub enum Length {
    /// Repeats the keys for this time.
    Time(Duration),
    /// Uses each key once.
    Once,
}

/// The rows that one thread has read, and a sum over them that prevents the compiler from removing
/// a read.
#[derive(Debug, Default)]
pub struct Touched {
    rows: u64,
    sum: u64,
}

impl Touched {
    /// Reads the value's first and last byte: its two outer cache lines, without a copy.
    #[inline]
    pub fn value(&mut self, value: &[u8]) {
        if let [first, .., last] = value {
            self.sum = self.sum.wrapping_add(u64::from(*first) + u64::from(*last));
        }
        self.rows += 1;
    }
}

/// Counts of one turn.
#[derive(Debug, Clone, Copy)]
pub struct Turn {
    /// Operations of all threads.
    pub operations: u64,
    /// Rows that they read.
    pub rows: u64,
    /// The time of the slowest thread.
    pub took: Duration,
    /// Processor time of all threads while they ran operations.
    pub cpu: Duration,
}

impl Turn {
    /// Operations of all threads per second.
    pub fn operations_per_s(&self) -> f64 {
        self.operations as f64 / self.took.as_secs_f64().max(1e-9)
    }

    /// Processor time of one operation, in nanoseconds.
    pub fn cpu_ns_per_operation(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.operations.max(1) as f64
    }
}

/// Number of operations between two reads of the clock.
const BATCH: usize = 64;

/// Runs one turn. `prepare` makes the operation of a thread, with the thread's own state.
pub fn turn<O>(keys: &Keys, length: Length, prepare: impl Fn(usize) -> O + Sync) -> Result<Turn>
where
    O: FnMut(&Key, &mut Touched) -> Result,
{
    let barrier = Barrier::new(keys.0.len());
    let work = |thread: usize, keys: &[Key]| -> Result<Turn> {
        let mut operation = prepare(thread);
        let mut touched = Touched::default();
        let mut operations = 0;
        barrier.wait();
        let (start, cpu) = (Instant::now(), thread_cpu_time());
        'turn: loop {
            for batch in keys.chunks(BATCH) {
                for key in batch {
                    operation(key, &mut touched)?;
                }
                operations += batch.len() as u64;
                if matches!(length, Length::Time(time) if start.elapsed() >= time) {
                    break 'turn;
                }
            }
            if matches!(length, Length::Once) || keys.is_empty() {
                break;
            }
        }
        let (took, cpu) = (start.elapsed(), thread_cpu_time() - cpu);
        black_box(touched.sum);
        Ok(Turn { operations, rows: touched.rows, took, cpu })
    };
    std::thread::scope(|scope| {
        let work = &work;
        let threads: Vec<_> =
            keys.0.iter().enumerate().map(|(thread, keys)| scope.spawn(move || work(thread, keys))).collect();
        let mut sum = Turn { operations: 0, rows: 0, took: Duration::ZERO, cpu: Duration::ZERO };
        for thread in threads {
            let turn = thread.join().unwrap_or_else(|_| Err(Failure::new("a thread of a turn panicked")))?;
            sum.operations += turn.operations;
            sum.rows += turn.rows;
            sum.cpu += turn.cpu;
            sum.took = sum.took.max(turn.took);
        }
        Ok(sum)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle_workloads::generator::Distribution;

    #[test]
    fn every_key_has_its_turn_and_time_ends_it() {
        let chooser = Chooser::new(Distribution::Uniform, 50, 0.99, 1);
        let keys = Keys::draw(&chooser, 50, &[100, 30], 1, 1);
        assert_eq!(keys.0.iter().map(Vec::len).collect::<Vec<_>>(), [100, 30]);
        let operation = |_| {
            |key: &Key, touched: &mut Touched| -> Result {
                touched.value(key);
                Ok(())
            }
        };
        let once = turn(&keys, Length::Once, operation).unwrap();
        assert_eq!((once.operations, once.rows), (130, 130));
        let timed = turn(&keys, Length::Time(Duration::from_millis(20)), operation).unwrap();
        assert!(timed.operations > 130 && timed.took >= Duration::from_millis(20), "{timed:?}");
        let none = Keys::draw(&chooser, 50, &[0], 1, 1);
        assert_eq!(turn(&none, Length::Time(Duration::MAX), operation).unwrap().operations, 0);
    }
}
