//! What a run of the fault lab did and found, for people and for machines.

use cantle::Layout;
use serde::Serialize;
use std::collections::BTreeMap;

/// A run.
#[derive(Debug, Serialize)]
pub struct Report {
    pub layout: String,
    pub seed: u64,
    pub seconds: f64,
    pub visited: Vec<Visited>,
}

/// What happened behind one door.
#[derive(Debug, Serialize)]
pub struct Visited {
    pub door: &'static str,
    pub seconds: f64,
    /// What was done how often.
    pub counts: BTreeMap<&'static str, u64>,
    /// What could not be done here.
    pub skipped: Vec<String>,
    /// What was found; the door ends with the first.
    pub finding: Option<String>,
}

impl Report {
    pub fn new(layout: &Layout, seed: u64) -> Self {
        Self { layout: format!("{layout:?}").to_lowercase(), seed, seconds: 0.0, visited: Vec::new() }
    }

    pub fn findings(&self) -> usize {
        self.visited.iter().filter(|visited| visited.finding.is_some()).count()
    }

    pub fn print(&self) {
        for visited in &self.visited {
            let counts: Vec<String> =
                visited.counts.iter().map(|(what, count)| format!("{} {what}", grouped(*count))).collect();
            println!("{:16}{:>8.1} s  {}", visited.door, visited.seconds, counts.join(", "));
            for skipped in &visited.skipped {
                println!("{:16}skipped: {skipped}", "");
            }
        }
        for visited in &self.visited {
            if let Some(finding) = &visited.finding {
                println!("\n{}: {finding}", visited.door);
            }
        }
        println!(
            "\n{} layout, seed {}, {:.1} minutes: {} findings",
            self.layout,
            self.seed,
            self.seconds / 60.0,
            self.findings()
        );
    }

    pub fn print_json(&self) {
        match serde_json::to_string_pretty(self) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("no report: {error}"),
        }
    }
}

/// A number with its thousands apart.
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
