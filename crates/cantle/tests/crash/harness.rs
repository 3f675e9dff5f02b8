//! Stores whose every step is recorded, crash images of them, and the check of what an image holds.

use crate::workload::{self, Op, Rng, State};
use cantle::vfs::{Call, FaultVfs, MemVfs, Verdict};
use cantle::{Db, Durability, KeyspaceOptions, Options};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const STORE: &str = "/store";

pub fn factor() -> u64 {
    std::env::var("CANTLE_TEST_FACTOR").ok().and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// How a store is opened.
#[derive(Debug, Clone)]
pub struct Setup {
    pub durability: Durability,
    pub checkpoint_interval: Duration,
    pub chunk_bytes: u64,
    pub log_bytes: u64,
    pub log_index: bool,
    pub threads: usize,
}

impl Setup {
    pub fn random(rng: &mut Rng, durability: Durability) -> Self {
        let intervals = [Duration::ZERO, Duration::from_millis(30), Duration::from_secs(3600)];
        Self {
            durability,
            checkpoint_interval: intervals[rng.below(3) as usize],
            chunk_bytes: 64 << 10,
            log_bytes: [4096, 16 << 10, 64 << 10][rng.below(3) as usize],
            log_index: rng.below(4) > 0,
            threads: 1 + rng.below(2) as usize,
        }
    }

    pub fn keyspace(&self) -> KeyspaceOptions {
        KeyspaceOptions::new()
            .chunk_bytes(self.chunk_bytes)
            .log_bytes(self.log_bytes)
            .log_index(self.log_index)
            .filter_partitions(4)
    }

    pub fn options(&self, vfs: Arc<dyn cantle::vfs::Vfs>) -> Options {
        Options::new()
            .vfs(vfs)
            .memory_budget(4 << 20)
            .background_threads(self.threads)
            .durability(self.durability)
            .checkpoint_interval(self.checkpoint_interval)
            .default_keyspace(self.keyspace())
    }

    pub fn open(&self, vfs: Arc<dyn cantle::vfs::Vfs>) -> cantle::Result<Db> {
        self.options(vfs).open(STORE)
    }
}

/// How far a workload has come, in operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marks {
    /// Returned, and everything before it durable.
    pub durable: u64,
    /// Returned.
    pub acknowledged: u64,
    /// Begun.
    pub begun: u64,
}

#[derive(Default)]
pub struct Progress {
    durable: AtomicU64,
    acknowledged: AtomicU64,
    begun: AtomicU64,
}

impl Progress {
    pub fn at(operations: u64, durable: u64) -> Arc<Self> {
        Arc::new(Self { durable: durable.into(), acknowledged: operations.into(), begun: operations.into() })
    }

    pub fn begin(&self) {
        self.begun.fetch_add(1, SeqCst);
    }

    pub fn finish(&self, durable: bool) {
        let done = self.acknowledged.fetch_add(1, SeqCst) + 1;
        if durable {
            self.durable.store(done, SeqCst);
        }
    }

    pub fn now(&self) -> Marks {
        let (durable, acknowledged) = (self.durable.load(SeqCst), self.acknowledged.load(SeqCst));
        Marks { durable, acknowledged, begun: self.begun.load(SeqCst) }
    }
}

/// What stood in memory when a call was about to change something.
pub struct Image {
    pub vfs: MemVfs,
    pub marks: Marks,
    pub at: String,
}

/// Takes an image before every `step`th call that changes something, `limit` at most.
pub fn record(
    fault: &FaultVfs,
    memory: &MemVfs,
    progress: &Arc<Progress>,
    step: u64,
    limit: usize,
) -> Images {
    let images: Images = Arc::default();
    let (taken, memory, progress, count) =
        (images.clone(), memory.clone(), progress.clone(), AtomicU64::new(step / 2));
    // Nothing changes while an image is taken, but for the one call of each thread that has passed already.
    let still = Mutex::new(());
    fault.set_rule(move |call: &Call<'_>| {
        if !call.operation.changes() {
            return Verdict::Pass;
        }
        let _still = still.lock().unwrap();
        if count.fetch_add(1, SeqCst) % step == 0 {
            let before = progress.now();
            let vfs = memory.kill();
            let marks = Marks { begun: progress.now().begun, ..before };
            let mut images = taken.lock().unwrap();
            if images.len() < limit {
                let at = format!("{:?} {} at {}", call.operation, call.path.display(), call.offset);
                images.push(Image { vfs, marks, at });
            }
        }
        Verdict::Pass
    });
    images
}

pub type Images = Arc<Mutex<Vec<Image>>>;

/// What died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Death {
    Power,
    Process,
}

/// The states that a workload went through: one more than there were operations.
#[derive(Clone)]
pub struct History {
    pub states: Vec<State>,
}

impl History {
    pub fn new() -> Self {
        Self { states: vec![State::from([("default".into(), Default::default())])] }
    }

    pub fn now(&self) -> &State {
        self.states.last().unwrap()
    }

    pub fn push(&mut self, op: &Op) {
        let mut state = self.now().clone();
        workload::apply(&mut state, op);
        self.states.push(state);
    }

    /// Checks that a state is that after some operations, as many as was promised; returns how many.
    pub fn check(
        &self,
        found: &State,
        marks: Marks,
        death: Death,
        durability: Durability,
    ) -> Result<u64, String> {
        let low = match (death, durability) {
            (Death::Power, Durability::Sync) | (Death::Process, Durability::Process | Durability::Sync) => {
                marks.acknowledged
            }
            _ => marks.durable,
        };
        let high = marks.begun.min(self.states.len() as u64 - 1);
        if let Some(k) = (low..=high).rev().find(|&k| self.states[k as usize] == *found) {
            return Ok(k);
        }
        match (0..self.states.len()).rev().find(|&k| self.states[k] == *found) {
            Some(k) => Err(format!(
                "found the state after {k} operations, promised were {low} to {high}; {marks:?}{}",
                workload::difference(found, &self.states[low as usize])
            )),
            None => {
                let nearest = (low..=high)
                    .map(|k| (workload::difference(found, &self.states[k as usize]), k))
                    .min_by_key(|(text, _)| text.lines().count());
                let (text, k) = nearest.unwrap_or_default();
                Err(format!("found no state of any moment; {marks:?}; from {k} it differs by{text}"))
            }
        }
    }
}

/// Opens an image and checks what it holds; returns the store and how many operations it has.
pub fn try_reopen(
    setup: &Setup,
    vfs: Arc<dyn cantle::vfs::Vfs>,
    history: &History,
    marks: Marks,
    death: Death,
) -> Result<(Db, u64), String> {
    let db = setup.open(vfs).map_err(|error| format!("cannot reopen after {death:?}: {error}"))?;
    let found =
        workload::contents(&db, &setup.keyspace()).map_err(|error| format!("cannot read: {error}"))?;
    let k = history.check(&found, marks, death, setup.durability)?;
    Ok((db, k))
}
