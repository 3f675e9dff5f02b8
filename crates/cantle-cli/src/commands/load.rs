//! `cantle load`: rows of a CSV, NDJSON or TSV file into a keyspace.

use crate::failure::{Failure, Outcome};
use crate::input::{self, Input};
use crate::keyfmt::KeyCodec;
use crate::output::{human_bytes, human_count, note};
use crate::progress::Progress;
use crate::row::csv::CsvFile;
use crate::row::ndjson::{NdjsonRows, NdjsonShape};
use crate::row::tsv::{TsvRows, TsvShape};
use crate::row::{Row, Rows};
use crate::schema::{KeyColumns, Schema, ValueColumns, ValueForm};
use crate::store::{Access, KeyArgs, Opened, StoreArgs};
use crate::tuning::Tuning;
use cantle::{KEY_BYTES_MAX, VALUE_BYTES_MAX, WriteBatch};
use clap::{ArgGroup, Args, ValueEnum};
use std::sync::atomic::Ordering;

/// Load rows of a CSV, NDJSON or TSV file
///
/// The key columns' names and types are stored with the keyspace: the other commands read and print keys by
/// them. Values are the other columns of the row, kept as a CSV record (or a JSON object). Files that are
/// compressed with gzip or zstd are read directly. A pair whose key exists replaces it.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("input").required(true).args(["csv", "ndjson", "tsv"])), after_help = EXAMPLES)]
pub(crate) struct Load {
    #[command(flatten)]
    store: StoreArgs,
    /// A CSV file with a header; - is standard input
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
    /// A file with one JSON object on each line; raw keys are its member "key", raw values "value"
    #[arg(long, value_name = "FILE")]
    ndjson: Option<String>,
    /// A file with a key, a tab and a value on each line, with the escapes \\, \t, \n, \r and \xNN
    #[arg(long, value_name = "FILE")]
    tsv: Option<String>,
    /// The key's columns and their types (text, int, float, time): COL[:TYPE],…; times are RFC 3339
    #[arg(long, value_name = "COLUMNS")]
    key: Option<KeyColumns>,
    /// The value's columns; all but the key's if left out
    #[arg(long, value_name = "COLUMNS", conflicts_with = "tsv")]
    value: Option<ValueColumns>,
    /// Keep values as JSON objects instead of CSV records
    #[arg(long, conflicts_with = "tsv")]
    json: bool,
    /// TSV: backslashes are bytes like any other
    #[arg(long, requires = "tsv")]
    no_escapes: bool,
    /// What a malformed row does; what was loaded before it stays
    #[arg(long, value_enum, value_name = "WHAT", default_value = "stop")]
    on_error: OnError,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten, next_help_heading = "Options of the store, for this load")]
    tuning: Tuning,
}

const EXAMPLES: &str = "\
Examples:
  cantle load flights --csv flights.csv.gz --key carrier,origin,time_hour:time,flight:int
  cantle load flights --csv - --key carrier,flight:int --value dest,distance < flights.csv
  cantle load events --ndjson events.ndjson.zst --key user,at:time --on-error skip
  cantle load words --tsv words.tsv --keyspace english";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Report it and go on
    Skip,
    /// End the load
    Stop,
}

const NO_KEY: &str = "--csv needs --key: which columns make the key?";

/// Rows that are written together: enough to make the cost of a write small, few enough to hold in memory.
const BATCH_ROWS: usize = 256;
const BATCH_BYTES: usize = 1 << 20;
/// Skipped rows that are reported one by one.
const SKIPPED_SHOWN: u64 = 20;

impl Load {
    pub(crate) fn run(self) -> Outcome {
        // A missing file is reported before a store is created for it.
        let path = [&self.csv, &self.ndjson, &self.tsv].into_iter().flatten().next();
        let input = input::open(path.map_or("-", String::as_str))?;
        let (name, bytes, consumed) = (input.name.clone(), input.bytes, input.consumed.clone());
        let source = Source::new(&self, input)?;
        self.check(&source)?;

        let (options, keyspace) = (self.tuning.options(), self.tuning.keyspace_options());
        let opened = self.store.open_with(Access::Create, options, keyspace)?;
        let schema = self.settle(&opened, &source)?;
        let codec = KeyCodec::new(self.keys.key_format, &schema);
        let mut rows = source.rows(&self, &schema, codec)?;
        let metadata = schema.to_metadata()?;
        if self.keys.key_format.is_none() && opened.keyspace.metadata() != metadata {
            opened.keyspace.set_metadata(&metadata)?;
        }

        let mut loader = Loader::new(&opened, Progress::new("loading", bytes));
        let ended = loader.load(rows.as_mut(), &name, self.on_error, || consumed.load(Ordering::Relaxed));
        // What was loaded before an error stays; the first error is the one to report.
        let written = loader.flush();
        loader.finish();
        let kept = opened.db.sync().and_then(|()| opened.db.close());
        ended.and(written)?;
        Ok(kept?)
    }

    /// Refuses what makes no sense whatever the keyspace is, before a store is created for it.
    fn check(&self, source: &Source) -> Outcome {
        let key = self.key.iter().flat_map(|columns| &columns.0).map(|column| &column.0);
        let value = self.value.iter().flat_map(|columns| &columns.0);
        if let Some(both) = value.clone().find(|name| key.clone().any(|column| column == *name)) {
            return Err(Failure::Usage(format!("column {both:?} is in the key: leave it out of --value")));
        }
        let Source::Csv(file) = source else { return Ok(()) };
        if self.key.is_none() && !self.store.db.exists() {
            return Err(Failure::Usage(NO_KEY.into()));
        }
        key.chain(value).try_for_each(|column| file.position(column).map(drop))
    }

    /// What the keyspace's keys and values are made of: as stored, or as this load says for an empty one.
    fn settle(&self, opened: &Opened, source: &Source) -> Outcome<Schema> {
        if self.keys.key_format.is_some() {
            if self.key.is_some() {
                return Err(Failure::Usage("--key and --key-format both say how keys are written".into()));
            }
            return Ok(Schema::default());
        }
        let stored = opened.schema()?;
        let wanted = self.wanted(source, &stored);
        if stored == wanted {
            return Ok(stored);
        }
        let empty = opened.keyspace.range(..).next().transpose()?.is_none();
        if empty && stored == Schema::default() {
            return Ok(wanted);
        }
        let name = opened.keyspace.name();
        Err(Failure::Usage(if stored.key.is_empty() {
            format!("keyspace {name:?} holds raw keys and values: load into another with --keyspace")
        } else if stored.key != wanted.key {
            format!("keyspace {name:?} has the key {stored}: load with it, or into another with --keyspace")
        } else {
            let form = match &stored.value {
                ValueForm::Raw => "raw bytes".to_owned(),
                ValueForm::Json => "JSON objects".to_owned(),
                ValueForm::Csv(columns) => format!("the columns {}", columns.join(",")),
            };
            format!("keyspace {name:?} has values of {form}: load with them, or into another with --keyspace")
        }))
    }

    /// What this load asks for, completed by what is stored.
    fn wanted(&self, source: &Source, stored: &Schema) -> Schema {
        let key = self.key.as_ref().map_or_else(|| stored.key.clone(), |columns| columns.0.clone());
        let stays = self.value.is_none() && !self.json && key == stored.key && *stored != Schema::default();
        let value = match source {
            _ if stays => stored.value.clone(),
            Source::Tsv(_) => ValueForm::Raw,
            Source::Ndjson(_) if key.is_empty() => ValueForm::Raw,
            Source::Ndjson(_) => ValueForm::Json,
            Source::Csv(_) if self.json => ValueForm::Json,
            Source::Csv(file) => ValueForm::Csv(self.value_columns(file.header(), &key)),
        };
        Schema { key, value }
    }

    fn value_columns(&self, header: &[String], key: &[crate::schema::KeyColumn]) -> Vec<String> {
        match &self.value {
            Some(columns) => columns.0.clone(),
            None => {
                header.iter().filter(|name| key.iter().all(|column| column.0 != **name)).cloned().collect()
            }
        }
    }
}

/// The file to load, as far as it must be read to know its columns.
enum Source {
    Csv(CsvFile<Box<dyn std::io::Read>>),
    Ndjson(Input),
    Tsv(Input),
}

impl Source {
    fn new(load: &Load, input: Input) -> Outcome<Self> {
        if load.csv.is_some() {
            Ok(Self::Csv(CsvFile::new(input.reader, input.name)?))
        } else if load.ndjson.is_some() {
            Ok(Self::Ndjson(input))
        } else {
            Ok(Self::Tsv(input))
        }
    }

    fn rows(self, load: &Load, schema: &Schema, codec: KeyCodec) -> Outcome<Box<dyn Rows>> {
        if let Some(columns) = &load.value
            && let Some(both) = columns.0.iter().find(|name| schema.key.iter().any(|key| key.0 == **name))
        {
            return Err(Failure::Usage(format!("column {both:?} is in the key: leave it out of --value")));
        }
        let value = schema.value.clone();
        Ok(match self {
            Self::Csv(_) if schema.key.is_empty() => {
                return Err(Failure::Usage(NO_KEY.into()));
            }
            Self::Csv(file) => {
                let columns = load.value_columns(file.header(), &schema.key);
                Box::new(file.rows(schema, &columns)?)
            }
            Self::Ndjson(input) => {
                let columns = load.value.as_ref().map(|columns| columns.0.clone());
                Box::new(NdjsonRows::new(input.reader, input.name, NdjsonShape { codec, value, columns }))
            }
            Self::Tsv(input) => {
                let shape = TsvShape { codec, value, escapes: !load.no_escapes };
                Box::new(TsvRows::new(input.reader, input.name, shape))
            }
        })
    }
}

/// Writes rows in batches.
struct Loader<'a> {
    opened: &'a Opened,
    progress: Progress,
    batch: WriteBatch,
    batch_rows: usize,
    batch_bytes: usize,
    rows: u64,
    bytes: u64,
    skipped: u64,
}

impl<'a> Loader<'a> {
    fn new(opened: &'a Opened, progress: Progress) -> Self {
        let batch = WriteBatch::new();
        Self { opened, progress, batch, batch_rows: 0, batch_bytes: 0, rows: 0, bytes: 0, skipped: 0 }
    }

    fn load(
        &mut self,
        rows: &mut dyn Rows,
        name: &str,
        on_error: OnError,
        consumed: impl Fn() -> u64,
    ) -> Outcome {
        while let Some(Row { line, pair }) = rows.next_row()? {
            match pair.and_then(within_limits) {
                Ok((key, value)) => {
                    self.batch.keyspace(&self.opened.keyspace).put(&key, &value);
                    self.batch_rows += 1;
                    self.batch_bytes += key.len() + value.len();
                    if self.batch_rows >= BATCH_ROWS || self.batch_bytes >= BATCH_BYTES {
                        self.flush()?;
                        self.progress.set(self.rows, consumed());
                    }
                }
                Err(what) if on_error == OnError::Stop => {
                    self.flush()?;
                    return Err(Failure::Failed(format!(
                        "{name} line {line}: {what}; {} rows before it are loaded (--on-error skip goes on)",
                        human_count(self.rows)
                    )));
                }
                Err(what) => {
                    self.skipped += 1;
                    if self.skipped <= SKIPPED_SHOWN {
                        self.progress.say(&format!("cantle: {name} line {line}: {what}; skipped"));
                    }
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Outcome {
        let batch = std::mem::take(&mut self.batch);
        let (rows, bytes) = (std::mem::take(&mut self.batch_rows), std::mem::take(&mut self.batch_bytes));
        if rows > 0 {
            self.opened.db.write(batch)?;
            self.rows += rows as u64;
            self.bytes += bytes as u64;
        }
        Ok(())
    }

    fn finish(self) {
        if self.skipped > SKIPPED_SHOWN {
            self.progress.say(&format!("cantle: {} rows were skipped", human_count(self.skipped)));
        }
        let took = self.progress.elapsed();
        drop(self.progress);
        note(format_args!(
            "loaded {} rows, {} of keys and values, in {:.1} s: {} rows/s",
            human_count(self.rows),
            human_bytes(self.bytes),
            took.as_secs_f64(),
            human_count((self.rows as f64 / took.as_secs_f64().max(0.001)) as u64),
        ));
    }
}

/// The store's own limits, checked here so that one row's fault names its line.
fn within_limits(pair: (Vec<u8>, Vec<u8>)) -> Result<(Vec<u8>, Vec<u8>), String> {
    if pair.0.len() > KEY_BYTES_MAX {
        return Err(format!("the key has {} bytes; at most 1 MiB is allowed", pair.0.len()));
    }
    if pair.1.len() > VALUE_BYTES_MAX {
        return Err(format!("the value has {} bytes; at most 1 GiB is allowed", pair.1.len()));
    }
    Ok(pair)
}
