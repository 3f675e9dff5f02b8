//! `cantle inspect`: the region map.

use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::keyfmt::KeyCodec;
use crate::output::{Output, human_bytes, note};
use crate::region_map::{self, Canvas};
use crate::region_page;
use crate::schema::{Schema, ValueForm};
use crate::seen::Seen;
use crate::store::{KeyArgs, StoreArgs};
use cantle::stats::RegionInfo;
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Draw the key ranges of a keyspace (its chunks, guards or trees) in key order: their tables, logs and
/// heat, and which are in memory
///
/// Guards are drawn level by level, with their sizes, their tables, which a read has to search, the
/// number of tables that they may have before some are merged, and their read debt. The debt is the
/// cost of reads since the guard was last merged, in entries that they passed over.
///
/// --json prints an array with one object for each range: start (its smallest possible key as the map prints it; empty
/// in the first range), start_hex (the same key, whole, in hexadecimal), level, tree, grows (of the layout forest), table_bytes, log_bytes, referred_bytes (long
/// values in logs that its tables refer to), garbage_bytes, tables, tables_max, dropped_ranges, segments,
/// resident_bytes, heat, read_debt. Level 0 of guards is one object for all logs. A dropped range is a part of a table that a range delete covers: it is garbage, and nobody reads it.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    #[command(flatten)]
    store: StoreArgs,
    /// The ranges as JSON
    #[arg(long)]
    json: bool,
    /// Write a page for a browser to this file instead: the map with sizes, heat, garbage, runs,
    /// read debt, and the ranges in memory
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    html: Option<PathBuf>,
    /// The most lines to draw; neighbours of a level share one
    #[arg(long, value_name = "LINES", default_value_t = 32)]
    lines: usize,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle inspect flights
  cantle inspect flights --lines 1000
  cantle inspect flights --html flights.html
  cantle inspect flights --keyspace events --json";

impl Inspect {
    pub(crate) fn run(self) -> Outcome {
        let seen = Seen::open(&self.store)?;
        let (codec, schema) = seen.codec(&self.keys)?;
        let regions = seen.regions()?;
        if let Some(path) = &self.html {
            return self.write_page(path, &seen, &regions, (&codec, &schema));
        }
        let mut output = Output::new();
        if self.json {
            output
                .json(&regions.iter().map(|region| as_json(region, &codec)).collect::<Outcome<Vec<_>>>()?)?;
            return output.finish();
        }
        output.line(format!("keyspace {}", seen.name()))?;
        if let KeyCodec::Columns(..) = codec {
            output.line(format!("key      {schema}"))?;
        }
        match &schema.value {
            ValueForm::Csv(columns) => output.line(format!("value    {}", columns.join(",")))?,
            ValueForm::Json => output.line("value    JSON objects")?,
            ValueForm::Raw => {}
        }
        let canvas = Canvas::of_stdout(self.lines, seen.layout()?);
        output.bytes(region_map::draw(&regions, canvas, |key| codec.show_start(key)).as_bytes())?;
        output.finish()
    }

    fn write_page(
        &self,
        path: &Path,
        seen: &Seen,
        regions: &[RegionInfo],
        (codec, schema): (&KeyCodec, &Schema),
    ) -> Outcome {
        let store = self.store.db.display();
        let title = format!("keyspace {} of {store}", seen.name());
        let key = match codec {
            KeyCodec::Columns(..) => format!("Key: {schema}. "),
            _ => String::new(),
        };
        let now = jiff::Timestamp::now().round(jiff::Unit::Second);
        let now = now.map_err(|error| Failure::Failed(format!("cannot tell the time: {error}")))?;
        let about = format!("{key}Seen at {now}.");
        let page = region_page::page(&title, &about, seen.layout()?, regions, |key| codec.show_start(key));
        std::fs::write(path, &page)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
        note(format_args!("wrote {}: {}", path.display(), human_bytes(page.len() as u64)));
        Ok(())
    }
}

/// The region's fields, where the key is text rather than an array of bytes. The text of a key that
/// was cut off stands for its beginning only, so the whole key is beside it. The first region
/// starts with the empty key, which is empty text in every form of keys.
fn as_json(region: &RegionInfo, codec: &KeyCodec) -> Outcome<Value> {
    let mut shown = serde_json::Map::new();
    let start = if region.start.is_empty() { String::new() } else { codec.show_start(&region.start) };
    shown.insert("start".into(), start.into());
    shown.insert("start_hex".into(), escape::to_hex(&region.start).into());
    if let Value::Object(fields) = serde_json::to_value(region)? {
        shown.extend(fields.into_iter().filter(|(name, _)| name != "start"));
    }
    Ok(Value::Object(shown))
}
