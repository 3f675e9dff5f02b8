//! The page around figures.

use super::compare::{Results, comparisons, steps};
use super::svg::{escape, number};
use super::{device, figure, rows, tables};
use crate::record::Run;
use crate::suite::Suite;
use crate::suite::measure::Measure;
use std::fmt::Write;

const STYLE: &str = include_str!("page.css");

/// The whole page.
pub fn render(run: &Run, suite: &Suite, results: &Results) -> String {
    let comparisons = comparisons(run, suite, results);
    let figures: Vec<(&str, &str, String)> = suite
        .figures
        .iter()
        .map(|figure| (figure.id, figure.title.as_str(), figure::render(figure, results)))
        .filter(|(_, _, html)| !html.is_empty())
        .collect();
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>Cantle: {} at {}</title>\n<style>{STYLE}</style></head><body>\n",
        escape(&run.plan.suite),
        escape(&run.revision)
    );
    let _ = writeln!(out, "<h1>The benchmark lab: {}</h1>", escape(&run.plan.suite));
    out += &summary(run);
    out += &rows::html(&rows::scores(run, suite, results));
    out += "<h2>Wins and losses</h2>\n<p>Throughput in thousand operations per second: the median of the rounds, and half the \
            distance between the outermost ones. The ratio is Cantle over the better of the engines it is compared with, \
            and the worst come first: red is lost, yellow short of the goal.</p>\n<div class=\"scroll\">";
    out += &tables::html(&comparisons);
    out += "</div>\n";
    out += &items("What the device did", device::uneven(suite, results));
    out += &items("Steps that ended early", cut(suite, results));
    out += &items("What failed or was left out", failures(suite, results));
    out += "<h2>Figures and tables</h2>\n<p class=\"contents\">";
    for (id, title, _) in &figures {
        let _ = write!(out, "<a href=\"#{id}\">{}</a> ", escape(title));
    }
    out += "</p>\n";
    figures.iter().for_each(|(_, _, html)| out.push_str(html));
    out += "<h2>Every cell in numbers</h2>\n";
    out += &numbers(suite, results);
    out += &configurations(results);
    out += &method(run);
    out + "</body></html>\n"
}

/// The facts that a reader needs before the first figure.
fn summary(run: &Run) -> String {
    let plan = &run.plan;
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let mut facts = vec![
        ("revision", run.revision.clone()),
        ("scale", format!("1/{} of the paper's data and operations", number(1.0 / plan.scale))),
        (
            "memory",
            match &run.memory_limit_missing {
                None => format!(
                    "limited to {} per engine by a control group, page cache included; engines were told to use {}",
                    mib(plan.memory_bytes),
                    mib(plan.budget_bytes)
                ),
                Some(why) => format!(
                    "NO LIMIT was in force ({why}); engines were told to use {}",
                    mib(plan.budget_bytes)
                ),
            },
        ),
        ("durability", format!("{:?}", plan.durability).to_lowercase()),
        (
            "threads",
            format!("{} for operations, {} in the background", plan.threads, plan.background_threads),
        ),
        (
            "method",
            format!(
                "{} rounds, engines in turns; each turn on a fresh copy of the data set, with cold caches, in a process \
                 of its own; steps of at most {} s, of {} s if they only write{}{}",
                plan.rounds,
                number(plan.seconds_max),
                number(plan.writing_seconds_max),
                plan.cell_seconds_max
                    .map_or(String::new(), |max| format!("; cells of at most {} s", number(max))),
                plan.suite_seconds_max
                    .map_or(String::new(), |max| format!("; all of at most {} s", number(max)))
            ),
        ),
        ("seed", plan.seed.to_string()),
    ];
    facts.extend(run.machine.iter().map(|(name, value)| (name.as_str(), value.clone())));
    facts.extend(run.commands.iter().map(|command| ("command", format!("cantle-lab {command}"))));
    let rows: String = facts
        .iter()
        .map(|(name, value)| format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(value)))
        .collect();
    format!("<table class=\"facts\"><tbody>{rows}</tbody></table>\n")
}

/// Trials that failed, and reads that were wrong.
fn failures(suite: &Suite, results: &Results) -> Vec<String> {
    let mut items = Vec::new();
    for cell in &suite.cells {
        for engine in &cell.engines_of(&results.engines) {
            let failure = results.failure(&cell.id, engine);
            items.extend(failure.map(|why| format!("{} · {engine}: {why}", cell.id)));
            let steps =
                results.outcomes(&cell.id, engine).into_iter().flat_map(|outcome| outcome.steps.values());
            let bad = steps.filter(|measured| measured.missing + measured.wrong > 0);
            items.extend(bad.map(|measured| {
                let (missing, wrong) = (measured.missing, measured.wrong);
                format!("{} · {engine}: {missing} records missing, {wrong} wrong", cell.id)
            }));
        }
    }
    items
}

/// Steps that ran out of time, with the share of their operations that they finished.
fn cut(suite: &Suite, results: &Results) -> Vec<String> {
    let mut items = Vec::new();
    for cell in suite.cells.iter().filter(|cell| !cell.is_cantle_alone) {
        for engine in &cell.engines_of(&results.engines) {
            for outcome in results.outcomes(&cell.id, engine) {
                for (name, measured) in outcome.steps.iter().filter(|(_, measured)| measured.is_cut) {
                    let (seconds, operations) = (number(measured.seconds), measured.operations);
                    items.push(format!(
                        "{} · {engine}: {name} after {operations} operations, {seconds} s",
                        cell.id
                    ));
                }
            }
        }
    }
    items.dedup();
    items
}

/// A list with a heading; nothing without items.
fn items(heading: &str, items: Vec<String>) -> String {
    if items.is_empty() {
        return String::new();
    }
    let items: String = items.iter().map(|item| format!("<li>{}</li>\n", escape(item))).collect();
    format!("<h3>{heading}</h3>\n<ul>{items}</ul>\n")
}

/// Columns of the last table.
const COLUMNS: [Measure; 17] = [
    Measure::Throughput,
    Measure::GetP95,
    Measure::PutP95,
    Measure::WorstP9999,
    Measure::Longest,
    Measure::SlowSeconds,
    Measure::WriteAmplification,
    Measure::UserWriteAmplification,
    Measure::DeviceWriteAmplification,
    Measure::ReadAmplification,
    Measure::ReadCalls,
    Measure::SpaceMax,
    Measure::ProcessorPerOperation,
    Measure::Cycles,
    Measure::Resident,
    Measure::Open,
    Measure::DeviceReads,
];

fn numbers(suite: &Suite, results: &Results) -> String {
    let mut out = String::from(
        "<details><summary>show</summary><div class=\"scroll\"><table><thead><tr><th>work</th><th>engine</th>",
    );
    for measure in COLUMNS {
        let _ = write!(out, "<th>{}</th>", measure.title());
    }
    out += "</tr></thead><tbody>\n";
    for cell in &suite.cells {
        for step in steps(cell) {
            for engine in &cell.engines_of(&results.engines) {
                if results.outcomes(&cell.id, engine).is_empty() {
                    continue;
                }
                let _ = write!(out, "<tr><th>{}: {step}</th><th>{engine}</th>", escape(&cell.id));
                for measure in COLUMNS {
                    let middle = results.middle(&cell.id, &step, engine, measure);
                    let _ =
                        write!(out, "<td>{}</td>", middle.map_or("–".into(), |middle| number(middle.median)));
                }
                out += "</tr>\n";
            }
        }
    }
    out + "</tbody></table></div></details>\n"
}

fn configurations(results: &Results) -> String {
    let mut rows = String::new();
    let mut notes: Vec<String> = Vec::new();
    for (engine, outcome) in results.any_of_each() {
        let caveats = outcome.caveats.join("; ");
        let _ = writeln!(
            rows,
            "<tr><th>{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&engine.to_string()),
            escape(&outcome.version),
            escape(&outcome.configuration),
            escape(&caveats)
        );
        notes.extend(outcome.notes.iter().cloned());
    }
    notes.sort();
    notes.dedup();
    let notes: String =
        notes.iter().map(|note| format!("<p class=\"note\">{}</p>\n", escape(note))).collect();
    format!(
        "<h2>Engines</h2>\n<div class=\"scroll\"><table class=\"text\"><thead><tr><th></th><th>version</th><th>configuration</th>\
         <th>where it differs</th></tr></thead><tbody>{rows}</tbody></table></div>\n{notes}"
    )
}

fn method(run: &Run) -> String {
    let command = |with: &String| {
        format!("cargo run --release --manifest-path bench/Cargo.toml --features peers -- {}\n", escape(with))
    };
    let commands: String = run.commands.iter().map(command).collect();
    format!(
        "<h2>To run it again</h2>\n<pre>{commands}</pre>\n\
         <p>“Bytes written, kernel's count” is <code>write_bytes</code> of <code>/proc/self/io</code>, less what was \
         cancelled: pages that the process made dirty. “By the device” is the block device's own counter, which everybody on \
         the machine adds to. The final sync is in both. “Handed to the kernel” is <code>wchar</code>. Raw histograms and \
         every trial are in <code>results.jsonl</code> beside the run's <code>run.json</code>.</p>\n"
    )
}
