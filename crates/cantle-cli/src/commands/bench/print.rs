//! The figures of one phase for people.

use super::report::Report;
use crate::measure::disk::Space;
use crate::measure::display::{self, Align, Table, bytes, count, duration, nanoseconds};
use crate::measure::timeline::INTERVAL_MS;
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
            self.measured.space.max,
            nanoseconds(self.stalls.longest_operation_ns),
        )
    }

    /// A paragraph for people, within 100 columns.
    pub(crate) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (tally, threads) = (&self.measured.tally, self.parameters.args.threads);
        writeln!(
            out,
            "\n{}: {} operations/s ({} in {}, {threads} {})\n",
            self.title(),
            count(self.operations_per_s as u64),
            count(tally.operations),
            duration(tally.took),
            if threads == 1 { "thread" } else { "threads" },
        )?;
        for line in self.latencies().lines("  ") {
            writeln!(out, "{line}")?;
        }
        writeln!(out)?;
        let facts = [
            ("written", Some(self.written())),
            ("read", self.read()),
            ("space", Some(self.space())),
            ("store", Some(self.store())),
            ("work", Some(self.work())),
            ("gets from", self.gets_from()),
            ("runs", self.runs()),
            ("cached", Some(self.cached())),
            ("stalls", Some(self.stalls())),
            ("causes", Some(self.causes())),
            ("memory", Some(self.memory())),
        ];
        for (name, text) in facts {
            text.map_or(Ok(()), |text| writeln!(out, "  {name:<9} {text}"))?;
        }
        if !self.is_sound() {
            let (missing, wrong) = (count(tally.missing), count(tally.wrong));
            let what = format!("{missing} records were not found, {wrong} rows were not what was written");
            writeln!(out, "\n  WRONG: {what}")?;
        }
        Ok(())
    }

    fn latencies(&self) -> Table {
        let numbers = ["count", "mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
        let mut columns = vec![("", Align::Left)];
        columns.extend(numbers.map(|name| (name, Align::Right)));
        let mut table = Table::new(&columns);
        let append = self.stalls.bare_append.iter().map(|append| (&"(bare append)", append));
        for (name, p) in append.chain(&self.latency) {
            let times = [p.mean_ns as u64, p.p50_ns, p.p90_ns, p.p99_ns, p.p99_9_ns, p.p99_99_ns, p.max_ns];
            table.row([name.to_string(), count(p.count)].into_iter().chain(times.map(nanoseconds)));
        }
        table
    }

    fn written(&self) -> String {
        let measured = &self.measured;
        let kernel = match (&measured.device, self.device_write_amplification) {
            (None, _) => "the kernel does not count".to_string(),
            (Some(device), Some(ratio)) => {
                format!("{ratio:.2} per user byte by the kernel ({})", bytes(device.written_bytes))
            }
            (Some(device), None) => {
                format!("{} to the device, none by the user", bytes(device.written_bytes))
            }
        };
        let by_store = self.write_amplification.map_or(String::new(), |ratio| {
            let per_byte = |grown| display::ratio(grown, measured.tally.user_bytes_written);
            let log = per_byte(measured.stats.grown(|keyspace| keyspace.log_bytes_written));
            let tables = per_byte(measured.stats.grown(|keyspace| keyspace.table_bytes_written));
            format!(", {ratio:.2} by the store (log {log:.2}, tables {tables:.2})")
        });
        kernel + &by_store
    }

    fn read(&self) -> Option<String> {
        let (ratio, device) = self.device_read_amplification.zip(self.measured.device)?;
        Some(format!("{ratio:.2} bytes from the device per user byte ({})", bytes(device.read_bytes)))
    }

    fn space(&self) -> String {
        let Space { max, mean, end, live_bytes, .. } = self.measured.space;
        let live = bytes(live_bytes);
        format!(
            "{max:.2} bytes on disk per live byte at most, {mean:.2} on average, {end:.2} at the end (of {live})"
        )
    }

    fn store(&self) -> String {
        let stats = &self.measured.stats;
        if let Some(levels) = stats.levels() {
            return format!(
                "{} {} in {} {}; {} in tables, {} in {} logs of level 0, {} tables there",
                count(stats.total(|keyspace| keyspace.regions)),
                stats.after.keyspaces.first().map_or("regions", |keyspace| keyspace.layout.regions()),
                count(levels),
                if levels == 1 { "level" } else { "levels" },
                bytes(stats.total(|keyspace| keyspace.table_bytes)),
                bytes(stats.total(|keyspace| keyspace.log_bytes)),
                count(stats.total(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.level0_logs))),
                count(stats.total(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.level0_tables))),
            );
        }
        format!(
            "{} {}, {} of them in memory; {} in tables, {} in logs",
            count(stats.total(|keyspace| keyspace.regions)),
            stats.after.keyspaces.first().map_or("regions", |keyspace| keyspace.layout.regions()),
            count(stats.total(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.munks))),
            bytes(stats.total(|keyspace| keyspace.table_bytes)),
            bytes(stats.total(|keyspace| keyspace.log_bytes)),
        )
    }

    /// The store's own work.
    fn work(&self) -> String {
        let stats = &self.measured.stats;
        if stats.levels().is_some() {
            return format!(
                "{} merges, of {}; {} logs sealed, {} of them flushed, {} checkpoints",
                count(stats.grown(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.merges))),
                bytes(stats.grown(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.merged_bytes))),
                count(stats.grown(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.generations_sealed))),
                count(stats.grown(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.generations_flushed))),
                count(stats.store_grown(|stats| stats.checkpoints)),
            );
        }
        format!(
            "{} rebalances, {} splits, {} merges, {} checkpoints; {} loads into memory, {} evictions",
            count(stats.grown(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.rebalances))),
            count(stats.grown(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.splits))),
            count(stats.grown(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.merges))),
            count(stats.store_grown(|stats| stats.checkpoints)),
            count(stats.grown(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.munk_loads))),
            count(stats.grown(|keyspace| keyspace.chunk().map_or(0, |chunk| chunk.munk_evictions))),
        )
    }

    fn gets_from(&self) -> Option<String> {
        let served = self.measured.stats.gets_served();
        let gets: u64 = served.values().sum();
        let share = |(place, &count)| format!("{place} {:.1} %", display::ratio(count * 100, gets));
        let shares: Vec<String> = served.iter().filter(|&(_, &count)| count > 0).map(share).collect();
        (gets > 0).then(|| shares.join(", "))
    }

    /// Logs and tables that reads search, in layouts in which these are many.
    fn runs(&self) -> Option<String> {
        let stats = &self.measured.stats;
        stats.levels()?;
        let of =
            |reads, runs, name| (reads > 0).then(|| format!("{name} {:.2}", display::ratio(runs, reads)));
        let (gets, get_runs) =
            (stats.grown(|keyspace| keyspace.gets), stats.grown(|keyspace| keyspace.get_runs));
        let seeks = stats.grown(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.seeks));
        let seek_runs = stats.grown(|keyspace| keyspace.lsm().map_or(0, |lsm| lsm.seek_runs));
        let parts = [of(gets, get_runs, "searched by a get"), of(seeks, seek_runs, "merged by a seek")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    fn cached(&self) -> String {
        let stats = &self.measured.stats;
        let hits = |name, hits, misses| match hits + misses {
            0 => String::new(),
            all => format!("; {name} hit {:.1} % of {}", display::ratio(hits * 100, all), count(all)),
        };
        let (row_hits, row_misses) =
            (stats.store_grown(|all| all.memory.row_hits), stats.store_grown(|all| all.memory.row_misses));
        let (block_hits, block_misses) =
            (stats.store_grown(|all| all.cache_hits), stats.store_grown(|all| all.cache_misses));
        let rows = hits("rows", row_hits, row_misses) + &hits("blocks", block_hits, block_misses);
        format!("log indexes of {}{rows}", bytes(stats.after.memory.log_indexes.used))
    }

    fn stalls(&self) -> String {
        let stalls = &self.stalls;
        // In a gap, the slowest 100 ms had no operation.
        let pace = match (stalls.longest_gap_ms, stalls.slowest_interval_operations) {
            (0, None) => String::new(),
            (0, Some(operations)) => {
                format!("; slowest 100 ms at {}/s", count(u64::from(operations) * (1000 / INTERVAL_MS)))
            }
            (ms, _) => format!("; {ms} ms without an operation"),
        };
        let longest = nanoseconds(stalls.longest_operation_ns);
        let at = duration(Duration::from_secs_f64(stalls.longest_operation_at_s));
        format!("longest {} {longest}, {at} in{pace}", stalls.longest_operation)
    }

    fn causes(&self) -> String {
        let stats = &self.measured.stats;
        let append = self.stalls.bare_append.map(|append| nanoseconds(append.max_ns));
        format!(
            "{} writes delayed, {} in all; longest checkpoint {}{}",
            count(stats.store_grown(|stats| stats.write_delays)),
            duration(stats.after.write_delay_total.saturating_sub(stats.before.write_delay_total)),
            duration(stats.after.checkpoint_longest),
            append.map_or(String::new(), |longest| format!(", bare append {longest}")),
        )
    }

    fn memory(&self) -> String {
        let stats = &self.measured.stats.after;
        let since = if self.measured.peak_resident_is_of_phase { "" } else { " since the process began" };
        let resident = match self.measured.peak_resident_bytes {
            Some(peak) => format!("{} resident at most{since}", bytes(peak)),
            None => "resident size not known here".into(),
        };
        let (used, budget) = (bytes(stats.memory_used), bytes(stats.memory_budget));
        format!("{resident}; the store accounts for {used} of its budget of {budget}")
    }
}
