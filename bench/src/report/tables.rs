//! The table of wins and losses.

use super::compare::{Comparison, Middle, Standing};
use super::svg::{escape, number};
use std::fmt::Write;

fn figure(middle: &Middle) -> String {
    let median = number(middle.median);
    // One round has no spread.
    if middle.rounds == 1 { median } else { format!("{median} ± {:.0} %", middle.spread() * 100.0) }
}

fn name(comparison: &Comparison) -> String {
    if comparison.step.is_empty() {
        comparison.cell.clone()
    } else {
        format!("{}: {}", comparison.cell, comparison.step)
    }
}

/// Ratios first, then each engine's thousands of operations per second.
fn rows(comparisons: &[Comparison]) -> Vec<Vec<String>> {
    let Some(first) = comparisons.first() else { return Vec::new() };
    let engines = first.all.iter().map(|(engine, _)| engine.to_string());
    let heading: Vec<String> =
        ["cell".into(), "ratio".into(), "goal".into(), "against".into()].into_iter().chain(engines).collect();
    let rows = comparisons.iter().map(|comparison| {
        let optional = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        let rival = comparison.rival.as_ref().map_or(String::new(), |(engine, _)| engine.to_string());
        let mut row = vec![name(comparison), optional(comparison.ratio), optional(comparison.goal), rival];
        row.extend(comparison.all.iter().map(|(_, middle)| middle.as_ref().map_or("-".into(), figure)));
        row
    });
    std::iter::once(heading).chain(rows).collect()
}

/// Lines for the terminal.
pub fn lines(comparisons: &[Comparison]) -> Vec<String> {
    let rows = rows(comparisons);
    let Some(heading) = rows.first() else { return vec!["nothing to compare".into()] };
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    rows.iter()
        .map(|row| {
            let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        })
        .collect()
}

/// Lines for a document in Markdown; ratios below their goal are bold.
pub fn markdown(comparisons: &[Comparison]) -> Vec<String> {
    let line = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let mut rows = rows(comparisons).into_iter();
    let Some(heading) = rows.next() else { return Vec::new() };
    let rule: Vec<String> =
        (0..heading.len()).map(|column| if column == 0 { "---" } else { "---:" }.into()).collect();
    let body = rows.zip(comparisons).map(|(mut row, comparison)| {
        if matches!(comparison.standing(), Standing::Lost | Standing::Short) {
            row[1] = format!("**{}**", row[1]);
        }
        line(&row)
    });
    [line(&heading), line(&rule)].into_iter().chain(body).collect()
}

/// A table for the page, losses first.
pub fn html(comparisons: &[Comparison]) -> String {
    let Some(first) = comparisons.first() else { return "<p>Nothing to compare.</p>".into() };
    let mut out = String::from("<table><thead><tr><th>work</th><th>ratio</th><th>goal</th><th>against</th>");
    first.all.iter().for_each(|(engine, _)| {
        let _ = write!(out, "<th>{}</th>", escape(&engine.to_string()));
    });
    out.push_str("</tr></thead><tbody>\n");
    for comparison in comparisons {
        let class = match comparison.standing() {
            Standing::Lost => "loss",
            Standing::Short => "short",
            Standing::Won => "win",
            Standing::Alone => "",
        };
        let _ = write!(
            out,
            "<tr class=\"{class}\"><th>{}</th><td class=\"ratio\">{}</td><td>{}</td><td>{}</td>",
            escape(&name(comparison)),
            comparison.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}×")),
            comparison.goal.map_or(String::new(), |goal| format!("≥ {goal}×")),
            comparison.rival.as_ref().map_or(String::new(), |(engine, _)| escape(&engine.to_string())),
        );
        for (_, middle) in &comparison.all {
            let _ = write!(out, "<td>{}</td>", middle.as_ref().map_or("–".into(), figure));
        }
        out.push_str("</tr>\n");
    }
    out + "</tbody></table>\n"
}
