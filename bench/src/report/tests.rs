use super::compare::{Middle, Results, Standing, baseline, comparisons};
use super::*;
use crate::engine::{Durability, Spec};
use crate::measure::timeline::Timeline;
use crate::record::{Measured, Outcome, Plan};
use crate::suite::{self, Parameters};
use std::collections::BTreeMap;

fn specs(names: &[&str]) -> Vec<Spec> {
    names.iter().map(|name| Spec::plain(name)).collect()
}

fn run() -> Run {
    Run {
        plan: Plan {
            suite: "evendb".into(),
            only: vec!["figure-6d".into(), "figure-3".into()],
            cells: Vec::new(),
            sizes: vec![4],
            trace_sizes: Vec::new(),
            engines: specs(&["cantle", "rocksdb-default", "rocksdb-tuned", "btree"]),
            scale: 1.0 / 64.0,
            memory_bytes: 256 << 20,
            budget_bytes: 192 << 20,
            durability: Durability::Process,
            threads: 2,
            background_threads: 1,
            rounds: 3,
            seconds_max: 60.0,
            writing_seconds_max: 60.0,
            cell_seconds_max: None,
            suite_seconds_max: None,
            seed: 1,
        },
        commands: vec!["run --engines <cantle>".into()],
        revision: "0123456789ab".into(),
        machine: BTreeMap::from([("processor".into(), "a <fast> one".into())]),
        memory_limit_missing: Some("not root".into()),
    }
}

fn suite_of(run: &Run) -> Suite {
    let parameters = Parameters::from(&run.plan);
    suite::build("evendb", &parameters, &run.plan.only).unwrap()
}

fn outcome(steps: &[(&str, u64)]) -> Outcome {
    let measured = |operations: u64| Measured {
        operations,
        seconds: 1.0,
        timeline: Timeline { interval_ms: 100, counts: vec![operations / 10; 10], ..Timeline::default() },
        user_bytes_written: operations * 800,
        ..Measured::default()
    };
    Outcome {
        version: "1.0".into(),
        configuration: "defaults".into(),
        caveats: Vec::new(),
        notes: vec!["cycles are not counted".into()],
        open_ms: 1.0,
        close_ms: 1.0,
        group_peak_bytes: None,
        group_device_bytes: None,
        device_reads: None,
        steps: steps.iter().map(|(name, operations)| (name.to_string(), measured(*operations))).collect(),
    }
}

fn trial(cell: &str, engine: &str, round: u64, operations: u64) -> Trial {
    let steps = [("run", operations), ("ingest", operations), ("analyse", operations)];
    Trial { cell: cell.into(), engine: Spec::plain(engine), round, ended_at: 0, outcome: Ok(outcome(&steps)) }
}

/// Trials of a run as JSON lines, read back as the report reads them.
fn recorded() -> Vec<Trial> {
    let mut trials = Vec::new();
    for (round, factor) in [(0, 1), (1, 3), (2, 2)] {
        for (engine, composite, simple) in [
            ("cantle", 40_000, 10_000),
            ("rocksdb-default", 10_000, 8_000),
            ("rocksdb-tuned", 9_000, 20_000),
            ("btree", 50_000, 50_000),
        ] {
            trials.push(trial("C/zipf-composite/4GB", engine, round, composite * factor));
            trials.push(trial("C/zipf-simple/4GB", engine, round, simple * factor));
            trials.push(trial("analytics/4GB", engine, round, composite * factor));
        }
    }
    trials[3].outcome = Err("killed by the kernel".into());
    let lines: Vec<String> = trials.iter().map(|trial| serde_json::to_string(trial).unwrap()).collect();
    let read: Vec<Trial> = lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, trials);
    read
}

#[test]
fn losses_come_first_and_the_better_configuration_is_the_rival() {
    let (run, trials) = (run(), recorded());
    let found = comparisons(&run, &suite_of(&run), &Results::new(&run, &trials));
    assert_eq!(found[0].cell, "C/zipf-simple/4GB");
    assert_eq!(found[0].rival.as_ref().unwrap().0, Spec::plain("rocksdb-tuned"));
    assert!((found[0].ratio.unwrap() - 0.5).abs() < 1e-9 && found[0].standing() == Standing::Lost);
    // A quarter of the memory: the data set that fits has goals.
    assert_eq!(found[0].goal, Some(3.0));
    let composite = found.iter().find(|one| one.cell == "C/zipf-composite/4GB").unwrap();
    let own = Some(Middle { median: 80.0, least: 40.0, most: 120.0, rounds: 3 });
    assert_eq!((composite.goal, composite.standing()), (Some(4.0), Standing::Short));
    assert_eq!(composite.all[0], (Spec::plain("cantle"), own));
    // One of three rounds failed: the median is of two.
    assert_eq!(composite.rival.as_ref().unwrap().1.rounds, 2);
}

#[test]
fn a_table_in_markdown_marks_what_falls_short() {
    let (run, trials) = (run(), recorded());
    let lines = super::tables::markdown(&comparisons(&run, &suite_of(&run), &Results::new(&run, &trials)));
    assert!(lines[0].starts_with("| cell | ratio | goal | against | cantle |"), "{}", lines[0]);
    assert!(lines[2].starts_with("| C/zipf-simple/4GB | **0.50** | 3.00 | rocksdb-tuned |"), "{}", lines[2]);
    let columns = |line: &String| line.matches('|').count();
    assert!(lines.iter().all(|line| columns(line) == columns(&lines[0])), "{lines:?}");
}

#[test]
fn the_page_is_whole_and_needs_nothing_from_elsewhere() {
    let (run, trials) = (run(), recorded());
    let page = html(&run, &suite_of(&run), &trials);
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    for text in [
        "Figure 6d",
        "Figure 3",
        "1.1× to 2× better",
        "NO LIMIT",
        "0.50×",
        "killed by the kernel",
        "0123456789ab",
    ] {
        assert!(page.contains(text), "{text}");
    }
    for text in ["http:", "https:", "<script", "a <fast>", "<cantle>"] {
        assert!(!page.contains(text), "{text}");
    }
    for tag in ["table", "tr", "section", "figure", "svg", "p", "div", "details", "span", "td", "th"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}

#[test]
fn what_the_device_gave_to_one_more_than_to_another_is_said() {
    let (run, mut trials) = (run(), recorded());
    let uneven = |trials: &[Trial]| device::uneven(&suite_of(&run), &Results::new(&run, trials));
    assert!(uneven(&trials).is_empty(), "nothing is known");
    for trial in &mut trials {
        let faster = trial.cell.starts_with("C/zipf-simple") && trial.engine == Spec::plain("rocksdb-tuned");
        if let Ok(outcome) = &mut trial.outcome {
            outcome.device_reads = Some(if faster { 9_000.0 } else { 5_000.0 + 100.0 * trial.round as f64 });
        }
    }
    let lines = uneven(&trials);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("C/zipf-simple") && lines[0].contains("rocksdb-tuned 9"), "{}", lines[0]);
    assert!(html(&run, &suite_of(&run), &trials).contains(&lines[0]));
}

#[test]
fn a_run_without_results_has_a_page_all_the_same() {
    let run = run();
    let page = html(&run, &suite_of(&run), &[]);
    assert!(page.contains("Nothing to compare"));
}

#[test]
fn medians_are_those_of_the_middle_rounds() {
    assert_eq!(Middle::of(vec![]), None);
    assert_eq!(Middle::of(vec![3.0, 1.0]).unwrap().median, 2.0);
    let middle = Middle::of(vec![4.0, 1.0, 3.0]).unwrap();
    assert_eq!((middle.median, middle.spread()), (3.0, 0.5));
}

#[test]
fn without_rocksdb_other_stores_are_the_baseline() {
    assert_eq!(baseline(&specs(&["cantle", "lmdb", "btree"])), specs(&["lmdb"]));
    assert_eq!(baseline(&specs(&["cantle", "lmdb", "rocksdb-tuned"])), specs(&["rocksdb-tuned"]));
    assert_eq!(baseline(&specs(&["cantle", "cantle-published", "btree"])), specs(&["btree"]));
}
