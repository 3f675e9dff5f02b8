//! The figures of one phase, as `--json` prints them. `print` has the same for people.

use super::args::{self, Args};
use super::phase::Measured;
use crate::measure::display;
use crate::measure::latency::{Latencies, Percentiles};
use crate::measure::process;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::{KEY_BYTES, VALUE_BYTES};
use cantle_workloads::workload::{Operation, Workload};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names end in their units.
#[derive(Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) workload: Workload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) distribution: Option<Distribution>,
    pub(crate) parameters: Parameters<'a>,
    pub(crate) took_s: f64,
    pub(crate) operations_per_s: f64,
    pub(crate) latency: BTreeMap<&'static str, Percentiles>,
    /// Bytes that the store wrote to its logs and tables per user byte written; null where the user
    /// wrote nothing.
    pub(crate) write_amplification: Option<f64>,
    /// The same as the kernel counts, the final sync included; null where it does not count.
    pub(crate) device_write_amplification: Option<f64>,
    /// Bytes read from the device per user byte read.
    pub(crate) device_read_amplification: Option<f64>,
    pub(crate) stalls: Stalls,
    #[serde(flatten)]
    pub(crate) measured: Measured,
}

/// The arguments of a run, and where it ran.
#[derive(Serialize)]
pub(crate) struct Parameters<'a> {
    #[serde(flatten)]
    pub(crate) args: &'a Args,
    key_bytes: usize,
    value_bytes: usize,
    cantle_version: &'static str,
    kernel: Option<String>,
    cores: u64,
}

#[derive(Serialize)]
pub(crate) struct Stalls {
    pub(crate) longest_operation: &'static str,
    pub(crate) longest_operation_ns: u64,
    /// When it ended.
    pub(crate) longest_operation_at_s: f64,
    /// The longest time in which no thread finished an operation, in steps of 100 ms.
    pub(crate) longest_gap_ms: u64,
    /// The fewest operations finished in any 100 ms.
    pub(crate) slowest_interval_operations: Option<u32>,
    /// Appends of a record's length to a file of their own, one now and then, without a store
    /// (`--duration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bare_append: Option<Percentiles>,
}

/// A ratio, if there is something to divide by.
fn per(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| display::ratio(part, whole))
}

impl<'a> Report<'a> {
    /// The report of one phase.
    pub(crate) fn new(
        args: &'a Args,
        workload: Workload,
        distribution: Option<Distribution>,
        measured: Measured,
    ) -> Self {
        let Measured { tally, device, stats, .. } = &measured;
        let store_wrote = stats.grown(|keyspace| keyspace.log_bytes_written + keyspace.table_bytes_written);
        let (longest, longest_at, longest_name) = tally.longest;
        let latencies = Operation::NAMES.into_iter().zip(&tally.latencies);
        Self {
            workload,
            distribution,
            parameters: Parameters {
                args,
                key_bytes: KEY_BYTES,
                value_bytes: VALUE_BYTES,
                cantle_version: env!("CARGO_PKG_VERSION"),
                kernel: process::kernel_release(),
                cores: args::cores(),
            },
            took_s: tally.took.as_secs_f64(),
            operations_per_s: display::rate(tally.operations, tally.took),
            latency: latencies.filter_map(|(name, all)| Some((name, all.percentiles()?))).collect(),
            write_amplification: per(store_wrote, tally.user_bytes_written),
            device_write_amplification: device.and_then(|d| per(d.written_bytes, tally.user_bytes_written)),
            device_read_amplification: device.and_then(|d| per(d.read_bytes, tally.user_bytes_read)),
            stalls: Stalls {
                longest_operation: longest_name,
                longest_operation_ns: longest.as_nanos() as u64,
                longest_operation_at_s: longest_at.as_secs_f64(),
                longest_gap_ms: tally.timeline.longest_gap().as_millis() as u64,
                slowest_interval_operations: tally.timeline.slowest_interval(),
                bare_append: measured.bare_append.as_ref().and_then(Latencies::percentiles),
            },
            measured,
        }
    }

    /// True if every record was there and every value was the right one.
    pub(crate) fn is_sound(&self) -> bool {
        self.measured.tally.missing == 0 && self.measured.tally.wrong == 0
    }
}
