//! Statistics in Prometheus' text format, by its conventions: base units last, `_total` for
//! counters, a help text for each metric, and labels where one figure is given for several things.

use super::{Figure, Number, figures, keyspaces};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// A metric and its help: the figure's name, the metric's, and the help text.
type Metric = (&'static str, &'static str, &'static str);

/// Figures of the store. A `*` stands for the part of the name that becomes a label.
const STORE: &[Metric] = &[
    ("version", "global_version", "Number that orders all writes; snapshots raise it."),
    ("epoch", "epoch", "Times the store was opened for writing, over its whole life."),
    ("open_snapshots", "open_snapshots", "Snapshots, ranges and cursors that are open."),
    ("checkpoints", "checkpoints_total", "Checkpoints since opening."),
    ("checkpoint_longest", "checkpoint_longest_seconds", "Duration of the longest checkpoint since opening."),
    ("journal_syncs", "journal_syncs_total", "Syncs of the journal since opening."),
    ("journal_writes", "journal_writes_total", "Writes that the journal made durable since opening."),
    ("disk_bytes", "disk_bytes", "Bytes of the store's files."),
    ("memory_budget", "memory_budget_bytes", "Memory budget of the store."),
    ("memory_used", "memory_used_bytes", "Memory accounted to the budget."),
    ("memory_*_floor", "memory_account_floor_bytes", "Memory that an account of the budget has in any case."),
    (
        "memory_*_limit",
        "memory_account_limit_bytes",
        "Most memory that an account of the budget may take now.",
    ),
    ("memory_*_used", "memory_account_used_bytes", "Memory that an account of the budget has taken."),
    ("memory_freed", "memory_freed_bytes", "Freed memory that is kept for the next region, row or merge."),
    ("memory_recent_reads", "recent_append_reads_total", "Log records read from the appends kept in memory."),
    ("memory_divisions", "memory_divisions_total", "Changes of the limits of regions, rows and blocks."),
    ("memory_row_hits", "row_cache_hits_total", "Rows found in the row cache."),
    ("memory_row_misses", "row_cache_misses_total", "Rows not found in the row cache."),
    ("cache_hits", "block_cache_hits_total", "Blocks found in the block cache."),
    ("cache_misses", "block_cache_misses_total", "Blocks not found in the block cache."),
    (
        "seek_blocks_announced",
        "seek_blocks_announced_total",
        "Blocks that the device read for a seek beside the block of another run.",
    ),
    ("reads_by_io_uring", "reads_by_io_uring_total", "Places read with others through a ring of the kernel."),
    ("reads_by_hints", "reads_by_hints_total", "Places read with others after hints to the kernel."),
    (
        "write_buffer_drains",
        "write_buffer_drains_total",
        "Appends of buffered records to a log, by one call each.",
    ),
    (
        "write_buffer_records",
        "write_buffer_drained_records_total",
        "Records that went from the write buffer to logs.",
    ),
    (
        "write_buffer_bytes",
        "write_buffer_drained_bytes_total",
        "Bytes that went from the write buffer to logs.",
    ),
    ("write_delays", "write_delays_total", "Times a write was slowed down, as maintenance was behind."),
    ("write_delay_total", "write_delay_seconds_total", "Time that writes were slowed down."),
    ("write_delay_longest", "write_delay_longest_seconds", "The longest time that a write was slowed down."),
    (
        "write_stalls_*_count",
        "write_stalls_total",
        "Writes that waited a millisecond or longer, by the cause.",
    ),
    ("write_stalls_*_total", "write_stall_seconds_total", "Time of those waits, by their cause."),
    ("write_stalls_*_longest", "write_stall_longest_seconds", "The longest of those waits, by the cause."),
    ("write_longest", "write_longest_seconds", "Duration of the longest write since opening."),
    ("transactions_committed", "transactions_committed_total", "Transactions committed since opening."),
    (
        "transaction_conflicts",
        "transaction_conflicts_total",
        "Commits of transactions that failed with a conflict.",
    ),
    ("open_time", "open_seconds", "Duration of the opening of the store."),
    ("left_behind_records", "left_behind_records", "Intact records of a dead process that do not count."),
    (
        "left_behind_bytes",
        "left_behind_bytes",
        "Bytes of intact records of a dead process that do not count.",
    ),
    ("maintenance_queued", "maintenance_queued_jobs", "Jobs of all classes that wait for a thread."),
    ("maintenance_running", "maintenance_running_jobs", "Jobs of all classes that threads work on."),
    ("maintenance_*_waiting", "maintenance_class_queued_jobs", "Jobs of a class that wait for a thread."),
    ("maintenance_*_running", "maintenance_class_running_jobs", "Jobs of a class that threads work on."),
];

/// Figures of each keyspace.
const KEYSPACE: &[Metric] = &[
    ("regions", "regions", "Key ranges that the layout manages: chunks, or guards of all levels."),
    ("table_bytes", "table_bytes", "Bytes of sorted tables."),
    ("log_bytes", "log_bytes", "Bytes of log segments."),
    ("unclaimed_bytes", "unclaimed_bytes", "Bytes of shared files that no chunk needs any more."),
    ("held_bytes", "held_bytes", "Bytes of replaced files that a checkpoint or a reader still holds."),
    ("live_bytes", "live_bytes", "Estimated bytes of keys and values that a scan would return."),
    ("live_pairs", "live_pairs", "Estimated number of pairs that a scan would return."),
    ("pinned_bytes", "pinned_bytes", "Estimated bytes of older versions that open snapshots keep."),
    ("user_bytes_written", "user_written_bytes_total", "Bytes of keys and values written since opening."),
    ("log_bytes_written", "log_written_bytes_total", "Bytes appended to logs since opening."),
    ("table_bytes_written", "table_written_bytes_total", "Bytes written to tables since opening."),
    ("writes", "writes_total", "Puts, deletes and range deletes since opening."),
    ("gets", "gets_total", "Gets since opening."),
    ("scans", "scans_total", "Ranges and cursors opened since opening."),
    ("gets_served_*", "gets_served_total", "Gets by the place that answered them."),
    (
        "get_times_*_total",
        "get_seconds_total",
        "Time of gets that files answered, by the place that answered them.",
    ),
    ("scan_log_reads", "scan_log_reads_total", "Reads of logs by scans."),
    (
        "parallel_gets",
        "parallel_gets_total",
        "Gets that waited for reads in several logs and tables at once.",
    ),
    ("parallel_get_runs", "parallel_get_runs_total", "Logs and tables that those gets searched."),
    (
        "parallel_get_runs_in_vain",
        "parallel_get_runs_in_vain_total",
        "Logs and tables that those gets searched in vain, as a newer one had the key.",
    ),
    ("get_runs", "get_runs_total", "Logs and tables that gets asked, those that a filter excluded included."),
    ("filter_skips", "filter_skips_total", "Log parts and tables that a Bloom filter excluded from a get."),
    ("parts_passed_over", "log_parts_passed_over_total", "Log parts that lie outside of the keys asked for."),
    (
        "filter_false_positives",
        "filter_false_positives_total",
        "Log parts and tables that a Bloom filter let pass in vain.",
    ),
    ("edits_refused", "edits_refused_total", "Changes of files that were refused; above 0 there is a bug."),
    ("log_batches", "log_batches_total", "Reads of several log records at once, in their order in the file."),
    ("log_batch_bytes", "log_batch_bytes_total", "Bytes of reads of several log records at once."),
    ("munks", "munks", "Chunks in memory."),
    ("munk_bytes", "munk_bytes", "Memory of the chunks in memory."),
    ("munk_towers", "munk_towers", "Skip-list towers over unsorted entries of chunks in memory."),
    ("munk_loads", "munk_loads_total", "Chunks loaded into memory."),
    ("munk_evictions", "munk_evictions_total", "Chunks evicted from memory."),
    ("munk_rebalances", "munk_rebalances_total", "Chunks in memory sorted anew."),
    ("munk_splits", "munk_splits_total", "Chunks in memory split."),
    ("munk_flushes", "munk_flushes_total", "Chunks in memory written to tables."),
    ("scans_munk", "scans_of_munks_total", "Chunks that scans read from memory."),
    ("scans_log_view", "scans_of_log_views_total", "Chunks that scans read by a merged index of their log."),
    ("rebalances", "rebalances_total", "Chunks written anew."),
    ("splits", "splits_total", "Chunks split."),
    ("end_splits", "tail_splits_total", "Splits that give ordered inserts a chunk of their own."),
    ("merges", "merges_total", "Merges: of neighbouring chunks, or of the tables of guards and of logs."),
    ("chunks_dropped", "chunks_dropped_total", "Chunks dropped whole by range deletes."),
    ("generation_bytes", "generation_bytes", "Bytes of logs that are not indexed on disk yet."),
    ("generations_sealed", "generations_sealed_total", "Logs indexed on disk or flushed to a table."),
    ("generations_flushed", "generations_flushed_total", "Logs flushed to a table."),
    ("flushed_bytes", "flushed_bytes_total", "Bytes of tables that flushes wrote into level 0."),
    ("level0_logs", "level0_logs", "Logs in level 0: a get may have to search each of them."),
    ("level0_tables", "level0_tables", "Tables in level 0: a get may have to search each of them."),
    ("levels", "levels", "Levels of guards below level 0."),
    ("guards_empty", "guards_empty", "Guards without a table."),
    ("guard_tables_most", "guard_tables_max", "Tables of the guard that has most of them."),
    ("guard_limit_least", "guard_tables_limit_min", "Tables that a guard may have: the least limit."),
    ("guard_limit_median", "guard_tables_limit_median", "Tables that a guard may have: the median limit."),
    ("guard_limit_most", "guard_tables_limit_max", "Tables that a guard may have: the greatest limit."),
    ("merged_bytes", "merged_bytes_total", "Bytes read by merges of guards and of logs."),
    ("merges_for_space", "merges_for_space_total", "Merges that were due to free disk space."),
    ("merges_at_once", "merges_at_once_max", "Merges of a keyspace that ran at the same time."),
    ("logs_adopted", "logs_adopted_total", "Logs in key order that became part of a guard as they are."),
    ("tables_moved", "tables_moved_total", "Tables that moved to the next level as they are."),
    ("guards_inserted", "guards_inserted_total", "Guards that began by metadata."),
    ("guards_deleted", "guards_deleted_total", "Guards that joined the one before them by metadata."),
    ("ranges_dropped", "ranges_dropped_total", "Parts of tables that range deletes dropped by metadata."),
    ("dropped_ranges", "dropped_ranges", "Dropped parts that the present tables have."),
    ("dropped_range_bytes", "dropped_range_bytes", "Bytes on disk of the dropped parts of tables."),
    ("referred_logs", "referred_logs", "Logs that tables refer to for long values."),
    ("referred_bytes", "referred_bytes", "Bytes of the long values that tables refer to."),
    ("values_referred", "values_referred_total", "Long values that merges left in their logs."),
    ("values_copied", "values_copied_total", "Long values that merges copied to tables."),
    (
        "seeks",
        "seeks_total",
        "Seeks by scans: one at the first pair, and one for each further stretch of guards.",
    ),
    ("seek_runs", "seek_runs_total", "Logs and tables that seeks merged."),
    ("by_level_*_guards", "level_guards", "Guards of a level."),
    ("by_level_*_table_bytes", "level_table_bytes", "Bytes of the tables of a level."),
    (
        "by_level_*_table_bytes_written",
        "level_table_written_bytes_total",
        "Bytes of tables written into a level.",
    ),
    ("by_level_*_tables", "level_tables", "Tables of a level. A shared table counts in each of its guards."),
];

/// The statistics as text.
pub(super) fn text(stats: &Map<String, Value>) -> String {
    let mut families: Vec<Family> = Vec::new();
    for figure in figures(stats) {
        add(&mut families, STORE, "", &[], &figure);
    }
    for (name, object) in keyspaces(stats) {
        for figure in figures(object) {
            add(&mut families, KEYSPACE, "keyspace_", &[("keyspace", name)], &figure);
        }
    }
    let mut text = String::new();
    for Family { name, help, samples } in families {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        // Writing to a string does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        for sample in samples {
            let _ = writeln!(text, "{name}{sample}");
        }
    }
    text
}

/// A metric with its samples, which stand together whichever keyspace they are of.
struct Family {
    name: String,
    help: &'static str,
    samples: Vec<String>,
}

fn add(
    families: &mut Vec<Family>,
    metrics: &[Metric],
    scope: &str,
    labels: &[(&str, &str)],
    figure: &Figure,
) {
    // A figure that the table lacks is not lost: a test fails, and its own name serves.
    let found = metric(metrics, &figure.name);
    let (name, help, part) = found.unwrap_or((figure.name.as_str(), "Undocumented.", ""));
    let name = format!("cantle_{scope}{name}");
    let label = match name.as_str() {
        name if name.contains("memory_account") => "account",
        name if name.contains("maintenance_class") => "class",
        name if name.contains("write_stall") => "cause",
        name if name.contains("keyspace_level_") => "level",
        _ => "source",
    };
    let labels: Vec<String> = labels
        .iter()
        .copied()
        .chain((!part.is_empty()).then_some((label, part)))
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
    let sample = match figure.value {
        Number::Count(count) => format!("{labels} {count}"),
        Number::Seconds(seconds) => format!("{labels} {seconds}"),
    };
    match families.iter_mut().find(|family| family.name == name) {
        Some(family) => family.samples.push(sample),
        None => families.push(Family { name, help, samples: vec![sample] }),
    }
}

/// The metric of a figure: its name, its help, and the part of the figure's name that becomes a label.
fn metric<'a>(metrics: &[Metric], name: &'a str) -> Option<(&'static str, &'static str, &'a str)> {
    metrics.iter().find_map(|&(pattern, metric, help)| Some((metric, help, part(pattern, name)?)))
}

/// The name of the metric of a figure of the store or of a keyspace.
fn metric_name(name: &str) -> Option<&'static str> {
    metric(STORE, name).or_else(|| metric(KEYSPACE, name)).map(|(metric, ..)| metric)
}

/// True if the figure can go down; all others count up from the opening of the store.
pub(super) fn is_gauge(name: &str) -> bool {
    metric_name(name).is_some_and(|metric| !metric.ends_with("_total"))
}

/// True if the figure is of a cause of stalls.
pub(super) fn is_of_stalls(name: &str) -> bool {
    metric_name(name).is_some_and(|metric| metric.starts_with("write_stall"))
}

/// True if the figure is of an account of the memory budget.
pub(super) fn is_of_account(name: &str) -> bool {
    metric_name(name).is_some_and(|metric| metric.starts_with("memory_account"))
}

/// The part of `name` for which the `*` of `pattern` stands; empty for a pattern without one.
fn part<'a>(pattern: &str, name: &'a str) -> Option<&'a str> {
    match pattern.split_once('*') {
        None => (pattern == name).then_some(""),
        Some((start, end)) => name.strip_prefix(start)?.strip_suffix(end).filter(|part| !part.is_empty()),
    }
}

/// A label's value.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sample, sample_of_levels, sample_of_stalls};
    use super::*;

    #[test]
    fn samples_of_a_metric_stand_together_with_help_and_labels() {
        assert_eq!(
            text(&sample()),
            r#"# HELP cantle_disk_bytes Bytes of the store's files.
# TYPE cantle_disk_bytes gauge
cantle_disk_bytes 1500
# HELP cantle_memory_account_floor_bytes Memory that an account of the budget has in any case.
# TYPE cantle_memory_account_floor_bytes gauge
cantle_memory_account_floor_bytes{account="rows"} 1000
# HELP cantle_memory_account_limit_bytes Most memory that an account of the budget may take now.
# TYPE cantle_memory_account_limit_bytes gauge
cantle_memory_account_limit_bytes{account="rows"} 2000
# HELP cantle_memory_account_used_bytes Memory that an account of the budget has taken.
# TYPE cantle_memory_account_used_bytes gauge
cantle_memory_account_used_bytes{account="rows"} 0
# HELP cantle_memory_divisions_total Changes of the limits of regions, rows and blocks.
# TYPE cantle_memory_divisions_total counter
cantle_memory_divisions_total 3
# HELP cantle_row_cache_hits_total Rows found in the row cache.
# TYPE cantle_row_cache_hits_total counter
cantle_row_cache_hits_total 0
# HELP cantle_checkpoints_total Checkpoints since opening.
# TYPE cantle_checkpoints_total counter
cantle_checkpoints_total 2
# HELP cantle_write_delay_seconds_total Time that writes were slowed down.
# TYPE cantle_write_delay_seconds_total counter
cantle_write_delay_seconds_total 1.5
# HELP cantle_open_seconds Duration of the opening of the store.
# TYPE cantle_open_seconds gauge
cantle_open_seconds 0.002
# HELP cantle_keyspace_regions Key ranges that the layout manages: chunks, or guards of all levels.
# TYPE cantle_keyspace_regions gauge
cantle_keyspace_regions{keyspace="a\"b"} 3
cantle_keyspace_regions{keyspace="c"} 4
# HELP cantle_keyspace_gets_total Gets since opening.
# TYPE cantle_keyspace_gets_total counter
cantle_keyspace_gets_total{keyspace="a\"b"} 7
cantle_keyspace_gets_total{keyspace="c"} 0
# HELP cantle_keyspace_gets_served_total Gets by the place that answered them.
# TYPE cantle_keyspace_gets_served_total counter
cantle_keyspace_gets_served_total{keyspace="a\"b",source="table"} 5
cantle_keyspace_gets_served_total{keyspace="c",source="table"} 0
# HELP cantle_keyspace_get_seconds_total Time of gets that files answered, by the place that answered them.
# TYPE cantle_keyspace_get_seconds_total counter
cantle_keyspace_get_seconds_total{keyspace="a\"b",source="table"} 0
"#
        );
    }

    #[test]
    fn levels_are_labels() {
        let text = text(&sample_of_levels());
        assert!(text.contains("cantle_keyspace_level_guards{keyspace=\"k\",level=\"2\"} 1500\n"), "{text}");
        let written = "cantle_keyspace_level_table_written_bytes_total{keyspace=\"k\",level=\"1\"} 1100000\n";
        assert!(text.contains(written) && !text.contains("Undocumented"), "{text}");
    }

    #[test]
    fn causes_of_stalls_are_labels() {
        let text = text(&sample_of_stalls());
        for line in [
            "cantle_write_stalls_total{cause=\"lock\"} 3\n",
            "cantle_write_stall_seconds_total{cause=\"lock\"} 0.25\n",
            "cantle_write_stall_longest_seconds{cause=\"device\"} 0\n",
            "# TYPE cantle_write_stalls_total counter\n",
            "# TYPE cantle_write_stall_longest_seconds gauge\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn every_figure_of_a_store_has_a_conventional_name_and_a_help() {
        let dir = tempfile::tempdir().unwrap();
        let db = cantle::Db::open(dir.path()).unwrap();
        let flsm = cantle::KeyspaceOptions::new().layout(cantle::LayoutKind::Flsm);
        db.keyspace_with("of levels", flsm).unwrap();
        let Value::Object(stats) = serde_json::to_value(db.stats()).unwrap() else { panic!("no object") };
        let text = text(&stats);
        assert!(!text.contains("Undocumented"), "{text}");
        for line in text.lines().filter(|line| line.starts_with("# TYPE")) {
            let mut words = line.split(' ').skip(2);
            let (name, kind) = (words.next().unwrap(), words.next().unwrap());
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert!(
                !name.contains("bytes") || name.ends_with("bytes") || name.ends_with("bytes_total"),
                "{name}"
            );
        }
        let is_counted = |counted: &Figure| !super::super::is_gauge(&counted.name);
        let metrics = |table: &'static [Metric]| table.iter().map(|metric| metric.1);
        assert!(metrics(STORE).chain(metrics(KEYSPACE)).all(|name| !name.ends_with("total_total")));
        for figure in figures(&stats).iter().filter(|figure| matches!(figure.value, Number::Count(_))) {
            let name = STORE.iter().find(|metric| part(metric.0, &figure.name).is_some()).unwrap().1;
            assert_eq!(name.ends_with("_total"), is_counted(figure), "{} is {name}", figure.name);
        }
        assert!(
            text.contains("cantle_keyspace_level_guards{keyspace=\"of levels\",level=\"1\"} 1\n"),
            "{text}"
        );
    }
}
