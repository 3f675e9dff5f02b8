//! The directory of a run: `run.json` and `results.jsonl`. An interrupted run continues with the
//! next trial.

use super::LEFT_OUT;
use crate::failure::{Failure, Result, on};
use crate::record::{Run, Trial};
use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;

/// Appends to a run's results.
pub struct Results {
    file: File,
    done: HashSet<(String, String, u64)>,
}

impl Results {
    /// Begins a run in `dir`, or continues the existing one. Figures, cells and engines may differ
    /// then, but nothing else.
    pub fn open(dir: &Path, run: &Run) -> Result<Self> {
        fs::create_dir_all(dir).map_err(on("create", dir))?;
        let (run_path, path) = (dir.join("run.json"), dir.join("results.jsonl"));
        let mut done = HashSet::new();
        let mut run = run.clone();
        if run_path.exists() {
            let (before, trials) = read(dir)?;
            if !before.plan.is_as(&run.plan) || before.revision != run.revision {
                return Err(Failure(format!(
                    "{} holds a run in other circumstances or of another revision: name another directory by --out, or remove it",
                    dir.display()
                )));
            }
            // Failed trials are run again.
            let is_done =
                |trial: &Trial| trial.outcome.as_ref().err().is_none_or(|why| why.starts_with(LEFT_OUT));
            let good = trials.into_iter().filter(is_done);
            done.extend(good.map(|trial| (trial.cell, trial.engine.to_string(), trial.round)));
            truncate_torn_line(&path)?;
            run = run.after(&before);
        }
        fs::write(&run_path, serde_json::to_string_pretty(&run)?).map_err(on("write", &run_path))?;
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(on("open", &path))?;
        Ok(Self { file, done })
    }

    /// Cell, engine and round of the trials that need not be run again.
    pub fn done(&self) -> HashSet<(String, String, u64)> {
        self.done.clone()
    }

    /// Adds a trial.
    pub fn add(&mut self, trial: Trial) -> Result {
        let mut line = serde_json::to_vec(&trial)?;
        line.push(b'\n');
        // One call, so that an interruption tears at most the last line.
        self.file.write_all(&line)?;
        Ok(())
    }
}

/// Truncates a last line that an interruption left incomplete.
fn truncate_torn_line(path: &Path) -> Result {
    let Ok(bytes) = fs::read(path) else { return Ok(()) };
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// Reads the results of a run. If a trial was run several times, the last one counts.
pub fn read(dir: &Path) -> Result<(Run, Vec<Trial>)> {
    let (run_path, path) = (dir.join("run.json"), dir.join("results.jsonl"));
    let run: Run = serde_json::from_str(&fs::read_to_string(&run_path).map_err(on("read", &run_path))?)?;
    let mut trials: Vec<Trial> = Vec::new();
    let Ok(file) = File::open(&path) else { return Ok((run, trials)) };
    for line in BufReader::new(file).lines() {
        // The last line of a run that was interrupted may be torn.
        let Ok(trial) = serde_json::from_str::<Trial>(&line?) else { continue };
        trials.retain(|old| (&old.cell, &old.engine, old.round) != (&trial.cell, &trial.engine, trial.round));
        trials.push(trial);
    }
    Ok((run, trials))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Durability, Spec};
    use crate::record::Plan;
    use std::collections::BTreeMap;

    fn run(scale: f64) -> Run {
        Run {
            plan: Plan {
                suite: "evendb".into(),
                only: Vec::new(),
                cells: Vec::new(),
                sizes: Vec::new(),
                trace_sizes: Vec::new(),
                engines: vec![Spec::plain("cantle")],
                scale,
                memory_bytes: 1 << 30,
                budget_bytes: 1 << 29,
                durability: Durability::Process,
                threads: 2,
                background_threads: 1,
                rounds: 3,
                seconds_max: 60.0,
                writing_seconds_max: 60.0,
                cell_seconds_max: None,
                suite_seconds_max: None,
                seed: 1,
            },
            commands: vec!["run".into()],
            revision: "1".into(),
            machine: BTreeMap::new(),
            memory_limit_missing: None,
        }
    }

    fn failed(round: u64) -> Trial {
        let (cell, engine) = ("C/4GB".to_string(), Spec::plain("cantle"));
        Trial { cell, engine, round, ended_at: 0, outcome: Err("no".into()) }
    }

    #[test]
    fn an_interrupted_run_goes_on_and_what_failed_or_was_torn_is_run_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut results = Results::open(dir.path(), &run(0.5)).unwrap();
        results.add(failed(0)).unwrap();
        let good = r#"{"version":"","configuration":"","caveats":[],"notes":[],"open_ms":1.0,"close_ms":1.0,
            "group_peak_bytes":null,"group_device_bytes":null,"steps":{}}"#;
        let good = Trial { outcome: Ok(serde_json::from_str(good).unwrap()), ..failed(1) };
        results.add(good.clone()).unwrap();
        let path = dir.path().join("results.jsonl");
        fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"cell\":\"C/4").unwrap();

        let mut results = Results::open(dir.path(), &run(0.5)).unwrap();
        assert_eq!(results.done(), HashSet::from([("C/4GB".into(), "cantle".into(), 1)]));
        let again = Trial { outcome: good.outcome.clone(), ..failed(0) };
        results.add(again.clone()).unwrap();
        assert_eq!(read(dir.path()).unwrap().1, [good, again]);
    }

    #[test]
    fn a_run_goes_on_with_other_picks_and_its_report_has_both() {
        let dir = tempfile::tempdir().unwrap();
        let with = |only: &[&str], engine: &str, command: &str| {
            let mut run = run(0.5);
            run.plan.only = only.iter().map(|name| name.to_string()).collect();
            run.plan.engines = vec![Spec::plain(engine)];
            run.commands = vec![command.into()];
            run
        };
        drop(Results::open(dir.path(), &with(&["figure-6"], "cantle", "first")).unwrap());
        drop(Results::open(dir.path(), &with(&["figure-3"], "btree", "second")).unwrap());
        let (both, _) = read(dir.path()).unwrap();
        assert_eq!(both.plan.only, ["figure-6", "figure-3"]);
        assert_eq!(both.plan.engines, [Spec::plain("cantle"), Spec::plain("btree")]);
        assert_eq!(both.commands, ["first", "second"]);
        drop(Results::open(dir.path(), &with(&[], "btree", "second")).unwrap());
        let (all, _) = read(dir.path()).unwrap();
        assert!(all.plan.only.is_empty(), "{:?}", all.plan.only);
        assert_eq!(all.commands, ["first", "second"]);
    }

    #[test]
    fn another_plan_does_not_mix_with_what_is_there() {
        let dir = tempfile::tempdir().unwrap();
        drop(Results::open(dir.path(), &run(0.5)).unwrap());
        assert!(Results::open(dir.path(), &run(0.25)).is_err());
        let revised = Run { revision: "2".into(), ..run(0.5) };
        assert!(Results::open(dir.path(), &revised).is_err());
    }
}
