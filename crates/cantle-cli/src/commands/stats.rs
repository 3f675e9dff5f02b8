//! `cantle stats`: a store's own counters and sizes.

mod prometheus;

use crate::failure::{Failure, Outcome};
use crate::merging;
use crate::output::{Output, human_bytes, human_count};
use crate::seen::Seen;
use crate::store::StoreArgs;
use cantle::stats::RunningMerge;
use clap::{Args, ValueEnum};
use prometheus::{is_gauge, is_of_account, is_of_stalls};
use serde_json::{Map, Value};
use std::fmt::Write as _;

/// Print a store's counters and sizes
///
/// All keyspaces are told, or the one named. Counters count from the opening of the store: by this
/// command, or by the program that has it open (with the option `monitor`). The table leaves out those at zero.
///
/// --json prints one object: the members of the library's Stats, with keyspaces as an array.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Stats {
    #[command(flatten)]
    store: StoreArgs,
    /// The form in which they are printed
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  cantle stats flights
  cantle stats flights --json
  cantle stats flights --format prometheus > /var/lib/node_exporter/cantle.prom";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table
    Text,
    /// JSON
    Json,
    /// Prometheus' text format
    Prometheus,
}

impl Stats {
    pub(crate) fn run(self) -> Outcome {
        let seen = Seen::open(&self.store)?;
        let Value::Object(mut stats) = serde_json::to_value(seen.stats()?)? else {
            return Err(Failure::Failed("the store's statistics are no object".into()));
        };
        if let (Some(name), Some(Value::Array(keyspaces))) =
            (&self.store.keyspace, stats.get_mut("keyspaces"))
        {
            keyspaces.retain(|keyspace| keyspace.get("name").and_then(Value::as_str) == Some(name));
        }
        let mut output = Output::new();
        match if self.json { Format::Json } else { self.format } {
            Format::Json => output.json(&stats)?,
            Format::Prometheus => output.bytes(prometheus::text(&stats).as_bytes())?,
            Format::Text => output.bytes(text(&stats).as_bytes())?,
        }
        output.finish()
    }
}

/// A figure of the statistics. Nested objects are taken apart: `gets_served` with `table` is
/// `gets_served_table`, a duration is its seconds. `tables` of level 2 is `by_level_2_tables`.
struct Figure {
    name: String,
    value: Number,
}

enum Number {
    Count(u64),
    Seconds(f64),
}

fn figures(object: &Map<String, Value>) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (name, value) in object {
        match value {
            Value::Number(number) => {
                if let Some(count) = number.as_u64() {
                    figures.push(Figure { name: name.clone(), value: Number::Count(count) });
                }
            }
            Value::Object(inner) => match (inner.get("secs"), inner.get("nanos")) {
                (Some(seconds), Some(nanos)) => {
                    let part = |value: &Value| value.as_f64().unwrap_or(0.0);
                    let seconds = part(seconds) + part(nanos) / 1e9;
                    figures.push(Figure { name: name.clone(), value: Number::Seconds(seconds) });
                }
                _ => figures.extend(
                    self::figures(inner)
                        .into_iter()
                        .map(|figure| Figure { name: format!("{name}_{}", figure.name), ..figure }),
                ),
            },
            Value::Array(list) if name == LEVELS => {
                for (number, level) in levels(list) {
                    figures.extend(
                        self::figures(level).into_iter().filter(|figure| figure.name != "level").map(
                            |figure| Figure { name: format!("{name}_{number}_{}", figure.name), ..figure },
                        ),
                    );
                }
            }
            _ => {}
        }
    }
    figures
}

/// The list of levels among the statistics of a keyspace whose layout has some.
const LEVELS: &str = "by_level";

/// The levels of such a list, with their numbers.
fn levels(list: &[Value]) -> impl Iterator<Item = (u64, &Map<String, Value>)> {
    let numbered = |level: &Map<String, Value>| level.get("level").and_then(Value::as_u64);
    list.iter().filter_map(Value::as_object).filter_map(move |level| Some((numbered(level)?, level)))
}

fn keyspaces(stats: &Map<String, Value>) -> Vec<(&str, &Map<String, Value>)> {
    let keyspaces = stats.get("keyspaces").and_then(Value::as_array).into_iter().flatten();
    keyspaces
        .filter_map(Value::as_object)
        .map(|object| (object.get("name").and_then(Value::as_str).unwrap_or_default(), object))
        .collect()
}

fn text(stats: &Map<String, Value>) -> String {
    let mut text = section("store", stats);
    text += &table_of_stalls(stats);
    // Writing to a string does not fail.
    let _ = writeln!(text, "memory, used of at most");
    for (name, [used, limit]) in accounts(stats) {
        let shown = format!("{} of {}", human_bytes(used), human_bytes(limit));
        let _ = writeln!(text, "  {:<20}{shown:>24}", name.replace('_', " "));
    }
    for (name, object) in keyspaces(stats) {
        text += &section(&format!("keyspace {name}"), object);
        text += &reads_of_runs(object);
        text += &table_of_levels(object);
        text += &running_merges(object);
    }
    if let Some(reason) = stats.get("read_only").and_then(Value::as_str) {
        let _ = writeln!(text, "read-only: {reason}");
    }
    text
}

fn section(title: &str, object: &Map<String, Value>) -> String {
    let mut text = format!("{title}\n");
    for Figure { name, value } in figures(object) {
        let shown = match value {
            // An event that has not happened yet needs no line; accounts of memory have lines of
            // their own.
            Number::Count(0) if !is_gauge(&name) || name.starts_with("left_behind") => continue,
            Number::Count(_) if is_of_account(&name) || name.starts_with(LEVELS) => continue,
            // Stalls have a table.
            _ if is_of_stalls(&name) => continue,
            Number::Seconds(0.0) if name.ends_with("_total") => continue,
            Number::Count(bytes) if name.contains("bytes") || is_memory(&name) => human_bytes(bytes),
            Number::Count(count) => human_count(count),
            Number::Seconds(seconds) => format!("{:.3} ms", seconds * 1e3),
        };
        let _ = writeln!(text, "  {:<28}{shown:>16}", name.replace('_', " "));
    }
    text
}

/// The causes for which writes waited long, if any did: a line for each.
fn table_of_stalls(stats: &Map<String, Value>) -> String {
    let causes = stats.get("write_stalls").and_then(Value::as_object).into_iter().flatten();
    let mut text = String::new();
    for (cause, stalls) in causes {
        let Some(stalls) = stalls.as_object() else { continue };
        let (mut count, mut total, mut longest) = (0, 0.0, 0.0);
        for Figure { name, value } in figures(stalls) {
            match (name.as_str(), value) {
                ("count", Number::Count(stalls)) => count = stalls,
                ("total", Number::Seconds(seconds)) => total = seconds,
                ("longest", Number::Seconds(seconds)) => longest = seconds,
                _ => {}
            }
        }
        if count == 0 {
            continue;
        }
        // Writing to a string does not fail.
        if text.is_empty() {
            let _ = writeln!(text, "writes that waited for{:>12}{:>16}{:>16}", "stalls", "in all", "longest");
        }
        let of = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
        let _ = writeln!(text, "  {cause:<20}{:>12}{:>16}{:>16}", human_count(count), of(total), of(longest));
    }
    text
}

/// The runs that a get and a seek search on average, if there were any.
fn reads_of_runs(keyspace: &Map<String, Value>) -> String {
    let figure = |name: &str| keyspace.get(name).and_then(Value::as_u64).unwrap_or(0);
    let served = keyspace.get("gets_served").and_then(Value::as_object);
    let of_memory = ["resident", "row"].map(|place| served.and_then(|served| served.get(place)?.as_u64()));
    let gets = figure("gets").saturating_sub(of_memory.into_iter().flatten().sum());
    let mut text = String::new();
    for (title, runs, reads) in [
        ("runs searched by a get", figure("get_runs"), gets),
        ("runs searched in parallel", figure("parallel_get_runs"), figure("parallel_gets")),
        ("runs merged by a seek", figure("seek_runs"), figure("seeks")),
    ] {
        if runs > 0 && reads > 0 {
            // Writing to a string does not fail.
            let _ = writeln!(text, "  {title:<28}{:>16.2}", runs as f64 / reads as f64);
        }
    }
    text
}

/// The levels of a keyspace whose layout has some: a line for each.
fn table_of_levels(keyspace: &Map<String, Value>) -> String {
    let Some(list) = keyspace.get(LEVELS).and_then(Value::as_array).filter(|list| !list.is_empty()) else {
        return String::new();
    };
    let user_bytes = keyspace.get("user_bytes_written").and_then(Value::as_u64).unwrap_or(0);
    let columns = ["level", "guards", "tables", "size", "written", "written per byte put"];
    let mut text = format!(
        "  {:<6}{:>10}{:>10}{:>12}{:>12}{:>24}\n",
        columns[0], columns[1], columns[2], columns[3], columns[4], columns[5]
    );
    for (number, level) in levels(list) {
        let figure = |name: &str| level.get(name).and_then(Value::as_u64).unwrap_or(0);
        let written = figure("table_bytes_written");
        let ratio = match user_bytes {
            0 => "-".to_owned(),
            user_bytes => format!("{:.2}", written as f64 / user_bytes as f64),
        };
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "  {number:<6}{:>10}{:>10}{:>12}{:>12}{ratio:>24}",
            human_count(figure("guards")),
            human_count(figure("tables")),
            human_bytes(figure("table_bytes")),
            human_bytes(written),
        );
    }
    text
}

/// The merges that run, if any do: a line for each.
fn running_merges(keyspace: &Map<String, Value>) -> String {
    let merges = keyspace.get("running_merges").cloned().unwrap_or_default();
    let merges: Vec<RunningMerge> = serde_json::from_value(merges).unwrap_or_default();
    merges.iter().map(|merge| format!("  {}\n", merging::line(merge))).collect()
}

/// Figures of memory that are bytes, though their names do not say so.
fn is_memory(name: &str) -> bool {
    name.starts_with("memory_") && is_gauge(name)
}

/// The accounts of the memory budget with what they have taken and may take, in bytes.
fn accounts(stats: &Map<String, Value>) -> Vec<(&str, [u64; 2])> {
    let memory = stats.get("memory").and_then(Value::as_object).into_iter().flatten();
    let part = |account: &Value, part: &str| account.get(part).and_then(Value::as_u64);
    memory
        .filter_map(|(name, account)| {
            Some((name.as_str(), [part(account, "used")?, part(account, "limit")?]))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn sample() -> Map<String, Value> {
        let json = r#"{"keyspaces":[
            {"name":"a\"b","regions":3,"gets":7,"gets_served":{"table":5},"get_times":{"table_total":{"secs":0,"nanos":0}}},
            {"name":"c","regions":4,"gets":0,"gets_served":{"table":0}}],
            "disk_bytes":1500,"memory":{"rows":{"floor":1000,"limit":2000,"used":0},"divisions":3,"row_hits":0},"checkpoints":2,"write_delay_total":{"secs":1,"nanos":500000000},
            "open_time":{"secs":0,"nanos":2000000},"read_only":null}"#;
        serde_json::from_str(json).unwrap()
    }

    pub(super) fn sample_of_levels() -> Map<String, Value> {
        let json = r#"{"keyspaces":[{"name":"k","gets":10,"gets_served":{"row":2},"get_runs":20,"parallel_gets":2,"parallel_get_runs":9,
            "seeks":4,"seek_runs":14,
            "user_bytes_written":1000000,"level0_logs":3,"by_level":[
            {"level":1,"guards":2,"tables":7,"table_bytes":3000,"table_bytes_written":1100000},
            {"level":2,"guards":1500,"tables":1600,"table_bytes":9000000,"table_bytes_written":0}]}]}"#;
        serde_json::from_str(json).unwrap()
    }

    pub(super) fn sample_of_stalls() -> Map<String, Value> {
        let json = r#"{"write_stalls":{
            "brake":{"count":0,"total":{"secs":0,"nanos":0},"longest":{"secs":0,"nanos":0}},
            "lock":{"count":3,"total":{"secs":0,"nanos":250000000},"longest":{"secs":0,"nanos":120000000}},
            "device":{"count":1200,"total":{"secs":2,"nanos":500000},"longest":{"secs":0,"nanos":0}}}}"#;
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn causes_of_stalls_have_a_line_each_if_any_write_waited() {
        let text = text(&sample_of_stalls());
        let lines: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        assert_eq!(lines[1], "writes that waited for stalls in all longest");
        assert_eq!(lines[2], "lock 3 250.000 ms 120.000 ms");
        assert_eq!(lines[3], "device 1,200 2000.500 ms 0.000 ms");
        assert!(!text.contains("brake") && !text.contains("write stalls"), "{text}");
    }

    #[test]
    fn levels_have_a_line_each_and_reads_their_runs() {
        let text = text(&sample_of_levels());
        let line = |start: &str| {
            let found = text.lines().find(|line| line.trim().starts_with(start)).unwrap_or_default();
            found.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("level "), "level guards tables size written written per byte put");
        assert_eq!(line("1 "), "1 2 7 3.0 kB 1.1 MB 1.10");
        assert_eq!(line("2 "), "2 1,500 1,600 9.0 MB 0 B 0.00");
        // Two of the ten gets were rows from memory.
        assert_eq!(line("runs searched by a get"), "runs searched by a get 2.50");
        assert_eq!(line("runs searched in parallel"), "runs searched in parallel 4.50");
        assert_eq!(line("runs merged by a seek"), "runs merged by a seek 3.50");
        assert_eq!(line("level0 logs"), "level0 logs 3");
        assert!(!text.contains("by level"), "{text}");
    }

    #[test]
    fn running_merges_have_a_line_each() {
        let json = r#"{"keyspaces":[{"name":"k","running_merges":[
            {"is_asked":true,"from_level":1,"to_level":3,"bytes_read":3000,"bytes":12000},
            {"is_asked":false,"from_level":0,"to_level":1,"bytes_read":0,"bytes":0}]}]}"#;
        let text = text(&serde_json::from_str(json).unwrap());
        assert!(
            text.contains("\n  merging levels 1 to 3, as asked for: 3.0 kB of 12.0 kB read, 25 %\n"),
            "{text}"
        );
        assert!(text.contains("\n  merging logs into level 1: 0 B of 0 B read, 100 %\n"), "{text}");
    }

    #[test]
    fn text_has_units() {
        let text = text(&sample());
        assert!(text.contains("disk bytes") && text.contains("1.5 kB"), "{text}");
        assert!(text.contains("2.000 ms") && text.contains("keyspace c"), "{text}");
        let line = |name: &str| text.lines().find(|line| line.trim().starts_with(name)).map(str::trim_end);
        assert!(line("rows").is_some_and(|line| line.ends_with(" 0 B of 2.0 kB")), "{text}");
        assert!(line("memory divisions").is_some_and(|line| line.ends_with(" 3")), "{text}");
        for name in ["memory row hits", "memory rows limit", "get times table total"] {
            assert_eq!(line(name), None, "what is counted and is zero is left out");
        }
    }
}
