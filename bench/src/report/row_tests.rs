use super::compare::Results;
use super::rows::{self, Score, Verdict, scores};
use super::*;
use crate::engine::Spec;
use crate::measure::latency::Percentiles;
use crate::measure::process::{Counters, DeviceCounters};
use crate::measure::space::{Sample, Space};
use crate::record::{Measured, Outcome, Plan};
use crate::suite::rows::Quantity;
use crate::suite::{self, Parameters};
use std::collections::BTreeMap;

const USER_BYTES: u64 = 1_000_000;
const BUDGET: u64 = 100 << 20;

fn plan() -> Plan {
    let text = r#"{"suite":"pebblesdb","only":["figure-4a"],"cells":[],"sizes":[],"trace_sizes":[],
        "engines":["cantle:layout=flsm"],"scale":0.015625,"memory_bytes":209715200,"budget_bytes":104857600,
        "durability":"process","threads":2,"background_threads":1,"rounds":1,"seconds_max":1.0,
        "writing_seconds_max":1.0,"seed":1}"#;
    let mut plan: Plan = serde_json::from_str(text).unwrap();
    plan.engines.extend(Spec::parse("rocksdb-grid").unwrap());
    plan
}

fn run() -> Run {
    Run {
        plan: plan(),
        commands: Vec::new(),
        revision: "1".into(),
        machine: BTreeMap::new(),
        memory_limit_missing: None,
    }
}

fn suite_of(run: &Run) -> Suite {
    suite::build("pebblesdb", &Parameters::from(&run.plan), &run.plan.only).unwrap()
}

/// A step that made this number of bytes per user byte dirty; a quarter of them were cancelled.
fn step(seconds: f64, written: f64) -> Measured {
    let all = (written * USER_BYTES as f64) as u64;
    let counters = Counters { written_bytes: all / 4 * 3, dirtied_bytes: all, ..Counters::default() };
    Measured {
        operations: 10_000,
        seconds,
        counters,
        device: Some(DeviceCounters { read_bytes: 0, written_bytes: all / 2 }),
        peak_resident_bytes: Some(BUDGET + (10 << 20)),
        ..Measured::default()
    }
}

fn outcome(fill_s: f64, written: f64) -> Outcome {
    let text = r#"{"version":"1","configuration":"","caveats":[],"notes":[],"open_ms":7.0,"close_ms":1.0,
        "group_peak_bytes":null,"group_device_bytes":null,"steps":{}}"#;
    let mut outcome: Outcome = serde_json::from_str(text).unwrap();
    let mut settle = Measured { operations: 0, ..step(fill_s, written / 2.0) };
    let sample = Sample { at_s: 0.0, disk_bytes: 2 * USER_BYTES, live_bytes: USER_BYTES };
    settle.space = Space { samples: vec![sample], ..Space::default() };
    let steps = [
        ("fill", Measured { user_bytes_written: USER_BYTES, ..step(fill_s, written / 2.0) }),
        ("settle", settle),
        ("gets", step(1.0, 0.25)),
        ("seeks", step(1.0, 0.0)),
        ("seeks-50", step(1.0, 0.0)),
        ("settle-after", Measured { operations: 0, ..step(1.0, 0.75) }),
    ];
    outcome.steps = steps.into_iter().map(|(name, measured)| (name.to_string(), measured)).collect();
    outcome
}

fn trial(engine: &Spec, outcome: Outcome) -> Trial {
    let cell = "fill-random/16-128".to_string();
    Trial { cell, engine: engine.clone(), round: 0, ended_at: 0, outcome: Ok(outcome) }
}

/// Cantle in two seconds with this amplification; leveled with 10, 8 and 12, universal with 6 and 5.
fn trials(run: &Run, own: f64) -> Vec<Trial> {
    let values = [(2.0, own), (5.0, 10.0), (4.0, 8.0), (6.0, 12.0), (3.0, 6.0), (7.0, 5.0)];
    run.plan
        .engines
        .iter()
        .zip(values)
        .map(|(engine, (s, written))| trial(engine, outcome(s, written)))
        .collect()
}

fn named<'a, 'b>(scores: &'b [Score<'a>], part: &str) -> &'b Score<'a> {
    scores.iter().find(|score| score.row.title.contains(part)).unwrap()
}

#[test]
fn bytes_are_compared_with_the_best_of_the_levels_and_the_best_of_the_tiers() {
    let run = run();
    let suite = suite_of(&run);
    // Goals: 8 / 2.4 and 0.6 · 5; must: 0.7 · 5.
    for (own, verdict) in
        [(2.9, Verdict::Passed), (3.2, Verdict::Missed), (3.4, Verdict::Missed), (3.6, Verdict::Lost)]
    {
        let trials = trials(&run, own);
        let scores = scores(&run, &suite, &Results::new(&run, &trials));
        let score = named(&scores, "bytes written");
        assert_eq!(score.verdict, verdict, "{own}: {:?}", score.rivals);
        let best: Vec<String> = score.rivals.iter().map(|rival| rival.engine.to_string()).collect();
        assert!(best[0].contains("leveled") && best[0].contains("write_buffer=1/4"), "{best:?}");
        assert!(best[1].contains("universal") && best[1].contains("level0_trigger=8"), "{best:?}");
        assert_eq!(score.all.len(), 6, "every configuration is kept");
    }
}

#[test]
fn a_time_until_settled_includes_the_wait_and_a_rate_does_not() {
    let run = run();
    let (suite, trials) = (suite_of(&run), trials(&run, 2.0));
    let found = scores(&run, &suite, &Results::new(&run, &trials));
    let (fill, settled) = (named(&found, "16/128: operations"), named(&found, "until settled"));
    assert_eq!((fill.own.unwrap().median, settled.own.unwrap().median), (5.0, 2.5));
    // The fastest fill of RocksDB took three seconds: 1.5 is below what must be.
    assert_eq!((fill.verdict, settled.verdict), (Verdict::Lost, Verdict::Lost));
    assert_eq!(found[0].verdict, Verdict::Lost, "losses come first");
}

#[test]
fn bytes_of_the_device_and_of_merges_by_reads_are_beside_the_write_figure() {
    let run = run();
    let (suite, mut trials) = (suite_of(&run), trials(&run, 2.0));
    trials[1].outcome.as_mut().unwrap().steps.get_mut("fill").unwrap().is_cut = true;
    let found = scores(&run, &suite, &Results::new(&run, &trials));
    let score = named(&found, "bytes written");
    assert_eq!(score.own.unwrap().median, 2.0);
    for part in [
        "data shrunk to 0 %",
        "cancelled 1.50",
        "device 1.00",
        "reads caused 1.00",
        "compaction=leveled",
        "ran out of time in fill",
    ] {
        assert!(score.beside.contains(part), "{part}: {}", score.beside);
    }
}

#[test]
fn rows_without_results_have_no_verdict_and_bounds_without_rivals_need_none() {
    let run = run();
    let (suite, all) = (suite_of(&run), trials(&run, 2.0));
    let alone = scores(&run, &suite, &Results::new(&run, &all[..1]));
    assert_eq!(named(&alone, "bytes written").verdict, Verdict::Open);
    assert_eq!(named(&alone, "resident").verdict, Verdict::Passed);
    assert_eq!(named(&alone, "resident").own.unwrap().median, 10.0);
    let none = scores(&run, &suite, &Results::new(&run, &[]));
    assert!(none.iter().all(|score| score.verdict == Verdict::Open) && none.len() == suite.rows.len());
}

#[test]
fn the_page_and_both_tables_show_each_row_with_goal_bound_and_verdict() {
    let run = run();
    let (suite, trials) = (suite_of(&run), trials(&run, 3.2));
    let page = html(&run, &suite, &trials);
    for text in
        ["<h2>Goals</h2>", "≤ 0.42× leveled and ≤ 0.60× universal", "≤ 0.70× RocksDB", "missed", "≤ 64 MiB"]
    {
        assert!(page.contains(text), "{text}");
    }
    assert!(page.find("Goals").unwrap() < page.find("Wins and losses").unwrap());
    for tag in ["table", "tr", "td", "th", "div", "details", "thead", "tbody"] {
        let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
    let found = scores(&run, &suite, &Results::new(&run, &trials));
    let markdown = rows::markdown(&found);
    assert_eq!(markdown.len(), suite.rows.len() + 2);
    assert!(markdown.iter().all(|line| line.matches('|').count() == 9), "{markdown:?}");
    assert!(markdown.iter().any(|line| line.contains("**missed**")), "{markdown:?}");
    assert_eq!(rows::lines(&found).len(), suite.rows.len() + 1);
}

#[test]
fn other_quantities_are_read_from_their_steps() {
    let mut one = outcome(2.0, 2.0);
    one.steps.insert("fill-2".into(), step(2.5, 1.0));
    let of = |quantity: Quantity, outcome: &Outcome| quantity.of(outcome, BUDGET);
    assert_eq!(of(Quantity::Kept("fill-2", "fill"), &one), Some(80.0));
    assert_eq!(of(Quantity::Space("settle"), &one), Some(2.0));
    // The allowance of small data: three bytes per live byte.
    assert!((of(Quantity::SpaceOfBound("settle"), &one).unwrap() - 200.0 / 3.0).abs() < 1e-9);
    assert_eq!(of(Quantity::Open, &one), Some(7.0));
    assert_eq!(of(Quantity::First("gets"), &one), None);
    let gets = one.steps.get_mut("gets").unwrap();
    gets.first_ns = Some(3_000_000);
    let latency = Percentiles {
        count: 1,
        mean_ns: 0.0,
        p50_ns: 0,
        p90_ns: 0,
        p95_ns: 0,
        p99_ns: 0,
        p99_9_ns: 0,
        p99_99_ns: 0,
        max_ns: 40_000_000,
        histogram: String::new(),
    };
    gets.latency.insert("put".into(), latency);
    gets.append_longest_ns = Some(9_000_000);
    assert_eq!(of(Quantity::First("gets"), &one), Some(3.0));
    assert_eq!(of(Quantity::LongestDelay("gets"), &one), Some(40.0));
    let beside = Quantity::LongestDelay("gets").beside(&one);
    assert!(beside.contains("bare writer 9.0 ms"), "{beside}");
    let figures = &mut one.steps.get_mut("gets").unwrap().figures;
    figures.insert("write_delay_longest.secs".into(), 0.0);
    figures.insert("write_delay_longest.nanos".into(), 12e6);
    assert_eq!(of(Quantity::LongestDelay("gets"), &one), Some(12.0), "the brake's own figure");
}
