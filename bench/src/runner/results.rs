//! The directory that a run leaves behind: `run.json` and `results.jsonl`. A run that was interrupted goes on where
//! it was.

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
    /// Begins a run in `dir`, or goes on with the one that is there if it had the same plan.
    pub fn open(dir: &Path, run: &Run) -> Result<Self> {
        fs::create_dir_all(dir).map_err(on("create", dir))?;
        let (run_path, path) = (dir.join("run.json"), dir.join("results.jsonl"));
        let mut done = HashSet::new();
        if run_path.exists() {
            let (before, trials) = read(dir)?;
            if before.plan != run.plan || before.revision != run.revision {
                return Err(Failure(format!(
                    "{} holds a run of another plan or revision: name another directory by --out, or remove it",
                    dir.display()
                )));
            }
            // What failed is tried again.
            let good = trials.into_iter().filter(|trial| trial.outcome.is_ok());
            done.extend(good.map(|trial| (trial.cell, trial.engine.to_string(), trial.round)));
            truncate_torn_line(&path)?;
        }
        fs::write(&run_path, serde_json::to_string_pretty(run)?).map_err(on("write", &run_path))?;
        let file = OpenOptions::new().create(true).append(true).open(&path).map_err(on("open", &path))?;
        Ok(Self { file, done })
    }

    /// Cell, engine and round of what needs not be run again.
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

/// Cuts off a last line that an interruption left without its end.
fn truncate_torn_line(path: &Path) -> Result {
    let Ok(bytes) = fs::read(path) else { return Ok(()) };
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    if whole < bytes.len() {
        OpenOptions::new().write(true).open(path)?.set_len(whole as u64)?;
    }
    Ok(())
}

/// Reads what a run left behind. Of a trial that was run again, the last counts.
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
