//! The work and the findings of a run of the fault lab, as text and as JSON.

use cantle::LayoutKind;
use cantle_faults::doors::fuzz;
use cantle_faults::visit::states_of;
use serde::Serialize;
use std::collections::BTreeMap;

/// A run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub layout: String,
    pub seed: u64,
    pub seconds: f64,
    /// True if debug assertions and overflow checks are compiled in.
    pub assertions: bool,
    pub visited: Vec<Visited>,
}

/// The results of one door.
#[derive(Debug, Serialize)]
pub struct Visited {
    pub door: &'static str,
    pub seconds: f64,
    /// Counters by name.
    pub counts: BTreeMap<&'static str, u64>,
    /// Tests that this machine cannot run.
    pub skipped: Vec<String>,
    /// Minimum work of a long run that was not reached.
    pub not_reached: Vec<String>,
    /// The finding; the door ends with the first.
    pub finding: Option<String>,
}

/// Totals over all doors.
#[derive(Debug, Serialize)]
pub struct Totals {
    /// Stores that were opened and checked.
    pub states: u64,
    /// Calls that failed.
    pub calls: u64,
    /// Processes, machines and devices that died or failed.
    pub cycles: u64,
    /// Executions of parsers, configurations and histories.
    pub executions: u64,
    pub findings: u64,
}

/// The counters that a total consists of, from any door. The targets of `fuzz` count under their
/// own names.
const STATES: &[&str] = &["stores checked", "stores with damage reported", "stores refused"];
const CALLS: &[&str] = &["runs with failed calls", "failed calls", "calls failed", "syncs failed"];
const CYCLES: &[&str] = &[
    "processes killed",
    "losses of power",
    "file systems filled up and healed",
    "devices that lost sectors",
    "limits",
    "openings that were killed",
    "limits of memory",
    "processes with few files",
];
const EXECUTIONS: &[&str] = &["configurations", "histories"];

/// Minimum work of a door in a long run.
const LEAST: &[(&str, &str, u64)] = &[
    ("crash-states", "states", 100_000),
    ("damage", "bit flips", 100_000),
    ("kill", "processes killed", 2_000),
];

/// The minimum work of a door that a long run did not reach.
pub fn not_reached(door: &str, counts: &BTreeMap<&'static str, u64>) -> Vec<String> {
    let of_door = LEAST.iter().filter(|(name, ..)| *name == door);
    of_door
        .filter_map(|&(_, what, least)| {
            let count =
                if what == "states" { states_of(counts) } else { counts.get(what).copied().unwrap_or(0) };
            (count < least)
                .then(|| format!("{} {what}, of which there are {}", grouped(least), grouped(count)))
        })
        .collect()
}

#[derive(Serialize)]
struct WithTotals<'a> {
    #[serde(flatten)]
    report: &'a Report,
    totals: Totals,
}

impl Report {
    pub fn new(layout: &LayoutKind, seed: u64) -> Self {
        Self {
            layout: format!("{layout:?}").to_lowercase(),
            seed,
            seconds: 0.0,
            assertions: cfg!(debug_assertions),
            visited: Vec::new(),
        }
    }

    pub fn findings(&self) -> usize {
        self.visited.iter().filter(|visited| visited.finding.is_some()).count()
    }

    pub fn totals(&self) -> Totals {
        let sum = |names: &[&str]| {
            let counts = self.visited.iter().flat_map(|visited| &visited.counts);
            counts.filter(|(what, _)| names.contains(*what)).map(|(_, count)| count).sum::<u64>()
        };
        let targets: Vec<&str> = fuzz::TARGETS.iter().map(|target| target.name).collect();
        Totals {
            states: self.visited.iter().map(|visited| states_of(&visited.counts)).sum::<u64>() + sum(STATES),
            calls: sum(CALLS),
            cycles: sum(CYCLES),
            executions: sum(EXECUTIONS) + sum(&targets),
            findings: self.findings() as u64,
        }
    }

    pub fn print(&self) {
        for visited in &self.visited {
            // A counter with a result in its name has a line of its own.
            let (results, counts): (Vec<_>, Vec<_>) =
                visited.counts.iter().partition(|(what, _)| what.contains(": "));
            let counts: Vec<String> =
                counts.iter().map(|(what, count)| format!("{} {what}", grouped(**count))).collect();
            println!("{:16}{:>8.1} s  {}", visited.door, visited.seconds, counts.join(", "));
            for (what, count) in results {
                println!("{:16}{:>8}    {what}", "", grouped(*count));
            }
            for skipped in &visited.skipped {
                println!("{:16}skipped: {skipped}", "");
            }
            for not_reached in &visited.not_reached {
                println!("{:16}not reached: {not_reached}", "");
            }
        }
        for visited in &self.visited {
            if let Some(finding) = &visited.finding {
                println!("\n{}: {finding}", visited.door);
            }
        }
        println!(
            "\n{} layout, seed {}, {:.1} minutes, assertions {}",
            self.layout,
            self.seed,
            self.seconds / 60.0,
            if self.assertions { "on" } else { "off: --profile faults has them" },
        );
        let totals = self.totals();
        println!(
            "{} states, {} failed calls, {} cycles, {} executions, {} findings",
            grouped(totals.states),
            grouped(totals.calls),
            grouped(totals.cycles),
            grouped(totals.executions),
            totals.findings
        );
    }

    pub fn print_json(&self) {
        let report = WithTotals { report: self, totals: self.totals() };
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("no report: {error}"),
        }
    }
}

/// A number with separators of thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(door: &'static str, counts: &[(&'static str, u64)]) -> Visited {
        let counts = counts.iter().copied().collect();
        let not_reached = not_reached(door, &counts);
        Visited { door, seconds: 1.0, counts, skipped: Vec::new(), not_reached, finding: None }
    }

    #[test]
    fn totals_are_those_of_all_doors() {
        let mut report = Report::new(&LayoutKind::default(), 0);
        report.visited = vec![
            visited(
                "crash-states",
                &[("states", 90_000), ("states after a second crash", 9_000), ("images", 5)],
            ),
            visited("failing-calls", &[("states", 10), ("runs with failed calls", 3)]),
            visited("kill", &[("processes killed", 7), ("stores checked", 2)]),
            visited("fuzz", &[("header", 11)]),
            visited("histories", &[("histories", 20)]),
        ];
        let totals = report.totals();
        assert_eq!((totals.states, totals.calls, totals.cycles, totals.executions), (99_012, 3, 7, 31));
        let not_reached = |at: usize| report.visited[at].not_reached.join("; ");
        assert_eq!(not_reached(0), "100,000 states, of which there are 99,000");
        assert_eq!(not_reached(1), "");
        assert_eq!(not_reached(2), "2,000 processes killed, of which there are 7");
    }
}
