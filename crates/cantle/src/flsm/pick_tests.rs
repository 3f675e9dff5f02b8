//! The choice of merges and of guards, from text to text.

use super::dropped_tests::Backwards;
use super::levels::{Changing, Levels};
use super::pick::{WHOLE, alike, even, levels_for, outgrown};
use crate::files::Files;
use crate::format::header::FileKind;
use crate::log::test_support::log_env;
use crate::lsm::busy::Busy;
use crate::lsm::middle::{Division, Half};
use crate::lsm::shape::{Apart, Cuts, Job, Logs, Move, Rules, Shape, group_bit};
use crate::lsm::state::GroupRecord;
use crate::run::dropped_ranges::{DroppedRange, DroppedRanges};
use crate::run::record::FileRecord;
use crate::run::run::{Run, Source};
use crate::sync::Arc;
use crate::types::bounds::Bounds;
use crate::types::order::KeyOrder;
use crate::types::span::Span;
use crate::vfs::MemVfs;
use bytes::Bytes;
use std::fmt::Write;

pub const RULES: Rules = Rules {
    table_bytes: 100,
    fragment_bytes: 0,
    dropped_range_bytes: 1 << 20,
    runs_max: 3,
    is_tuned: false,
    level0_bytes: 20,
    cleaned: 0,
    size_tiered: false,
    space_amplification: 1.5,
    seek_compaction: None,
    log_is_level_0: true,
    level_percent: None,
    hashed: None,
    oldest_snapshot: u64::MAX,
    settled: 0,
    disk_room: None,
    without_room: 0,
    sparse_least: 0.0,
};

/// Levels from a text: a line for each level, with the start of each guard and the lengths of
/// its runs, newest first.
pub fn levels(text: &str) -> Levels {
    let vfs: Arc<dyn crate::vfs::Vfs> = Arc::new(MemVfs::new());
    let env = log_env(&vfs, 1);
    let files: &Arc<Files> = &env.files;
    let (mut groups, mut file) = (Vec::new(), 100);
    for (line, level) in text.lines().map(str::trim).filter(|line| !line.is_empty()).zip(1..) {
        for guard in line.split_whitespace() {
            let (start, runs) = guard.trim_end_matches(']').split_once('[').unwrap();
            let mut group = GroupRecord { id: groups.len() as u64 + 1, level, ..GroupRecord::default() };
            group.start = (start != "-").then(|| Bytes::copy_from_slice(start.as_bytes()));
            for run in runs.split(',').filter(|run| !run.is_empty()) {
                // Some runs have garbage or bounds, for example 90~30:c-f. 90/50 is a part of a shared file. A
                // run 0! has nothing, and 0 has range deletes.
                let (bytes, span) = run.split_once(':').unwrap_or((run, ""));
                let (bytes, stale) = bytes.split_once('~').unwrap_or((bytes, "0"));
                let (bytes, has_nothing) = (bytes.trim_end_matches('!'), bytes.ends_with('!'));
                let stale_bytes = stale.parse().unwrap();
                let (bytes, share) =
                    bytes.split_once('/').map_or((bytes, None), |(bytes, share)| (bytes, Some(share)));
                let share_bytes = share.map(|share| share.parse().unwrap());
                let key = |key: &str| Some(Bytes::copy_from_slice(key.as_bytes()));
                let span = span.split_once('-').map(|(start, end)| Span { start: key(start), end: key(end) });
                let (bytes, log) = (bytes.parse().unwrap(), FileRecord::log(file, 1));
                let entries = 10 * bytes;
                group.files.push(FileRecord {
                    kind: FileKind::Table,
                    bytes,
                    entries,
                    has_deleted: bytes == 0 && !has_nothing,
                    stale_bytes,
                    span,
                    share_bytes,
                    ..log
                });
                file += 1;
            }
            groups.push(group);
        }
    }
    let mut run = |record: &FileRecord, area: &Span| {
        let run = Run {
            source: Source::Table(Arc::new(record.adopt_table(files, 1, Box::default()))),
            span: record.span.clone().unwrap_or_else(|| area.clone()).into(),
            dropped: None,
            dropped_ranges: None,
            share_bytes: record.share_bytes,
        };
        run.retain(&env.totals);
        run
    };
    Levels::open(&KeyOrder::Bytewise, &groups, &mut run).unwrap()
}

pub fn text_of(key: Option<&Bytes>) -> String {
    key.map_or("-".into(), |key| String::from_utf8(key.to_vec()).unwrap())
}

/// A job as text: the span of each piece, its runs, the bottom, and the output's places.
pub fn told(job: Option<Job>) -> String {
    let Some(job) = job else { return "nothing".into() };
    let mut text = String::new();
    for piece in &job.pieces {
        let runs: Vec<String> = piece.tables.iter().map(|run| run.bytes().to_string()).collect();
        let (start, end) = (text_of(piece.span.start.as_ref()), text_of(piece.span.end.as_ref()));
        write!(text, "{start}..{end} [{}] {:?} ", runs.join(","), piece.bottom).unwrap();
        match &piece.cuts {
            Cuts::Near(WHOLE) => text.push_str("whole"),
            Cuts::Near(bytes) => write!(text, "near {bytes}").unwrap(),
            Cuts::At(keys) => {
                let keys: Vec<String> = keys.iter().map(|key| text_of(Some(key))).collect();
                write!(text, "at {}", keys.join(",")).unwrap();
            }
        }
        writeln!(text, " into {:?}", piece.groups).unwrap();
    }
    for change in &job.moves {
        match change {
            Move::Insert { level, start, .. } => {
                writeln!(text, "insert {} in {level}", text_of(Some(start)))
            }
            Move::Delete { level, start } => writeln!(text, "delete {} in {level}", text_of(Some(start))),
            Move::AddLevel { starts } => {
                let starts: Vec<String> = starts.iter().map(|start| text_of(Some(start))).collect();
                writeln!(text, "add a level: {}", starts.join(","))
            }
            Move::RemoveLevel => writeln!(text, "remove a level"),
            Move::Sink { group } => writeln!(text, "sink of {group}"),
            Move::Adopt { level, run } => {
                writeln!(text, "adopt {} in {level}", text_of(run.span.start.as_ref()))
            }
            Move::Purge { group, run } => writeln!(text, "purge {} of {group}", run.file().id),
            Move::Forget { group, settled } => writeln!(text, "forget {group} below {settled}"),
            Move::Grow { .. } | Move::Hand { .. } => panic!("a level has one tree"),
        }
        .unwrap();
    }
    text.trim_end().into()
}

fn picked(text: &str) -> String {
    told(levels(text).pick_job(&KeyOrder::Bytewise, &RULES, &Busy::default()))
}

#[test]
fn a_merge_takes_the_newest_runs_of_similar_length() {
    let counts = [
        &[][..],
        &[5],
        &[5, 5],
        &[1, 100],
        &[5, 5, 5, 5],
        &[5, 5, 11],
        &[5, 5, 10],
        &[1, 1, 2, 4, 1000],
        &[1, 1, 3, 4, 1000],
    ]
    .map(alike);
    assert_eq!(counts, [0, 1, 2, 2, 4, 2, 3, 4, 2]);
}

#[test]
fn the_guard_with_too_many_runs_is_merged() {
    assert_eq!(picked("-[50] m[60,50,40]"), "nothing");
    assert_eq!(picked("-[50] m[10,10,10,90]"), "m..- [10,10,10] Deeper whole into [2]");
    assert_eq!(picked("-[50] m[50,50,50,90]"), "m..- [50,50,50,90] Reached whole into [2]");
    assert_eq!(picked("-[5] m[5,5,5,6]"), "m..- [5,5,5,6] Reached whole into [2]");
}

/// PebblesDB §3.4: a fragment for each guard below. The last level has no level below.
#[test]
fn a_guard_above_the_last_level_is_merged_down() {
    let two = "-[1] g[9,9,9,9] t[1]\n -[90] c[90] g[90] k[90] p[90] t[90]";
    assert_eq!(picked(two), "g..t [9,9,9,9] Deeper at k,p into [6, 7, 8]");
}

/// PebblesDB §3.5 with a number for each guard.
#[test]
fn a_guard_that_is_read_is_merged_sooner_than_one_that_is_written() {
    let tuned = Rules { runs_max: 12, is_tuned: true, ..RULES };
    let seven = "9,9,9,9,9,9,9";
    let after = |seeks: usize, writes: u64| {
        let found = levels(&format!("-[{seven}] m[{seven}]\n -[90] c[90] m[90] t[90]"));
        (0..seeks).for_each(|_| Shape::owe(&found, &KeyOrder::Bytewise, Some(b"n"), 0));
        for guard in &found.levels[0] {
            guard.tally.bring(4 * writes);
            guard.tally.settle();
        }
        found
    };
    let rules = Rules { seek_compaction: Some(10), ..tuned };
    let picked = |found: &Levels, rules: &Rules| {
        told(found.pick_job(&KeyOrder::Bytewise, rules, &Busy::default()))
            .split(" [")
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(picked(&after(0, 0), &rules), "m..-", "a new guard may have 6 runs");
    assert_eq!(picked(&after(0, 2000), &rules), "nothing", "12");
    let found = after(400, 2000);
    assert_eq!(found.levels[0].iter().map(|guard| guard.runs_max(&rules)).collect::<Vec<_>>(), [12, 3]);
    assert_eq!(picked(&found, &rules), "m..-");
    let few = Rules { runs_max: 4, ..rules };
    assert_eq!(picked(&after(0, 2000), &few), "m..-", "no guard may have more");
    let fixed = Rules { is_tuned: false, ..rules };
    assert_eq!(picked(&found, &fixed), "nothing", "the user's number holds for all");
    assert_eq!(picked(&after(100_000, 0), &Rules { runs_max: 1, ..fixed }), "m..-");
}

/// The first guard of the last level is read: it becomes one run.
#[test]
fn a_guard_of_the_last_level_that_is_read_has_one_run() {
    let tuned = Rules { runs_max: 12, is_tuned: true, seek_compaction: Some(10), ..RULES };
    let found = levels("-[9,90] m[9,90]");
    assert_eq!(told(found.pick_job(&KeyOrder::Bytewise, &tuned, &Busy::default())), "nothing");
    (0..2000).for_each(|_| Shape::owe(&found, &KeyOrder::Bytewise, Some(b"a"), 0));
    assert_eq!(
        told(found.pick_job(&KeyOrder::Bytewise, &tuned, &Busy::default())),
        "-..m [9,90] Reached whole into [1]"
    );
}

/// PebblesDB §4.2: seeks make merges.
#[test]
fn a_guard_that_reads_have_paid_for_is_merged() {
    let found = levels("-[9,9] m[50]\n -[90] c[90] m[90,9] t[90]");
    let picked = |key: &[u8], entries| {
        Shape::owe(&found, &KeyOrder::Bytewise, Some(key), entries);
        told(found.pick_job(&KeyOrder::Bytewise, &RULES, &Busy::default()))
    };
    // Each table is taken to have ten entries for a byte, and each run beside the last costs fifty.
    assert_eq!(picked(b"d", 0), "nothing");
    assert_eq!(picked(b"d", 530), "-..m [9,9] Deeper at c into [3, 4]");
    let found = levels("-[90] m[90,9] t[90]");
    let picked = |key: &[u8], entries| {
        Shape::owe(&found, &KeyOrder::Bytewise, Some(key), entries);
        told(found.pick_job(&KeyOrder::Bytewise, &RULES, &Busy::default()))
    };
    assert_eq!(picked(b"a", 10_000), "nothing", "a single table reads as fast as it may");
    assert_eq!(picked(b"n", 3900), "nothing");
    assert_eq!(picked(b"n", 1), "m..t [90,9] Reached whole into [2]");
}

/// The newest runs are short: their merge leaves few runs, and costs little.
#[test]
fn the_runs_of_the_last_level_that_reads_have_paid_for_are_merged() {
    let rules = Rules { runs_max: 12, ..RULES };
    let found = levels("-[90] m[9,9,9,90] t[90]");
    let picked = |entries| {
        Shape::owe(&found, &KeyOrder::Bytewise, Some(b"n"), entries);
        told(found.pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()))
    };
    // Two thirds of what reads paid for are the cost of three runs, beside the last.
    assert_eq!(picked(1470), "nothing");
    assert_eq!(picked(0), "m..t [9,9,9] Deeper whole into [2]");
    assert_eq!(picked(2600), "m..t [9,9,9] Deeper whole into [2]");
    assert_eq!(picked(300), "m..t [9,9,9,90] Reached whole into [2]");
}

/// PebblesDB §4.2 as published: many seeks without a write, and no debt.
#[test]
fn a_guard_that_was_sought_often_is_merged_if_seeks_are_counted() {
    let rules = Rules { seek_compaction: Some(10), ..RULES };
    let picked = |found: &Levels| told(found.pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()));
    let found = levels("-[9] m[50]\n -[90] c[90] m[90,9] t[90]");
    Shape::owe(&found, &KeyOrder::Bytewise, Some(b"d"), 1_000_000);
    assert_eq!(picked(&found), "nothing", "debt does not count");
    Shape::sought(&found, &KeyOrder::Bytewise, Some(b"d"));
    assert_eq!(picked(&found), "-..m [9] Deeper at c into [3, 4]");
    let found = levels("-[] m[]\n -[90] c[90] m[90,9] t[90]");
    Shape::sought(&found, &KeyOrder::Bytewise, None);
    Shape::sought(&found, &KeyOrder::Bytewise, Some(b"u"));
    assert_eq!(picked(&found), "nothing", "a single table reads as fast as it may");
    Shape::sought(&found, &KeyOrder::Bytewise, Some(b"n"));
    assert_eq!(picked(&found), "m..t [90,9] Reached whole into [5]");
    assert_eq!(
        told(found.pick_job(&KeyOrder::Bytewise, &RULES, &Busy::default())),
        "nothing",
        "the rule is off by default"
    );
}

/// PebblesDB §4.2.
#[test]
fn a_level_that_is_a_quarter_of_the_next_one_is_merged_down_if_that_is_asked_for() {
    let found = [&[][..], &[5], &[0, 0], &[24, 100], &[25, 100], &[24, 100, 300], &[24, 100, 400], &[1, 0]]
        .map(|bytes| outgrown(bytes, 25));
    assert_eq!(found, [None, None, None, None, Some(0), Some(1), Some(1), Some(0)]);
    assert_eq!([49, 50].map(|bytes| outgrown(&[bytes, 100], 50)), [None, Some(0)]);
    let picked = |text: &str, percent| {
        told(levels(text).pick_job(
            &KeyOrder::Bytewise,
            &Rules { level_percent: percent, ..RULES },
            &Busy::default(),
        ))
    };
    let two = "-[9] g[70] t[20]\n -[90] c[90] g[90] k[90] t[90] w[90]";
    assert_eq!(picked(two, None), "nothing");
    assert_eq!(picked(two, Some(25)), "nothing", "99 of 540 bytes");
    assert_eq!(picked(two, Some(18)), "g..t [70] Deeper at k into [6, 7]", "the longest guard first");
}

/// PebblesDB §3.4, second exception.
#[test]
fn a_guard_far_shorter_than_the_last_level_is_rewritten_in_its_place() {
    let with = |bytes: u64| picked(&format!("-[1,1,1,1] g[]\n -[{bytes}] c[1] g[10]"));
    assert_eq!(with(99), "-..g [1,1,1,1] Deeper at c into [3, 4]");
    assert_eq!(with(100), "-..g [1,1,1,1] Deeper whole into [1]");
}

#[test]
fn a_long_guard_of_the_last_level_is_divided() {
    assert_eq!(picked("-[200] m[50]"), "nothing");
    assert_eq!(picked("-[201] m[50]"), "-..m [201] Reached whole into [1]", "divided at its middle later");
    assert_eq!(picked("-[251] m[50]"), "-..m [251] Reached near 83 into [1]");
    assert_eq!(
        picked("-[351~90] m[50]"),
        "-..m [351] Reached near 87 into [1]",
        "its garbage does not count"
    );
    assert_eq!(picked("-[301~101] m[50]"), "-..m [301] Reached whole into [1]");
}

/// PebblesDB §3.3: guards are inserted without moving data. Tables that reach over the key are shared.
#[test]
fn a_long_guard_is_divided_without_a_merge_where_its_middle_is_known() {
    let divided = |text: &str, half: Option<(&'static str, f64)>| {
        let mut found = levels(text);
        let guard = Arc::get_mut(&mut found.levels[0][0]).unwrap();
        guard.division = half
            .map(|(start, share)| Arc::new(Division::At(Half { start: start.into(), share, bytes: 100 })));
        told(found.pick_job(&KeyOrder::Bytewise, &RULES, &Busy::default()))
    };
    let long = "-[70:a-l,70:a-l,90:a-l] m[50]";
    assert_eq!(divided(long, Some(("g", 0.5))), "insert g in 1");
    assert_eq!(divided(long, None), "-..m [70,70,90] Reached whole into [1]");
    assert_eq!(divided(long, Some(("x", 0.5))), "-..m [70,70,90] Reached whole into [1]", "of another guard");
    assert_eq!(
        divided(long, Some(("k", 0.1))),
        "-..m [70,70,90] Reached whole into [1]",
        "one part is short"
    );
    // The last that came lies at the end: the middle is where an older run begins.
    assert_eq!(divided("-[70:i-l,60:g-i,100:a-f] m[50]", Some(("j", 0.5))), "insert g in 1");
    assert_eq!(
        divided("-[70:f-l,60:g-i,100:a-g] m[50]", None),
        "-..m [70,60,100] Reached whole into [1]",
        "who knows"
    );
}

#[test]
fn the_parts_of_a_divided_guard_are_alike() {
    let targets = [201, 240, 249, 250, 300, 349, 350, 1000, 1049].map(|bytes| even(bytes, 100));
    assert_eq!(targets, [100, 120, 124, 83, 100, 116, 87, 100, 104]);
}

#[test]
fn runs_without_a_common_key_are_divided_and_not_merged() {
    assert_eq!(picked("-[50:a-b,50:c-d,50:e-f,50:g-h]"), "nothing", "a read searches one of them");
    assert_eq!(picked("-[90:e-f,90:a-b,90:g-h,90:c-d]"), "insert e in 1");
    assert_eq!(
        picked("-[90:a-c,90:b-d,90:g-h,90:i-k]"),
        "insert g in 1",
        "whatever their halves have in common"
    );
}

/// PebblesDB moves no table, so a load in key order writes six times (its §4.6).
#[test]
fn the_oldest_runs_within_one_guard_below_move_there() {
    let two = "-[1] g[9,9:l-m,9:l-m,9:k-n] t[1]\n -[90] c[90] g[90] k[90] p[90] t[90]";
    assert_eq!(picked(two), "sink of 2\nsink of 2\nsink of 2");
    let two = "-[1] g[9:l-m,9:l-m,9:k-n,9:h-n] t[1]\n -[90] c[90] g[90] k[90] p[90] t[90]";
    assert_eq!(picked(two), "g..t [9,9,9,9] Deeper at k,p into [6, 7, 8]", "the oldest one does not");
}

#[test]
fn a_run_apart_from_all_others_becomes_a_guard() {
    let taken = |text: &str, start: &str, end: &str| {
        let found = levels(text);
        let key = |key: &str| Some(Bytes::copy_from_slice(key.as_bytes()));
        let run = found.guards().flat_map(|guard| &guard.runs).next().unwrap();
        let run = Run { span: Span { start: key(start), end: key(end) }.into(), ..run.clone() };
        let apart = Shape::take_apart(&found, &KeyOrder::Bytewise, &run, &Busy::default());
        let Some(Apart { moves, upto }) = apart else { return "nothing".into() };
        let moves = told(Some(Job::of_moves(moves)));
        upto.map_or(moves.clone(), |key| format!("{moves}, {} keys are shared", text_of(Some(&key))))
    };
    let two = "-[9:a-b] g[]\n -[90:a-e] g[90:g-h,90:p-q] t[90:t-u]";
    assert_eq!(taken(two, "v", "w"), "insert v in 2\nadopt v in 2");
    assert_eq!(taken(two, "h", "p"), "insert h in 2\nadopt h in 2");
    assert_eq!(taken(two, "e", "g"), "insert e in 2\nadopt e in 2");
    assert_eq!(taken(two, "h", "pp"), "nothing", "another begins in it");
    assert_eq!(taken(two, "gg", "j"), "insert gg in 2\nadopt gg in 2, h keys are shared");
    assert_eq!(taken(two, "e", "ga"), "nothing", "a part is below");
    assert_eq!(taken(two, "a", "aa"), "nothing", "and in the level above");
    assert_eq!(taken(two, "r", "tt"), "nothing");
    assert_eq!(taken("-[90:a-e] g[]", "g", "z"), "adopt g in 1", "a guard without a run");
    assert_eq!(taken("-[90:a-e] g[] k[90:k-l]", "h", "kk"), "nothing");
}

#[test]
fn the_guard_with_most_garbage_is_merged_if_space_is_short() {
    assert_eq!(picked("-[60~20,60] m[90~30]"), "nothing", "160 of 210 bytes are live");
    assert_eq!(picked("-[60~50,60] m[60~40,60]"), "-..m [60,60] Reached whole into [1]");
    assert_eq!(picked("-[60~40,60] m[60~50,60]"), "m..- [60,60] Reached whole into [2]");
    let above = "-[9~9,9~9:a-c,9:b-e] g[1]\n -[9] c[9] g[8] k[9]";
    assert_eq!(picked(above), "-..g [9,9,9] Deeper at c into [3, 4]");
}

#[test]
fn on_a_full_disk_the_guard_with_most_garbage_that_has_room_comes_first() {
    let with_room = |room, text: &str| {
        let rules = Rules { disk_room: Some(room), ..RULES };
        told(levels(text).pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()))
    };
    let picked = |text: &str| with_room(200, text);
    assert_eq!(picked("-[60~20,60] m[90~30]"), "m..- [90] Reached whole into [2]", "within the bound");
    assert_eq!(picked("-[60~20,60,60,60] m[90~30]"), "m..- [90] Reached whole into [2]", "before many runs");
    assert_eq!(picked("-[60~5,60]"), "nothing", "less than a sixteenth");
    assert_eq!(with_room(70, "-[60~20,20] m[100~34]"), "-..m [60,20] Reached whole into [1]");
    assert_eq!(with_room(9, "-[60~20,20] m[90~30]"), "nothing");
    assert_eq!(picked("-[100~40,60,90]"), "-..- [100,60] Deeper whole into [1]", "the newest that have room");
    let rules = Rules { disk_room: Some(200), ..RULES };
    let for_space = |text| {
        let job = levels(text).pick_job(&KeyOrder::Bytewise, &rules, &Busy::default());
        job.is_some_and(|job| job.frees_space)
    };
    assert!(for_space("-[100~40,60,90]"));
    assert!(!for_space("-[30~20,100,90]"), "no long table is rewritten for a short one");
    let rules = Rules { without_room: group_bit(2), ..rules };
    let others = levels("-[60~20,20] m[90~30]").pick_job(&KeyOrder::Bytewise, &rules, &Busy::default());
    assert_eq!(told(others), "-..m [60,20] Reached whole into [1]", "the other one has just found no room");
    // A guard above the last level goes down in parts that have room, the oldest first.
    let below = "-[90] c[90] g[90] k[90]";
    let all = "-..- [140,30] Deeper at c,g,k into [2, 3, 4, 5]";
    assert_eq!(picked(&format!("-[140~60,30]\n {below}")), all);
    let oldest = "-..- [60] Deeper at c,g,k into [2, 3, 4, 5]";
    assert_eq!(picked(&format!("-[150~60,60]\n {below}")), oldest);
    assert_eq!(picked("-[150~60,60]\n -[90]"), "sink of 1\nsink of 1", "that takes no space");
}

/// It would fail each time, and those behind it would never get their turn.
#[test]
fn on_a_full_disk_no_merge_without_room_is_in_the_way_of_others() {
    let with = |rules: Rules, text: &str| {
        told(levels(text).pick_job(
            &KeyOrder::Bytewise,
            &Rules { disk_room: Some(150), ..rules },
            &Busy::default(),
        ))
    };
    let picked = |text: &str| with(RULES, text);
    let second = "m..- [20,20,20,20] Reached whole into [2]";
    assert_eq!(picked("-[60,60,60,60,60] m[20,20,20,20]"), second, "many runs");
    assert_eq!(picked("-[900] m[20,20,20,20]"), second, "long, and not to be divided");
    assert_eq!(picked("-[60,60,60,60,60]"), "nothing");
    let tried = Rules { without_room: group_bit(2), ..RULES };
    assert_eq!(with(tried, "-[20,20,20,20] m[9,9,9,9,9]"), "-..m [20,20,20,20] Reached whole into [1]");
    let down = "-[90,90,90,90,90] m[20,20,20,20]\n -[90] c[90] m[90] t[90]";
    assert_eq!(picked(down), "m..- [20,20,20,20] Deeper at t into [5, 6]");
}

#[test]
fn on_a_full_disk_runs_are_rewritten_without_what_range_deletes_have_dropped() {
    let picked = |room, dropped_bytes| {
        let mut levels = levels("-[10,50,75]");
        let guard = levels.levels[0][0].clone();
        let mut runs = guard.runs.clone();
        let span = Span { start: Some("a".into()), end: Some("b".into()) };
        let range = DroppedRange { span, version: 1, batch: 0, bytes: dropped_bytes };
        runs[1].dropped_ranges = DroppedRanges::new(vec![range]);
        levels.levels[0][0] = Arc::new(guard.with_runs(runs));
        let rules = Rules { disk_room: Some(room), runs_max: 3, ..RULES };
        told(levels.pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()))
    };
    let newest = "-..- [10,50] Deeper whole into [1]";
    assert_eq!(picked(33, 30), newest, "30 bytes and an eighth are left");
    assert_eq!(picked(32, 30), "nothing");
    assert_eq!(picked(300, 30), "-..- [10,50,75] Reached whole into [1]");
    assert_eq!(picked(100, 9), newest);
    assert_eq!(picked(100, 8), "nothing", "less than a sixteenth of the guard");
}

#[test]
fn on_a_full_disk_everything_is_sorted_guard_by_guard() {
    let sorted = |room, upto, text: &str| {
        let rules = Rules { disk_room: room, ..RULES };
        let bounds = Bounds::of(&..);
        let (levels, order, busy) = (levels(text), KeyOrder::Bytewise, Busy::default());
        told(levels.sort_within(&order, &rules, &bounds, upto, &busy))
    };
    let all = |room, text: &str| sorted(room, u64::MAX, text);
    let above = "-[9,9] g[1]\n -[9] c[9] g[8] k[9]";
    assert_eq!(all(None, above).lines().count(), 2, "all below a guard at once");
    assert_eq!(all(Some(200), above), "-..g [9,9] Deeper at c into [3, 4]");
    assert_eq!(all(Some(10), above), "g..- [1] Deeper at k into [5, 6]", "what has room first");
    let long = "-[9,9] g[]\n -[9] c[9] g[8] k[9]";
    assert_eq!(all(Some(10), long), "-..g [9] Deeper at c into [3, 4]", "the oldest that has room");
    assert_eq!(all(Some(0), above), "-..g [9] Deeper at c into [3, 4]", "it tries");
    let last = "-[] g[]\n -[9] c[9,8] g[8] k[9,9]";
    assert_eq!(all(Some(200), last), "c..g [9,8] Reached whole into [4]");
    assert_eq!(all(Some(0), last), "c..g [9,8] Reached whole into [4]", "it tries");
    assert_eq!(all(Some(100), "-[90,9] m[9,9]"), "m..- [9,9] Reached whole into [2]", "what has room first");
    assert_eq!(all(Some(150), "-[60,60,90]"), "-..- [60,60] Deeper whole into [1]", "the newest first");
    assert_eq!(all(Some(200), "-[] g[]\n -[9] c[9] g[8] k[9]"), "nothing");
    assert_eq!(sorted(Some(200), 0, last), "nothing", "all of that is newer");
}

/// A file is on the disk as long as a guard has a part of it.
#[test]
fn bytes_of_shared_files_that_no_guard_uses_any_more_are_garbage() {
    assert_eq!(picked("-[60/10,60] m[60]"), "nothing", "180 bytes for 130");
    assert_eq!(picked("-[90/10,60] m[60]"), "-..m [10,60] Reached whole into [1]", "210 bytes for 130");
    assert_eq!(picked("-[9] g[99/9]\n -[9] c[9] g[8] k[9]"), "g..- [9] Deeper at k into [5, 6]");
}

#[test]
fn thin_guards_join_the_one_before_them() {
    assert_eq!(picked("-[90,1] m[11]"), "nothing");
    assert_eq!(picked("-[80,1] m[11]"), "delete m in 1");
    assert_eq!(picked("-[100] m[49]"), "delete m in 1", "the short rest of a guard that was divided");
    for kept in ["-[100] m[50]", "-[101] m[49]", "-[100] m[40,9]", "-[90,9] m[49]"] {
        assert_eq!(picked(kept), "nothing", "{kept}");
    }
    assert_eq!(picked("-[60] m[49] t[40]"), "delete m in 1", "and t is judged when it is done");
    assert_eq!(picked("-[] c[] m[] t[50]"), "delete c in 1\ndelete m in 1");
    assert_eq!(
        picked("-[1] g[1]\n -[90] c[90] g[1] k[90]"),
        "delete g in 1\ndelete g in 2",
        "a guard that goes at a level goes at all levels above (PebblesDB §3.3)"
    );
}

#[test]
fn a_guard_with_many_guards_below_it_is_divided_and_one_with_few_goes() {
    let below: String = (b'a'..b'r').map(|letter| format!(" {0}{0}[90]", letter as char)).collect();
    let below = below.replace("hh[", "h[");
    assert_eq!(picked(&format!("-[1]\n -[90]{below}")), "insert h in 1");
    assert_eq!(picked("-[1] g[1]\n -[90] c[90] g[90]"), "delete g in 1");
}

/// A table of length 0 has nothing but range deletes.
#[test]
fn guards_of_the_last_level_that_have_only_range_deletes_are_emptied() {
    assert_eq!(
        picked("-[0] m[50] t[0,0]"),
        "-..m [0] Reached whole into [1]\nt..- [0,0] Reached whole into [3]"
    );
    assert_eq!(picked("-[0,50] m[50]"), "nothing");
    assert_eq!(picked("-[0]\n -[90] c[90]"), "nothing", "they may cover what is below");
}

#[test]
fn a_table_that_has_nothing_goes_when_the_files_that_it_replaces_have_gone() {
    let picked = |text: &str, settled| {
        let rules = Rules { settled, ..RULES };
        told(levels(text).pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()))
    };
    // The first table is number 100.
    assert_eq!(picked("-[0!] m[50]", 100), "nothing");
    assert_eq!(picked("-[0!] m[50]", 101), "forget 1 below 101");
    assert_eq!(picked("-[90] m[50]", 101), "nothing");
    let left = |text: &str, settled| {
        let before = levels(text);
        let mut changing = Changing::new(&KeyOrder::Bytewise, &before);
        (1..=3).for_each(|group| changing.forget(group, settled));
        changing.levels.guards().map(|guard| guard.runs.len()).collect::<Vec<_>>()
    };
    assert_eq!(left("-[0!,5] m[0!] t[0]", 102), [1, 1, 1], "the second one has a higher number");
    assert_eq!(left("-[0!,5] m[0!] t[0]", 103), [1, 0, 1]);
}

#[test]
fn levels_are_added_and_removed_with_the_data() {
    let counts = [0, 16, 17, 128, 129, 1024, 1025].map(|data| levels_for(data * 1000, 1000));
    assert_eq!(counts, [1, 1, 2, 2, 3, 3, 4]);
    let picked = |text: &str| {
        told(levels(text).pick_job(
            &KeyOrder::Bytewise,
            &Rules { level0_bytes: 1000, ..RULES },
            &Busy::default(),
        ))
    };
    let guards: String = (0..199).map(|number| format!(" {number:03}[90]")).collect();
    let added = picked(&format!("-[90]{guards}"));
    assert!(added.starts_with("add a level: 007,015,023"), "{added}");
    assert_eq!(picked("-[1]\n -[90] c[90]"), "-..- [1] Deeper at c into [2, 3]");
    assert_eq!(picked("-[]\n -[90] c[90]"), "remove a level");
}

#[test]
fn logs_become_fragments_of_the_guards_of_level_1() {
    let merged = |text: &str| {
        told(Some(levels(text).append_fragments(
            &KeyOrder::Bytewise,
            &RULES,
            &Logs { bytes: 900 },
            &Busy::default(),
        )))
    };
    assert_eq!(merged("-[]"), "-..- [] Reached near 100 into [1]");
    assert_eq!(merged("-[5] m[5] t[]"), "-..t [] Deeper at m into [1, 2]\nt..- [] Reached near 100 into [3]");
    assert_eq!(merged("-[5] m[6]\n -[7] c[8] m[9]"), "-..- [] Deeper at m into [1, 2]");
}

/// The empty key is the last one there.
#[test]
fn a_run_of_the_first_guard_sinks_into_the_first_guard_in_every_order() {
    let sunk = |order: &KeyOrder| {
        let levels = levels("-[90] m[90]\n -[90] m[90]");
        let change = levels.after(order, &Job::of_moves(vec![Move::Sink { group: 1 }]), &[]);
        assert_eq!((change.missed, change.shape.fault(order)), (None, None));
        change.shape.last().iter().map(|guard| guard.runs.len()).collect::<Vec<_>>()
    };
    assert_eq!(sunk(&KeyOrder::Bytewise), [2, 1]);
    assert_eq!(sunk(&KeyOrder::custom(Arc::new(Backwards))), [2, 1]);
}
