//! The row cache with files that change: the library's own, with two stripes and room for a few
//! rows. A file is a number in a lock, and the value of a row is that number repeated.

use crate::rows::{RowCache, Rows};
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::thread::{spawn, yield_now};
use crate::sync::{Arc, Mutex};
use std::convert::Infallible;

const KEYS: usize = 2;
/// Four values fill a segment of 16 KiB, and there are four segments.
const VALUE_BYTES: usize = 3_900;
const CAPACITY_BYTES: u64 = 70 << 10;

/// An omitted mechanism, which the model must notice.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Puts do not enter and leave the stripe.
    DoesNotMark,
    /// A get takes its stamp after it has read the file.
    StampsLate,
    /// Puts mark their stripe, but update the row without the key's lock.
    UpdatesUnlocked,
}

struct Store {
    rows: Rows,
    cache: Arc<RowCache>,
    files: [Mutex<u64>; KEYS],
    completed: [AtomicU64; KEYS],
    fault: Fault,
}

/// Keys of one stripe (the hashes' upper bits are equal), and of one shard.
fn hash(key: usize) -> u64 {
    (key as u64) << 16
}

fn key(key: usize) -> [u8; 1] {
    [key as u8]
}

/// Lengths depend on the number, so that some values fit in the place of the old one and others do
/// not.
fn value(number: u64) -> Vec<u8> {
    vec![number as u8; VALUE_BYTES - (number as usize * 7 % 5) * 500]
}

impl Store {
    fn put(&self, at: usize) {
        let mut file = self.files[at].lock();
        let stripe = self.rows.of_key(hash(at));
        if self.fault != Fault::DoesNotMark {
            stripe.enter();
        }
        *file += 1;
        let number = *file;
        let mut file = Some(file);
        if self.fault != Fault::DoesNotMark {
            // The write is visible before the stripe is left, and the lock is held until the row is
            // replaced.
            yield_now();
            stripe.leave();
        }
        if self.fault == Fault::UpdatesUnlocked {
            file = None;
            yield_now();
        }
        self.rows.update(&key(at), hash(at), &value(number));
        drop(file);
        self.completed[at].fetch_max(number, SeqCst);
    }

    fn get(&self, at: usize) -> u64 {
        let read = || *self.files[at].lock();
        if self.fault == Fault::StampsLate {
            return self.get_with_late_stamp(at, read);
        }
        let read = || Ok::<_, Infallible>(Some(read()).filter(|&number| number > 0).map(|n| value(n).into()));
        let Ok(row) = self.rows.get_or_read(&key(at), hash(at), read);
        row.map_or(0, |row| {
            let number = u64::from(row[0]);
            yield_now();
            assert_eq!(&*row, value(number), "what is lent changed");
            number
        })
    }

    fn get_with_late_stamp(&self, at: usize, read: impl Fn() -> u64) -> u64 {
        if let Some(row) = self.rows.get(&key(at), hash(at)) {
            return u64::from(row[0]);
        }
        let number = read();
        if let (Some(stamp), true) = (self.rows.stamp(hash(at)), number > 0) {
            self.rows.insert(&key(at), hash(at), stamp, &value(number));
        }
        number
    }
}

fn store(fault: Fault) -> Arc<Store> {
    let cache = Arc::new(RowCache::with_stripes(CAPACITY_BYTES, 2));
    Arc::new(Store {
        rows: Rows::new(cache.clone()),
        cache,
        files: [Mutex::new(1), Mutex::new(1)],
        completed: [AtomicU64::new(1), AtomicU64::new(1)],
        fault,
    })
}

/// One thread puts, another gets twice.
///
/// Holds: a get finds every put that returned before it began, and never less than a get before it.
pub fn a_put_and_gets(fault: Fault) {
    let store = store(fault);
    let putting = {
        let store = store.clone();
        spawn(move || store.put(0))
    };
    let mut last = 0;
    for _ in 0..2 {
        let completed = store.completed[0].load(SeqCst);
        let number = store.get(0);
        assert!(number >= completed.max(last), "a row of before");
        last = number;
    }
    putting.join().unwrap_or_else(|_| panic!("a thread of the model failed"));
    assert_eq!(store.get(0), 2, "a row of before");
}

/// The change of a row while a reader holds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lending {
    /// It is put again, with a value that fits in the place of the old one.
    Overwritten,
    /// The cache loses its memory.
    Evicted,
}

/// A row is evicted or overwritten while a reader holds it.
///
/// Holds: the row's bytes do not change, and the memory is charged until the reader releases it.
/// With `holds` off the reader releases the row before it reads.
pub fn a_row_is_lent(lending: Lending, holds: bool) {
    let store = store(Fault::None);
    // Shorter values follow.
    *store.files[0].lock() = 5;
    store.get(0);
    let changing = {
        let store = store.clone();
        spawn(move || match lending {
            Lending::Overwritten => {
                store.put(0);
                store.put(0);
            }
            Lending::Evicted => store.cache.set_capacity_bytes(0),
        })
    };
    if let Some(row) = store.rows.get(&key(0), hash(0)) {
        let (seen, number) = (crate::memory::pages::Seen::of(&row), u64::from(row[0]));
        assert_eq!(*row, value(number), "what is lent is no value");
        let row = Some(row).filter(|_| holds);
        // Steps, so that other threads can run.
        store.completed[0].load(SeqCst);
        assert!(store.cache.used_bytes() > 0 || !holds, "memory that is lent does not count");
        assert_eq!(seen.now(), value(number), "what is lent changed");
        drop(row);
    }
    changing.join().unwrap_or_else(|_| panic!("a thread of the model failed"));
}

/// Two threads put, to both keys in turns, `puts` times each; another gets them, and one fills the
/// cache with other rows and changes its size.
///
/// Holds: a get finds every put that returned before it began, and never less than a get before it;
/// rows that readers hold do not change.
pub fn puts_gets_and_evictions(puts: usize, gets: usize, fault: Fault) {
    let store = store(fault);
    let mut threads: Vec<_> = (0..KEYS)
        .map(|at| {
            let store = store.clone();
            spawn(move || (0..puts).for_each(|put| store.put((at + put) % KEYS)))
        })
        .collect();
    threads.push({
        let store = store.clone();
        spawn(move || {
            for other in 10..20 {
                if let Some(stamp) = store.rows.stamp(hash(other)) {
                    store.rows.insert(&key(other), hash(other), stamp, &value(other as u64));
                }
                if other % 4 == 0 {
                    store.cache.set_capacity_bytes(CAPACITY_BYTES / (1 + other as u64 / 4 % 2));
                }
            }
        })
    });
    let mut last = [0; KEYS];
    for get in 0..gets {
        let at = get % KEYS;
        let completed = store.completed[at].load(SeqCst);
        let number = store.get(at);
        assert!(number >= completed.max(last[at]), "a row of before");
        last[at] = number;
    }
    for thread in threads {
        thread.join().unwrap_or_else(|_| panic!("a thread of the model failed"));
    }
    for at in 0..KEYS {
        assert_eq!(store.get(at), 1 + puts as u64, "a row of before");
        assert_eq!(store.get(at), 1 + puts as u64, "a row of before");
    }
}
