//! Commands other than `load` from the outside: what each tells, refuses and prints for machines.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/place.rs"]
mod place;

use place::{KEY, Place};
use serde_json::Value;
use std::fs;

#[track_caller]
fn json(place: &Place, arguments: &[&str]) -> Value {
    serde_json::from_str(&place.run(arguments).text()).unwrap()
}

/// The names of an object's members, in their order.
#[track_caller]
fn members(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn pairs_are_counted_exactly_or_by_an_estimate() {
    let place = Place::new();
    place.flights();
    assert_eq!(place.run(&["count", "flights"]).text(), "6\n");
    assert_eq!(place.run(&["count", "flights", "--prefix", "UA,EWR"]).text(), "3\n");
    assert_eq!(place.run(&["count", "flights", "--from", "DL", "--to", "UA"]).text(), "2\n");
    assert_eq!(
        json(&place, &["count", "flights", "--estimate", "--json"]),
        serde_json::json!({"count": 6, "exact": true})
    );
    place.run(&["count", "flights", "--estimate", "--prefix", "UA"]).fails(2, "--prefix");

    let rows: String = (0..30_000).map(|row| format!("key{row:06}\tvalue {row}\n")).collect();
    place.run_with(&["load", "s", "--tsv", "-"], rows.as_bytes()).text();
    assert_eq!(json(&place, &["count", "s", "--json"]), serde_json::json!({"count": 30_000, "exact": true}));
    let estimate = json(&place, &["count", "s", "--estimate", "--json"]);
    assert_eq!(estimate["exact"], false);
    let count = estimate["count"].as_u64().unwrap();
    assert!((24_000..36_000).contains(&count), "{estimate}");
}

#[test]
fn several_keys_are_printed_as_pairs_in_their_order() {
    let place = Place::new();
    place.flights();
    let (united, delta) = ("UA,EWR,2013-07-04T09:00:00Z,9", "DL,LGA,2013-07-04T08:00:00Z,-7");
    let get = |rest: &[&str]| place.run(&[&["get", "flights", united], rest].concat());
    let rows = [format!("{united},ORD,\"quick, \"\"short\"\"\""), format!("{delta},ATL,ä")];
    assert_eq!(get(&[delta]).lines(), rows);
    assert_eq!(get(&[delta, united]).lines(), [&rows[..], &rows[..1]].concat());
    let scanned = place.run(&["scan", "flights"]).lines();
    assert!(rows.iter().all(|row| scanned.contains(row)), "{scanned:?}");
    for format in ["json", "hex"] {
        let scanned = place.run(&["scan", "flights", "--format", format]).lines();
        let found = get(&[delta, "--format", format]).lines();
        assert!(found.len() == 2 && found.iter().all(|line| scanned.contains(line)), "{found:?}");
    }
    let alone = [united, delta].map(|key| place.run(&["get", "flights", key, "--json"]).text());
    assert_eq!(get(&["--json", delta]).text(), alone.concat());

    let ran = get(&["UA,EWR,,1", delta, "DL,LGA,,2"]);
    assert_eq!((ran.code, String::from_utf8(ran.out).unwrap()), (1, rows.join("\n") + "\n"));
    assert_eq!(ran.err, "cantle: there is no key UA,EWR,,1\ncantle: there is no key DL,LGA,,2\n");
    let ran = get(&[delta, "UA"]);
    ran.fails(2, "the key has 4 columns");
    assert!(ran.out.is_empty());
    get(&[delta, "--format", "bytes"]).fails(2, "one key only");
}

#[test]
fn options_and_keys_that_begin_with_a_hyphen_are_told_apart() {
    let place = Place::new();
    for (key, value) in [("-x", "1"), ("-7", "2"), ("a", "3")] {
        place.run(&["put", "s", key, value]).text();
    }
    let get = |keys: &[&str]| place.run(&[&["get", "s"], keys].concat());
    assert_eq!(get(&["-x", "a"]).lines(), ["-x\t1", "a\t3"]);
    assert_eq!(get(&["a", "-7", "--format", "hex"]).lines(), ["61\t33", "2d37\t32"]);
    assert_eq!(get(&["a", "--", "-x"]).lines(), ["a\t3", "-x\t1"]);
    assert_eq!(get(&["--json", "--", "a", "-x"]).lines().len(), 2);
    get(&["a", "-x"]).fails(2, "-x");
}

#[test]
fn keyspaces_are_listed_and_dropped() {
    let place = Place::new();
    place.flights();
    place.run_with(&["load", "flights", "--tsv", "-", "--keyspace", "words"], b"a\tb\n").text();
    let lines = place.run(&["keyspaces", "flights"]).lines();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("default  chunk "), "{lines:?}");
    assert!(
        lines[0].ends_with("key carrier:text,origin:text,time_hour:time,flight:int  value dest,note"),
        "{lines:?}"
    );
    let listed = json(&place, &["keyspaces", "flights", "--json"]);
    assert_eq!(listed["keyspaces"][1]["name"], "words");
    assert_eq!(
        (&listed["keyspaces"][1]["key"], &listed["keyspaces"][1]["value"]),
        (&Value::Null, &"raw".into())
    );
    assert_eq!(
        members(&listed["keyspaces"][0]),
        ["name", "layout", "live_bytes", "file_bytes", "key", "value"]
    );

    place.run(&["keyspaces", "flights", "--drop", "none"]).fails(3, "no keyspace \"none\"");
    place.run(&["keyspaces", "flights", "--drop", "default"]).fails(2, "cantle delete DB --from ''");
    assert_eq!(json(&place, &["keyspaces", "flights", "--drop", "words", "--json"])["dropped"], "words");
    assert_eq!(place.run(&["keyspaces", "flights"]).lines().len(), 1);
    place.run(&["scan", "flights", "--keyspace", "words"]).fails(3, "`cantle keyspaces DB` lists");
}

#[test]
fn a_delete_tells_how_many_and_can_be_tried() {
    let place = Place::new();
    place.flights();
    let delete = |rest: &[&str]| place.run(&[&["delete", "flights"], rest].concat());
    let tried = delete(&["--prefix", "UA,EWR", "--dry-run"]);
    assert_eq!((tried.text().as_str(), tried.err.as_str()), ("", "would delete 3 pairs\n"));
    assert_eq!(place.run(&["count", "flights"]).text(), "6\n");
    let report = delete(&["--prefix", "UA,EWR", "--dry-run", "--json"]).text();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report, serde_json::json!({"deleted": 0, "found": 3, "dry_run": true}));
    let done = delete(&["--prefix", "UA,EWR"]);
    assert_eq!((done.code, done.err.as_str()), (0, "deleted 3 pairs\n"));
    assert_eq!(delete(&[",LGA,,3"]).err, "deleted 1 pair\n");
    assert_eq!(delete(&["--prefix", "UA"]).err, "deleted 0 pairs\n");
    assert_eq!(place.run(&["count", "flights"]).text(), "2\n");
}

#[test]
fn a_reversed_range_says_so() {
    let place = Place::new();
    place.flights();
    for command in ["scan", "delete", "count", "export", "compact"] {
        place
            .run(&[command, "flights", "--from", "UA", "--to", "DL"])
            .fails(2, "--from UA lies after --to DL, so no key is between them");
    }
    assert_eq!(place.run(&["scan", "flights", "--from", "UA", "--to", "UA"]).text(), "");
    assert_eq!(place.run(&["count", "flights"]).text(), "6\n");
}

#[test]
fn a_store_is_made_in_a_directory_that_there_is() {
    let place = Place::new();
    let says = "there is no directory no/where: check the path, or make it first (mkdir -p no/where)";
    place.run(&["put", "no/where/store", "a", "b"]).fails(3, says);
    place.run_with(&["load", "no/where/store", "--tsv", "-"], b"a\tb\n").fails(3, says);
    assert!(!place.path("no").exists());
    fs::create_dir(place.path("some")).unwrap();
    place.run(&["put", "some/store", "a", "b"]).text();
    place.run(&["put", "other", "\\q", "b"]).fails(2, "escape");
    assert!(!place.path("other").exists(), "a put that fails makes no store");
}

#[test]
fn escapes_mean_the_same_in_keys_and_values() {
    let place = Place::new();
    place.run(&["put", "s", "a\\tb\\x00", "c\\td\\\\\\xff"]).text();
    let line = "a\\tb\\x00\tc\\td\\\\\\xff";
    assert_eq!(place.run(&["scan", "s"]).lines(), [line]);
    let (key, value) = line.split_once('\t').unwrap();
    place.run(&["put", "again", key, value]).text();
    assert_eq!(place.pairs("again"), place.pairs("s"));
    place.run(&["put", "s", "a", "\\q"]).fails(2, "the value \"\\\\q\": unknown escape");
    place.run_with(&["put", "s", "raw", "-"], b"\\q").text();
    assert_eq!(place.run(&["get", "s", "raw"]).text(), "\\q\n");
}

#[test]
fn json_values_are_shown_as_they_are() {
    let place = Place::new();
    let value = r#"{"text":"a\\b\n\"c\"","n":1.10}"#;
    let line = value.replacen('{', "{\"id\":1,", 1);
    place.run_with(&["load", "s", "--ndjson", "-", "--key", "id:int"], line.as_bytes()).text();
    assert_eq!(place.run(&["scan", "s"]).text(), format!("1\t{value}\n"));
    assert_eq!(place.run(&["get", "s", "1"]).text(), format!("{value}\n"));
}

#[test]
fn a_pair_has_one_shape_in_json_whatever_its_bytes() {
    let place = Place::new();
    for (key, value) in [("a", "1"), ("b\\xff", "2"), ("c", "\\xff\\x00"), ("d", "two\\nlines")] {
        place.run(&["put", "s", key, value]).text();
    }
    let lines = place.run(&["scan", "s", "--json"]).lines();
    assert_eq!(
        lines,
        [
            r#"{"key":"a","value":"1"}"#,
            r#"{"key":{"hex":"62ff"},"value":"2"}"#,
            r#"{"key":"c","value":{"hex":"ff00"}}"#,
            r#"{"key":"d","value":"two\nlines"}"#
        ]
    );
    assert_eq!(place.run(&["scan", "s", "--format", "json"]).lines(), lines);
    assert_eq!(place.run(&["export", "s", "--json"]).lines(), lines);
    assert_eq!(place.run(&["get", "s", "b\\xff", "--json"]).lines(), [lines[1].clone()]);
    place.run_with(&["load", "again", "--ndjson", "-"], lines.join("\n").as_bytes()).text();
    assert_eq!(place.pairs("again"), place.pairs("s"));
}

#[test]
fn every_command_prints_the_members_that_its_help_names() {
    let place = Place::new();
    place.flights();
    let page = include_str!("../../../docs/command.md");
    let new = "UA,EWR,2014-01-01T00:00:00Z,1";
    let runs: [(&str, &[&str]); 9] = [
        ("put", &["flights", new, "a,b"]),
        ("delete", &["flights", new]),
        ("count", &["flights"]),
        ("compact", &["flights"]),
        ("backup", &["flights", "copy"]),
        ("verify", &["flights"]),
        ("repair", &["flights", "repaired"]),
        ("keyspaces", &["flights"]),
        ("load", &["flights", "--csv", "flights.csv"]),
    ];
    for (command, arguments) in runs {
        let ran = place.run(&[&[command], arguments, &["--json"]].concat());
        let report: Value = serde_json::from_str(&ran.text()).unwrap();
        let help = place.run(&[command, "--help"]).text();
        let shape = help.split("--json prints one object").nth(1).unwrap_or_default();
        let shape = shape.split("Usage:").next().unwrap_or_default();
        let row = page.lines().find(|line| line.starts_with(&format!("| `{command}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/command.md lacks {command}"));
        for name in members(&report) {
            assert!(shape.contains(name), "{command} prints {name:?}: {help}");
            assert!(row.contains(&format!("`{name}`")), "{command} prints {name:?}: {row}");
        }
    }
    let help = place.run(&["--help"]).lines();
    let listed =
        help.iter().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Others go on with the description of the one before.
    let names =
        listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 19 && names.contains(&"tour"), "{names:?}");
    for command in names {
        // These print a text that another program asks for.
        if !["completions", "man", "help"].contains(&command) {
            let help = place.run(&[command, "--help"]).text();
            assert!(help.contains("--json"), "{command}: {help}");
        }
    }
    assert_eq!(json(&place, &["put", "flights", new, "a,b", "--json"])["replaced"], false);
    assert_eq!(json(&place, &["put", "flights", new, "a,c", "--json"])["replaced"], true);
}

#[test]
fn sizes_are_told_after_a_kill() {
    let place = Place::new();
    place.file("rows.csv", {
        let rows: String = (0..20_000).map(|row| format!("{row},value of row {row}\n")).collect();
        format!("k,v\n{rows}")
    });
    // A process that dies with the store open, in the middle of writing.
    let mut child = place.command(&["load", "s", "--csv", "-", "--key", "k:int"]).spawn().unwrap();
    std::io::Write::write_all(child.stdin.as_mut().unwrap(), &fs::read(place.path("rows.csv")).unwrap())
        .unwrap();
    // At most the 256 KiB of a buffer are left to be loaded once all is read: half of the rows.
    while rustix::io::ioctl_fionread(child.stdin.as_ref().unwrap()).unwrap() > 0 {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let count: u64 = place.run(&["count", "s"]).text().trim().parse().unwrap();
    assert!(count > 5_000, "{count}");
    let stats = json(&place, &["stats", "s", "--json"]);
    let keyspace = &stats["keyspaces"][0];
    let least = count * 20;
    assert!(keyspace["live_bytes"].as_u64() > Some(least), "{count} rows: {stats}");
    assert!(stats["disk_bytes"].as_u64() > Some(least), "{count} rows: {stats}");
    let regions = json(&place, &["inspect", "s", "--json"]);
    assert!(regions[0]["log_bytes"].as_u64() > Some(least), "{regions}");
}

#[test]
fn ranges_for_machines_begin_with_keys_as_text_and_in_hexadecimal() {
    let place = Place::new();
    let rows: String = (0..20_000).map(|row| format!("tab\\t{row:06}\tvalue {row} of many\n")).collect();
    let small = ["--layout", "chunk:chunk_bytes=64KiB"];
    place.run_with(&[&["load", "s", "--tsv", "-"], &small[..]].concat(), rows.as_bytes()).text();
    let rows: String = (0..20_000).map(|row| format!("EWR,{row},value {row} of many\n")).collect();
    let columns = ["load", "s", "--keyspace", "columns", "--csv", "-", "--key", "origin,flight:int"];
    let rows = format!("origin,flight,note\n{rows}");
    place.run_with(&[&columns[..], &small].concat(), rows.as_bytes()).text();
    // The background divides ranges when it comes to it.
    let options = cantle::KeyspaceOptions::new().layout(small[1].parse::<cantle::LayoutOptions>().unwrap());
    let db = cantle::Options::new().default_keyspace(options.clone()).open(place.path("s")).unwrap();
    db.compact_range(..).unwrap();
    db.keyspace_with("columns", options).unwrap().compact_range(..).unwrap();
    drop(db);

    for (keyspace, begin, begin_hex) in
        [("default", "tab\\t0", "7461620930"), ("columns", "EWR,", "0245575200")]
    {
        let inspect = ["inspect", "s", "--keyspace", keyspace];
        let regions = json(&place, &[&inspect[..], &["--json"]].concat());
        let regions = regions.as_array().unwrap();
        assert!(regions.len() > 2, "{regions:?}");
        assert_eq!((&regions[0]["start"], &regions[0]["start_hex"]), (&"".into(), &"".into()));
        assert_eq!(
            members(&regions[0]),
            [
                "start",
                "start_hex",
                "level",
                "tree",
                "grows",
                "table_bytes",
                "log_bytes",
                "referred_bytes",
                "garbage_bytes",
                "tables",
                "tables_max",
                "dropped_ranges",
                "segments",
                "resident_bytes",
                "heat",
                "read_debt"
            ]
        );
        let map = place.run(&[&inspect[..], &["--lines", "1000"]].concat()).text();
        for region in &regions[1..] {
            let (start, hex) = (region["start"].as_str().unwrap(), region["start_hex"].as_str().unwrap());
            assert!(start.starts_with(begin) && map.contains(start), "{start} in {map}");
            assert!(hex.starts_with(begin_hex), "{start} is {hex}");
        }
        // The text is one that other commands take.
        let (start, hex) = (regions[1]["start"].as_str().unwrap(), regions[1]["start_hex"].as_str().unwrap());
        let scan = ["scan", "s", "--keyspace", keyspace, "--from", start];
        let first =
            place.run(&[&scan[..], &["--limit", "1", "--keys-only", "--format", "hex"]].concat()).text();
        assert!(first.trim() >= hex, "{first} is after {hex}");
    }
}

#[test]
fn errors_speak_of_the_commands_own_surface() {
    let place = Place::new();
    place.flights();
    let nowhere = place.run(&["get", "nowhere", "a"]);
    nowhere.fails(
        3,
        "there is no store at nowhere: check the path (`cantle load` and `cantle put` make a store)",
    );
    assert!(!nowhere.err.contains("create_if_missing"), "{}", nowhere.err);
    let load = ["load", "flights", "--csv", "flights.csv"];
    place.run(&[&load[..], &["--memory", "1"]].concat()).fails(2, "--memory");
    place.run(&[&load[..], &["--space-amplification", "0.5"]].concat()).fails(2, "--space-amplification");
    for option in [["--memory", "1"], ["--space-amplification", "0.5"]] {
        let ran = place.run(&[&load[..], &option].concat());
        assert!(!ran.err.contains("invalid argument") && !ran.err.contains('_'), "{}", ran.err);
    }
}

#[test]
fn the_version_and_the_manual_are_the_commands() {
    let place = Place::new();
    assert_eq!(place.run(&["--version"]).text(), format!("cantle {}\n", env!("CARGO_PKG_VERSION")));
    assert_eq!(place.run(&["-V"]).text(), place.run(&["--version"]).text());
    let page = place.run(&["man"]).text();
    assert!(page.contains(".TH cantle 1") && page.contains(".SH SYNOPSIS"), "{page}");
    let page = place.run(&["man", "load"]).text();
    assert!(page.contains(".TH cantle\\-load 1") || page.contains(".TH cantle-load 1"), "{page}");
    assert!(page.contains("on\\-duplicate"), "{page}");
    place.run(&["man", "frobnicate"]).fails(2, "no subcommand \"frobnicate\"");
    fs::create_dir(place.path("man1")).unwrap();
    place.run(&["man", "--dir", "man1"]).text();
    for name in ["cantle.1", "cantle-load.1", "cantle-keyspaces.1"] {
        assert!(place.path("man1").join(name).exists(), "{name}");
    }
}

#[test]
fn an_import_of_a_cantle_store_says_so() {
    let place = Place::new();
    place.flights();
    place
        .run(&["import", "--leveldb", "flights", "new"])
        .fails(3, "it is a Cantle store already, which needs no import");
    assert!(!place.path("new").exists());
}

#[test]
fn a_key_of_columns_is_shown_as_it_is_typed() {
    let place = Place::new();
    place.flights();
    for key in place.run(&["scan", "flights", "--keys-only"]).lines() {
        place.run(&["get", "flights", &key]).text();
    }
    assert_eq!(place.run(&["load", "flights", "--csv", "flights.csv", "--key", KEY]).code, 0);
}

#[test]
fn json_values_of_a_program_need_not_be_objects() {
    let place = Place::new();
    let db = cantle::Db::open(place.path("s")).unwrap();
    let lists = db.typed::<i64, cantle::typed::Json<Vec<u32>>>("default").unwrap();
    lists.put(&1, &vec![1, 2]).unwrap();
    drop(lists);
    db.close().unwrap();
    place.run(&["put", "s", "2", "[3,\n 4]"]).text();
    place.run(&["put", "s", "3", "[3"]).fails(2, "not JSON");
    assert_eq!(place.run(&["scan", "s"]).lines(), ["1\t[1,2]", "2\t[3,4]"]);
    let shown = ["{\"key1\":1,\"value\":[1,2]}", "{\"key1\":2,\"value\":[3,4]}"];
    assert_eq!(place.run(&["scan", "s", "--format", "json"]).lines(), shown);
    for format in ["ndjson", "tsv"] {
        let export = place.run(&["export", "s", "--format", format]).text();
        let flag = format!("--{format}");
        let load = ["load", "s", &flag, "-", "--key", "key1:int"];
        let before = place.pairs("s");
        place.run(&["delete", "s", "--from", ""]).text();
        place.run_with(&load, export.as_bytes()).text();
        assert_eq!(place.pairs("s"), before, "{export}");
    }
}
