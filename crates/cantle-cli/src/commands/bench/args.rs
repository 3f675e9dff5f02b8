//! The arguments of `cantle bench`.

use super::records::{RECORDS_MAX, VALUE_BYTES};
use super::workload::Workload;
use crate::measure::generator::Distribution;
use crate::tuning::Tuning;
use cantle::{KeyspaceOptions, MunkPolicy, Options};
use cantle_workloads::size::{parse_duration, parse_size};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

/// Measure this machine with the workloads of the papers
///
/// Loads records of 14-byte keys and 800-byte values in key order into a new store, syncs, and runs each
/// workload over each distribution (EvenDB, section 5.3). Prints throughput, latencies, write, read and space
/// amplification as the kernel and the store count them, where gets were served from, stalls and memory.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  cantle bench                                              a few minutes, 1,000,000 records
  cantle bench --workload P --distribution uniform,zipf-composite --overwrites 10
  cantle bench --workload A,C,E100 --records 10m --memory 1GiB --threads 8 --json
  cantle bench --workload insert-random --records 5m        an insert-only load
  cantle bench --workload A --duration 10m --memory 200MiB  the longest stalls of a long run
  cantle bench --open --records 5m                          how fast a killed store opens
  cantle bench --smoke                                      everything, tiny; checks what it reads")]
pub(crate) struct Args {
    /// Workloads to run one after the other on the same store, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "P,A,C,E100")]
    pub(crate) workload: Vec<Workload>,

    /// Which records they touch, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "zipf-composite")]
    pub(crate) distribution: Vec<Distribution>,

    /// Records to load, or to insert; k, m and g stand for thousands, millions and milliards
    #[arg(long, value_name = "N", default_value = "1m", value_parser = parse_count)]
    pub(crate) records: u64,

    /// Operations of each workload [default: as many as records]
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub(crate) operations: Option<u64>,

    /// Run each workload so long, and measure bare appends beside it; see its longest stalls
    ///
    /// With data of four times the memory budget, this is how long a write can take. The appends tell a slow
    /// device from a slow store.
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with_all = ["operations", "overwrites", "smoke", "open"])]
    pub(crate) duration: Option<Duration>,

    /// In workload P and before --open: N times as many puts as records
    #[arg(long, value_name = "N", conflicts_with = "operations")]
    pub(crate) overwrites: Option<f64>,

    /// Gets before each workload that fill the caches and are not measured
    #[arg(long, value_name = "N", default_value = "0", value_parser = parse_count)]
    pub(crate) warmup: u64,

    /// Threads that run operations [default: as many as cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    pub(crate) threads: Option<u64>,

    /// Skew of the Zipf distributions: 0 is uniform, below 1
    #[arg(long, default_value_t = 0.99, value_parser = parse_theta)]
    pub(crate) theta: f64,

    #[command(flatten)]
    pub(crate) tuning: Tuning,

    /// A fixed limit of a chunk's log, as in 2MiB [default: follows from the space bound]
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub(crate) log_bytes: Option<u64>,

    /// Search logs linearly behind partitioned Bloom filters, as published, instead of by their index
    #[arg(long)]
    pub(crate) no_log_index: bool,

    /// Append to logs by one system call each, instead of collecting appends in a mapped file
    #[arg(long)]
    pub(crate) no_stage: bool,

    /// Do not keep in memory what was appended to logs last
    #[arg(long)]
    pub(crate) no_recent_appends: bool,

    /// The settings of the published EvenDB, without what Cantle adds; other options refine them
    #[arg(long)]
    pub(crate) as_published: bool,

    /// Keep no chunks in memory
    #[arg(long)]
    pub(crate) no_munks: bool,

    /// Cache no single rows
    #[arg(long)]
    pub(crate) no_row_cache: bool,

    /// Which chunks are kept in memory [default: frequency; with --as-published recency]
    #[arg(long, value_enum)]
    pub(crate) munk_policy: Option<Policy>,

    /// Where to put the store, in a new directory of its own [default: the system's temporary directory]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,

    /// Leave the store behind and say where it is
    #[arg(long)]
    pub(crate) keep: bool,

    /// Write the operations, those of the load too, to a new file as a trace, which the lab replays against any store
    ///
    /// One operation per line, as text. Threads take turns at the file, so that figures of such a run are lower.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["smoke", "open"])]
    pub(crate) record: Option<PathBuf>,

    /// Of keys, values and order: the same seed repeats a run
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// One JSON object per workload and line
    #[arg(long)]
    pub(crate) json: bool,

    /// Run every workload and distribution at a tiny size and check what is read
    #[arg(long, conflicts_with_all = ["open", "operations", "overwrites", "keep"])]
    pub(crate) smoke: bool,

    /// Measure how long a store takes to open after the process that wrote it was killed
    #[arg(long)]
    pub(crate) open: bool,

    /// With --open: have the kernel forget the store's files before it is opened, so that they are read from the device
    #[arg(long, requires = "open")]
    pub(crate) cold: bool,

    /// The writing process of --open: the directory it writes to
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) open_child: Option<PathBuf>,
}

/// The choice of chunks as an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Policy {
    /// Those that are accessed most
    Frequency,
    /// Those that were accessed last
    Recency,
}

impl Policy {
    fn munk_policy(self) -> MunkPolicy {
        match self {
            Self::Frequency => MunkPolicy::Frequency,
            Self::Recency => MunkPolicy::Recency,
        }
    }
}

impl Args {
    /// The options that the store is opened with.
    pub(crate) fn store_options(&self) -> Options {
        let base = if self.as_published { KeyspaceOptions::as_published() } else { KeyspaceOptions::new() };
        let mut keyspace = self
            .tuning
            .keyspace_options_over(base)
            .log_index(self.has_log_index())
            .munks(!self.no_munks)
            .munk_policy(self.policy().munk_policy())
            .row_cache(!self.no_row_cache)
            .stage(!self.no_stage)
            .recent_appends(!self.no_recent_appends);
        if let Some(bytes) = self.log_bytes {
            keyspace = keyspace.log_bytes(bytes);
        }
        self.tuning.options().default_keyspace(keyspace)
    }

    /// Whether logs have an index.
    pub(crate) fn has_log_index(&self) -> bool {
        !self.no_log_index && !self.as_published
    }

    /// The choice of chunks.
    pub(crate) fn policy(&self) -> Policy {
        self.munk_policy.unwrap_or(if self.as_published { Policy::Recency } else { Policy::Frequency })
    }

    /// Threads that run operations.
    pub(crate) fn thread_count(&self) -> usize {
        match self.threads {
            Some(threads) => threads as usize,
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Operations of `workload`.
    pub(crate) fn operation_count(&self, workload: Workload) -> u64 {
        match (workload, self.overwrites) {
            (workload, _) if workload.is_insert() => self.records,
            (Workload::P, Some(times)) => (self.records as f64 * times).round() as u64,
            _ => self.operations.unwrap_or(self.records),
        }
    }

    /// What no value parser can refuse alone.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.records == 0 || self.records > RECORDS_MAX / 2 {
            return Err(format!("--records {} is not between 1 and {}", self.records, RECORDS_MAX / 2));
        }
        if self.overwrites.is_some_and(|times| !(0.0..=1e6).contains(&times)) {
            return Err("--overwrites is a number of times, from 0 to a million".into());
        }
        Ok(())
    }
}

fn parse_count(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is no count: give a number, with k, m or g if you like, as in 500k");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let digits: String = digits.chars().filter(|&c| c != '_' && c != ',').collect();
    digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)).ok_or_else(wrong)
}

fn parse_theta(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(theta) if (0.0..1.0).contains(&theta) => Ok(theta),
        _ => Err(format!("{text:?} is no skew: the generator takes 0 (uniform) to below 1, the papers 0.99")),
    }
}

const _: () = assert!(VALUE_BYTES == 800, "the help text says 800");

#[cfg(test)]
mod tests {
    use super::*;
    use cantle::Compression;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: Args,
    }

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Command::try_parse_from(std::iter::once("bench").chain(line.split_whitespace())).map(|c| c.args)
    }

    #[test]
    fn defaults_are_those_of_the_help() {
        let args = parse("").unwrap();
        assert_eq!(args.workload, [Workload::P, Workload::A, Workload::C, Workload::E100]);
        assert_eq!((args.records, args.theta), (1_000_000, 0.99));
        assert_eq!(args.operation_count(Workload::A), 1_000_000);
        assert!(args.check().is_ok() && args.thread_count() >= 1);
    }

    #[test]
    fn lists_counts_and_sizes_are_taken_apart() {
        let args = parse(
            "--workload a,E1000,insert-random --distribution uniform,latest --records 20k --overwrites 2.5 \
             --memory 64MiB --compression zstd:9",
        )
        .unwrap();
        assert_eq!(args.workload, [Workload::A, Workload::E1000, Workload::InsertRandom]);
        assert_eq!(args.distribution, [Distribution::Uniform, Distribution::Latest]);
        assert_eq!(args.operation_count(Workload::P), 50_000);
        assert_eq!(args.operation_count(Workload::InsertRandom), 20_000);
        assert_eq!((args.tuning.memory, args.tuning.compression), (Some(64 << 20), Compression::Zstd(9)));
    }

    #[test]
    fn as_published_is_refined_by_what_else_is_given() {
        let published = parse("--as-published").unwrap();
        assert_eq!((published.policy(), published.has_log_index()), (Policy::Recency, false));
        assert_eq!(parse("--as-published --munk-policy frequency").unwrap().policy(), Policy::Frequency);
        let plain = parse("").unwrap();
        assert_eq!((plain.policy(), plain.has_log_index()), (Policy::Frequency, true));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--workload G",
            "--theta 1",
            "--records many",
            "--compression zstd:23",
            "--threads 0",
            "--smoke --open",
            "--operations 5 --overwrites 5",
            "--operations 5 --duration 5s",
            "--duration soon",
            "--munk-policy none",
            "--cold",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("--records 0").unwrap().check().is_err());
        assert!(parse("--overwrites nan").unwrap().check().is_err());
    }
}
