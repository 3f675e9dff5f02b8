//! The chunks in memory that share a budget (`budget/residents.rs`) in every interleaving: while
//! other threads load, rank and evict, every chunk in memory can be evicted, and evicting it twice
//! does no harm.
//!
//! The wrong twin registers a chunk before it is in memory, and a ranking then removes it for good.
#![expect(dead_code, reason = "the model uses a part of the module under test")]

#[path = "../src/budget/residents.rs"]
mod residents;

/// Loom's version of the items of `cantle::sync` that the module under test uses.
mod sync {
    pub struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self(loom::sync::Mutex::new(T::default()))
        }
    }

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
        }

        pub(crate) fn try_lock(&self) -> Option<loom::sync::MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    /// No wait is measured.
    pub(crate) mod waits {
        pub(crate) enum Cause {
            Allocation,
        }

        pub(crate) fn timed<T>(_: Cause, act: impl FnOnce() -> T) -> T {
            act()
        }
    }
}

use loom::sync::atomic::{AtomicU64, Ordering::SeqCst};
use loom::thread::spawn;
use residents::{Rank, Resident, Residents, Usage};
use std::sync::Arc;

const LIMIT: u64 = 100;
const MUNK_BYTES: u64 = 40;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Twin {
    Library,
    ToldBefore,
}

/// A budget with chunks, by their numbers.
struct Memory {
    twin: Twin,
    residents: Residents,
    taken: AtomicU64,
    chunks: [Chunk; 2],
}

#[derive(Default)]
struct Chunk {
    /// Held by the thread that loads, writes or evicts.
    writer: sync::Mutex<()>,
    munk_bytes: AtomicU64,
}

struct InMemory(Arc<Memory>, usize);

impl Usage for Memory {
    fn limit(&self) -> u64 {
        LIMIT
    }

    fn load_limit(&self) -> u64 {
        LIMIT
    }

    fn taken(&self) -> u64 {
        self.taken.load(SeqCst)
    }

    fn loading(&self) -> u64 {
        0
    }

    fn excess(&self) -> u64 {
        self.taken().saturating_sub(LIMIT / 2)
    }
}

/// A usage without room.
struct NoRoom<'a>(&'a Memory);

impl Usage for NoRoom<'_> {
    fn limit(&self) -> u64 {
        0
    }

    fn load_limit(&self) -> u64 {
        0
    }

    fn taken(&self) -> u64 {
        self.0.taken()
    }

    fn loading(&self) -> u64 {
        0
    }

    fn excess(&self) -> u64 {
        self.0.taken()
    }
}

impl Resident for InMemory {
    fn id(&self) -> usize {
        self.1
    }

    fn rank(&self) -> Option<Rank> {
        let bytes = self.0.chunks[self.1].munk_bytes.load(SeqCst);
        (bytes > 0).then_some(Rank { is_busy: false, score: self.1 as u64, bytes })
    }

    fn evict(&self) {
        let (memory, chunk) = (&self.0, &self.0.chunks[self.1]);
        let Some(_writer) = chunk.writer.try_lock() else { return };
        let bytes = chunk.munk_bytes.load(SeqCst);
        chunk.munk_bytes.store(0, SeqCst);
        memory.taken.fetch_sub(bytes, SeqCst);
    }
}

fn load(memory: &Arc<Memory>, number: usize) {
    if !memory.residents.admits(&**memory, MUNK_BYTES, |score| score < number as u64) {
        return;
    }
    let chunk = &memory.chunks[number];
    let _writer = chunk.writer.lock();
    if chunk.munk_bytes.load(SeqCst) > 0 {
        return;
    }
    let add = || memory.residents.add(Box::new(InMemory(memory.clone(), number)));
    let store = || {
        memory.taken.fetch_add(MUNK_BYTES, SeqCst);
        chunk.munk_bytes.store(MUNK_BYTES, SeqCst);
    };
    if memory.twin == Twin::ToldBefore {
        add();
        store();
    } else {
        store();
        add();
    }
}

fn run(twin: Twin, threads: &'static [fn(&Arc<Memory>)]) {
    loom::model(move || {
        let memory = Arc::new(Memory {
            twin,
            residents: Residents::default(),
            taken: AtomicU64::new(0),
            chunks: Default::default(),
        });
        load(&memory, 0);
        let threads: Vec<_> = threads
            .iter()
            .map(|act| {
                let memory = memory.clone();
                spawn(move || act(&memory))
            })
            .collect();
        threads.into_iter().for_each(|thread| {
            let _ = thread.join();
        });
        let in_memory: u64 = memory.chunks.iter().map(|chunk| chunk.munk_bytes.load(SeqCst)).sum();
        assert_eq!(memory.taken(), in_memory, "what was taken is counted once");
        // Twice, as a ranking may serve two uses.
        memory.residents.evict(&NoRoom(&memory));
        memory.residents.evict(&NoRoom(&memory));
        assert_eq!(memory.taken(), 0, "whoever is in memory can be evicted");
        // Chunks in the list keep the budget alive.
        memory.residents.add(Box::new(Nobody));
    });
}

/// A resident without a munk. Adding it makes the list drop the evicted chunks.
struct Nobody;

impl Resident for Nobody {
    fn id(&self) -> usize {
        usize::MAX
    }

    fn rank(&self) -> Option<Rank> {
        None
    }

    fn evict(&self) {}
}

fn evict(memory: &Arc<Memory>) {
    memory.residents.evict(&NoRoom(memory));
}

#[test]
fn chunks_that_are_loaded_and_evicted_at_once_are_lost_to_nobody() {
    run(Twin::Library, &[|memory| load(memory, 1), evict]);
    run(Twin::Library, &[|memory| load(memory, 0), evict]);
    run(Twin::Library, &[evict, evict]);
}

#[test]
fn one_makes_way_for_another_while_it_comes_back() {
    run(Twin::Library, &[|memory| load(memory, 1), |memory| load(memory, 0)]);
}

#[test]
#[should_panic(expected = "whoever is in memory can be evicted")]
fn a_chunk_that_is_told_of_before_it_is_in_memory_stays_for_ever() {
    run(Twin::ToldBefore, &[|memory| load(memory, 1), evict]);
}
