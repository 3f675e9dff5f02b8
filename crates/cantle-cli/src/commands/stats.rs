//! `cantle stats`: a store's own counters and sizes.

mod prometheus;

use crate::failure::{Failure, Outcome};
use crate::output::{Output, human_bytes, human_count};
use crate::seen::Seen;
use crate::store::StoreArgs;
use clap::{Args, ValueEnum};
use prometheus::{is_gauge, is_of_account};
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
/// `gets_served_table`, a duration is its seconds.
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
            _ => {}
        }
    }
    figures
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
    // Writing to a string does not fail.
    let _ = writeln!(text, "memory, used of at most");
    for (name, [used, limit]) in accounts(stats) {
        let shown = format!("{} of {}", human_bytes(used), human_bytes(limit));
        let _ = writeln!(text, "  {:<20}{shown:>24}", name.replace('_', " "));
    }
    for (name, object) in keyspaces(stats) {
        text += &section(&format!("keyspace {name}"), object);
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
            Number::Count(_) if is_of_account(&name) => continue,
            Number::Seconds(0.0) if name.ends_with("_total") => continue,
            Number::Count(bytes) if name.contains("bytes") || is_memory(&name) => human_bytes(bytes),
            Number::Count(count) => human_count(count),
            Number::Seconds(seconds) => format!("{:.3} ms", seconds * 1e3),
        };
        let _ = writeln!(text, "  {:<28}{shown:>16}", name.replace('_', " "));
    }
    text
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
