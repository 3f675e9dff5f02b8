//! `cantle bench`: the workloads of the papers on this machine.
//!
//! A run makes one new store in a directory of its own, loads it in key order, syncs, and measures one phase
//! for each distribution and workload on it. `--smoke` does all of it at a tiny size and checks what it reads.

mod args;
mod phase;
mod report;
mod smoke;

pub(crate) use args::Args;

use crate::failure::{Failure, Outcome};
use crate::measure::display;
use crate::measure::failed;
use crate::measure::generator::{Chooser, Distribution, Permutation, Random};
use cantle::Db;
use cantle_workloads::{population, records, workload};
use phase::Phase;
use population::Population;
use records::Values;
use report::{Report, Run};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use workload::Workload;

/// Runs the command. Records that were missing or wrong are reported as damage.
pub(crate) fn run(args: Args) -> Outcome {
    args.check().map_err(Failure::Usage)?;
    let sound = if args.smoke { smoke::run(&args)? } else { measure(&args)? };
    if sound {
        Ok(())
    } else {
        Err(Failure::Damage("the store did not return what was written to it".into()))
    }
}

/// The directory of a run: new, and gone afterwards unless it is to be kept.
enum Workplace {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Workplace {
    fn new(args: &Args) -> Outcome<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("cantle-bench-");
        let dir = match &args.dir {
            Some(dir) => {
                std::fs::create_dir_all(dir).map_err(failed("create", dir))?;
                builder.tempdir_in(dir).map_err(failed("create a directory in", dir))?
            }
            None => builder.tempdir().map_err(failed("create a directory in", &std::env::temp_dir()))?,
        };
        Ok(if args.keep { Self::Kept(dir.keep()) } else { Self::Temporary(dir) })
    }

    fn path(&self) -> &Path {
        match self {
            Self::Temporary(dir) => dir.path(),
            Self::Kept(dir) => dir,
        }
    }
}

/// A loaded store and what is known of it; runs one phase after the other.
struct Bench<'a> {
    args: &'a Args,
    db: Db,
    dir: PathBuf,
    values: Values,
    population: Population,
    /// Phases run so far; gives each its own random streams.
    phases: u64,
}

impl<'a> Bench<'a> {
    /// A new, empty store in `dir`.
    fn create(args: &'a Args, dir: &Path) -> Outcome<Self> {
        Ok(Self {
            args,
            db: args.store_options().error_if_exists(true).open(dir)?,
            dir: dir.to_path_buf(),
            values: Values::new(args.seed),
            population: Population::new(0),
            phases: 0,
        })
    }

    fn load(&mut self) -> Outcome {
        let took = phase::load(&self.db, &self.values, self.args.records, self.args.seed)?;
        self.population = Population::new(self.args.records);
        if !self.args.json && !self.args.smoke {
            let records = self.args.records;
            writeln!(
                std::io::stdout(),
                "loaded {} records ({}) in key order in {}: {} per second",
                display::count(records),
                display::bytes(records * records::RECORD_BYTES),
                display::duration(took),
                display::count(display::rate(records, took) as u64),
            )?;
        }
        Ok(())
    }

    /// One measured phase over what the phases before it left.
    fn phase(&mut self, workload: Workload, distribution: Option<Distribution>) -> Outcome<Report> {
        self.phases += 1;
        let args = self.args;
        let existing = self.population.existing();
        let duration = args.duration.filter(|_| !workload.is_insert());
        // Time runs out before the record numbers do: of ten digits not even a thousand hours insert half.
        let operations = match duration {
            Some(_) => records::RECORDS_MAX / 2,
            None => args.operation_count(workload),
        };
        if existing + operations > records::RECORDS_MAX {
            return Err(Failure::Usage("the record numbers of this run have more than ten digits".into()));
        }
        // All phases agree on which records are hot: the seed is the run's.
        let chooser =
            distribution.map(|distribution| Chooser::new(distribution, existing, args.theta, args.seed));
        if let Some(chooser) = &chooser {
            phase::warm_up(&self.db, chooser, args.warmup, existing, args.seed)?;
        }
        let phase = Phase {
            db: &self.db,
            dir: &self.dir,
            workload,
            chooser,
            insert_order: (workload == Workload::InsertRandom && operations > 0)
                .then(|| Permutation::new(operations, args.seed ^ self.phases)),
            population: &self.population,
            values: &self.values,
            operations,
            duration,
            threads: args.thread_count(),
            seed: Random::stream(args.seed, self.phases).bits(),
            title: workload.name().to_string(),
        };
        let outcome = phase.run()?;
        let run = Run { args, records: existing, threads: phase.threads };
        Ok(Report::new(&run, workload, distribution, &outcome))
    }
}

/// Which phases the arguments ask for: each workload once for each distribution that it can have.
fn plan(workloads: &[Workload], distributions: &[Distribution]) -> Vec<(Workload, Option<Distribution>)> {
    let mut plan = Vec::new();
    for (round, &asked) in distributions.iter().enumerate() {
        for &workload in workloads {
            let distribution = workload.distribution(asked);
            // What has no choice of distribution runs in the first round only.
            if distribution == Some(asked) || round == 0 {
                plan.push((workload, distribution));
            }
        }
    }
    if !distributions.contains(&Distribution::Latest) {
        return plan;
    }
    // D was planned in the first round and again under its own distribution.
    let mut seen_d = false;
    plan.retain(|&(workload, _)| workload != Workload::D || !std::mem::replace(&mut seen_d, true));
    plan
}

fn measure(args: &Args) -> Outcome<bool> {
    let workplace = Workplace::new(args)?;
    let mut bench = Bench::create(args, workplace.path())?;
    let mut out = std::io::stdout().lock();
    let mut sound = true;
    for (workload, distribution) in plan(&args.workload, &args.distribution) {
        if distribution.is_some() && bench.population.existing() == 0 {
            bench.load()?;
        }
        let report = bench.phase(workload, distribution)?;
        if args.json {
            serde_json::to_writer(&mut out, &report)?;
            writeln!(out)?;
        } else {
            report.print(&mut out)?;
        }
        out.flush()?;
        sound &= report.is_sound();
    }
    bench.db.close()?;
    if let Workplace::Kept(dir) = &workplace {
        writeln!(std::io::stderr(), "the store is kept in {}", dir.display())?;
    }
    Ok(sound)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Distribution::{Latest, Uniform, ZipfSimple};
    use Workload::{A, D, InsertRandom};

    #[test]
    fn what_has_no_choice_of_distribution_is_planned_once() {
        assert_eq!(
            plan(&[InsertRandom, A, D], &[ZipfSimple, Latest, Uniform]),
            [
                (InsertRandom, None),
                (A, Some(ZipfSimple)),
                (D, Some(Latest)),
                (A, Some(Latest)),
                (A, Some(Uniform))
            ]
        );
    }
}
