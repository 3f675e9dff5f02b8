//! What is printed of one comparison: the rates of its sides in each round, and their ratios beside the floors.

use super::super::report::Parameters;
use super::super::workload::Workload;
use super::Warmth;
use super::race::Turn;
use crate::measure::display::{self, Align, Table};
use crate::measure::generator::Distribution;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Figures of one side or ratio over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Rounds {
    median: f64,
    least: f64,
    most: f64,
    rounds: Vec<f64>,
}

impl Rounds {
    pub(super) fn new(rounds: Vec<f64>) -> Self {
        let mut sorted = rounds.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
        let middle = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            0 if middle > 0 => (at(middle - 1) + at(middle)) / 2.0,
            _ => at(middle),
        };
        Self { median, least: at(0), most: at(sorted.len().saturating_sub(1)), rounds }
    }

    /// This over that, round by round.
    fn over(&self, that: &Self) -> Self {
        Self::new(self.rounds.iter().zip(&that.rounds).map(|(this, that)| this / that).collect())
    }
}

/// One side: what it is, and its operations per second.
#[derive(Debug, Serialize)]
struct Side {
    name: &'static str,
    operations_per_s: Rounds,
    /// Computing time of an operation, where that says all: what others do to the machine is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<Rounds>,
}

/// One side over another.
#[derive(Debug, Serialize)]
struct Ratio {
    name: String,
    #[serde(flatten)]
    ratio: Rounds,
    /// What the median should not be below.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

/// One comparison, as `--json` prints it.
#[derive(Debug, Serialize)]
pub(super) struct Comparison {
    reference: &'static str,
    workload: Workload,
    distribution: Distribution,
    parameters: Parameters,
    turn: String,
    warmth: Warmth,
    sides: Vec<Side>,
    ratios: Vec<Ratio>,
    /// Whether the floors are kept: all of them, or where the lower counts, one.
    met: bool,
    #[serde(skip)]
    lower_counts: bool,
    /// Gets by where they were served from.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub(super) gets_served: Map<String, Value>,
    /// Figures of this comparison alone.
    #[serde(flatten)]
    pub(super) more: Map<String, Value>,
    /// What is said below the tables.
    #[serde(skip)]
    pub(super) facts: Vec<(&'static str, String)>,
    /// Rows that were missing, or not what was written.
    pub(super) wrong: u64,
}

/// What all comparisons of a run share.
#[derive(Debug, Clone)]
pub(super) struct Common {
    pub(super) distribution: Distribution,
    pub(super) parameters: Parameters,
    pub(super) warmth: Warmth,
}

impl Comparison {
    /// Of `sides`, each with its operations per second in each round.
    pub(super) fn new<const N: usize>(
        reference: &'static str,
        workload: Workload,
        common: &Common,
        turn: String,
        sides: [(&'static str, Vec<f64>); N],
    ) -> Self {
        let Common { distribution, parameters, warmth } = common.clone();
        let side = |(name, rates)| Side { name, operations_per_s: Rounds::new(rates), cpu_ns: None };
        Self {
            reference,
            workload,
            distribution,
            parameters,
            turn,
            warmth,
            sides: sides.map(side).into(),
            ratios: Vec::new(),
            met: true,
            lower_counts: false,
            gets_served: Map::new(),
            more: Map::new(),
            facts: Vec::new(),
            wrong: 0,
        }
    }

    /// Adds the computing time of each side.
    pub(super) fn cpu<const N: usize>(&mut self, turns: &[Vec<Turn>; N]) {
        for (side, turns) in self.sides.iter_mut().zip(turns) {
            side.cpu_ns = Some(Rounds::new(turns.iter().map(Turn::cpu_ns_per_operation).collect()));
        }
    }

    /// Adds the ratio of two sides by their numbers.
    pub(super) fn ratio(&mut self, this: usize, that: usize, floor: Option<f64>) {
        let (this, that) = (&self.sides[this], &self.sides[that]);
        let ratio = this.operations_per_s.over(&that.operations_per_s);
        let met = floor.map(|floor| ratio.median >= floor);
        let name = format!("{} / {}", this.name, that.name);
        let by_cpu = this.cpu_ns.as_ref().zip(that.cpu_ns.as_ref()).map(|(this, that)| that.over(this));
        self.ratios.push(Ratio { name, ratio, floor, met });
        if let Some(ratio) = by_cpu {
            self.ratios.push(Ratio { name: "  by CPU time".into(), ratio, floor: None, met: None });
        }
        self.judge();
    }

    /// Of the floors the lower counts.
    pub(super) fn lower_counts(&mut self) {
        self.lower_counts = true;
        self.judge();
    }

    fn judge(&mut self) {
        let mut floors = self.ratios.iter().filter_map(|ratio| ratio.met);
        self.met = if self.lower_counts { floors.any(|met| met) } else { floors.all(|met| met) };
    }

    /// One line with the essentials.
    pub(super) fn line(&self) -> String {
        let ratios: Vec<String> = self
            .ratios
            .iter()
            .filter(|ratio| ratio.floor.is_some())
            .map(|ratio| format!("{} {:.2}", ratio.name, ratio.ratio.median))
            .collect();
        format!("{:<28} {}", format!("reference {}", self.reference), ratios.join("   "))
    }

    /// A paragraph for people, within 100 columns.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{} ({} over {}), {} rounds: {}\n",
            self.reference,
            self.workload.name(),
            self.distribution.name(),
            self.sides.first().map_or(0, |side| side.operations_per_s.rounds.len()),
            self.turn,
        )?;
        let right = |names: &[&'static str]| -> Vec<(&str, Align)> {
            let mut columns = vec![("", Align::Left)];
            columns.extend(names.iter().map(|&name| (name, Align::Right)));
            columns
        };
        let has_cpu = self.sides.iter().any(|side| side.cpu_ns.is_some());
        let mut sides =
            Table::new(&right(&["median/s", "least", "most", if has_cpu { "CPU time" } else { "" }]));
        for side in &self.sides {
            let rates = &side.operations_per_s;
            let mut row = vec![side.name.to_owned()];
            row.extend([rates.median, rates.least, rates.most].map(|rate| display::count(rate as u64)));
            let cpu = side.cpu_ns.as_ref();
            row.push(cpu.map_or(String::new(), |cpu| display::nanoseconds(cpu.median as u64)));
            sides.row(row);
        }
        let mut columns = right(&["median", "least", "most", "floor"]);
        columns.push(("", Align::Left));
        let mut ratios = Table::new(&columns);
        for Ratio { name, ratio, floor, met } in &self.ratios {
            let mut row = vec![name.clone()];
            row.extend([ratio.median, ratio.least, ratio.most].map(|ratio| format!("{ratio:.2}")));
            row.push(floor.map_or(String::new(), |floor| format!("{floor:.2}")));
            row.push(met.map_or(String::new(), |met| if met { "met" } else { "missed" }.into()));
            ratios.row(row);
        }
        for table in [sides, ratios] {
            for line in table.lines("  ") {
                writeln!(out, "{line}")?;
            }
            writeln!(out)?;
        }
        if self.lower_counts {
            let met = if self.met { "met" } else { "missed" };
            writeln!(out, "  {:<9} {met}: of the floors the lower counts", "floor")?;
        }
        for (name, text) in &self.facts {
            writeln!(out, "  {name:<9} {text}")?;
        }
        if self.wrong > 0 {
            let wrong = display::count(self.wrong);
            writeln!(out, "\n  WRONG: {wrong} rows were missing or not what was written")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_the_same_round_and_their_median_of_the_ratios() {
        let (this, that) = (Rounds::new(vec![1.0, 40.0, 6.0]), Rounds::new(vec![2.0, 10.0, 6.0]));
        assert_eq!((this.median, this.least, this.most), (6.0, 1.0, 40.0));
        assert_eq!(this.over(&that), Rounds::new(vec![0.5, 4.0, 1.0]));
        assert_eq!(this.over(&that).median, 1.0);
        assert_eq!(Rounds::new(vec![1.0, 2.0, 3.0, 10.0]).median, 2.5);
        assert_eq!(Rounds::new(Vec::new()).median, 0.0);
    }
}
