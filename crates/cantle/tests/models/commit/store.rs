//! The store of the model of commits: writes from their preparation to their acknowledgement, in
//! the order of `db/write.rs`.

use super::commit::Announceable;
use crate::layout::{Log, Op, PreparedWrite, Write};
use crate::model::disk::{Change, Disk, KEYSPACES, LOGS, Outcome, PLACES, bounds_of};
use crate::model::{Done, Fault, count};
use crate::substrate::Substrate;
use crate::sync::Arc;
use crate::types::durability::Durability;
use crate::types::entry::Kind;

pub struct Store {
    pub substrate: Arc<Substrate>,
    pub logs: [Arc<Log>; LOGS],
    pub disk: Arc<Disk>,
    pub fault: Fault,
}

impl Store {
    pub fn new(durability: Durability, fault: Fault) -> Self {
        let disk = Arc::new(Disk::new(durability, fault));
        Self {
            substrate: Arc::new(Substrate::new(&disk, durability, fault)),
            logs: std::array::from_fn(|index| Arc::new(Log::new(index, disk.clone()))),
            disk,
            fault,
        }
    }

    pub fn write(&self, change: Change, durability: Option<Durability>, done: &Done) {
        let write = self.disk.begin(change);
        let outcome = self.try_write(write, change, durability, done);
        let counter = match outcome {
            Outcome::Acknowledged(_) | Outcome::Shown => &done.committed,
            Outcome::Failed => &done.failed,
            Outcome::Doubtful => &done.doubtful,
        };
        count(counter, true);
        self.disk.end(write, outcome);
    }

    fn try_write(
        &self,
        write: usize,
        change: Change,
        durability: Option<Durability>,
        done: &Done,
    ) -> Outcome {
        if self.substrate.health.check_writable().is_err() {
            return Outcome::Failed;
        }
        let (value, bounds) = (write.to_be_bytes(), bounds_of(write, change));
        let keyspaces: Vec<u32> = (0..KEYSPACES).filter(|keyspace| change.is_in(*keyspace)).collect();
        let ops: Vec<Vec<Op<'_>>> = keyspaces
            .iter()
            .map(|&keyspace| match &bounds {
                Some(bounds) => {
                    vec![Op { kind: Kind::DeleteRange, key: &[], value: &[], bounds: Some(bounds) }]
                }
                None => {
                    let places = PLACES.iter().enumerate();
                    let written = places.filter(|(index, place)| {
                        place.keyspace == keyspace && change.places & (1 << index) != 0
                    });
                    written
                        .map(|(_, place)| Op { kind: Kind::Put, key: place.key, value: &value, bounds: None })
                        .collect()
                }
            })
            .collect();
        // In this order, as everywhere.
        let mut prepared: Vec<_> =
            keyspaces.iter().map(|&keyspace| Write::prepare(self, keyspace, write, change)).collect();
        let logs: usize = prepared.iter().map(|write| write.logs()).sum();
        let mut writes: Vec<Announceable<'_, '_>> = prepared
            .iter_mut()
            .zip(keyspaces.iter().zip(&ops))
            .map(|(write, (&keyspace, ops))| -> Announceable<'_, '_> { (write, keyspace, ops) })
            .collect();
        let committed = self.commit(&mut writes, durability);
        drop(writes);
        let is_doubtful = prepared.iter().any(Write::is_doubtful);
        drop(prepared);
        let Ok(lsn) = committed else {
            return if is_doubtful { Outcome::Doubtful } else { Outcome::Failed };
        };
        count(&done.spanning, logs > 1);
        count(&done.journaled, lsn.is_some());
        match self.acknowledge(lsn, durability) {
            Ok(()) => {
                let least = self.substrate.durability;
                Outcome::Acknowledged(durability.unwrap_or(least).max(least))
            }
            Err(_) => Outcome::Shown,
        }
    }
}
