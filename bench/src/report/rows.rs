//! The table of goals: each row's value, its ratio to the best configuration of each rival, and a verdict.

use super::compare::{Middle, Results};
use super::svg::{escape, number};
use crate::engine::Spec;
use crate::job::Step;
use crate::record::{Outcome, Run};
use crate::suite::rows::{Against, Bound, Row};
use crate::suite::{Cell, Suite};
use std::fmt::Write;

/// The verdict on a row, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A bound that must hold does not.
    Lost,
    /// All of these hold, but the goal is not reached.
    Missed,
    /// The goal is reached.
    Passed,
    /// Results are missing.
    Open,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Missed => "missed",
            Self::Passed => "passed",
            Self::Open => "no result",
        }
    }

    fn class(self) -> &'static str {
        match self {
            Self::Lost => "loss",
            Self::Missed => "short",
            Self::Passed => "win",
            Self::Open => "",
        }
    }
}

/// The best configuration of a rival at a row.
#[derive(Debug, Clone)]
pub struct Rival {
    pub against: Against,
    pub engine: Spec,
    pub middle: Middle,
}

/// A row with its results.
#[derive(Debug, Clone)]
pub struct Score<'a> {
    pub row: &'a Row,
    pub own: Option<Middle>,
    /// The rivals of the row's bounds.
    pub rivals: Vec<Rival>,
    pub verdict: Verdict,
    /// Other counts of the same turn, and steps that ended early.
    pub beside: String,
    /// Every engine that has a value.
    pub all: Vec<(Spec, Middle)>,
}

/// Every row of a suite, losses first, and among equals in the order of the suite.
pub fn scores<'a>(run: &Run, suite: &'a Suite, results: &Results) -> Vec<Score<'a>> {
    let mut scores: Vec<Score> =
        suite.rows.iter().filter_map(|row| score(row, run, suite, results)).collect();
    scores.sort_by_key(|score| score.verdict);
    scores
}

fn score<'a>(row: &'a Row, run: &Run, suite: &Suite, results: &Results) -> Option<Score<'a>> {
    // A cell that the run leaves out has no row.
    let cell = suite.cells.iter().find(|cell| cell.id == row.cell)?;
    let budget_bytes = run.plan.budget_at(cell);
    let value = |engine: &Spec| {
        let outcomes = results.outcomes(&row.cell, engine);
        Middle::of(outcomes.iter().filter_map(|outcome| row.quantity.of(outcome, budget_bytes)).collect())
    };
    let engines = cell.engines_of(&results.engines);
    let cantle = engines.iter().find(|engine| engine.is_cantle());
    let own = cantle.and_then(value);
    let all: Vec<(Spec, Middle)> =
        engines.iter().filter_map(|engine| Some((engine.clone(), value(engine)?))).collect();
    let mut rivals: Vec<Rival> = Vec::new();
    for against in row.goals.iter().chain(&row.musts).map(|bound| bound.against) {
        if rivals.iter().any(|rival| rival.against == against) {
            continue;
        }
        let those = all.iter().filter(|(engine, _)| against.is_one(engine));
        let by = |a: &&(Spec, Middle), b: &&(Spec, Middle)| a.1.median.total_cmp(&b.1.median);
        let best = if row.quantity.is_gain() { those.max_by(by) } else { those.min_by(by) };
        rivals.extend(best.map(|(engine, middle)| Rival {
            against,
            engine: engine.clone(),
            middle: *middle,
        }));
    }
    let outcome = cantle.and_then(|engine| results.outcomes(&row.cell, engine).first().copied());
    let mut beside: Vec<String> = outcome.map(|outcome| row.quantity.beside(outcome)).into_iter().collect();
    for (engine, _) in &all {
        for outcome in results.outcomes(&row.cell, engine).iter().take(1) {
            let is_cut = |step: &&str| outcome.steps.get(*step).is_some_and(|measured| measured.is_cut);
            let cut: Vec<&str> = row.quantity.steps().into_iter().filter(|step| is_cut(step)).collect();
            // An endless step ends with its time.
            if !cut.is_empty() && !cell.is_cantle_alone {
                beside.push(format!("{engine} ran out of time in {}", cut.join(" and ")));
            }
        }
    }
    beside.extend(outcome.and_then(|outcome| shrunk(cell, outcome)));
    beside.retain(|part| !part.is_empty());
    let verdict = verdict(row, own.as_ref(), &rivals);
    Some(Score { row, own, rivals, verdict, beside: beside.join("; "), all })
}

/// The part of the planned data that a cell was filled with, if it is not all.
fn shrunk(cell: &Cell, outcome: &Outcome) -> Option<String> {
    let (name, planned) = cell.steps.iter().find_map(|step| match step {
        Step::Fill { name, records, round: 0, .. } => Some((name, *records)),
        _ => None,
    })?;
    let records = outcome.steps.get(name)?.operations;
    let percent = records as f64 / planned as f64 * 100.0;
    (records < planned).then(|| format!("data shrunk to {percent:.0} %"))
}

/// Cantle's value as a bound sees it: itself, or its ratio to the rival's.
fn ratio(bound: &Bound, own: &Middle, rivals: &[Rival]) -> Option<f64> {
    if bound.against == Against::Nothing {
        return Some(own.median);
    }
    let rival = rivals.iter().find(|rival| rival.against == bound.against)?;
    (rival.middle.median > 0.0).then(|| own.median / rival.middle.median)
}

fn verdict(row: &Row, own: Option<&Middle>, rivals: &[Rival]) -> Verdict {
    let Some(own) = own else { return Verdict::Open };
    let is_met = |bound: &Bound| {
        let ratio = ratio(bound, own, rivals)?;
        Some(if row.quantity.is_gain() { ratio >= bound.at } else { ratio <= bound.at })
    };
    let (musts, goals): (Vec<_>, Vec<_>) =
        (row.musts.iter().map(is_met).collect(), row.goals.iter().map(is_met).collect());
    if musts.contains(&Some(false)) {
        Verdict::Lost
    } else if musts.contains(&None) {
        Verdict::Open
    } else if goals.contains(&Some(false)) {
        Verdict::Missed
    } else if goals.contains(&None) {
        Verdict::Open
    } else {
        Verdict::Passed
    }
}

fn bounds(row: &Row, bounds: &[Bound]) -> String {
    let sign = if row.quantity.is_gain() { "≥" } else { "≤" };
    let text = |bound: &Bound| match bound.against {
        Against::Nothing => format!("{sign} {} {}", number(bound.at), row.quantity.unit()),
        against => format!("{sign} {:.2}× {}", bound.at, against.name()),
    };
    bounds.iter().map(text).collect::<Vec<_>>().join(" and ")
}

fn value(middle: &Middle) -> String {
    let median = number(middle.median);
    if middle.rounds == 1 { median } else { format!("{median} ± {:.0} %", middle.spread().abs() * 100.0) }
}

/// The text of a row: name, value, ratios, goal, bound that must hold, verdict, rivals, other counts.
fn texts(score: &Score) -> [String; 8] {
    let row = score.row;
    let ratios = score.rivals.iter().filter_map(|rival| {
        let bound = Bound { against: rival.against, at: 0.0 };
        let ratio = ratio(&bound, score.own.as_ref()?, &score.rivals)?;
        Some(format!("{ratio:.2}× {}", rival.against.name()))
    });
    let rivals = score.rivals.iter().map(|rival| format!("{} {}", rival.engine, value(&rival.middle)));
    let mut rivals: Vec<String> = rivals.collect();
    // The better of leveled and universal is one of them.
    rivals.dedup();
    [
        row.title.clone(),
        score.own.as_ref().map_or("–".into(), |own| format!("{} {}", value(own), row.quantity.unit())),
        ratios.collect::<Vec<_>>().join(", "),
        bounds(row, &row.goals),
        bounds(row, &row.musts),
        score.verdict.name().into(),
        rivals.join(", "),
        score.beside.clone(),
    ]
}

const HEADING: [&str; 8] =
    ["row", "Cantle", "ratio", "goal", "must", "verdict", "the best of RocksDB", "beside it"];

/// Lines for the terminal.
pub fn lines(scores: &[Score]) -> Vec<String> {
    let mut rows = vec![HEADING.map(String::from)];
    rows.extend(scores.iter().map(texts));
    if scores.is_empty() {
        return Vec::new();
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 8] = std::array::from_fn(width);
    let line = |row: &[String; 8]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    rows.iter().map(line).collect()
}

/// A table in Markdown; verdicts that are not passed are bold.
pub fn markdown(scores: &[Score]) -> Vec<String> {
    if scores.is_empty() {
        return Vec::new();
    }
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let mut lines = vec![line(&HEADING.map(String::from)), line(&HEADING.map(|_| "---".to_string()))];
    lines.extend(scores.iter().map(|score| {
        let mut row = texts(score);
        if matches!(score.verdict, Verdict::Lost | Verdict::Missed) {
            row[5] = format!("**{}**", row[5]);
        }
        line(&row)
    }));
    lines
}

/// The tables for the page: the rows, and the values of every engine.
pub fn html(scores: &[Score]) -> String {
    if scores.is_empty() {
        return String::new();
    }
    let heading = |names: &[String]| {
        let cells: String = names.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
        format!("<thead><tr>{cells}</tr></thead>")
    };
    let mut out = String::from(
        "<h2>Goals</h2>\n<p>Losses come first. “Must” is the bound below which a row is lost. The rival of a row \
        is the best of RocksDB's configurations at this row.</p>\n<div class=\"scroll\"><table class=\"text\">",
    );
    out += &heading(&HEADING.map(String::from));
    out += "<tbody>\n";
    for score in scores {
        let cells = texts(score).map(|text| escape(&text));
        let _ = write!(out, "<tr class=\"{}\"><th>{}</th>", score.verdict.class(), cells[0]);
        cells[1..].iter().for_each(|cell| {
            let _ = write!(out, "<td>{cell}</td>");
        });
        out += "</tr>\n";
    }
    out += "</tbody></table></div>\n<details><summary>every engine at each row</summary><div class=\"scroll\"><table>";
    out += &heading(&["row", "unit", "engine", "value"].map(String::from));
    out += "<tbody>\n";
    for score in scores {
        for (engine, middle) in &score.all {
            let _ = writeln!(
                out,
                "<tr><th>{}</th><td>{}</td><th>{}</th><td>{}</td></tr>",
                escape(&score.row.title),
                score.row.quantity.unit(),
                escape(&engine.to_string()),
                value(middle)
            );
        }
    }
    out + "</tbody></table></div></details>\n"
}
