//! The figures of one phase for people.

use super::report::{Device, Report};
use crate::measure::display::{self, Align, Table, bytes, count};
use crate::measure::latency::{DECADES, Percentiles};
use crate::measure::timeline::INTERVAL_MS;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

impl Report<'_> {
    fn title(&self) -> String {
        match self.distribution {
            Some(distribution) => format!("{} over {}", self.workload.name(), distribution.name()),
            None => self.workload.name().to_string(),
        }
    }

    /// One line with the essentials.
    pub(crate) fn line(&self) -> String {
        format!(
            "{:<28} {:>9} operations/s   written {:>5}   space {:>5.2}   longest {:>8}",
            self.title(),
            count(self.operations_per_s as u64),
            self.write_amplification.map_or("–".into(), |ratio| format!("{ratio:.2}")),
            self.space.max,
            display::nanoseconds(self.stalls.longest_operation_ns),
        )
    }

    /// A paragraph for people, within 100 columns.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let threads = self.parameters.args.threads;
        writeln!(
            out,
            "\n{}: {} operations/s ({} in {}, {threads} {})\n",
            self.title(),
            count(self.operations_per_s as u64),
            count(self.operations),
            display::duration(Duration::from_secs_f64(self.took_s)),
            if threads == 1 { "thread" } else { "threads" },
        )?;
        let mut latency = self.latency.clone();
        latency.extend(self.stalls.bare_append.map(|append| ("(bare append)", append)));
        print_table(&latency_table(&latency), out)?;
        if self.stalls.bare_append.is_some() {
            print_table(&histogram(&latency), out)?;
        }
        let facts = [
            ("written", Some(self.written())),
            ("read", self.read()),
            ("space", Some(self.disk())),
            ("store", Some(self.store())),
            ("gets from", self.gets_from()),
            ("scans", self.scans()),
            ("munks", Some(self.munks())),
            ("budget", Some(self.budget())),
            ("cached", Some(self.cached())),
            ("stalls", Some(self.pace())),
            ("causes", Some(self.causes())),
            ("memory", Some(self.memory())),
        ];
        for (name, text) in facts {
            text.map_or(Ok(()), |text| writeln!(out, "  {name:<9} {text}"))?;
        }
        if !self.is_sound() {
            let (missing, wrong) = (count(self.missing), count(self.wrong));
            writeln!(
                out,
                "\n  WRONG: {missing} records were not found, {wrong} rows were not what was written"
            )?;
        }
        Ok(())
    }

    fn written(&self) -> String {
        let kernel = match &self.device {
            None => "the kernel does not count".to_string(),
            Some(Device { written_bytes, write_amplification: Some(ratio), .. }) => {
                format!("{ratio:.2} per user byte by the kernel ({})", bytes(*written_bytes))
            }
            Some(device) => format!("{} to the device, none by the user", bytes(device.written_bytes)),
        };
        let by_store = self.write_amplification.map_or(String::new(), |ratio| {
            let per_byte = |grown| display::ratio(grown, self.user_bytes_written);
            let log = per_byte(self.stats.grown(|keyspace| keyspace.log_bytes_written));
            let tables = per_byte(self.stats.grown(|keyspace| keyspace.table_bytes_written));
            format!(", {ratio:.2} by the store (log {log:.2}, tables {tables:.2})")
        });
        kernel + &by_store
    }

    fn read(&self) -> Option<String> {
        let device = self.device.as_ref()?;
        let (ratio, bytes) = (device.read_amplification?, bytes(device.read_bytes));
        Some(format!("{ratio:.2} bytes from the device per user byte ({bytes})"))
    }

    fn disk(&self) -> String {
        format!(
            "{:.2} bytes on disk per live byte at most, {:.2} on average, {:.2} at the end (of {})",
            self.space.max,
            self.space.mean,
            self.space.end,
            bytes(self.space.live_bytes)
        )
    }

    fn store(&self) -> String {
        let stats = &self.stats;
        format!(
            "{} chunks, {} tables, {} logs; {} rebalances, {} splits, {} merges, {} checkpoints",
            count(stats.total(|keyspace| keyspace.chunks)),
            bytes(stats.total(|keyspace| keyspace.table_bytes)),
            bytes(stats.total(|keyspace| keyspace.log_bytes)),
            count(stats.grown(|keyspace| keyspace.rebalances)),
            count(stats.grown(|keyspace| keyspace.splits)),
            count(stats.grown(|keyspace| keyspace.merges)),
            count(stats.store_grown(|stats| stats.checkpoints)),
        )
    }

    fn gets_from(&self) -> Option<String> {
        let served = self.stats.gets_served();
        let gets: u64 = served.values().sum();
        let share = |(place, &count): (&String, &u64)| {
            format!("{} {:.1} %", place.replace('_', " "), display::ratio(count * 100, gets))
        };
        let shares: Vec<String> = served.iter().filter(|&(_, &count)| count > 0).map(share).collect();
        (gets > 0).then(|| shares.join(", "))
    }

    fn scans(&self) -> Option<String> {
        let scans = self.stats.grown(|keyspace| keyspace.scans);
        let per_scan = display::ratio(self.stats.grown(|keyspace| keyspace.scans_munk), scans);
        (scans > 0).then(|| format!("{per_scan:.2} chunks read from munks by each, on average"))
    }

    fn munks(&self) -> String {
        let stats = &self.stats;
        format!(
            "{} of {} chunks; {} loads, {} evictions, {} rebalances, {} splits, {} flushes",
            count(stats.total(|keyspace| keyspace.munks)),
            count(stats.total(|keyspace| keyspace.chunks)),
            count(stats.grown(|keyspace| keyspace.munk_loads)),
            count(stats.grown(|keyspace| keyspace.munk_evictions)),
            count(stats.grown(|keyspace| keyspace.munk_rebalances)),
            count(stats.grown(|keyspace| keyspace.munk_splits)),
            count(stats.grown(|keyspace| keyspace.munk_flushes)),
        )
    }

    /// How the memory budget is divided at the end, and how often that changed.
    fn budget(&self) -> String {
        let memory = &self.stats.after.memory;
        let part = |used: u64, limit: u64| format!("{} of {}", bytes(used), bytes(limit));
        format!(
            "munks {}, rows {}, blocks {}; {} moves",
            part(memory.munks, memory.munk_limit),
            part(memory.rows, memory.row_limit),
            part(memory.blocks, memory.block_limit),
            count(self.stats.store_grown(|stats| stats.memory.moves)),
        )
    }

    fn cached(&self) -> String {
        let stats = &self.stats;
        let hits = |name: &str, hits: u64, misses: u64| match hits + misses {
            0 => String::new(),
            all => format!("; {name} hit {:.1} % of {}", display::ratio(hits * 100, all), count(all)),
        };
        format!(
            "log indexes of {}{}{}",
            bytes(stats.after.memory.log_indexes),
            hits(
                "rows",
                stats.store_grown(|stats| stats.memory.row_hits),
                stats.store_grown(|stats| stats.memory.row_misses)
            ),
            hits(
                "blocks",
                stats.store_grown(|stats| stats.cache_hits),
                stats.store_grown(|stats| stats.cache_misses)
            ),
        )
    }

    fn pace(&self) -> String {
        // Where there was a gap, the slowest 100 ms had no operation.
        let pace = match (self.stalls.longest_gap_ms, self.stalls.slowest_interval_operations) {
            (0, None) => String::new(),
            (0, Some(operations)) => {
                let per_second = u64::from(operations) * (1000 / INTERVAL_MS);
                format!("; slowest 100 ms at {}/s", count(per_second))
            }
            (ms, _) => format!("; {ms} ms without an operation"),
        };
        let longest = display::nanoseconds(self.stalls.longest_operation_ns);
        let operation = self.stalls.longest_operation.unwrap_or("operation");
        let at = display::duration(Duration::from_secs_f64(self.stalls.longest_operation_at_s));
        format!("longest {operation} {longest}, {at} in{pace}")
    }

    fn causes(&self) -> String {
        let (before, after) = (&self.stats.before, &self.stats.after);
        let append = self.stalls.bare_append.map(|append| display::nanoseconds(append.max_ns));
        format!(
            "{} writes delayed, {} in all; longest checkpoint {}{}",
            count(self.stats.store_grown(|stats| stats.write_delays)),
            display::duration(after.write_delay_total.saturating_sub(before.write_delay_total)),
            display::duration(after.checkpoint_longest),
            append.map_or(String::new(), |longest| format!(", bare append {longest}")),
        )
    }

    fn memory(&self) -> String {
        let resident = match self.peak_resident_bytes {
            Some(peak) if self.peak_resident_is_of_phase => format!("{} resident at most", bytes(peak)),
            Some(peak) => format!("{} resident at most since the process began", bytes(peak)),
            None => "resident size not known here".into(),
        };
        let (used, budget) = (bytes(self.stats.after.memory_used), bytes(self.stats.after.memory_budget));
        format!("{resident}; the store accounts for {used} of its budget of {budget}")
    }
}

/// How many operations took how long: for each type and each power of ten.
fn histogram(latency: &BTreeMap<&str, Percentiles>) -> Table {
    let mut columns = vec![("operations", Align::Left)];
    columns.extend(DECADES.map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (operation, percentiles) in latency {
        let mut row = vec![(*operation).to_string()];
        row.extend(percentiles.decades.map(count));
        table.row(row);
    }
    table
}

fn latency_table(latency: &BTreeMap<&str, Percentiles>) -> Table {
    let mut columns = vec![("", Align::Left), ("count", Align::Right)];
    columns.extend(["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"].map(|name| (name, Align::Right)));
    let mut table = Table::new(&columns);
    for (operation, p) in latency {
        let mut row = vec![(*operation).to_string(), count(p.count), display::nanoseconds(p.mean_ns as u64)];
        row.extend(
            [p.p50_ns, p.p90_ns, p.p99_ns, p.p99_9_ns, p.p99_99_ns, p.max_ns].map(display::nanoseconds),
        );
        table.row(row);
    }
    table
}

/// Prints a table and an empty line.
fn print_table(table: &Table, out: &mut impl Write) -> io::Result<()> {
    table.lines("  ").iter().try_for_each(|line| writeln!(out, "{line}"))?;
    writeln!(out)
}
