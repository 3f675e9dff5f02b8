//! One comparison: the rates of its sides in each round, and their ratios beside the floors.

use super::race::Turn;
use crate::report::number;
use serde::Serialize;
use serde_json::{Map, Value};
use std::io::{self, Write};

/// Figures of one side or ratio over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Rounds {
    median: f64,
    least: f64,
    most: f64,
    rounds: Vec<f64>,
}

impl Rounds {
    fn new(rounds: Vec<f64>) -> Self {
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

    /// The ratios of this to that, round by round.
    fn over(&self, that: &Self) -> Self {
        Self::new(self.rounds.iter().zip(&that.rounds).map(|(this, that)| this / that).collect())
    }

    fn texts(&self, scale: f64) -> [String; 3] {
        [self.median, self.least, self.most].map(|value| number(value / scale))
    }
}

/// One side: its name and its operations per second.
#[derive(Debug, Serialize)]
struct Side {
    name: &'static str,
    operations_per_s: Rounds,
    /// Processor time per operation, in ns, without that of other programs. `None` if other threads
    /// work for the side.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<Rounds>,
}

/// The ratio of two sides.
#[derive(Debug, Serialize)]
struct Ratio {
    name: String,
    #[serde(flatten)]
    ratio: Rounds,
    /// Minimum of the median.
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    met: Option<bool>,
}

/// One comparison, as `--json` prints it.
#[derive(Debug, Serialize)]
pub struct Comparison {
    reference: &'static str,
    turn: String,
    sides: Vec<Side>,
    ratios: Vec<Ratio>,
    /// True if all floors are reached, or one of them if only the lower counts.
    met: bool,
    #[serde(skip)]
    lower_counts: bool,
    /// Figures of this comparison alone.
    #[serde(flatten)]
    pub more: Map<String, Value>,
    /// Lines below the tables.
    #[serde(skip)]
    pub facts: Vec<String>,
    /// Number of rows that were missing or wrong.
    pub wrong: u64,
}

impl Comparison {
    /// A comparison of `sides`, each with its operations per second in each round.
    pub fn new(reference: &'static str, turn: String, sides: Vec<(&'static str, Vec<f64>)>) -> Self {
        let side = |(name, rates)| Side { name, operations_per_s: Rounds::new(rates), cpu_ns: None };
        Self {
            reference,
            turn,
            sides: sides.into_iter().map(side).collect(),
            ratios: Vec::new(),
            met: true,
            lower_counts: false,
            more: Map::new(),
            facts: Vec::new(),
            wrong: 0,
        }
    }

    /// A comparison of the turns of `sides`, with the processor time of each.
    pub fn of_turns(reference: &'static str, turn: String, sides: Vec<(&'static str, Vec<Turn>)>) -> Self {
        let of = |turns: &[Turn], figure: fn(&Turn) -> f64| turns.iter().map(figure).collect::<Vec<_>>();
        let rates = sides.iter().map(|(name, turns)| (*name, of(turns, Turn::operations_per_s)));
        let mut comparison = Self::new(reference, turn, rates.collect());
        for (side, (_, turns)) in comparison.sides.iter_mut().zip(&sides) {
            side.cpu_ns = Some(Rounds::new(of(turns, Turn::cpu_ns_per_operation)));
        }
        comparison
    }

    /// Adds the ratio of two sides, by their indexes.
    pub fn ratio(&mut self, this: usize, that: usize, floor: Option<f64>) {
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

    /// Only the lower of the floors counts.
    pub fn lower_counts(&mut self) {
        self.lower_counts = true;
        self.judge();
    }

    fn judge(&mut self) {
        let mut floors = self.ratios.iter().filter_map(|ratio| ratio.met);
        self.met = if self.lower_counts { floors.any(|met| met) } else { floors.all(|met| met) };
    }

    /// Prints a paragraph, within 100 columns.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let rounds = self.sides.first().map_or(0, |side| side.operations_per_s.rounds.len());
        writeln!(out, "\n{}, {rounds} rounds: {}\n", self.reference, self.turn)?;
        let mut line = |name: &str, cells: [&str; 3], rest: &str| {
            let [median, least, most] = cells;
            let line = format!("  {name:<30} {median:>8}  {least:>8}  {most:>8}  {rest}");
            writeln!(out, "{}", line.trim_end())
        };
        line("thousand/s", ["median", "least", "most"], "")?;
        for side in &self.sides {
            let cpu = side.cpu_ns.as_ref().map(|cpu| format!("CPU {} ns", number(cpu.median)));
            line(
                side.name,
                side.operations_per_s.texts(1e3).each_ref().map(String::as_str),
                &cpu.unwrap_or_default(),
            )?;
        }
        line("ratio", ["", "", ""], "")?;
        for Ratio { name, ratio, floor, met } in &self.ratios {
            let met = met.map_or("", |met| if met { "met" } else { "missed" });
            let floor = floor.map_or(String::new(), |floor| format!("floor {floor:.2} {met}"));
            line(name, ratio.texts(1.0).each_ref().map(String::as_str), &floor)?;
        }
        if self.lower_counts {
            let met = if self.met { "met" } else { "missed" };
            writeln!(out, "  only the lower of the floors counts: {met}")?;
        }
        self.facts.iter().try_for_each(|fact| writeln!(out, "  {fact}"))?;
        if self.wrong > 0 {
            writeln!(out, "\n  WRONG: {} rows were missing or not what was written", self.wrong)?;
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

    #[test]
    fn all_floors_count_unless_only_the_lower_does() {
        let sides = vec![("a", vec![2.0]), ("b", vec![4.0]), ("c", vec![1.0])];
        let mut comparison = Comparison::new("puts", String::new(), sides);
        comparison.ratio(0, 1, Some(0.8));
        comparison.ratio(0, 2, Some(1.5));
        assert!(!comparison.met);
        comparison.lower_counts();
        assert!(comparison.met);
        let mut text = Vec::new();
        comparison.print(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("a / b") && text.contains("floor 0.80 missed"), "{text}");
        assert_eq!(text.lines().find(|line| line.chars().count() > 100), None);
    }
}
