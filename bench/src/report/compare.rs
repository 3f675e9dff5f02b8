//! Medians over rounds, and Cantle against the better of its rivals' configurations.

use crate::engine::Spec;
use crate::record::{Outcome, Run, Trial};
use crate::suite::measure::Measure;
use crate::suite::{Cell, Suite, goals};
use std::collections::BTreeMap;

/// Trials by cell and engine.
pub struct Results<'a> {
    /// Engines in the order of the run.
    pub engines: Vec<Spec>,
    by_cell: BTreeMap<(&'a str, &'a Spec), Vec<&'a Trial>>,
}

/// The median over the rounds, with the extremes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Middle {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub least: f64,
    /// The maximum.
    pub most: f64,
    /// Number of rounds.
    pub rounds: usize,
}

impl Middle {
    /// The middle of these values; `None` without values.
    pub fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Self { median: (low + high) / 2.0, least, most, rounds: values.len() })
    }

    /// Half of the distance between the extremes, as a share of the median.
    pub fn spread(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.most - self.least) / 2.0 / self.median }
    }
}

impl<'a> Results<'a> {
    /// Groups trials by cell and engine.
    pub fn new(run: &Run, trials: &'a [Trial]) -> Self {
        let mut by_cell: BTreeMap<(&str, &Spec), Vec<&Trial>> = BTreeMap::new();
        for trial in trials {
            by_cell.entry((&trial.cell, &trial.engine)).or_default().push(trial);
        }
        Self { engines: run.plan.engines.clone(), by_cell }
    }

    /// The outcomes of an engine's turns at a cell.
    pub fn outcomes(&self, cell: &str, engine: &Spec) -> Vec<&'a Outcome> {
        self.trials(cell, engine).filter_map(|trial| trial.outcome.as_ref().ok()).collect()
    }

    fn trials(&self, cell: &str, engine: &Spec) -> impl Iterator<Item = &'a Trial> {
        let found = self.by_cell.iter().find(|((at, of), _)| *at == cell && *of == engine);
        found.into_iter().flat_map(|(_, trials)| trials.iter().copied())
    }

    /// The engines beside those of the run that had a turn at a cell.
    pub fn others(&self, cell: &str) -> Vec<Spec> {
        let at = self.by_cell.keys().filter(|(other, _)| *other == cell).map(|(_, engine)| *engine);
        at.filter(|engine| !self.engines.contains(engine)).cloned().collect()
    }

    /// The reason why an engine has no result at a cell.
    pub fn failure(&self, cell: &str, engine: &Spec) -> Option<&'a str> {
        self.trials(cell, engine).find_map(|trial| trial.outcome.as_ref().err().map(String::as_str))
    }

    /// The median of a measure.
    pub fn middle(&self, cell: &str, step: &str, engine: &Spec, measure: Measure) -> Option<Middle> {
        let outcomes = self.outcomes(cell, engine);
        Middle::of(outcomes.iter().filter_map(|outcome| measure.of(outcome, step)).collect())
    }

    /// The round of median throughput, whose timeline is shown.
    pub fn typical(&self, cell: &str, step: &str, engine: &Spec) -> Option<&'a Outcome> {
        let mut outcomes = self.outcomes(cell, engine);
        let key = |outcome: &&Outcome| Measure::Throughput.of(outcome, step).unwrap_or(0.0);
        outcomes.sort_by(|a, b| key(a).total_cmp(&key(b)));
        outcomes.get(outcomes.len() / 2).copied()
    }

    /// One outcome of each engine that has any, with its engine.
    pub fn any_of_each(&self) -> Vec<(&'a Spec, &'a Outcome)> {
        let mut found: BTreeMap<&Spec, &Outcome> = BTreeMap::new();
        for ((_, engine), trials) in &self.by_cell {
            for outcome in trials.iter().filter_map(|trial| trial.outcome.as_ref().ok()) {
                found.entry(*engine).or_insert(outcome);
            }
        }
        found.into_iter().collect()
    }
}

/// Cantle at one step of one cell against the best rival.
#[derive(Debug, Clone)]
pub struct Comparison {
    /// The cell.
    pub cell: String,
    /// The step, if the cell has several.
    pub step: String,
    /// The rival: the better configuration of the baseline.
    pub rival: Option<(Spec, Middle)>,
    /// Cantle's throughput over the rival's.
    pub ratio: Option<f64>,
    /// The ratio that the project has as its goal.
    pub goal: Option<f64>,
    /// Every engine's throughput, in the order of the run.
    pub all: Vec<(Spec, Option<Middle>)>,
}

impl Comparison {
    /// The first key of the sort order: slower than the rival, slower than the goal, or neither.
    pub fn standing(&self) -> Standing {
        match (self.ratio, self.goal) {
            (Some(ratio), _) if ratio < 1.0 => Standing::Lost,
            (Some(ratio), Some(goal)) if ratio < goal => Standing::Short,
            (Some(_), _) => Standing::Won,
            (None, _) => Standing::Alone,
        }
    }

    /// The second key of the sort order: the ratio, as a share of the goal if there is one.
    fn share(&self) -> f64 {
        let ratio = self.ratio.unwrap_or(0.0);
        if self.standing() == Standing::Short { ratio / self.goal.unwrap_or(1.0) } else { ratio }
    }
}

/// The result of Cantle at a cell, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Slower than the rival.
    Lost,
    /// Faster than the rival, but below the goal.
    Short,
    /// Faster.
    Won,
    /// Without a rival.
    Alone,
}

/// The engines that Cantle is compared with: RocksDB in its configurations, or else all engines
/// that are neither Cantle nor a map.
pub fn baseline(engines: &[Spec]) -> Vec<Spec> {
    let pick =
        |is: fn(&Spec) -> bool| engines.iter().filter(|engine| is(engine)).cloned().collect::<Vec<_>>();
    let rocks = pick(|engine| engine.name.starts_with("rocksdb"));
    if !rocks.is_empty() {
        return rocks;
    }
    let stores = pick(|engine| !engine.is_cantle() && !engine.is_volatile());
    if stores.is_empty() { pick(|engine| !engine.is_cantle()) } else { stores }
}

/// Every cell at which all engines had a turn, the worst first.
pub fn comparisons(run: &Run, suite: &Suite, results: &Results) -> Vec<Comparison> {
    let Some(cantle) = results.engines.iter().find(|engine| engine.is_cantle()) else { return Vec::new() };
    let rivals = baseline(&results.engines);
    let mut found = Vec::new();
    for cell in suite.cells.iter().filter(|cell| cell.engines.is_none()) {
        for step in steps(cell) {
            let at = |engine: &Spec| results.middle(&cell.id, &step, engine, Measure::Throughput);
            let Some(own) = at(cantle) else { continue };
            let rival = rivals
                .iter()
                .filter_map(|engine| Some((engine.clone(), at(engine)?)))
                .max_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
            let ratio =
                rival.as_ref().and_then(|(_, rival)| (rival.median > 0.0).then(|| own.median / rival.median));
            found.push(Comparison {
                cell: cell.id.clone(),
                step: if cell.steps.len() + usize::from(cell.reopen.is_some()) > 1 {
                    step.clone()
                } else {
                    String::new()
                },
                rival,
                ratio,
                goal: goals::of(&cell.id, &step, cell.data_bytes() as f64 / run.plan.memory_bytes as f64),
                all: results.engines.iter().map(|engine| (engine.clone(), at(engine))).collect(),
            });
        }
    }
    found.sort_by(|a, b| a.standing().cmp(&b.standing()).then(a.share().total_cmp(&b.share())));
    found
}

/// Names of the measured steps of a cell.
pub fn steps(cell: &Cell) -> Vec<String> {
    let mut names: Vec<String> = cell.steps.iter().filter_map(|step| step.name().map(String::from)).collect();
    if cell.reopen.is_some() {
        names.push(crate::runner::FIRST_GETS.into());
    }
    names
}
