//! `cantle inspect`: the region map.

use crate::failure::Outcome;
use crate::keyfmt::KeyCodec;
use crate::output::Output;
use crate::region_map::{self, Canvas};
use crate::schema::ValueForm;
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::Args;

/// Draw the key ranges of a keyspace (its chunks) in key order: their tables, logs and heat, and
/// which are in memory
///
/// --json prints an array with one object for each range: start (the key's bytes), level, table_bytes, log_bytes,
/// garbage_bytes, tables, segments, resident_bytes, heat.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Inspect {
    #[command(flatten)]
    store: StoreArgs,
    /// The ranges as JSON
    #[arg(long)]
    json: bool,
    /// The most lines to draw; neighbours share one
    #[arg(long, value_name = "LINES", default_value_t = 32)]
    lines: usize,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle inspect flights
  cantle inspect flights --lines 1000
  cantle inspect flights --keyspace events --json";

impl Inspect {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Read)?;
        let (codec, schema) = opened.codec(&self.keys)?;
        let regions = opened.keyspace.regions()?;
        let mut output = Output::new();
        if self.json {
            output.json(&regions)?;
            return output.finish();
        }
        output.line(format!("keyspace {}", opened.keyspace.name()))?;
        if let KeyCodec::Columns(..) = codec {
            output.line(format!("key      {schema}"))?;
        }
        match &schema.value {
            ValueForm::Csv(columns) => output.line(format!("value    {}", columns.join(",")))?,
            ValueForm::Json => output.line("value    JSON objects")?,
            ValueForm::Raw => {}
        }
        let canvas = Canvas::of_stdout(self.lines, opened.keyspace.layout());
        output.bytes(region_map::draw(&regions, canvas, |key| codec.show_start(key)).as_bytes())?;
        output.finish()
    }
}
