//! `cantle load`: rows of a CSV, NDJSON or TSV file into a keyspace.

mod seen;
mod writer;

use crate::failure::{Failure, Outcome};
use crate::input::{self, Input};
use crate::interrupt::Interrupt;
use crate::keyfmt::{KeyCodec, Round};
use crate::output::Output;
use crate::progress::Progress;
use crate::row::Rows;
use crate::row::csv::{self, CsvFile};
use crate::row::ndjson::{self, NdjsonShape};
use crate::row::table::Table;
use crate::row::tsv::{TsvRows, TsvShape, TsvTable};
use crate::schema::{KeyColumns, Schema, ValueColumns, ValueForm};
use crate::store::{Access, KeyArgs, NewStore, Opened, StoreArgs};
use crate::tuning::Tuning;
use cantle::METADATA_BYTES_MAX;
use clap::{ArgGroup, Args, ValueEnum};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use writer::{Rules, Writer};

/// Load rows of a CSV, NDJSON or TSV file
///
/// The key columns' names and types are stored with the keyspace: the other commands read and print
/// keys by them. Values are the other columns of the row, kept as a CSV record (or a JSON object).
/// An empty field is a null, "" in quotes the empty text. Files that are compressed with gzip or
/// zstd are read directly. Ctrl-C ends the load: rows before it stay. A load that stops before its
/// first row leaves the store as it was.
///
/// --json prints one object: complete, rows, replaced, duplicates_skipped, malformed_skipped, bytes, seconds.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("input").required(true).args(["csv", "ndjson", "tsv"])), after_help = EXAMPLES)]
pub(crate) struct Load {
    #[command(flatten)]
    store: StoreArgs,
    /// A CSV file with a header; - is standard input
    #[arg(long, value_name = "FILE")]
    csv: Option<String>,
    /// A file with one JSON object on each line, or one array of them; raw keys are its member
    /// "key", raw values "value"
    #[arg(long, value_name = "FILE")]
    ndjson: Option<String>,
    /// A file with a key, a tab and a value on each line, with the escapes \\, \t, \n, \r and \xNN
    #[arg(long, value_name = "FILE")]
    tsv: Option<String>,
    /// CSV: the character between fields, "tab" for a tab [default: ,]
    #[arg(long, value_name = "CHARACTER", conflicts_with_all = ["tsv", "ndjson"], value_parser = parse_delimiter)]
    delimiter: Option<u8>,
    /// TSV: the first line names the columns, with tabs between them; an empty field or \N is a
    /// null
    #[arg(long, conflicts_with_all = ["csv", "ndjson"])]
    header: bool,
    /// The key's columns and their types (text, int, float, time): COL[:TYPE],…; times are RFC
    /// 3339, or dates
    #[arg(long, value_name = "COLUMNS")]
    key: Option<KeyColumns>,
    /// The value's columns; all but the key's if left out
    #[arg(long, value_name = "COLUMNS")]
    value: Option<ValueColumns>,
    /// Keep values as JSON objects instead of CSV records
    #[arg(long)]
    json_values: bool,
    /// Round times that are finer than a microsecond, to the nearest one unless said otherwise
    #[arg(long, value_enum, value_name = "WAY", num_args = 0..=1, require_equals = true,
          default_missing_value = "nearest")]
    round: Option<Round>,
    /// TSV: backslashes are bytes like any other
    #[arg(long, conflicts_with_all = ["csv", "ndjson"])]
    no_escapes: bool,
    /// A malformed row: rows before it stay
    #[arg(long, value_enum, value_name = "WAY", default_value = "stop")]
    on_error: OnError,
    /// A row whose key is in the keyspace already, from this file or before
    #[arg(long, value_enum, value_name = "WAY", default_value = "replace")]
    on_duplicate: OnDuplicate,
    /// The report as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArgs,
    #[command(flatten, next_help_heading = "Options of the store, for this load")]
    tuning: Tuning,
}

const EXAMPLES: &str = "\
Examples:
  cantle load flights --csv flights.csv.gz --key carrier,origin,time_hour:time,flight:int
  cantle load flights --csv - --key carrier,flight:int --value dest,distance < flights.csv
  cantle load prices --csv prices.csv --delimiter ';' --key day:time,item --on-duplicate error
  cantle load people --tsv people.tsv --header --key id:int
  cantle load events --ndjson events.ndjson.zst --key user,at:time --on-error skip
  cantle load words --tsv words.tsv --keyspace english";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnError {
    /// Report it and go on
    Skip,
    /// End the load
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OnDuplicate {
    /// It replaces the earlier one
    Replace,
    /// It is an error, as a malformed row is
    Error,
    /// The earlier one stays
    Skip,
}

const NO_KEY: &str = "a file with a header needs --key: which columns make the key?";

/// The byte between fields.
fn parse_delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" => Ok(b'\t'),
        [b'"' | b'\n' | b'\r'] => Err("quotes and line ends have a meaning of their own".into()),
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("give one ASCII character, or tab".into()),
    }
}

impl Load {
    pub(crate) fn run(self) -> Outcome {
        let interrupt = Interrupt::catch()
            .map_err(|error| Failure::Failed(format!("cannot watch for signals: {error}")))?;
        // A missing file is reported before a store is created for it.
        let path = [&self.csv, &self.ndjson, &self.tsv].into_iter().flatten().next();
        // Reads that a signal ends fail with an error of their own.
        let early = |failure| match (failure, interrupt.signal()) {
            (Failure::Failed(_), Some(signal)) => {
                Failure::Interrupted("interrupted before the first row: nothing is loaded".into(), signal)
            }
            (failure, _) => failure,
        };
        let input = input::open(path.map_or("-", String::as_str), Some(&interrupt)).map_err(early)?;
        let (name, bytes, consumed) = (input.name.clone(), input.bytes, input.consumed.clone());
        let source = Source::new(&self, input).map_err(early)?;
        self.check(&source)?;

        let new = NewStore::before(&self.store)?;
        let (options, keyspace) = (self.tuning.options(), self.tuning.keyspace_options());
        let opened = self.store.open_with(Access::Create, options, keyspace)?;
        let prepared = (|| {
            let stored = self.stored(&opened)?;
            let schema = self.settle(&opened, &source, &stored)?;
            let codec = KeyCodec::new(self.keys.key_format, &schema).rounding(self.round.unwrap_or_default());
            let rows = source.rows(&self, &schema, codec.clone()).map_err(early)?;
            let metadata = self.metadata(&stored, &schema)?;
            let rules = Rules { on_error: self.on_error, on_duplicate: self.on_duplicate };
            let progress = Progress::new("loading", bytes);
            let interrupt = Arc::clone(&interrupt);
            Ok((Writer::new(&opened, codec, rules, interrupt, metadata, progress)?, rows))
        })();
        let (mut writer, mut rows) = match prepared {
            Ok(prepared) => prepared,
            Err(failure) => {
                new.undo(opened)?;
                return Err(failure);
            }
        };

        let ended = writer.load(rows.as_mut(), &name, || consumed.load(Ordering::Relaxed));
        // Rows before an error stay; the first error is the one to report.
        let written = writer.flush();
        let nothing = ended.is_err() && writer.counts.rows == 0;
        let described = if ended.is_ok() { writer.describe() } else { Ok(()) };
        let is_complete = ended.is_ok() && written.is_ok();
        if let Some(report) = writer.finish(is_complete, self.json) {
            let mut output = Output::new();
            output.json(&report)?;
            output.finish()?;
        }
        if nothing {
            new.undo(opened)?;
            return ended;
        }
        let kept = opened.db.sync().and_then(|()| opened.db.close());
        ended.and(written).and(described)?;
        Ok(kept?)
    }

    /// The columns of the keyspace's keys and values as they are stored; none where the user says
    /// how keys are written.
    fn stored(&self, opened: &Opened) -> Outcome<Schema> {
        if self.keys.key_format.is_some() { Ok(Schema::default()) } else { opened.schema() }
    }

    /// The metadata to store, if the keyspace describes other columns.
    fn metadata(&self, stored: &Schema, schema: &Schema) -> Outcome<Option<Vec<u8>>> {
        if schema == stored {
            return Ok(None);
        }
        let metadata = schema.to_metadata()?;
        if metadata.len() > METADATA_BYTES_MAX {
            let columns = schema.key.len()
                + if let ValueForm::Csv(columns) = &schema.value { columns.len() } else { 0 };
            return Err(Failure::Usage(format!(
                "the names of {columns} columns take {} bytes, and a keyspace keeps at most {METADATA_BYTES_MAX}: choose \
                 columns with --value, or keep values as objects with --json-values",
                metadata.len()
            )));
        }
        Ok(Some(metadata))
    }

    /// Refuses what makes no sense whatever the keyspace is, before a store is created for it.
    fn check(&self, source: &Source) -> Outcome {
        let key = self.key.iter().flat_map(|columns| &columns.0).map(|column| &column.0);
        let value = self.value.iter().flat_map(|columns| &columns.0);
        if let Some(both) = value.clone().find(|name| key.clone().any(|column| column == *name)) {
            return Err(Failure::Usage(format!("column {both:?} is in the key: leave it out of --value")));
        }
        let Source::Table(file) = source else {
            if self.tsv.is_some() && (self.value.is_some() || self.json_values) {
                return Err(Failure::Usage("--value and --json-values with --tsv need --header".into()));
            }
            return Ok(());
        };
        if self.key.is_none() && !self.store.db.exists() {
            return Err(Failure::Usage(NO_KEY.into()));
        }
        key.chain(value).try_for_each(|column| file.header().position(column).map(drop))
    }

    /// The columns of the keyspace's keys and values: as stored, or as this load gives them for an
    /// empty one.
    fn settle(&self, opened: &Opened, source: &Source, stored: &Schema) -> Outcome<Schema> {
        if self.keys.key_format.is_some() {
            if self.key.is_some() {
                return Err(Failure::Usage("--key and --key-format both say how keys are written".into()));
            }
            return Ok(Schema::default());
        }
        let wanted = self.wanted(source, stored);
        if *stored == wanted {
            return Ok(wanted);
        }
        // The types of a program describe these columns only, of pairs to come as well.
        let is_free = stored.types.is_none() && opened.keyspace.range(..).next().transpose()?.is_none();
        if is_free {
            return Ok(wanted);
        }
        let name = opened.keyspace.name();
        Err(Failure::Usage(if stored.key.is_empty() && stored.types.is_some() {
            format!(
                "keyspace {name:?} belongs to a program, with keys of types that are no columns: load into another \
                 with --keyspace"
            )
        } else if stored.key.is_empty() {
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

    /// The columns that this load asks for, completed by those that are stored.
    fn wanted(&self, source: &Source, stored: &Schema) -> Schema {
        let key = self.key.as_ref().map_or_else(|| stored.key.clone(), |columns| columns.0.clone());
        let stays =
            self.value.is_none() && !self.json_values && key == stored.key && *stored != Schema::default();
        let value = match source {
            _ if stays => stored.value.clone(),
            Source::Tsv(_) => ValueForm::Raw,
            Source::Ndjson(_) if key.is_empty() => ValueForm::Raw,
            Source::Ndjson(_) => ValueForm::Json,
            Source::Table(_) if self.json_values => ValueForm::Json,
            Source::Table(file) => ValueForm::Csv(self.value_columns(file.header().columns(), &key)),
        };
        Schema { key, value, types: stored.types.clone() }
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
    /// With a header.
    Table(Box<dyn Table>),
    Ndjson(Input),
    Tsv(Input),
}

impl Source {
    fn new(load: &Load, input: Input) -> Outcome<Self> {
        if load.csv.is_some() {
            let delimiter = load.delimiter.unwrap_or(csv::DELIMITER);
            Ok(Self::Table(Box::new(CsvFile::new(input.reader, input.name, delimiter)?)))
        } else if load.header {
            Ok(Self::Table(Box::new(TsvTable::new(input.reader, input.name, !load.no_escapes)?)))
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
            Self::Table(_) if schema.key.is_empty() => {
                return Err(Failure::Usage(NO_KEY.into()));
            }
            Self::Table(file) => {
                let columns = load.value_columns(file.header().columns(), &schema.key);
                file.rows(schema, &columns, load.round.unwrap_or_default())?
            }
            Self::Ndjson(input) => {
                let columns = load.value.as_ref().map(|columns| columns.0.clone());
                ndjson::rows(input.reader, input.name, NdjsonShape { codec, value, columns })?
            }
            Self::Tsv(input) => {
                let shape = TsvShape { codec, value, escapes: !load.no_escapes };
                Box::new(TsvRows::new(input.reader, input.name, shape))
            }
        })
    }
}
