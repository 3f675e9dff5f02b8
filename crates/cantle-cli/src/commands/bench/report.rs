//! The figures of one phase, as `--json` prints them. `print` has the same for people.

use super::args::{self, Args};
use super::phase::Measured;
use crate::measure::display;
use crate::measure::latency::{Latencies, Percentiles};
use crate::measure::process;
use cantle::Stats;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::{KEY_BYTES, VALUE_BYTES};
use cantle_workloads::workload::{Operation, Workload};
use serde::Serialize;
use std::collections::BTreeMap;

/// Names end in their units.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) workload: Workload,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) distribution: Option<Distribution>,
    pub(crate) parameters: Parameters<'a>,
    pub(crate) took_s: f64,
    pub(crate) operations: u64,
    pub(crate) operations_per_s: f64,
    pub(crate) rows_scanned: u64,
    pub(crate) latency: BTreeMap<&'static str, Percentiles>,
    pub(crate) user_bytes_written: u64,
    pub(crate) user_bytes_read: u64,
    /// As the kernel counts, the final sync included; null where it does not count.
    pub(crate) device: Option<Device>,
    /// Bytes that the store wrote to its logs and tables per user byte written.
    pub(crate) write_amplification: Option<f64>,
    pub(crate) space: Space,
    pub(crate) stalls: Stalls,
    pub(crate) peak_resident_bytes: Option<u64>,
    pub(crate) peak_resident_is_of_phase: bool,
    pub(crate) final_sync_s: f64,
    pub(crate) missing: u64,
    pub(crate) wrong: u64,
    pub(crate) stats: Figures,
}

/// The arguments of a run, and where it ran.
#[derive(Debug, Serialize)]
pub(crate) struct Parameters<'a> {
    #[serde(flatten)]
    pub(crate) args: &'a Args,
    key_bytes: usize,
    value_bytes: usize,
    cantle_version: &'static str,
    kernel: Option<String>,
    cores: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Device {
    pub(crate) written_bytes: u64,
    pub(crate) read_bytes: u64,
    /// Bytes written per user byte written; null where the user wrote nothing.
    pub(crate) write_amplification: Option<f64>,
    /// Bytes read per user byte read; null where the user read nothing.
    pub(crate) read_amplification: Option<f64>,
}

/// Bytes on disk per live user byte.
#[derive(Debug, Serialize)]
pub(crate) struct Space {
    pub(crate) max: f64,
    pub(crate) mean: f64,
    pub(crate) end: f64,
    disk_bytes: u64,
    pub(crate) live_bytes: u64,
}

#[derive(Debug, Serialize)]
pub(crate) struct Stalls {
    pub(crate) longest_operation_ns: u64,
    /// Its name, and when it ended.
    pub(crate) longest_operation: Option<&'static str>,
    pub(crate) longest_operation_at_s: f64,
    /// The longest time in which no thread finished an operation, in steps of 100 ms.
    pub(crate) longest_gap_ms: u64,
    /// The fewest operations finished in any 100 ms.
    pub(crate) slowest_interval_operations: Option<u32>,
    /// Appends of a record's length to a file of their own, one now and then, without a store (`--duration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bare_append: Option<Percentiles>,
}

/// The store's own figures, at both ends of the phase: counters are those since its opening.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) before: Stats,
    pub(crate) after: Stats,
}

impl Figures {
    /// A size at the end, over all keyspaces.
    pub(crate) fn total(&self, size: fn(&cantle::KeyspaceStats) -> u64) -> u64 {
        self.after.keyspaces.iter().map(size).sum()
    }

    /// A counter over all keyspaces, after less before.
    pub(crate) fn grown(&self, counter: fn(&cantle::KeyspaceStats) -> u64) -> u64 {
        let before: u64 = self.before.keyspaces.iter().map(counter).sum();
        self.total(counter).saturating_sub(before)
    }

    /// A counter of the store, after less before.
    pub(crate) fn store_grown(&self, counter: fn(&Stats) -> u64) -> u64 {
        counter(&self.after).saturating_sub(counter(&self.before))
    }

    /// Gets by where they were served from, by the names that the library gives, so that new places show by themselves.
    pub(crate) fn gets_served(&self) -> BTreeMap<String, u64> {
        let sum = |stats: &Stats| {
            let mut places = BTreeMap::<String, u64>::new();
            for keyspace in &stats.keyspaces {
                let served = serde_json::to_value(keyspace.gets_served).unwrap_or_default();
                for (place, count) in served.as_object().into_iter().flatten() {
                    *places.entry(place.clone()).or_default() += count.as_u64().unwrap_or(0);
                }
            }
            places
        };
        let (before, mut after) = (sum(&self.before), sum(&self.after));
        for (place, count) in &mut after {
            *count = count.saturating_sub(before.get(place).copied().unwrap_or(0));
        }
        after
    }
}

/// A ratio, if there is something to divide by.
fn per(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| display::ratio(part, whole))
}

impl<'a> Report<'a> {
    /// Of one phase.
    pub(crate) fn new(
        args: &'a Args,
        workload: Workload,
        distribution: Option<Distribution>,
        measured: Measured,
    ) -> Self {
        let Measured { tally, device, space, stats: (before, after), .. } = measured;
        let stats = Figures { before, after };
        let latency: BTreeMap<_, _> = Operation::NAMES
            .into_iter()
            .zip(&tally.latencies)
            .filter_map(|(name, latencies)| Some((name, latencies.percentiles()?)))
            .collect();
        let longest = latency.iter().max_by_key(|(_, percentiles)| percentiles.max_ns);
        let (max, mean, end) = space.summary();
        let store_wrote = stats.grown(|keyspace| keyspace.log_bytes_written + keyspace.table_bytes_written);
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
            operations: tally.operations,
            operations_per_s: display::rate(tally.operations, tally.took),
            rows_scanned: tally.rows_scanned,
            stalls: Stalls {
                longest_operation_ns: longest.map_or(0, |(_, percentiles)| percentiles.max_ns),
                longest_operation: longest.map(|(name, _)| *name),
                longest_operation_at_s: tally.longest.1.as_secs_f64(),
                longest_gap_ms: tally.timeline.longest_gap().as_millis() as u64,
                slowest_interval_operations: tally.timeline.slowest_interval(),
                bare_append: measured.bare_append.as_ref().and_then(Latencies::percentiles),
            },
            latency,
            user_bytes_written: tally.bytes_written,
            user_bytes_read: tally.bytes_read,
            device: device.map(|device| Device {
                written_bytes: device.written_bytes,
                read_bytes: device.read_bytes,
                write_amplification: per(device.written_bytes, tally.bytes_written),
                read_amplification: per(device.read_bytes, tally.bytes_read),
            }),
            write_amplification: per(store_wrote, tally.bytes_written),
            space: Space { max, mean, end, disk_bytes: measured.disk_bytes, live_bytes: measured.live_bytes },
            peak_resident_bytes: measured.peak_resident_bytes,
            peak_resident_is_of_phase: measured.peak_is_of_phase,
            final_sync_s: measured.sync_took.as_secs_f64(),
            missing: tally.missing,
            wrong: tally.wrong,
            stats,
        }
    }

    /// Whether every record was there and every value was the right one.
    pub(crate) fn is_sound(&self) -> bool {
        self.missing == 0 && self.wrong == 0
    }
}
