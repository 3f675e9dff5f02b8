//! The work of a child process with one store.

use crate::engine::{Durability, Settings, Spec};
use cantle_workloads::analytics::Shape;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::Sizes;
use cantle_workloads::workload::Workload;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Records below this number of bytes are short: threads write them more slowly than a device does.
const SHORT_BYTES: u64 = 256;

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
    /// The longest time of all steps together, if there is a limit.
    pub seconds_total: Option<f64>,
    /// The most records of a fill, if they are fewer than planned: the first ones of its order.
    pub records_max: Option<u64>,
    /// Seconds without background work after which a store is settled.
    pub quiet_s: f64,
    /// Seed of everything random; the same for every engine.
    pub seed: u64,
    /// True if the child waits to be killed instead of closing the store.
    pub hold: bool,
}

impl Job {
    /// The longest time of the step of this number, after the steps before it took `gone`. The rest
    /// of the time of all steps is divided by their weights, so that a slow fill leaves time to read.
    pub fn longest_at(&self, at: usize, gone: Duration) -> Duration {
        let Some(step) = self.steps.get(at) else { return Duration::ZERO };
        let own = self.longest(step);
        let Some(total) = self.seconds_total else { return own };
        let weights: u32 = self.steps[at..].iter().map(|step| step.weight(self.sizes)).sum();
        let share =
            (total - gone.as_secs_f64()).max(0.0) * f64::from(step.weight(self.sizes)) / f64::from(weights);
        own.min(Duration::try_from_secs_f64(share).unwrap_or(own))
    }

    /// The longest time of a step by itself.
    fn longest(&self, step: &Step) -> Duration {
        // Synced writes take as long as a sync, and leave no deferred work.
        let piles_up = step.only_writes() && self.settings.durability != Durability::Sync;
        Duration::from_secs_f64(if piles_up { self.writing_seconds_max } else { self.seconds_max })
    }
}

/// One step. Those with a name are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Put this number of records, and sync. Not measured.
    Load {
        /// Records.
        records: u64,
        /// True for a random order, and to wait afterwards until the store is settled; false for key
        /// order.
        is_scattered: bool,
    },
    /// Put each record once.
    Fill {
        /// The name under which it is reported.
        name: String,
        /// Records.
        records: u64,
        /// The number of the first record.
        first: u64,
        /// The order of the records.
        order: Order,
        /// 0 for new records. Each further round overwrites all that the first one wrote, in a random
        /// order of its own.
        round: u64,
    },
    /// Delete each record that exists, in a random order.
    Delete {
        /// The name under which it is reported.
        name: String,
        /// Number of existing records.
        records: u64,
    },
    /// Wait until the store has finished its background work and wrote nothing for a while.
    Settle {
        /// The name under which it is reported.
        name: String,
    },
    /// Seek random records, and read the pair there and some after it.
    Seek {
        /// The name under which it is reported.
        name: String,
        /// Number of existing records.
        records: u64,
        /// Pairs after the first one.
        nexts: u64,
        /// Seeks.
        operations: u64,
    },
    /// Get random records, many at once.
    GetMany {
        /// The name under which it is reported.
        name: String,
        /// Number of existing records.
        records: u64,
        /// Records of one operation.
        at_once: u64,
        /// Operations.
        operations: u64,
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
        /// True if a bare writer appends to a file beside the store meanwhile. The step has the time of
        /// one that only writes.
        with_appends: bool,
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

/// An order of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// Key order.
    Sequential,
    /// A random permutation.
    Random,
}

impl Step {
    /// The step's part of a limit of time for all steps.
    pub fn weight(&self, sizes: Sizes) -> u32 {
        match self {
            Self::Load { .. } => 0,
            // Time that the first round leaves is shared by the further ones.
            Self::Fill { round: 1.., .. } | Self::Delete { .. } => 2,
            // As many bytes take longer in short records.
            Self::Fill { .. } if sizes.record_bytes() < SHORT_BYTES => 18,
            Self::Fill { .. } | Self::Ingest { .. } => 6,
            Self::Settle { .. } => 4,
            Self::Run { with_appends: true, .. } => 24,
            Self::Run { .. }
            | Self::Seek { .. }
            | Self::GetMany { .. }
            | Self::Analyse { .. }
            | Self::Replay { .. } => 1,
        }
    }

    /// True if the step only writes, or is as long as one that does.
    pub fn only_writes(&self) -> bool {
        match self {
            Self::Load { .. }
            | Self::Fill { .. }
            | Self::Delete { .. }
            | Self::Settle { .. }
            | Self::Ingest { .. } => true,
            Self::Run { workload, with_appends, .. } => {
                *workload == Workload::P || workload.is_insert() || *with_appends
            }
            Self::Seek { .. } | Self::GetMany { .. } | Self::Analyse { .. } | Self::Replay { .. } => false,
        }
    }

    /// The name under which it is reported, if it is reported.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Load { .. } => None,
            Self::Run { name, .. }
            | Self::Fill { name, .. }
            | Self::Delete { name, .. }
            | Self::Settle { name, .. }
            | Self::Seek { name, .. }
            | Self::GetMany { name, .. }
            | Self::Ingest { name, .. }
            | Self::Analyse { name, .. }
            | Self::Replay { name, .. } => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(workload: Workload) -> Step {
        Step::Run {
            name: "run".into(),
            workload,
            distribution: None,
            theta: 0.0,
            records: 1,
            warmup: 0,
            operations: 1,
            with_appends: false,
        }
    }

    fn job(durability: Durability, steps: Vec<Step>) -> Job {
        Job {
            engine: Spec::plain("cantle"),
            settings: Settings { dir: PathBuf::new(), budget_bytes: 0, durability, background_threads: 1 },
            steps,
            sizes: Sizes::default(),
            threads: 1,
            seconds_max: 3.0,
            writing_seconds_max: 60.0,
            seconds_total: None,
            records_max: None,
            quiet_s: 5.0,
            seed: 1,
            hold: false,
        }
    }

    #[test]
    fn a_limit_for_all_steps_leaves_each_its_share_and_what_others_did_not_use() {
        let fill = Step::Fill { name: "fill".into(), records: 1, first: 0, order: Order::Random, round: 0 };
        let steps = vec![fill, Step::Settle { name: "settle".into() }, step(Workload::C), step(Workload::C)];
        let mut job = job(Durability::Process, steps);
        let longest = |job: &Job, at, gone| job.longest_at(at, Duration::from_secs(gone)).as_millis();
        assert_eq!((longest(&job, 0, 0), longest(&job, 2, 500)), (60_000, 3_000), "without a limit");
        job.seconds_total = Some(12.0);
        assert_eq!((longest(&job, 0, 0), longest(&job, 1, 6)), (6_000, 4_000));
        // The fill took three seconds of its six: the others get what it left.
        assert_eq!(longest(&job, 1, 3), 6_000);
        assert_eq!((longest(&job, 3, 11), longest(&job, 3, 1)), (1_000, 3_000), "no more than alone");
        assert_eq!(longest(&job, 3, 13), 0);
    }

    #[test]
    fn what_only_writes_has_time_for_what_it_puts_off() {
        let longest = |workload, durability| job(durability, Vec::new()).longest(&step(workload)).as_secs();
        for workload in [Workload::P, Workload::InsertRandom, Workload::InsertSequential] {
            assert_eq!(longest(workload, Durability::Process), 60);
            assert_eq!(longest(workload, Durability::Sync), 3);
        }
        for workload in [Workload::A, Workload::C, Workload::E10, Workload::F] {
            assert_eq!(longest(workload, Durability::Process), 3);
        }
    }
}
