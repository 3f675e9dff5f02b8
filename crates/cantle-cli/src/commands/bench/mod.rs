//! `cantle bench`: the workloads of the papers on this machine.
//!
//! A run makes one new store in a directory of its own, loads it in key order, syncs, and measures
//! one phase for each distribution and workload on it. `--smoke` does all of it at a tiny size and
//! checks what it reads. Comparisons with other stores and of single mechanisms are the lab's,
//! under `bench/` of the repository.

mod args;
mod figures;
mod phase;
mod print;
mod report;
mod session;
mod smoke;
mod tally;

pub(crate) use args::Args;

use crate::failure::{Failure, Outcome};
use cantle_workloads::generator::Distribution;
use cantle_workloads::workload::Workload;
use report::Report;
use session::Session;
use std::io::Write;

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

fn measure(args: &Args) -> Outcome<bool> {
    let mut session = Session::create(args)?;
    let mut sound = true;
    for (workload, distribution) in plan(&args.workload, &args.distribution) {
        let report = session.phase(args, workload, distribution)?;
        sound &= report.is_sound();
        show(&report, args)?;
    }
    session.db.close()?;
    Ok(sound)
}

/// Prints the report of one phase as the arguments ask for it.
fn show(report: &Report<'_>, args: &Args) -> Outcome {
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer(&mut out, report)?;
        writeln!(out)?;
    } else if args.smoke && report.is_sound() {
        writeln!(out, "{}", report.line())?;
    } else {
        report.print(&mut out)?;
    }
    Ok(out.flush()?)
}

/// The phases that the arguments ask for: each workload once for each distribution that it can
/// have.
fn plan(workloads: &[Workload], distributions: &[Distribution]) -> Vec<(Workload, Option<Distribution>)> {
    let has_choice =
        |workload: Workload| workload.distribution(Distribution::Uniform) == Some(Distribution::Uniform);
    let mut plan = Vec::new();
    for (round, &asked) in distributions.iter().enumerate() {
        for &workload in workloads {
            if round == 0 || has_choice(workload) {
                plan.push((workload, workload.distribution(asked)));
            }
        }
    }
    plan
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
