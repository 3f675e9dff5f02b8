//! The states that a store may hold after a crash: one of those that the workload went through, and
//! no older than promised.

use crate::setup::Setup;
use crate::workload::{self, Op, State};
use cantle::vfs::Vfs;
use cantle::{Db, Durability};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Progress of a workload, as numbers of operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Marks {
    /// Operations that have returned and are durable, with all operations before them.
    pub durable: u64,
    /// Operations that have returned.
    pub acknowledged: u64,
    /// Operations that have begun.
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

    /// The store was closed, so all acknowledged operations are durable.
    pub fn all_is_durable(&self) {
        self.durable.store(self.acknowledged.load(SeqCst), SeqCst);
    }

    pub fn now(&self) -> Marks {
        let (durable, acknowledged) = (self.durable.load(SeqCst), self.acknowledged.load(SeqCst));
        Marks { durable, acknowledged, begun: self.begun.load(SeqCst) }
    }
}

/// The component that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Death {
    Power,
    Process,
}

/// The states that a workload went through. Their number is one more than that of the operations.
#[derive(Debug, Clone)]
pub struct History {
    pub states: Vec<State>,
}

impl Default for History {
    /// The history of a fresh store.
    fn default() -> Self {
        Self { states: vec![State::from([("default".into(), Default::default())])] }
    }
}

impl History {
    pub fn now(&self) -> &State {
        self.states.last().unwrap()
    }

    pub fn push(&mut self, op: &Op) {
        let mut state = self.now().clone();
        workload::apply(&mut state, op);
        self.states.push(state);
    }

    /// Checks that a state is one after some number of operations, at least as many as were
    /// promised. Returns this number.
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

/// Opens an image and checks its contents. Returns the store and its number of operations.
pub fn try_reopen(
    setup: &Setup,
    vfs: Arc<dyn Vfs>,
    history: &History,
    marks: Marks,
    death: Death,
) -> Result<(Db, u64), String> {
    let db = setup.open_image(vfs).map_err(|error| format!("cannot reopen after {death:?}: {error}"))?;
    let found =
        workload::contents(&db, &setup.keyspace()).map_err(|error| format!("cannot read: {error}"))?;
    let k = history.check(&found, marks, death, setup.durability)?;
    Ok((db, k))
}
