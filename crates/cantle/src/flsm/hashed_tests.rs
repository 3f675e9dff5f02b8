//! Guards by the hash of keys: their choice, from text to text, and keyspaces with them.

use super::levels::Levels;
use super::pick_tests::{RULES, levels, text_of, told};
use super::tests::{Model, all, assert_is, key, lsm_of, open_with, value, write_and_compare};
use crate::layout::options::FlsmOptions;
use crate::lsm::busy::Busy;
use crate::lsm::hashed::{Chosen, HashedGuards};
use crate::lsm::shape::{Logs, Outcome, Rules, Shape};
use crate::sync::Arc;
use crate::types::order::KeyOrder;
use crate::vfs::{CrashPlan, MemVfs};
use crate::{Comparator, Db, KeyspaceOptions, LayoutKind, Options};
use std::cmp::Ordering;

const HASHED: HashedGuards = HashedGuards { top_level_bits: 7, bit_decrement: 2 };
const BY_HASH: Rules = Rules { hashed: Some(HASHED), ..RULES };

fn layout() -> FlsmOptions {
    let sizes = FlsmOptions::new().generation_bytes(8 << 10).guard_bytes(16 << 10).max_sstables_per_guard(3);
    sizes.top_level_bits(HASHED.top_level_bits).bit_decrement(HASHED.bit_decrement)
}

fn open(disk: &MemVfs) -> Db {
    open_with(disk, KeyspaceOptions::new().layout(layout()))
}

/// With logs so long that only [`fill`] merges them.
fn open_quiet(disk: &MemVfs) -> Db {
    open_with(disk, KeyspaceOptions::new().layout(layout().generation_bytes(4 << 20)))
}

/// Levels with these uncommitted guards, each with its level: `c1 h2`.
fn with_uncommitted(text: &str, chosen: &str) -> Levels {
    let mut found = levels(text);
    let chosen = chosen.split_whitespace().map(|chosen| {
        let (key, level) = chosen.split_at(1);
        Chosen { key: key.to_owned().into(), level: level.parse().unwrap() }
    });
    found.uncommitted = chosen.collect();
    found
}

/// The starts of the guards of each level.
fn starts(found: &Levels) -> Vec<String> {
    let of = |level: &super::levels::Level| {
        level.iter().map(|guard| text_of(guard.span.start.as_ref())).collect::<Vec<_>>().join(" ")
    };
    found.levels.iter().map(of).collect()
}

fn uncommitted(found: &Levels) -> String {
    let of = |chosen: &Chosen| format!("{}{}", text_of(Some(&chosen.key)), chosen.level);
    found.uncommitted.iter().map(of).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_merge_cuts_at_the_uncommitted_guards_of_its_level_and_commits_them_there_and_deeper() {
    let logs = |found: &Levels| {
        told(Some(found.append_fragments(
            &KeyOrder::Bytewise,
            &BY_HASH,
            &Logs { bytes: 900 },
            &Busy::default(),
        )))
    };
    let one = with_uncommitted("-[5] m[5]", "c1 h2 m1 t1");
    assert_eq!(logs(&one), "-..- [] Deeper at c,m,t into [1, 1, 2, 2]\ninsert c in 1\ninsert t in 1");
    assert_eq!(logs(&levels("-[]")), "-..- [] Deeper at  into [1]", "no guard by the data");
    let two =
        with_uncommitted("-[9] g[9,9,9,9] t[1]\n -[90] c[90] g[90] k[90] p[90] t[90]", "c1 h2 i1 n2 z3");
    assert_eq!(
        logs(&two),
        "-..- [] Deeper at c,g,i,t into [1, 1, 2, 2, 3]\ninsert c in 1\ninsert c in 2\n\
                            insert i in 1\ninsert i in 2"
    );
    let picked = told(two.pick_job(&KeyOrder::Bytewise, &BY_HASH, &Busy::default()));
    assert_eq!(
        picked,
        "g..t [9,9,9,9] Deeper at h,i,k,n,p into [6, 6, 6, 7, 7, 8]\n\
                        insert h in 2\ninsert i in 2\ninsert n in 2"
    );
}

#[test]
fn a_committed_guard_divides_the_tables_that_are_there() {
    let order = &KeyOrder::Bytewise;
    let found = with_uncommitted("-[9:a-d,9:e-f] m[5]\n -[90:a-c,90:d-i] m[90:m-n]", "e1 k2");
    let job = found.append_fragments(order, &BY_HASH, &Logs { bytes: 900 }, &Busy::default());
    let outcomes: Vec<Outcome> = job.pieces.iter().map(|_| Outcome::default()).collect();
    let after = found.after(order, &job, &outcomes).shape;
    assert_eq!(starts(&after), ["- e m", "- e m"]);
    assert_eq!((uncommitted(&after), after.find_fault(order)), ("k2".into(), None));
    let runs = |level: usize| -> Vec<Vec<String>> {
        let of = |run: &crate::run::run::Run| {
            format!("{}-{}", text_of(run.span.start.as_ref()), text_of(run.span.end.as_ref()))
        };
        after.levels[level].iter().map(|guard| guard.runs.iter().map(of).collect()).collect()
    };
    assert_eq!(runs(0), [vec!["a-d"], vec!["e-f"], vec!["m--"]]);
    assert_eq!(runs(1), [vec!["a-c", "d-e"], vec!["e-i"], vec!["m-n"]]);
}

#[test]
fn chosen_keys_are_kept_in_order_until_they_are_guards() {
    let order = &KeyOrder::Bytewise;
    let found = with_uncommitted("-[] g[]\n -[] c[] g[]", "f2");
    let chosen = ["t1", "c1", "c2", "b3", "g1"].map(|chosen| {
        let (key, level) = chosen.split_at(1);
        Chosen { key: key.to_owned().into(), level: level.parse().unwrap() }
    });
    let outcome = Outcome { chosen: chosen.into(), ..Outcome::default() };
    let job = crate::lsm::shape::Job::default();
    let change = found.after(order, &job, &[]);
    assert!(Arc::ptr_eq(&change.shape.uncommitted, &found.uncommitted));
    let mut changing = super::levels::Changing::new(order, &found);
    changing.choose(outcome.chosen.iter());
    let after = changing.finish();
    assert_eq!(uncommitted(&after.shape), "c1 f2 t1", "there is no level 3, and g is a guard");
    assert!(after.added.is_empty() && after.removed.is_empty(), "nothing of it is written");
    let many: Vec<Chosen> =
        (0..2000).map(|number| Chosen { key: format!("{number:05}").into(), level: 1 }).collect();
    let mut changing = super::levels::Changing::new(order, &found);
    changing.choose(many.iter());
    assert_eq!(changing.finish().shape.uncommitted.len(), 1024);
}

#[test]
fn no_guard_is_chosen_by_the_data_and_those_without_data_go() {
    let rules = Rules { level0_bytes: 1000, ..BY_HASH };
    let picked = |text: &str| told(levels(text).pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()));
    assert_eq!(picked("-[500] m[1]"), "nothing", "neither long nor thin guards change");
    assert_eq!(picked("-[500] m[50,50,50,90]"), "m..- [50,50,50,90] Reached whole into [2]");
    assert_eq!(picked("-[50] m[] t[]"), "delete m in 1\ndelete t in 1");
    let two =
        levels("-[50] m[]\n -[50] c[] m[] t[90]").pick_job(&KeyOrder::Bytewise, &BY_HASH, &Busy::default());
    assert_eq!(told(two), "delete m in 1\ndelete m in 2", "c has data in level 1");
    let guards: String = (0..199).map(|number| format!(" {number:03}[90]")).collect();
    let wide = levels(&format!("-[90]{guards}"));
    let of_level_1 = (0..199).map(|number| format!("{number:03}"));
    let of_level_1: Vec<String> =
        of_level_1.filter(|start| HASHED.level_of(start.as_bytes()) == Some(1)).collect();
    assert!(!of_level_1.is_empty());
    let added = told(wide.pick_job(&KeyOrder::Bytewise, &rules, &Busy::default()));
    assert_eq!(added, format!("add a level: {}", of_level_1.join(",")));
}

fn fill(db: &Db, round: u64) {
    (0..2000).for_each(|number| db.put(key(number * 7919 % 2000), value(number + round, 100)).unwrap());
    lsm_of(db).merge_logs_for_test().unwrap();
}

fn shape(db: &Db) -> Arc<Levels> {
    lsm_of(db).view().shape.clone()
}

/// Reads go by the old guards until the next merge, and a crash before it forgets the new ones.
#[test]
fn guards_are_those_that_the_hash_of_the_keys_seen_says() {
    let disk = MemVfs::new();
    let db = open_quiet(&disk);
    fill(&db, 0);
    let expected: Vec<String> = (0..2000)
        .map(|number| String::from_utf8(key(number)).unwrap())
        .filter(|key| HASHED.level_of(key.as_bytes()) == Some(1))
        .collect();
    assert_eq!(expected, GOLDEN);
    assert_eq!((starts(&shape(&db)), shape(&db).uncommitted.len()), (vec!["-".to_owned()], expected.len()));
    let model = all(db.range(..));
    assert_is(&db, &model, "by the old guards");
    let killed = disk.kill();
    fill(&db, 1);
    let with_guards = [format!("- {}", expected.join(" "))];
    assert_eq!((starts(&shape(&db)), shape(&db).uncommitted.len()), (with_guards.to_vec(), 0));
    let model = all(db.range(..));
    assert_is(&db, &model, "by the new guards");
    let after = disk.kill();
    drop(db);
    let db = open_quiet(&killed);
    assert_eq!((starts(&shape(&db)), shape(&db).uncommitted.len()), (vec!["-".to_owned()], 0));
    fill(&db, 1);
    fill(&db, 2);
    assert_eq!(starts(&shape(&db)), with_guards, "the keys were met again");
    drop(db);
    let db = open_quiet(&after);
    assert_eq!(starts(&shape(&db)), with_guards);
    assert_is(&db, &model, "after a kill");
    db.delete_range(..).unwrap();
    // A guard that a merge in the background works on stays until that is done.
    lsm_of(&db).without_merges_for_test(|| db.compact_range(..).unwrap());
    assert_eq!(starts(&shape(&db)), ["-"], "the guards went with their data");
    assert_eq!(all(db.range(..)), Model::new());
}

const GOLDEN: &[&str] = &[
    "key 00006",
    "key 00123",
    "key 00172",
    "key 00416",
    "key 00512",
    "key 00866",
    "key 00950",
    "key 01090",
    "key 01147",
    "key 01184",
    "key 01412",
    "key 01713",
    "key 01786",
    "key 01811",
    "key 01825",
];

#[test]
fn a_loss_of_power_leaves_each_guard_absent_or_whole() {
    let disk = MemVfs::new();
    let db = open_quiet(&disk);
    fill(&db, 0);
    db.sync().unwrap();
    let before = all(db.range(..));
    fill(&db, 1);
    let lost = disk.crash(&CrashPlan::LOSE_UNSYNCED);
    drop(db);
    let db = open_quiet(&lost);
    assert_eq!(starts(&shape(&db)), ["-"]);
    assert_is(&db, &before, "after a loss of power");
}

#[test]
fn a_keyspace_by_hash_is_what_was_written_to_it_through_rotations_and_merges() {
    write_and_compare(&open, 10..13);
}

/// The option may come and go: guards that are there stay.
#[test]
fn the_option_takes_effect_at_each_opening() {
    let disk = MemVfs::new();
    let by_data = FlsmOptions::new().generation_bytes(8 << 10).guard_bytes(16 << 10);
    for (round, layout) in [by_data.clone(), layout(), by_data].into_iter().enumerate() {
        let db = open_with(&disk, KeyspaceOptions::new().layout(layout));
        let before = starts(&shape(&db));
        fill(&db, 3 * round as u64);
        fill(&db, 3 * round as u64 + 1);
        lsm_of(&db).settle_for_test().unwrap();
        let now = starts(&shape(&db));
        assert!(now != before, "round {round}: {now:?}");
        let model = all(db.range(..));
        assert_is(&db, &model, "settled");
        db.close().unwrap();
    }
}

/// Equal keys may differ in case.
pub struct CaseInsensitive;

impl Comparator for CaseInsensitive {
    fn name(&self) -> &str {
        "case-insensitive"
    }
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
    }
    fn equal_is_identical(&self) -> bool {
        false
    }
}

#[test]
fn an_order_in_which_equal_keys_may_differ_is_refused() {
    let disk = MemVfs::new();
    let options = || Options::new().vfs(Arc::new(disk.clone())).comparator(Arc::new(CaseInsensitive));
    let ordered = || KeyspaceOptions::new().comparator(Arc::new(CaseInsensitive));
    let told = |error: crate::Error| {
        let text = error.to_string();
        assert!(text.contains("top_level_bits=7") && text.contains("\"case-insensitive\""), "{text}");
    };
    told(options().default_keyspace(ordered().layout(layout())).open("refused").unwrap_err());
    let db = options().open("store").unwrap();
    told(db.keyspace_with("k", ordered().layout(layout())).unwrap_err());
    let keyspace = db.keyspace_with("k", ordered().layout(LayoutKind::Flsm)).unwrap();
    told(db.keyspace_with("k", KeyspaceOptions::new().layout(layout())).unwrap_err());
    keyspace.put("a", "b").unwrap();
    drop((keyspace, db));
    let first = || ordered().layout(LayoutKind::Flsm);
    drop(options().default_keyspace(first()).open("other").unwrap());
    let again = options().default_keyspace(KeyspaceOptions::new().layout(layout()));
    told(again.open("other").unwrap_err());
}
