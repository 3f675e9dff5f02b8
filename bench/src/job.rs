//! What a child process is told to do with one store.

use crate::engine::{Settings, Spec};
use cantle_workloads::analytics::Shape;
use cantle_workloads::generator::Distribution;
use cantle_workloads::workload::Workload;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A child's whole work: open, take the steps, close.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// Which engine.
    pub engine: Spec,
    /// How it is opened.
    pub settings: Settings,
    /// What is done, in this order.
    pub steps: Vec<Step>,
    /// Threads that run operations.
    pub threads: u64,
    /// The longest time of a measured step.
    pub seconds_max: f64,
    /// Of everything random; the same for every engine.
    pub seed: u64,
    /// Wait to be killed instead of closing the store.
    pub hold: bool,
}

/// One step. Those with a name are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Step {
    /// Put so many records in key order, and sync. Not measured.
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
        /// Which records.
        distribution: Option<Distribution>,
        /// The skew.
        theta: f64,
        /// Records that there are.
        records: u64,
        /// Gets before it that fill caches.
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
    /// Query the last minute of apps, while events go on.
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
    /// The name under which it is reported, if it is.
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
