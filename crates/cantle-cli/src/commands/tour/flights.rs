//! The flights: rows of a CSV file, the keys and values they become, and back.

use super::local_time::Clock;
use crate::csvtext;
use crate::failure::{Failure, Outcome};
use crate::measure::failed;
use crate::schema::{ColumnType, KeyColumn, Schema, ValueForm};
use cantle::key::{self, Part};
use csv::StringRecord;
use flate2::read::MultiGzDecoder;
use jiff::Timestamp;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// The flights that the program carries, so that the tour works wherever it is installed.
static CARRIED: &[u8] =
    include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights.csv.gz"));

/// The name of [`CARRIED`] in messages.
const CARRIED_NAME: &str = "the flights in the program";

/// The columns that the key is made of; the scheduled departure is the last two together.
const KEY_COLUMNS: [&str; 5] = ["carrier", "origin", "flight", "time_hour", "minute"];

/// The text that the file has for an unknown value.
const UNKNOWN: &str = "NA";

const MICROS_PER_MINUTE: i64 = 60_000_000;

/// Reads a file of flights row by row.
pub(crate) struct Reader {
    rows: csv::Reader<Box<dyn Read>>,
    row: StringRecord,
    path: PathBuf,
    layout: Columns,
}

/// The places of the columns in the file.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    /// Places of [`KEY_COLUMNS`] in the file.
    key: [usize; 5],
    /// Places in the file of the columns that make the value.
    value: Vec<usize>,
    /// Their names.
    names: Vec<String>,
}

/// A row as it is stored.
pub(crate) struct Stored {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Columns {
    fn of(header: &StringRecord) -> Result<Self, String> {
        let place = |name: &str| {
            header
                .iter()
                .position(|column| column == name)
                .ok_or_else(|| format!("there is no column {name:?}"))
        };
        let mut key = [0; 5];
        for (at, name) in key.iter_mut().zip(KEY_COLUMNS) {
            *at = place(name)?;
        }
        // All that the key does not hold as it stands: the hour and the minute stay.
        let value: Vec<usize> = (0..header.len()).filter(|at| !key[..3].contains(at)).collect();
        let names = value.iter().map(|&at| header[at].to_string()).collect();
        Ok(Self { key, value, names })
    }

    /// The place of a column within values; unknown ones have none.
    fn in_value(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|column| column == name)
    }

    /// The columns that `cantle scan` prints keys and values by.
    pub(crate) fn schema(&self) -> Schema {
        let column = |name: &str, kind| KeyColumn(name.to_string(), kind);
        Schema {
            key: vec![
                column("carrier", ColumnType::Text),
                column("origin", ColumnType::Text),
                column("scheduled", ColumnType::Time),
                column("flight", ColumnType::Int),
            ],
            value: ValueForm::Csv(self.names.clone()),
            types: None,
        }
    }

    fn stored(&self, row: &StringRecord) -> Result<Stored, String> {
        let [carrier, origin, flight, hour, minute] = self.key.map(|at| row.get(at).unwrap_or(""));
        let hour: Timestamp = hour.parse().map_err(|_| format!("time_hour is {hour:?}, no RFC 3339 time"))?;
        let minute: i64 = minute.parse().map_err(|_| format!("minute is {minute:?}, no number"))?;
        let scheduled = hour.as_microsecond() + minute * MICROS_PER_MINUTE;
        let builder = key::Builder::new().text(carrier).text(origin).time_micros(scheduled);
        let key = match flight {
            "" | UNKNOWN => builder.null(),
            number => builder.int(number.parse().map_err(|_| format!("flight is {number:?}, no number"))?),
        };
        let fields: Vec<&str> = self.value.iter().map(|&at| row.get(at).unwrap_or("")).collect();
        Ok(Stored { key: key.finish(), value: csvtext::record(&fields) })
    }
}

impl Reader {
    /// Opens a CSV file, compressed with gzip if it ends in `.gz`; without a path, the flights that
    /// the program carries.
    pub(crate) fn open(path: Option<&Path>) -> Outcome<Self> {
        let Some(path) = path else {
            return Self::new(Box::new(MultiGzDecoder::new(CARRIED)), Path::new(CARRIED_NAME));
        };
        let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(failed("read", path))?);
        let input: Box<dyn Read> = match path.extension() {
            Some(extension) if extension == "gz" => Box::new(MultiGzDecoder::new(file)),
            _ => Box::new(file),
        };
        Self::new(input, path)
    }

    fn new(input: Box<dyn Read>, path: &Path) -> Outcome<Self> {
        let mut rows = csv::Reader::from_reader(input);
        let wrong = |what: String| Failure::Failed(format!("cannot read {}: {what}", path.display()));
        let layout = match rows.headers() {
            Ok(header) => Columns::of(header).map_err(wrong)?,
            Err(error) => return Err(wrong(error.to_string())),
        };
        Ok(Self { rows, row: StringRecord::new(), path: path.to_path_buf(), layout })
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.layout
    }

    /// The next row; an inner error is a row that makes no flight, to be told and passed over.
    pub(crate) fn next(&mut self) -> Outcome<Option<Result<Stored, String>>> {
        match self.rows.read_record(&mut self.row) {
            Ok(false) => Ok(None),
            Ok(true) => {
                let line = self.row.position().map_or(0, csv::Position::line);
                Ok(Some(self.layout.stored(&self.row).map_err(|what| format!("line {line}: {what}"))))
            }
            Err(error) if matches!(error.kind(), csv::ErrorKind::Io(_)) => {
                Err(Failure::Failed(format!("cannot read {}: {error}", self.path.display())))
            }
            Err(error) => Ok(Some(Err(error.to_string()))),
        }
    }
}

/// A flight as the tour shows it, taken from a stored pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) carrier: String,
    pub(crate) origin: String,
    /// Scheduled departure, in microseconds since 1970 in UTC.
    pub(crate) scheduled_micros: i64,
    pub(crate) number: Option<i64>,
    pub(crate) destination: String,
    pub(crate) aircraft: String,
    /// Minutes late; negative is early, `None` if it never left.
    pub(crate) departure_delay: Option<i64>,
    /// Minutes late; `None` if it never arrived there.
    pub(crate) arrival_delay: Option<i64>,
}

impl Flight {
    /// Reads a stored pair.
    pub(crate) fn read(columns: &Columns, key: &[u8], value: &[u8]) -> Outcome<Self> {
        let wrong = |what: &str| Failure::Damage(format!("{what}: b\"{}\"", key.escape_ascii()));
        let parts = key::parse(key)?;
        let (carrier, origin, scheduled_micros, number) = match parts.as_slice() {
            [Part::Text(carrier), Part::Text(origin), Part::Int(scheduled), Part::Int(number)] => {
                (carrier, origin, *scheduled, Some(*number))
            }
            [Part::Text(carrier), Part::Text(origin), Part::Int(scheduled), Part::Null] => {
                (carrier, origin, *scheduled, None)
            }
            _ => return Err(wrong("a key that is no flight's")),
        };
        let fields = csvtext::split(value).map_err(|what| wrong(&what))?;
        let text = |name: &str| {
            let field = columns.in_value(name).and_then(|at| fields.get(at));
            let text = field
                .and_then(Option::as_deref)
                .map(|field| String::from_utf8_lossy(field).into_owned())
                .unwrap_or_default();
            if text == UNKNOWN { String::new() } else { text }
        };
        Ok(Self {
            carrier: carrier.clone(),
            origin: origin.clone(),
            scheduled_micros,
            number,
            destination: text("dest"),
            aircraft: text("tailnum"),
            departure_delay: text("dep_delay").parse().ok(),
            arrival_delay: text("arr_delay").parse().ok(),
        })
    }

    /// Date and time of the scheduled departure by the clock on the wall.
    pub(crate) fn local(&self, clock: &Clock, format: &str) -> Outcome<String> {
        Ok(clock.local(self.scheduled_micros)?.strftime(format).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const HEADER: &str = "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,\
                          carrier,flight,tailnum,origin,dest,air_time,distance,hour,minute,time_hour";

    fn read(rows: &[&str]) -> (Columns, Vec<Result<Stored, String>>) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "{HEADER}\n{}", rows.join("\n")).unwrap();
        let mut reader = Reader::open(Some(file.path())).unwrap();
        let mut stored = Vec::new();
        while let Some(row) = reader.next().unwrap() {
            stored.push(row);
        }
        (reader.columns().clone(), stored)
    }

    #[test]
    fn a_row_comes_back_from_what_is_stored() {
        let row = "2013,7,4,557,600,-3,838,846,-8,B6,79,N593JB,JFK,MCO,140,944,6,0,2013-07-04T10:00:00Z";
        let (columns, stored) = read(&[row]);
        let Stored { key, value } = stored[0].as_ref().unwrap();
        let scheduled = "2013-07-04T10:00:00Z".parse::<Timestamp>().unwrap().as_microsecond();
        assert_eq!(*key, key::encode(&("B6", "JFK", scheduled, 79i64)));
        assert_eq!(value, b"2013,7,4,557,600,-3,838,846,-8,N593JB,MCO,140,944,6,0,2013-07-04T10:00:00Z");
        let flight = Flight::read(&columns, key, value).unwrap();
        assert_eq!((flight.number, flight.departure_delay), (Some(79), Some(-3)));
        assert_eq!((flight.destination.as_str(), flight.aircraft.as_str()), ("MCO", "N593JB"));
        assert_eq!(flight.local(&Clock::new_york().unwrap(), "%F %R").unwrap(), "2013-07-04 06:00");
    }

    #[test]
    fn cancelled_and_nameless_flights_are_kept_and_nonsense_is_told_by_its_line() {
        let cancelled = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,NA,NA,EWR,RDU,NA,416,16,30,2013-01-01T21:00:00Z";
        let untimed = "2013,1,1,NA,1630,NA,NA,1815,NA,EV,1,NA,EWR,RDU,NA,416,16,30,noon";
        let (columns, stored) = read(&[cancelled, untimed, "short"]);
        let Stored { key, value } = stored[0].as_ref().unwrap();
        let flight = Flight::read(&columns, key, value).unwrap();
        assert_eq!((flight.number, flight.departure_delay, flight.aircraft.as_str()), (None, None, ""));
        assert!(stored[1].as_ref().err().unwrap().contains("line 3: time_hour"));
        assert!(stored[2].is_err());
    }

    /// The keys' UTC and the clock's rule against the file's own local columns, summer and winter.
    #[test]
    fn local_times_are_those_of_the_data() {
        let mut reader = Reader::open(None).unwrap();
        let (clock, columns) = (Clock::new_york().unwrap(), reader.columns().clone());
        let (mut rows, mut previous) = (0u32, i64::MIN);
        while let Some(row) = reader.next().unwrap() {
            let Stored { key, value } = row.unwrap();
            let flight = Flight::read(&columns, &key, &value).unwrap();
            assert!(flight.scheduled_micros >= previous, "row {rows} is not in time order");
            previous = flight.scheduled_micros;
            rows += 1;
            if rows % 97 == 0 {
                let local = flight.local(&clock, "%Y,%-m,%-d,%-H%M").unwrap();
                let fields = csvtext::split(&value).unwrap();
                let text = |at: usize| String::from_utf8(fields[at].clone().unwrap_or_default()).unwrap();
                assert_eq!(local, format!("{},{},{},{}", text(0), text(1), text(2), text(4)));
            }
        }
        assert_eq!(rows, 336_776);
    }
}
