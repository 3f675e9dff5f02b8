//! The work of a child process with one store.

use crate::engine::{Durability, Settings, Spec};
use cantle_workloads::analytics::Shape;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::Sizes;
use cantle_workloads::workload::Workload;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The whole work of a child: open, run the steps, close.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine.
    pub engine: Spec,
    /// The settings with which it is opened.
    pub settings: Settings,
    /// The steps, in this order.
    pub steps: Vec<Step>,
    /// Sizes of keys and values, except of the analytics trace and of recorded traces.
    pub sizes: Sizes,
    /// Threads that run operations.
    pub threads: u64,
    /// The longest time of a measured step.
    pub seconds_max: f64,
    /// The longest time of a step that only writes.
    pub writing_seconds_max: f64,
    /// Seed of everything random; the same for every engine.
    pub seed: u64,
    /// True if the child waits to be killed instead of closing the store.
    pub hold: bool,
}

impl Job {
    /// The longest time of a step.
    pub fn longest(&self, step: &Step) -> Duration {
        // Synced writes take as long as a sync, and leave no deferred work.
        let piles_up = step.only_writes() && self.settings.durability != Durability::Sync;
        Duration::from_secs_f64(if piles_up { self.writing_seconds_max } else { self.seconds_max })
    }
}

/// One step. Those with a name are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Put this number of records in key order, and sync. Not measured.
    Load {
        /// Records.
        records: u64,
    },
    /// Run a workload.
    Run {
        /// The name under which it is reported.
        name: String,
        /// The mix of operations.
        workload: Workload,
        /// The distribution of the records that it touches.
        distribution: Option<Distribution>,
        /// The skew.
        theta: f64,
        /// Number of existing records.
        records: u64,
        /// Number of gets before it, to fill caches.
        warmup: u64,
        /// Operations.
        operations: u64,
    },
    /// Ingest the analytics trace.
    Ingest {
        /// The name under which it is reported.
        name: String,
        /// The trace.
        shape: Shape,
        /// Events.
        events: u64,
    },
    /// Query the last minute of apps, while new events are ingested.
    Analyse {
        /// The name under which it is reported.
        name: String,
        /// The trace.
        shape: Shape,
        /// Events that have been ingested.
        events: u64,
        /// Operations.
        operations: u64,
    },
    /// Run a recorded trace.
    Replay {
        /// The name under which it is reported.
        name: String,
        /// The file.
        file: PathBuf,
    },
}

impl Step {
    /// True if the step only writes.
    pub fn only_writes(&self) -> bool {
        match self {
            Self::Load { .. } | Self::Ingest { .. } => true,
            Self::Run { workload, .. } => *workload == Workload::P || workload.is_insert(),
            Self::Analyse { .. } | Self::Replay { .. } => false,
        }
    }

    /// The name under which it is reported, if it is reported.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Load { .. } => None,
            Self::Run { name, .. }
            | Self::Ingest { name, .. }
            | Self::Analyse { name, .. }
            | Self::Replay { name, .. } => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_writes_has_time_for_what_it_puts_off() {
        let step = |workload| Step::Run {
            name: "run".into(),
            workload,
            distribution: None,
            theta: 0.0,
            records: 1,
            warmup: 0,
            operations: 1,
        };
        let longest = |workload, durability| {
            let settings =
                Settings { dir: PathBuf::new(), budget_bytes: 0, durability, background_threads: 1 };
            let job = Job {
                engine: Spec::plain("cantle"),
                settings,
                steps: Vec::new(),
                sizes: Sizes::default(),
                threads: 1,
                seconds_max: 3.0,
                writing_seconds_max: 60.0,
                seed: 1,
                hold: false,
            };
            job.longest(&step(workload)).as_secs()
        };
        for workload in [Workload::P, Workload::InsertRandom, Workload::InsertSequential] {
            assert_eq!(longest(workload, Durability::Process), 60);
            assert_eq!(longest(workload, Durability::Sync), 3);
        }
        for workload in [Workload::A, Workload::C, Workload::E10, Workload::F] {
            assert_eq!(longest(workload, Durability::Process), 3);
        }
    }
}
