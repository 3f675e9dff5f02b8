//! What is printed of one phase, for machines and for people.

use super::args::Args;
use super::phase::Outcome;
use super::records::{KEY_BYTES, VALUE_BYTES};
use super::workload::{Operation, Workload};
use crate::measure::display::{self, Align, Table};
use crate::measure::generator::Distribution;
use crate::measure::latency::{DECADES, Latencies, Percentiles};
use crate::measure::process;
use crate::measure::timeline::INTERVAL_MS;
use crate::tuning::compression_name;
use cantle::Stats;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// All that one phase measured, as `--json` prints it. Names end in their units.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    workload: Workload,
    #[serde(skip_serializing_if = "Option::is_none")]
    distribution: Option<Distribution>,
    parameters: Parameters,
    took_s: f64,
    operations: u64,
    operations_per_s: f64,
    rows_scanned: u64,
    latency: BTreeMap<&'static str, Percentiles>,
    user_bytes_written: u64,
    user_bytes_read: u64,
    /// As the kernel counts, the final sync included; null where it does not count.
    device: Option<Device>,
    /// As the store counts.
    store: StoreWrites,
    space: Space,
    /// Gets by where they were served from.
    gets_served: Map<String, Value>,
    filter_skips: u64,
    filter_false_positives: u64,
    /// Chunks that scans read, those among them from munks.
    scans: u64,
    scans_munk: u64,
    row_hits: u64,
    row_misses: u64,
    cache_hits: u64,
    cache_misses: u64,
    munks: Munks,
    memory: Memory,
    stalls: Stalls,
    peak_resident_bytes: Option<u64>,
    peak_resident_is_of_phase: bool,
    store_memory_bytes: u64,
    store_memory_budget_bytes: u64,
    final_sync_s: f64,
    missing: u64,
    wrong: u64,
}

/// What a run was asked for, and where it ran.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Parameters {
    records: u64,
    threads: usize,
    theta: f64,
    key_bytes: usize,
    value_bytes: usize,
    memory_bytes: Option<u64>,
    durability: &'static str,
    space_amplification: Option<f64>,
    compression: String,
    chunk_bytes: Option<u64>,
    warmup: u64,
    seed: u64,
    cantle_version: &'static str,
    kernel: Option<String>,
    cores: usize,
}

#[derive(Debug, Serialize)]
struct Device {
    written_bytes: u64,
    read_bytes: u64,
    /// Bytes written per user byte written; null where the user wrote nothing.
    write_amplification: Option<f64>,
    /// Bytes read per user byte read; null where the user read nothing.
    read_amplification: Option<f64>,
}

#[derive(Debug, Serialize)]
struct StoreWrites {
    log_bytes_written: u64,
    table_bytes_written: u64,
    write_amplification: Option<f64>,
    rebalances: u64,
    splits: u64,
    merges: u64,
    checkpoints: u64,
    chunks: u64,
    log_bytes: u64,
    table_bytes: u64,
    held_bytes: u64,
}

/// Chunks in memory at the end, and what was done with them.
#[derive(Debug, Serialize)]
struct Munks {
    munks: u64,
    loads: u64,
    evictions: u64,
    rebalances: u64,
    splits: u64,
    flushes: u64,
}

/// How the budget is divided at the end, and how often that changed.
#[derive(Debug, Serialize)]
struct Memory {
    munk_bytes: u64,
    munk_limit_bytes: u64,
    row_bytes: u64,
    row_limit_bytes: u64,
    block_bytes: u64,
    block_limit_bytes: u64,
    log_index_bytes: u64,
    moves: u64,
}

/// Bytes on disk per live user byte.
#[derive(Debug, Serialize)]
struct Space {
    max: f64,
    mean: f64,
    end: f64,
    disk_bytes: u64,
    live_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Stalls {
    longest_operation_ns: u64,
    /// Which it was, and when it ended.
    longest_operation: Option<&'static str>,
    longest_operation_at_s: f64,
    /// The longest time in which no thread finished an operation, in steps of 100 ms.
    longest_gap_ms: u64,
    /// The fewest operations finished in any 100 ms.
    slowest_interval_operations: Option<u32>,
    write_delays: u64,
    write_delay_ns: u64,
    /// Since the store was opened.
    checkpoint_longest_ns: u64,
    /// Appends of a record's length to a file of their own, one now and then, without a store (`--duration`).
    #[serde(skip_serializing_if = "Option::is_none")]
    bare_append: Option<Percentiles>,
}

/// The parameters that all phases of one run share.
pub(crate) struct Run<'a> {
    /// The arguments.
    pub(crate) args: &'a Args,
    /// Records before the phase.
    pub(crate) records: u64,
    /// Threads.
    pub(crate) threads: usize,
}

impl Parameters {
    /// Of a run.
    pub(crate) fn new(run: &Run<'_>) -> Self {
        let args = run.args;
        Self {
            records: run.records,
            threads: run.threads,
            theta: args.theta,
            key_bytes: KEY_BYTES,
            value_bytes: VALUE_BYTES,
            memory_bytes: args.tuning.memory,
            durability: args.tuning.durability.name(),
            space_amplification: args.tuning.space_amplification,
            compression: compression_name(args.tuning.compression),
            chunk_bytes: args.tuning.chunk_bytes,
            warmup: args.warmup,
            seed: args.seed,
            cantle_version: env!("CARGO_PKG_VERSION"),
            kernel: process::kernel_release(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// A ratio, if there is something to divide by.
fn per(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| display::ratio(part, whole))
}

/// A counter over all keyspaces, after less before.
fn grown(stats: &(Stats, Stats), counter: impl Fn(&cantle::KeyspaceStats) -> u64) -> u64 {
    let sum = |stats: &Stats| stats.keyspaces.iter().map(&counter).sum::<u64>();
    sum(&stats.1).saturating_sub(sum(&stats.0))
}

/// Where gets were served from, by the names that the library gives, so that new places show by themselves.
fn served(stats: &(Stats, Stats)) -> Map<String, Value> {
    let sum = |stats: &Stats| {
        let mut places = Map::new();
        for keyspace in &stats.keyspaces {
            if let Ok(Value::Object(served)) = serde_json::to_value(keyspace.gets_served) {
                for (place, count) in served {
                    let known = places.get(&place).and_then(Value::as_u64).unwrap_or(0);
                    places.insert(place, Value::from(known + count.as_u64().unwrap_or(0)));
                }
            }
        }
        places
    };
    let (before, mut after) = (sum(&stats.0), sum(&stats.1));
    for (place, count) in &mut after {
        let earlier = before.get(place).and_then(Value::as_u64).unwrap_or(0);
        *count = Value::from(count.as_u64().unwrap_or(0).saturating_sub(earlier));
    }
    after
}

impl Report {
    /// Of one phase.
    pub(crate) fn new(
        run: &Run<'_>,
        workload: Workload,
        distribution: Option<Distribution>,
        outcome: &Outcome,
    ) -> Self {
        let mut latency = BTreeMap::new();
        let mut longest = (0, None);
        for (name, latencies) in Operation::NAMES.iter().zip(&outcome.latencies) {
            if let Some(percentiles) = latencies.percentiles() {
                if percentiles.max_ns > longest.0 {
                    longest = (percentiles.max_ns, Some(*name));
                }
                latency.insert(*name, percentiles);
            }
        }
        let after = &outcome.stats.1;
        let total = |size: fn(&cantle::KeyspaceStats) -> u64| after.keyspaces.iter().map(size).sum::<u64>();
        let log_written = grown(&outcome.stats, |keyspace| keyspace.log_bytes_written);
        let table_written = grown(&outcome.stats, |keyspace| keyspace.table_bytes_written);
        let (max, mean, end) = outcome.space;
        Self {
            workload,
            distribution,
            parameters: Parameters::new(run),
            took_s: outcome.took.as_secs_f64(),
            operations: outcome.operations,
            operations_per_s: display::rate(outcome.operations, outcome.took),
            rows_scanned: outcome.rows_scanned,
            latency,
            user_bytes_written: outcome.user_bytes_written,
            user_bytes_read: outcome.user_bytes_read,
            device: outcome.device.map(|device| Device {
                written_bytes: device.written_bytes,
                read_bytes: device.read_bytes,
                write_amplification: per(device.written_bytes, outcome.user_bytes_written),
                read_amplification: per(device.read_bytes, outcome.user_bytes_read),
            }),
            store: StoreWrites {
                log_bytes_written: log_written,
                table_bytes_written: table_written,
                write_amplification: per(log_written + table_written, outcome.user_bytes_written),
                rebalances: grown(&outcome.stats, |keyspace| keyspace.rebalances),
                splits: grown(&outcome.stats, |keyspace| keyspace.splits),
                merges: grown(&outcome.stats, |keyspace| keyspace.merges),
                checkpoints: after.checkpoints.saturating_sub(outcome.stats.0.checkpoints),
                chunks: total(|keyspace| keyspace.chunks),
                log_bytes: total(|keyspace| keyspace.log_bytes),
                table_bytes: total(|keyspace| keyspace.table_bytes),
                held_bytes: total(|keyspace| keyspace.held_bytes),
            },
            space: Space { max, mean, end, disk_bytes: outcome.disk_bytes, live_bytes: outcome.live_bytes },
            gets_served: served(&outcome.stats),
            filter_skips: grown(&outcome.stats, |keyspace| keyspace.filter_skips),
            filter_false_positives: grown(&outcome.stats, |keyspace| keyspace.filter_false_positives),
            scans: grown(&outcome.stats, |keyspace| keyspace.scans),
            scans_munk: grown(&outcome.stats, |keyspace| keyspace.scans_munk),
            row_hits: after.memory.row_hits.saturating_sub(outcome.stats.0.memory.row_hits),
            row_misses: after.memory.row_misses.saturating_sub(outcome.stats.0.memory.row_misses),
            cache_hits: after.cache_hits.saturating_sub(outcome.stats.0.cache_hits),
            cache_misses: after.cache_misses.saturating_sub(outcome.stats.0.cache_misses),
            munks: Munks {
                munks: total(|keyspace| keyspace.munks),
                loads: grown(&outcome.stats, |keyspace| keyspace.munk_loads),
                evictions: grown(&outcome.stats, |keyspace| keyspace.munk_evictions),
                rebalances: grown(&outcome.stats, |keyspace| keyspace.munk_rebalances),
                splits: grown(&outcome.stats, |keyspace| keyspace.munk_splits),
                flushes: grown(&outcome.stats, |keyspace| keyspace.munk_flushes),
            },
            memory: Memory {
                munk_bytes: after.memory.munks,
                munk_limit_bytes: after.memory.munk_limit,
                row_bytes: after.memory.rows,
                row_limit_bytes: after.memory.row_limit,
                block_bytes: after.memory.blocks,
                block_limit_bytes: after.memory.block_limit,
                log_index_bytes: after.memory.log_indexes,
                moves: after.memory.moves.saturating_sub(outcome.stats.0.memory.moves),
            },
            stalls: Stalls {
                longest_operation_ns: longest.0,
                longest_operation: longest.1,
                longest_operation_at_s: outcome.longest.1.as_secs_f64(),
                longest_gap_ms: outcome.timeline.longest_gap().as_millis() as u64,
                slowest_interval_operations: outcome.timeline.slowest_interval(),
                write_delays: after.write_delays.saturating_sub(outcome.stats.0.write_delays),
                write_delay_ns: after
                    .write_delay_total
                    .saturating_sub(outcome.stats.0.write_delay_total)
                    .as_nanos() as u64,
                checkpoint_longest_ns: after.checkpoint_longest.as_nanos() as u64,
                bare_append: outcome.bare_append.as_ref().and_then(Latencies::percentiles),
            },
            peak_resident_bytes: outcome.peak_resident_bytes,
            peak_resident_is_of_phase: outcome.peak_is_of_phase,
            store_memory_bytes: after.memory_used,
            store_memory_budget_bytes: after.memory_budget,
            final_sync_s: outcome.sync_took.as_secs_f64(),
            missing: outcome.missing,
            wrong: outcome.wrong,
        }
    }

    /// Whether every record was there and every value was the right one.
    pub(crate) fn is_sound(&self) -> bool {
        self.missing == 0 && self.wrong == 0
    }

    fn title(&self) -> String {
        match self.distribution {
            Some(distribution) => format!("{} over {}", self.workload.name(), distribution.name()),
            None => self.workload.name().to_string(),
        }
    }

    /// One line with the essentials.
    pub(crate) fn line(&self) -> String {
        let amplification =
            self.store.write_amplification.map_or("–".into(), |ratio| format!("{ratio:.2}"));
        format!(
            "{:<28} {:>9} operations/s   written {amplification:>5}   space {:>5.2}   longest {:>8}",
            self.title(),
            display::count(self.operations_per_s as u64),
            self.space.max,
            display::nanoseconds(self.stalls.longest_operation_ns),
        )
    }

    /// A paragraph for people, within 100 columns.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{}: {} operations/s ({} in {}, {} {})\n",
            self.title(),
            display::count(self.operations_per_s as u64),
            display::count(self.operations),
            display::duration(Duration::from_secs_f64(self.took_s)),
            self.parameters.threads,
            if self.parameters.threads == 1 { "thread" } else { "threads" },
        )?;
        let mut latency = self.latency.clone();
        latency.extend(self.stalls.bare_append.map(|append| ("(bare append)", append)));
        for line in latency_table(&latency).lines("  ") {
            writeln!(out, "{line}")?;
        }
        if self.stalls.bare_append.is_some() {
            writeln!(out)?;
            for line in histogram(&latency).lines("  ") {
                writeln!(out, "{line}")?;
            }
        }
        writeln!(out)?;
        for (name, text) in self.facts() {
            writeln!(out, "  {name:<9} {text}")?;
        }
        if !self.is_sound() {
            let (missing, wrong) = (display::count(self.missing), display::count(self.wrong));
            writeln!(
                out,
                "\n  WRONG: {missing} records were not found, {wrong} rows were not what was written"
            )?;
        }
        Ok(())
    }

    /// Who served scans, what was done with munks, and how the budget is divided.
    fn memory_facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        if self.scans > 0 {
            let per_scan = display::ratio(self.scans_munk, self.scans);
            facts.push(("scans", format!("{per_scan:.2} chunks read from munks by each, on average")));
        }
        let Munks { munks, loads, evictions, rebalances, splits, flushes } = self.munks;
        facts.push((
            "munks",
            format!(
                "{} of {} chunks; {} loads, {} evictions, {} rebalances, {} splits, {} flushes",
                display::count(munks),
                display::count(self.store.chunks),
                display::count(loads),
                display::count(evictions),
                display::count(rebalances),
                display::count(splits),
                display::count(flushes),
            ),
        ));
        let part = |bytes: u64, limit: u64| format!("{} of {}", display::bytes(bytes), display::bytes(limit));
        let memory = &self.memory;
        facts.push((
            "budget",
            format!(
                "munks {}, rows {}, blocks {}; {} moves",
                part(memory.munk_bytes, memory.munk_limit_bytes),
                part(memory.row_bytes, memory.row_limit_bytes),
                part(memory.block_bytes, memory.block_limit_bytes),
                display::count(memory.moves),
            ),
        ));
        let mut cached = format!("log indexes of {}", display::bytes(memory.log_index_bytes));
        for (cache, hits, misses) in
            [("rows", self.row_hits, self.row_misses), ("blocks", self.cache_hits, self.cache_misses)]
        {
            if hits + misses > 0 {
                let percent = display::ratio(hits * 100, hits + misses);
                let all = display::count(hits + misses);
                cached.push_str(&format!("; {cache} hit {percent:.1} % of {all}"));
            }
        }
        facts.push(("cached", cached));
        facts
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let mut facts = Vec::new();
        let kernel = match &self.device {
            None => "the kernel does not count".to_string(),
            Some(device) => match device.write_amplification {
                None => format!("{} to the device, none by the user", display::bytes(device.written_bytes)),
                Some(ratio) => {
                    format!(
                        "{ratio:.2} per user byte by the kernel ({})",
                        display::bytes(device.written_bytes)
                    )
                }
            },
        };
        let by_store = self.store.write_amplification.map_or(String::new(), |ratio| {
            let log = display::ratio(self.store.log_bytes_written, self.user_bytes_written);
            let tables = display::ratio(self.store.table_bytes_written, self.user_bytes_written);
            format!(", {ratio:.2} by the store (log {log:.2}, tables {tables:.2})")
        });
        facts.push(("written", kernel + &by_store));
        if let Some(Device { read_bytes, read_amplification: Some(ratio), .. }) = self.device {
            let bytes = display::bytes(read_bytes);
            facts.push(("read", format!("{ratio:.2} bytes from the device per user byte ({bytes})")));
        }
        facts.push((
            "space",
            format!(
                "{:.2} bytes on disk per live byte at most, {:.2} on average, {:.2} at the end (of {})",
                self.space.max,
                self.space.mean,
                self.space.end,
                display::bytes(self.space.live_bytes)
            ),
        ));
        facts.push((
            "store",
            format!(
                "{} chunks, {} tables, {} logs; {} rebalances, {} splits, {} merges, {} checkpoints",
                display::count(self.store.chunks),
                display::bytes(self.store.table_bytes),
                display::bytes(self.store.log_bytes),
                display::count(self.store.rebalances),
                display::count(self.store.splits),
                display::count(self.store.merges),
                display::count(self.store.checkpoints),
            ),
        ));
        let gets: u64 = self.gets_served.values().filter_map(Value::as_u64).sum();
        if gets > 0 {
            let shares: Vec<String> = self
                .gets_served
                .iter()
                .filter_map(|(place, count)| {
                    let percent = display::ratio(count.as_u64()? * 100, gets);
                    (percent > 0.0).then(|| format!("{} {percent:.1} %", place.replace('_', " ")))
                })
                .collect();
            facts.push(("gets from", shares.join(", ")));
        }
        facts.extend(self.memory_facts());
        // Where there was a gap, the slowest 100 ms had no operation.
        let slowest = self.stalls.slowest_interval_operations.map_or(String::new(), |operations| {
            let per_second = u64::from(operations) * (1000 / INTERVAL_MS);
            format!("; slowest 100 ms at {}/s", display::count(per_second))
        });
        let pace = match self.stalls.longest_gap_ms {
            0 => slowest,
            ms => format!("; {ms} ms without an operation"),
        };
        let longest = display::nanoseconds(self.stalls.longest_operation_ns);
        let operation = self.stalls.longest_operation.unwrap_or("operation");
        let at = display::duration(Duration::from_secs_f64(self.stalls.longest_operation_at_s));
        facts.push(("stalls", format!("longest {operation} {longest}, {at} in{pace}")));
        facts.push((
            "causes",
            format!(
                "{} writes delayed, {} in all; longest checkpoint {}{}",
                display::count(self.stalls.write_delays),
                display::nanoseconds(self.stalls.write_delay_ns),
                display::nanoseconds(self.stalls.checkpoint_longest_ns),
                self.stalls.bare_append.map_or(String::new(), |append| format!(
                    ", bare append {}",
                    display::nanoseconds(append.max_ns)
                )),
            ),
        ));
        let resident = match self.peak_resident_bytes {
            Some(bytes) if self.peak_resident_is_of_phase => {
                format!("{} resident at most", display::bytes(bytes))
            }
            Some(bytes) => format!("{} resident at most since the process began", display::bytes(bytes)),
            None => "resident size not known here".into(),
        };
        facts.push((
            "memory",
            format!(
                "{resident}; the store accounts for {} of its budget of {}",
                display::bytes(self.store_memory_bytes),
                display::bytes(self.store_memory_budget_bytes)
            ),
        ));
        facts
    }
}

/// How many operations took how long: for each type and each power of ten.
fn histogram(latency: &BTreeMap<&str, Percentiles>) -> Table {
    let mut columns = vec![("operations", Align::Left)];
    columns.extend(DECADES.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (operation, percentiles) in latency {
        let mut row = vec![(*operation).to_string()];
        row.extend(percentiles.decades.map(display::count));
        table.row(row);
    }
    table
}

fn latency_table(latency: &BTreeMap<&str, Percentiles>) -> Table {
    let mut columns = vec![("", Align::Left), ("count", Align::Right)];
    columns.extend(["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"].map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (operation, p) in latency {
        let mut row =
            vec![(*operation).to_string(), display::count(p.count), display::nanoseconds(p.mean_ns as u64)];
        row.extend(
            [p.p50_ns, p.p90_ns, p.p99_ns, p.p99_9_ns, p.p99_99_ns, p.max_ns].map(display::nanoseconds),
        );
        table.row(row);
    }
    table
}
