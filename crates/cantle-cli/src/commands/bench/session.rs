//! A new store, loaded when a phase first needs records, and the phases on it.

use super::args::Args;
use super::phase::Phase;
use super::report::Report;
use crate::failure::{Failure, Outcome};
use crate::measure::{display, failed};
use crate::output::note;
use crate::progress::Progress;
use cantle::Db;
use cantle_workloads::generator::{Chooser, Distribution, Permutation, Random};
use cantle_workloads::population::Population;
use cantle_workloads::records::{self, RECORD_BYTES, RECORDS_MAX, VALUE_BYTES, Values};
use cantle_workloads::workload::Workload;
use std::io::Write;
use std::path::Path;
use std::time::Instant;
use tempfile::TempDir;

/// The store of a run. Its directory is new, and removed at the end unless it is to be kept.
pub(crate) struct Session {
    pub(crate) db: Db,
    dir: TempDir,
    pub(crate) values: Values,
    pub(crate) population: Population,
    /// Phases run so far; gives each its own random streams.
    phases: u64,
}

impl Session {
    /// A new, empty store.
    pub(crate) fn create(args: &Args) -> Outcome<Self> {
        let parent = args.dir.clone().unwrap_or_else(std::env::temp_dir);
        std::fs::create_dir_all(&parent).map_err(failed("create", &parent))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix("cantle-bench-").disable_cleanup(args.keep);
        let dir = builder.tempdir_in(&parent).map_err(failed("create a directory in", &parent))?;
        if args.keep {
            note(format_args!("the store is kept in {}", dir.path().display()));
        }
        let options = args.tuning.options().default_keyspace(args.tuning.keyspace_options());
        Ok(Self {
            db: options.error_if_exists(true).open(dir.path())?,
            dir,
            values: Values::new(args.seed),
            population: Population::new(0),
            phases: 0,
        })
    }

    /// The store's directory.
    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// One measured phase on the records that the phases before it left.
    pub(crate) fn phase<'a>(
        &mut self,
        args: &'a Args,
        workload: Workload,
        distribution: Option<Distribution>,
    ) -> Outcome<Report<'a>> {
        if distribution.is_some() && self.population.existing() == 0 {
            self.load(args)?;
        }
        self.phases += 1;
        let existing = self.population.existing();
        let duration = args.duration.filter(|_| !workload.is_insert());
        // Time runs out before the record numbers do: of ten digits not even a thousand hours
        // insert half.
        let operations = match duration {
            Some(_) => RECORDS_MAX / 2,
            None => args.operation_count(workload),
        };
        if existing + operations > RECORDS_MAX {
            return Err(Failure::Usage("the record numbers of this run have more than ten digits".into()));
        }
        // All phases agree on which records are hot: the seed is the run's.
        let chooser =
            distribution.map(|distribution| Chooser::new(distribution, existing, args.theta, args.seed));
        if let Some(chooser) = &chooser {
            self.warm_up(chooser, args.warmup, args.seed)?;
        }
        let phase = Phase {
            session: self,
            workload,
            chooser,
            insert_order: (workload == Workload::InsertRandom && operations > 0)
                .then(|| Permutation::new(operations, args.seed ^ self.phases)),
            operations,
            duration,
            threads: args.threads,
            seed: Random::stream(args.seed, self.phases).bits(),
        };
        Ok(Report::new(args, workload, distribution, phase.run()?))
    }

    /// Puts the records in key order by one thread, then syncs: the start of every YCSB experiment.
    fn load(&mut self, args: &Args) -> Outcome {
        let start = Instant::now();
        let mut progress = Progress::new("load", Some(args.records));
        let mut random = Random::stream(args.seed, u64::MAX - 1);
        let mut value = [0; VALUE_BYTES];
        for record in 0..args.records {
            self.values.fill(&mut value, record, &mut random);
            self.db.put(records::key(record), value)?;
            if record % 256 == 0 {
                progress.at(record);
            }
        }
        self.db.sync()?;
        drop(progress);
        self.population = Population::new(args.records);
        if !args.json && !args.smoke {
            let (records, took) = (args.records, start.elapsed());
            writeln!(
                std::io::stdout(),
                "loaded {} records ({}) in key order in {}: {} per second",
                display::count(records),
                display::bytes(records * RECORD_BYTES),
                display::duration(took),
                display::count(display::rate(records, took) as u64),
            )?;
        }
        Ok(())
    }

    /// Reads `operations` records, to fill caches before something is measured.
    fn warm_up(&self, chooser: &Chooser, operations: u64, seed: u64) -> Outcome {
        let mut progress = Progress::new("warm up", Some(operations));
        let (mut chooser, mut random) = (chooser.clone(), Random::stream(seed, u64::MAX - 2));
        let newest = self.population.existing();
        for number in 0..operations {
            self.db.get_with(records::key(chooser.next(&mut random, newest)), |_| ())?;
            if number % 256 == 0 {
                progress.at(number);
            }
        }
        Ok(())
    }
}
