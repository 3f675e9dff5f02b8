//! The layout `flsm` from the command: chosen, kept, drawn and measured.
#![cfg(feature = "zstd")]
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/place.rs"]
mod place;

use place::Place;

const SMALL: &str = "flsm:generation_bytes=64KiB,guard_bytes=64KiB,max_sstables_per_guard=3";

/// A store of 60,000 rows in levels of guards, in which logs were merged.
fn loaded(place: &Place) {
    let rows: String =
        (0..60_000).map(|row| format!("key{:06}\tvalue {row} of many\n", row * 7919 % 60_000)).collect();
    place.run_with(&["load", "s", "--tsv", "-", "--layout", SMALL], rows.as_bytes()).text();
}

#[test]
fn a_store_of_guards_is_loaded_read_and_kept_in_its_layout() {
    let place = Place::new();
    loaded(&place);
    place.run(&["compact", "s", "--prefix", "key00"]).text();
    assert_eq!(place.run(&["count", "s"]).text().trim(), "60000");
    assert_eq!(place.run(&["get", "s", "key000007"]).code, 0);
    assert_eq!(place.run(&["scan", "s", "--prefix", "key0000", "--keys-only"]).lines().len(), 100);
    assert!(place.run(&["keyspaces", "s"]).text().starts_with("default  flsm  "));
    assert!(place.run(&["verify", "s"]).text().contains("no damage"));
    // Without --layout, a store stays as it is; with another, nothing is written.
    place.run_with(&["load", "s", "--tsv", "-"], b"one\tmore\n").text();
    place
        .run_with(&["load", "s", "--tsv", "-", "--layout", "chunk"], b"two\tmore\n")
        .fails(2, "keyspace \"default\" has the layout flsm, not chunk: leave --layout out");
    place.run(&["backup", "s", "copy"]).text();
    place.run(&["repair", "s", "repaired"]).text();
    for store in ["s", "copy", "repaired"] {
        assert_eq!(place.run(&["count", store]).text().trim(), "60001", "{store}");
        assert!(place.run(&["keyspaces", store]).text().contains("  flsm  "), "{store}");
    }
}

#[test]
fn an_import_is_made_in_the_layout_that_is_asked_for() {
    let place = Place::new();
    let dump = "0x61 ==> 0x31\n0x62 ==> 0x32\nKeys in range: 2\n";
    place.run_with(&["import", "--rocksdb", "new", "--layout", "flsm"], dump.as_bytes()).text();
    assert!(place.run(&["keyspaces", "new"]).text().starts_with("default  flsm  "));
    assert_eq!(place.run(&["count", "new"]).text().trim(), "2");
}

#[test]
fn wrong_layouts_are_told_with_what_there_is() {
    let place = Place::new();
    for (layout, told) in [
        ("btree", "there is no layout \"btree\", but chunk, flsm"),
        (
            "flsm:munks=true",
            "layout flsm has no option \"munks\"; its options: generation_bytes, guard_bytes",
        ),
        ("chunk:guard_bytes=1", "layout chunk has no option \"guard_bytes\"; its options: chunk_bytes"),
        ("flsm:max_sstables_per_guard=65", "max_sstables_per_guard of 65 is outside 1 to 64"),
        ("flsm:guard_bytes=1", "guard_bytes of 1 is outside 4 KiB to 1 GiB"),
    ] {
        place.run_with(&["load", "no", "--tsv", "-", "--layout", layout], b"k\tv\n").fails(2, told);
        assert!(!place.path("no").exists(), "{layout}");
    }
}

#[test]
fn levels_are_drawn_with_their_guards_in_as_many_lines_as_asked_for() {
    let place = Place::new();
    loaded(&place);
    let regions = place.run(&["inspect", "s", "--json"]).json();
    let regions = regions.as_array().unwrap();
    let (logs, guards) = regions.split_first().unwrap();
    assert_eq!((&logs["level"], &logs["tables"]), (&0.into(), &0.into()));
    assert!(guards.len() > 1 && guards.iter().all(|guard| guard["level"].as_u64() >= Some(1)), "{guards:?}");
    assert!(guards.iter().all(|guard| guard["read_debt"].is_u64()), "{guards:?}");
    assert!(guards.iter().all(|guard| guard["tables_max"].as_u64() >= Some(1)), "{guards:?}");
    let levels = 1 + guards.last().unwrap()["level"].as_u64().unwrap() as usize;

    let map = place.run(&["inspect", "s", "--lines", "1000"]).text();
    for told in ["from key", "tables", "may have", "read debt", "level 0: ", "level 1: ", " guards in "] {
        assert!(map.contains(told), "{told}: {map}");
    }
    for guard in &guards[1..] {
        assert!(map.contains(guard["start"].as_str().unwrap()), "{guard}: {map}");
    }
    let lines = place.run(&["inspect", "s", "--lines", "6"]).lines();
    // Beside the lines that were asked for: the keyspace's name, the head, and the sums.
    assert_eq!(lines.len(), 3 + 6.max(levels), "{lines:#?}");
    place.run(&["inspect", "s", "--html", "map.html"]).text();
    assert!(std::fs::read_to_string(place.path("map.html")).unwrap().contains("\"noun\":\"guards\""));
}

#[test]
fn statistics_tell_the_levels_in_words_and_for_machines() {
    let place = Place::new();
    loaded(&place);
    let text = place.run(&["stats", "s"]).text();
    let head = text.lines().find(|line| line.trim_start().starts_with("level ")).unwrap();
    let columns = ["level", "guards", "tables", "size", "written", "written per byte put"];
    assert!(columns.iter().all(|column| head.contains(column)), "{text}");
    assert!(text.contains("level0 logs") && text.contains("guards empty"), "{text}");
    let stats = place.run(&["stats", "s", "--json"]).json();
    let own = &stats["keyspaces"][0];
    assert_eq!(own["by_level"].as_array().unwrap().len() as u64, own["levels"].as_u64().unwrap());
    let guards: u64 =
        own["by_level"].as_array().unwrap().iter().map(|level| level["guards"].as_u64().unwrap()).sum();
    assert_eq!(Some(guards), own["regions"].as_u64());
    let metrics = place.run(&["stats", "s", "--format", "prometheus"]).text();
    assert!(metrics.contains("cantle_keyspace_level_guards{keyspace=\"default\",level=\"1\"} "), "{metrics}");
}
