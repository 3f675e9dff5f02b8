//! Generated traces as text, for `replay` here and for other tools.

use crate::failure::{Failure, Result, on};
use cantle_workloads::analytics::{self, Analytics, Shape};
use cantle_workloads::generator::{Chooser, Distribution, Random};
use cantle_workloads::records::{self, RECORDS_MAX, VALUE_BYTES};
use cantle_workloads::trace::{Entry, Writer};
use cantle_workloads::workload::{Operation, Workload};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write
    file: PathBuf,

    /// A workload on --records records, which the trace loads first; without it the analytics trace
    #[arg(long, value_enum, requires = "records")]
    workload: Option<Workload>,

    /// Distribution of the records
    #[arg(long, value_enum, default_value = "zipf-composite")]
    distribution: Distribution,

    /// Skew of the distribution
    #[arg(long, default_value_t = 0.99)]
    theta: f64,

    /// Records of the workload
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..RECORDS_MAX))]
    records: Option<u64>,

    /// Events of the analytics trace
    #[arg(long, default_value_t = 100_000)]
    events: u64,

    /// Operations after the load, or after the events
    #[arg(long, default_value_t = 100_000)]
    operations: u64,

    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

impl Args {
    /// This number of events and operations of the analytics trace.
    pub fn analytics(file: &Path, events: u64, operations: u64) -> Self {
        Self {
            file: file.into(),
            workload: None,
            distribution: Distribution::ZipfComposite,
            theta: 0.99,
            records: None,
            events,
            operations,
            seed: 1,
        }
    }
}

/// Generates and writes a trace.
pub fn run(args: &Args) -> Result {
    let file = File::create(&args.file).map_err(on("create", &args.file))?;
    let mut writer = Writer::new(BufWriter::new(file))?;
    match args.workload {
        Some(workload) => from_workload(args, workload, &mut writer)?,
        None => from_analytics(args, &mut writer)?,
    }
    Ok(writer.flush()?)
}

fn put(record: u64) -> Entry {
    Entry::Put { key: records::key(record).to_vec(), value_bytes: VALUE_BYTES as u64 }
}

fn from_workload(args: &Args, workload: Workload, writer: &mut Writer<impl Write>) -> Result {
    let mut existing = args.records.ok_or_else(|| Failure::new("--records is missing"))?;
    if !workload.is_insert() {
        (0..existing).try_for_each(|record| writer.write(&put(record)))?;
    }
    let distribution = workload.distribution(args.distribution).unwrap_or(Distribution::Uniform);
    let mut chooser = Chooser::new(distribution, existing, args.theta, args.seed);
    let mut random = Random::stream(args.seed, 0);
    for _ in 0..args.operations {
        let operation = workload.next(&mut random);
        let record = match operation {
            Operation::Insert => {
                existing += 1;
                existing - 1
            }
            _ => chooser.next(&mut random, existing),
        };
        let key = records::key(record).to_vec();
        match operation {
            Operation::Put | Operation::Insert => writer.write(&put(record))?,
            Operation::Get => writer.write(&Entry::Get { key })?,
            Operation::Scan(rows) => {
                writer.write(&Entry::Scan { from: key, to: None, rows: Some(rows) })?;
            }
            Operation::ReadModifyWrite => {
                writer.write(&Entry::Get { key })?;
                writer.write(&put(record))?;
            }
        }
    }
    Ok(())
}

fn from_analytics(args: &Args, writer: &mut Writer<impl Write>) -> Result {
    let trace = Analytics::new(Shape::default(), args.seed);
    let event = |number: u64| Entry::Put {
        key: trace.event(number).key().to_vec(),
        value_bytes: analytics::VALUE_BYTES as u64,
    };
    (0..args.events).try_for_each(|number| writer.write(&event(number)))?;
    let (mut random, mut events) = (Random::stream(args.seed, u64::MAX), args.events);
    for _ in 0..args.operations {
        if random.below(20) == 0 {
            writer.write(&event(events))?;
            events += 1;
        } else {
            let (from, to) = trace.last_minute(trace.app(&mut random), events);
            writer.write(&Entry::Scan { from: from.to_vec(), to: Some(to.to_vec()), rows: None })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle_workloads::trace::Reader;
    use std::io::BufReader;

    fn entries(args: &Args) -> Vec<Entry> {
        run(args).unwrap();
        let reader = Reader::new(BufReader::new(File::open(&args.file).unwrap())).unwrap();
        reader.map(|entry| entry.unwrap()).collect()
    }

    #[test]
    fn a_generated_trace_reads_back_as_what_was_generated() {
        let dir = tempfile::tempdir().unwrap();
        let mut args = Args::analytics(&dir.path().join("trace"), 3_000, 1_000);
        let read = entries(&args);
        assert_eq!(read.len(), 4_000);
        let trace = Analytics::new(Shape::default(), 1);
        for (number, entry) in read[..3_000].iter().enumerate() {
            assert_eq!(entry.key(), trace.event(number as u64).key());
        }
        let scans = read[3_000..].iter().filter(|entry| matches!(entry, Entry::Scan { .. })).count();
        assert!((920..980).contains(&scans), "{scans} scans of 1000");

        args.workload = Some(Workload::F);
        args.records = Some(500);
        let read = entries(&args);
        assert_eq!(read.len(), 500 + 2 * 1_000);
        assert_eq!(read[499], put(499));
        assert!(matches!(read[500], Entry::Get { .. }) && matches!(read[501], Entry::Put { .. }));
    }
}
