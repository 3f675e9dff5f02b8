//! `cantle export`: a keyspace as a file that `load` or `import` reads back exactly.

use super::scan::RangeArgs;
use crate::escape;
use crate::failure::{Failure, Outcome};
use crate::output::Output;
use crate::row::write::{Exporter, FileFormat};
use crate::store::{Access, KeyArgs, StoreArgs};
use clap::Args;

/// Write a keyspace as a file that `load` reads back byte for byte
///
/// CSV for keys and values of columns, NDJSON for values that are JSON objects, TSV with escapes
/// for raw ones. Load it with the same --key. A pair that would not come back exactly (because it
/// was not written by the columns) is an error: --key-format hex exports any keyspace, as TSV.
/// --format rocksdb-dump does so in the form that `import --rocksdb` and RocksDB's `ldb --hex load`
/// read.
///
/// --json prints one object on each line: its members are those of `cantle scan --json`, with
/// value_json instead of value for JSON that is no object, which `load` reads back as such.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Export {
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    range: RangeArgs,
    /// The file's format, instead of the one that suits the keyspace
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<FileFormat>,
    /// The same as --format ndjson
    #[arg(long, conflicts_with = "format")]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
}

const EXAMPLES: &str = "\
Examples:
  cantle export flights > flights.csv
  cantle export flights --prefix UA --format ndjson | zstd > united.ndjson.zst
  cantle export store --key-format hex | cantle load copy --tsv - --key-format hex
  cantle export store --format rocksdb-dump | cantle import --rocksdb copy";

impl Export {
    pub(crate) fn run(self) -> Outcome {
        let opened = self.store.open(Access::Read)?;
        let (codec, schema) = opened.codec(&self.keys)?;
        let format = self.format.or(self.json.then_some(FileFormat::Ndjson));
        let format = format.unwrap_or_else(|| Exporter::natural_format(&schema, &codec));
        let exporter = Exporter::new(format, &schema, &codec).map_err(Failure::Usage)?;
        let mut output = Output::new();
        let ended = (|| {
            if let Some(header) = exporter.header() {
                output.line(header)?;
            }
            let mut pairs = 0;
            for pair in opened.keyspace.range(self.range.bounds(&codec)?) {
                let (key, value) = pair?;
                let line = exporter.line(&key, &value).ok_or_else(|| {
                    Failure::Failed(format!(
                        "the pair with key 0x{} does not fit the columns and would not load back: export with \
                         --key-format hex",
                        escape::to_hex(&key)
                    ))
                })?;
                output.line(line)?;
                pairs += 1;
            }
            if let Some(last) = exporter.last_line(pairs) {
                output.line(last)?;
            }
            Ok(())
        })();
        let written = output.finish();
        ended.and(written)
    }
}
