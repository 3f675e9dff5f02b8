//! The choice of merges, from text to text.

use super::trees::Trees;
use crate::flsm::pick_tests::{RULES as OF_LEVELS, text_of};
use crate::format::header::FileKind;
use crate::log::test_support::log_env;
use crate::lsm::busy::Busy;
use crate::lsm::shape::{Cuts, Job, Move, Rules};
use crate::lsm::state::GroupRecord;
use crate::run::record::FileRecord;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::MemVfs;
use bytes::Bytes;

/// Sub-trees of 100 bytes, of which two are cleaned at once, and three trees in a stage.
const RULES: Rules = Rules { cleaned: 2, ..OF_LEVELS };

/// Trees from a text: a line for each tree, the newest first, with its stage and number, the trees that it takes up,
/// if it grows, and the length and the keys of each sub-tree. A part of them may be garbage.
fn trees(text: &str) -> Trees {
    let vfs: Arc<dyn crate::vfs::Vfs> = Arc::new(MemVfs::new());
    let env = log_env(&vfs, 1);
    let (mut groups, mut file) = (Vec::new(), 100);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let (place, takes) = words.next().unwrap().split_once(':').unwrap();
        let (stage, number) = place.split_once('.').unwrap();
        let takes =
            takes.split_once('-').map(|(first, last)| (first.parse().unwrap(), last.parse().unwrap()));
        let (level, tree) = (stage.parse().unwrap(), number.parse().unwrap());
        let mut group =
            GroupRecord { id: groups.len() as u64 + 1, level, tree, takes, ..GroupRecord::default() };
        for word in words {
            let (bytes, keys) = word.split_once(':').unwrap();
            let (bytes, stale) = bytes.split_once('~').unwrap_or((bytes, "0"));
            let (start, end) = keys.split_once('-').unwrap();
            let key = |key: &str| Some(Bytes::copy_from_slice(key.as_bytes()));
            let (bytes, stale_bytes): (u64, u64) = (bytes.parse().unwrap(), stale.parse().unwrap());
            group.files.push(FileRecord {
                kind: FileKind::Table,
                bytes,
                entries: 10 * bytes,
                stale_bytes,
                span: Some(Span { start: key(start), end: key(end) }),
                ..FileRecord::log(file, 1)
            });
            file += 1;
        }
        groups.push(group);
    }
    let mut run = |record: &FileRecord, area: &Span| {
        let run = Run {
            source: Source::Table(Arc::new(record.adopt_table(&env.files, 1, Box::default()))),
            span: record.span.clone().unwrap_or_else(|| area.clone()).into(),
            dropped: None,
            dropped_ranges: None,
            share_bytes: record.share_bytes,
        };
        run.retain(&env.totals);
        run
    };
    Trees::open(&KeyOrder::Bytewise, &groups, &mut run).unwrap()
}

/// A job as text: the keys of each piece, its runs, the bottom and the sub-trees that come of it; the runs that are handed
/// over; the tree that grows.
fn told(job: Option<Job>) -> String {
    let Some(job) = job else { return "nothing".into() };
    let keys = |span: &Span| format!("{}-{}", text_of(span.start.as_ref()), text_of(span.end.as_ref()));
    let mut told = Vec::new();
    for piece in &job.pieces {
        let runs: Vec<String> = piece.tables.iter().map(|run| run.bytes().to_string()).collect();
        let Cuts::Near(bytes) = piece.cuts else { panic!("a forest has no groups to cut at") };
        let cuts = if bytes < 1 << 40 { format!("near {bytes}") } else { "whole".into() };
        told.push(format!("{} [{}] {:?} {cuts}", keys(&piece.span), runs.join(","), piece.bottom));
    }
    for change in &job.moves {
        told.push(match change {
            Move::Grow { place, inputs: None } => format!("into {}.{}", place.level, place.tree),
            Move::Grow { place, inputs: Some((first, last)) } => {
                format!("into {}.{} from {first} to {last}", place.level, place.tree)
            }
            Move::Hand { run, .. } => format!("hand {}", keys(&run.span)),
            _ => "another change".into(),
        });
    }
    told.join(", ")
}

fn with(rules: &Rules, text: &str) -> String {
    told(trees(text).pick_job(&KeyOrder::Bytewise, rules, &Busy::default()))
}

fn picked(text: &str) -> String {
    with(&RULES, text)
}

#[test]
fn a_stage_with_too_many_trees_gives_the_oldest_ones_to_the_next() {
    let three = "1.3: 90:a-m\n 1.2: 90:a-m\n 1.1: 90:a-m";
    assert_eq!(picked(three), "nothing");
    let merged = "a-m [90,90,90] Reached near 90, into 2.5 from 1 to 3";
    assert_eq!(picked(&format!("1.4: 90:a-m\n {three}")), merged);
    // The stage that they come to has older trees with keys there, or not.
    let deeper = "a-m [90,90,90] Deeper near 90, into 2.5 from 1 to 3";
    assert_eq!(picked(&format!("1.4: 90:a-m\n {three}\n 2.0: 90:c-d")), deeper);
    assert_eq!(picked(&format!("1.4: 90:a-m\n {three}\n 2.0: 90:m-z")), merged);
}

#[test]
fn sub_trees_that_overlap_nothing_are_handed_over() {
    let apart = "1.4: 90:a-b\n 1.3: 90:c-d\n 1.2: 90:e-f\n 1.1: 90:g-h";
    assert_eq!(picked(apart), "into 2.5 from 1 to 3, hand c-d, hand e-f, hand g-h");
    let mixed = "1.4: 90:a-b\n 1.3: 90:c-e 90:m-n\n 1.2: 90:d-f\n 1.1: 90:g-h";
    assert_eq!(picked(mixed), "c-f [90,90] Reached near 90, into 2.5 from 1 to 3, hand g-h, hand m-n");
    // A short one is merged with what comes before it, so that short ones do not add up.
    let short = "1.4: 90:a-b\n 1.3: 90:c-e\n 1.2: 90:d-f\n 1.1: 9:g-h";
    assert_eq!(picked(short), "c-h [90,90,9] Reached near 94, into 2.5 from 1 to 3");
}

#[test]
fn a_step_ends_where_enough_sub_trees_are_merged_and_the_next_one_goes_on_there() {
    let long = "1.4: 90:a-b\n 1.3: 90:a-c 90:c-e 90:e-g\n 1.2: 90:a-c 90:c-e 90:e-g\n 1.1: 90:x-y";
    let first = picked(long);
    assert_eq!(first, "a-e [90,90,90,90] Reached near 90, into 2.5 from 1 to 3");
    let rest = "1.4: 90:a-b\n 1.3: 90:e-g\n 1.2: 90:e-g\n 1.1: 90:x-y\n 2.5:1-3 90:a-c 90:c-e";
    assert_eq!(picked(rest), "e-g [90,90] Reached near 90, into 2.5 from 1 to 3, hand x-y");
}

/// A piece is one span of the tree that grows, whose sub-trees have no key in common.
#[test]
fn a_step_does_not_reach_across_keys_that_the_growing_tree_has() {
    let apart = "1.3: 20:a-b 20:x-y\n 1.2: 20:a-b\n 2.5:2-3";
    assert_eq!(
        picked(&format!("{apart} 90:y-z")).split(", into").next(),
        Some("a-y [20,20,20] Reached whole")
    );
    let between = picked(&format!("{apart} 90:k-m"));
    assert_eq!(between, "a-b [20,20] Reached whole, x-y [20] Reached whole, into 2.5 from 2 to 3");
}

#[test]
fn garbage_is_merged_out_of_all_trees_into_the_oldest_one() {
    let garbage = "1.2: 90:a-c 90:p-z\n 2.1: 90~60:a-c 90~10:p-q";
    assert_eq!(picked(garbage), "nothing");
    let strict = Rules { space_amplification: 1.1, ..RULES };
    assert_eq!(with(&strict, garbage), "a-z [90,90,90,90] Reached near 96, into 2.1");
    let full = Rules { disk_room: Some(300), ..RULES };
    assert_eq!(with(&full, garbage), "a-c [90,90] Reached whole, into 2.1", "as much as there is room for");
}

#[test]
fn a_size_tiered_forest_merges_whole_trees_into_one_table() {
    let rules = Rules { size_tiered: true, ..RULES };
    let long = "1.4: 90:a-b\n 1.3: 90:a-c 90:c-e 90:e-g\n 1.2: 90:a-c 90:c-e 90:e-g\n 1.1: 90:x-y";
    let all = "a-y [90,90,90,90,90,90,90] Reached whole, into 2.5 from 1 to 3";
    assert_eq!(with(&rules, long), all);
    // Also to free space, if there is room for it.
    let garbage = "1.2: 90:a-c 90:p-z\n 2.1: 90~80:a-c 90~80:p-q";
    assert_eq!(with(&rules, garbage), "a-z [90,90,90,90] Reached whole, into 2.1");
}
