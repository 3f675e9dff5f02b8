//! Data of one size for all engines of a cell whose fills run out of time.
//!
//! The slowest fill gives the number of records. Later turns fill no more, and earlier ones that filled
//! more are repeated: bytes per user byte and rates of reads depend on the amount of data.

use crate::engine::Spec;
use crate::job::Step;
use crate::record::Outcome;
use crate::suite::Cell;

/// The share of records that a turn may have more than another.
const TOLERANCE: f64 = 1.05;

/// A turn: round and engine.
pub type Turn = (u64, Spec);

/// The turns at one cell and the records that they filled.
pub struct Shrink<'a> {
    cell: &'a Cell,
    /// The fewest records of any turn.
    fewest: Option<u64>,
    filled: Vec<(Turn, u64)>,
}

/// The cell's first fill: its name, and the planned number of records.
fn fill(cell: &Cell) -> Option<(&str, u64)> {
    cell.steps.iter().find_map(|step| match step {
        Step::Fill { name, records, round: 0, .. } => Some((name.as_str(), *records)),
        _ => None,
    })
}

impl<'a> Shrink<'a> {
    /// No turn yet.
    pub fn new(cell: &'a Cell) -> Self {
        Self { cell, fewest: None, filled: Vec::new() }
    }

    /// The turns in an order that repeats few: Cantle's last in each round, as its fills are mostly the
    /// fastest.
    pub fn order(&self, mut turns: Vec<Turn>) -> Vec<Turn> {
        if fill(self.cell).is_some() {
            turns.sort_by_key(|(round, engine)| (*round, engine.is_cantle()));
        }
        turns
    }

    /// Turns to leave time for, as some may have to be repeated.
    pub fn spare(&self, turns: usize) -> usize {
        if fill(self.cell).is_some() && turns > 1 { turns.div_ceil(3) } else { 0 }
    }

    /// The most records of the next turn; `None` for as many as planned.
    pub fn records_max(&self) -> Option<u64> {
        self.fewest
    }

    /// Adds the result of a turn.
    pub fn add(&mut self, turn: &Turn, outcome: &Outcome) {
        let Some((name, planned)) = fill(self.cell) else { return };
        let Some(measured) = outcome.steps.get(name) else { return };
        let records = measured.operations;
        if records < self.fewest.unwrap_or(planned) {
            self.fewest = Some(records);
        }
        self.filled.retain(|(other, _)| other != turn);
        self.filled.push((turn.clone(), records));
    }

    /// True if a repeated turn did not even fill what the slowest one did: the earlier result stays.
    pub fn falls_short(&self, outcome: &Outcome) -> bool {
        let records = fill(self.cell).and_then(|(name, _)| outcome.steps.get(name)).map(|m| m.operations);
        let few = |fewest: u64| records.is_some_and(|records| (records as f64) * TOLERANCE < fewest as f64);
        self.fewest.is_some_and(few)
    }

    /// The turns that have more records than the slowest one.
    pub fn too_large(&self) -> Vec<Turn> {
        let Some(fewest) = self.fewest else { return Vec::new() };
        let is_too_large = |records: u64| records as f64 > fewest as f64 * TOLERANCE;
        let turns = self.filled.iter().filter(|(_, records)| is_too_large(*records));
        turns.map(|(turn, _)| turn.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Order;
    use crate::record::Measured;

    fn outcome(records: u64) -> Outcome {
        let text = r#"{"version":"","configuration":"","caveats":[],"notes":[],"open_ms":1.0,"close_ms":1.0,
            "group_peak_bytes":null,"group_device_bytes":null,"steps":{}}"#;
        let mut outcome: Outcome = serde_json::from_str(text).unwrap();
        outcome.steps.insert("fill".into(), Measured { operations: records, ..Measured::default() });
        outcome
    }

    #[test]
    fn the_slowest_fill_gives_the_data_of_all_turns() {
        let fill =
            Step::Fill { name: "fill".into(), records: 1_000, first: 0, order: Order::Random, round: 0 };
        let cell = Cell::new("cell", 0, vec![fill], 2);
        let turn = |name: &str| (0, Spec::plain(name));
        let mut shrink = Shrink::new(&cell);
        let turns = shrink.order(vec![turn("cantle"), turn("fast"), turn("slow"), turn("late")]);
        assert_eq!(turns.last(), Some(&turn("cantle")), "the fastest comes last");
        shrink.add(&turn("fast"), &outcome(1_000));
        assert_eq!((shrink.records_max(), shrink.too_large()), (None, vec![]), "all had the time");
        shrink.add(&turn("slow"), &outcome(500));
        shrink.add(&turn("late"), &outcome(490));
        assert_eq!(shrink.records_max(), Some(490));
        assert_eq!(shrink.too_large(), [turn("fast")], "a few more do not matter");
        assert!(shrink.falls_short(&outcome(300)) && !shrink.falls_short(&outcome(490)));
        shrink.add(&turn("fast"), &outcome(490));
        assert_eq!(shrink.too_large(), [], "it was repeated");
        assert_eq!((shrink.spare(6), shrink.spare(1)), (2, 0), "one turn alone is never repeated");
        let without = Cell::new("reads", 10, Vec::new(), 2);
        assert_eq!(Shrink::new(&without).order(vec![turn("cantle"), turn("fast")])[0], turn("cantle"));
    }
}
