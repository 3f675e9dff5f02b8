//! Runs steps in this process.

use super::*;
use crate::engine::{Durability, Settings, Spec};
use crate::job::Order;
use crate::record::Measured;
use cantle_workloads::generator::Distribution;
use cantle_workloads::records::Sizes;
use cantle_workloads::workload::Workload;

const RECORDS: u64 = 3_000;

fn job(dir: &std::path::Path, engine: &str, steps: Vec<Step>) -> Job {
    let settings = Settings {
        dir: dir.join("store"),
        budget_bytes: 32 << 20,
        durability: Durability::Process,
        background_threads: 1,
    };
    Job {
        engine: Spec::parse(engine).unwrap().remove(0),
        settings,
        steps,
        sizes: Sizes::new(16, 128),
        threads: 2,
        seconds_max: 60.0,
        writing_seconds_max: 60.0,
        seconds_total: None,
        records_max: None,
        quiet_s: 0.05,
        seed: 1,
        hold: false,
    }
}

fn fill(name: &str, order: Order, round: u64) -> Step {
    Step::Fill { name: name.into(), records: RECORDS, first: 0, order, round }
}

fn seek(name: &str, nexts: u64) -> Step {
    Step::Seek { name: name.into(), records: RECORDS, nexts, operations: 200 }
}

fn settle() -> Step {
    Step::Settle { name: "settle".into() }
}

fn gets() -> Step {
    Step::Run {
        name: "gets".into(),
        workload: Workload::C,
        distribution: Some(Distribution::Uniform),
        theta: 0.0,
        records: RECORDS,
        warmup: 10,
        operations: 500,
        with_appends: false,
    }
}

fn measure(job: &Job) -> BTreeMap<String, Measured> {
    perform(job).unwrap().0.steps
}

#[test]
fn what_was_filled_is_settled_and_then_read_in_the_same_store() {
    for engine in ["btree", "cantle", "cantle:layout=flsm"] {
        for order in [Order::Random, Order::Sequential] {
            let dir = tempfile::tempdir().unwrap();
            let steps = vec![
                fill("fill", order, 0),
                settle(),
                gets(),
                seek("seek", 0),
                seek("seek-50", 50),
                fill("again", Order::Random, 1),
            ];
            let found = measure(&job(dir.path(), engine, steps));
            for (name, measured) in &found {
                assert_eq!((measured.missing, measured.wrong), (0, 0), "{engine}: {name}");
            }
            let (first, again) = (&found["fill"], &found["again"]);
            assert_eq!((first.operations, again.operations), (RECORDS, RECORDS), "{engine}");
            assert_eq!(first.user_bytes_written, RECORDS * (16 + 128), "{engine}");
            assert!(first.latency.contains_key("insert") && again.latency.contains_key("put"), "{engine}");
            assert_eq!((found["seek"].operations, found["seek"].rows), (200, 200), "{engine}");
            assert!(found["seek-50"].rows > 200 * 40, "{engine}: {}", found["seek-50"].rows);
            assert!(!found["settle"].is_cut && found["settle"].operations == 0, "{engine}");
            let space = found["settle"].space.samples.last().unwrap();
            assert_eq!(space.live_bytes, RECORDS * (16 + 128), "{engine}");
        }
    }
}

#[test]
fn a_fill_that_ran_out_of_time_is_marked_and_only_its_records_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let many = Step::Fill { name: "fill".into(), records: 1 << 40, first: 0, order: Order::Random, round: 0 };
    let mut job = job(dir.path(), "btree", vec![many, gets(), fill("again", Order::Random, 1)]);
    job.writing_seconds_max = 0.05;
    let found = measure(&job);
    let filled = &found["fill"];
    assert!(filled.is_cut && filled.operations > 0 && filled.operations < 1 << 40);
    assert_eq!((found["gets"].missing, found["gets"].wrong, found["gets"].is_cut), (0, 0, false));
    assert!(found["again"].operations <= filled.operations);
}

#[test]
fn the_first_operation_and_the_longest_append_beside_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let mut alone = gets();
    let mut beside = gets();
    if let (Step::Run { name, .. }, Step::Run { with_appends, .. }) = (&mut alone, &mut beside) {
        *name = "alone".into();
        *with_appends = true;
    }
    let found = measure(&job(dir.path(), "btree", vec![fill("fill", Order::Random, 0), alone, beside]));
    let (alone, beside) = (&found["alone"], &found["gets"]);
    assert_eq!((alone.append_longest_ns, beside.append_longest_ns.is_some()), (None, true));
    let longest = beside.latency["get"].max_ns;
    // Histograms round to three digits.
    assert!(beside.first_ns.is_some_and(|first| first > 0 && first <= longest + longest / 500), "{beside:?}");
    let files = std::fs::read_dir(dir.path()).unwrap().count();
    assert!(files <= 1, "the file of appends has no name");
}

#[test]
fn new_records_follow_a_delete_of_all_and_only_they_are_read() {
    for engine in ["btree", "cantle:layout=flsm"] {
        let dir = tempfile::tempdir().unwrap();
        let other =
            Step::Fill { name: "other".into(), records: 500, first: RECORDS, order: Order::Random, round: 0 };
        let delete = |name: &str| Step::Delete { name: name.into(), records: RECORDS };
        let steps = vec![fill("fill", Order::Random, 0), delete("delete"), other, gets(), seek("seek", 50)];
        let mut job = job(dir.path(), engine, steps);
        let found = measure(&job);
        assert_eq!((found["delete"].operations, found["other"].operations), (RECORDS, 500), "{engine}");
        assert!(found["delete"].latency.contains_key("delete"), "{engine}");
        for (name, measured) in &found {
            assert_eq!((measured.missing, measured.wrong), (0, 0), "{engine}: {name}");
        }
        // Nothing is left of the deleted records.
        let space = found["other"].space.samples.last().unwrap();
        assert_eq!(space.live_bytes, 500 * (16 + 128), "{engine}");
        job.steps = vec![fill("fill", Order::Random, 0), delete("delete"), fill("again", Order::Random, 1)];
        assert_eq!(measure(&job)["again"].operations, 0, "{engine}: no record is left to overwrite");
    }
}

#[test]
fn a_warm_up_takes_no_time_of_later_steps() {
    let dir = tempfile::tempdir().unwrap();
    let endless = |name: &str| {
        let mut step = gets();
        if let Step::Run { name: own, warmup, operations, .. } = &mut step {
            (*own, *warmup, *operations) = (name.into(), u64::MAX, 1 << 40);
        }
        step
    };
    let steps = vec![fill("fill", Order::Random, 0), endless("one"), endless("two"), endless("three")];
    let mut job = job(dir.path(), "btree", steps);
    job.seconds_total = Some(3.0);
    let found = measure(&job);
    for name in ["one", "two", "three"] {
        assert!(found[name].is_cut && found[name].operations > 0, "{name}");
        // Each but the first has looked at least once after its first operations.
        assert!(found[name].operations > 2 * 64, "{name}: {}", found[name].operations);
    }
}

#[test]
fn a_fill_of_fewer_records_than_planned_is_not_cut_and_the_others_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut job = job(dir.path(), "btree", vec![fill("fill", Order::Random, 0), gets(), seek("seek", 50)]);
    job.records_max = Some(700);
    let found = measure(&job);
    assert_eq!((found["fill"].operations, found["fill"].is_cut), (700, false));
    for (name, measured) in &found {
        assert_eq!((measured.missing, measured.wrong), (0, 0), "{name}");
    }
}

#[test]
fn a_scattered_load_has_the_records_of_one_in_order() {
    for is_scattered in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(dir.path(), "btree", vec![gets(), seek("seek", 50)]);
        job.steps.insert(0, Step::Load { records: RECORDS, is_scattered });
        for (name, measured) in measure(&job) {
            assert_eq!((measured.missing, measured.wrong), (0, 0), "{name}");
        }
    }
}
