//! `cantle load` from the outside: what it refuses, counts and leaves behind.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/place.rs"]
mod place;

use place::{FLIGHTS, KEY, Place};
use std::fs;
use std::io::{Read, Write};
use std::process::Command;

/// Standard error of a load that succeeds.
#[track_caller]
fn told(place: &Place, arguments: &[&str], input: &str) -> String {
    let ran = place.run_with(&[&["load"], arguments].concat(), input.as_bytes());
    ran.text();
    ran.err
}

#[test]
fn rows_that_replace_others_are_counted_and_told() {
    let place = Place::new();
    let rows = "a\t1\nb\t1\na\t2\n";
    let err = told(&place, &["s", "--tsv", "-"], rows);
    assert!(err.contains("loaded 3 rows (1 replaced another), "), "{err}");
    let err = told(&place, &["s", "--tsv", "-"], "c\t1\n");
    assert!(err.contains("loaded 1 row, "), "{err}");
    let err = told(&place, &["s", "--tsv", "-"], rows);
    assert!(err.contains("loaded 3 rows (3 replaced others), "), "{err}");

    let err = told(&place, &["s", "--tsv", "-", "--on-duplicate", "skip"], "a\tnew\nd\t1\nd\t2\n");
    assert!(err.contains("loaded 1 row, skipped 2 rows whose key was there, "), "{err}");
    assert_eq!(place.run(&["scan", "s"]).lines(), ["a\t2", "b\t1", "c\t1", "d\t1"]);

    let refuse = ["load", "s", "--tsv", "-", "--on-duplicate", "error"];
    let says = "standard input line 2: key b is there already; 1 row before it is loaded (--on-duplicate";
    place.run_with(&refuse, b"e\t1\nb\t2\nf\t1\n").fails(3, says);
    assert_eq!(place.run(&["scan", "s", "--from", "b"]).lines(), ["b\t1", "c\t1", "d\t1", "e\t1"]);
    let skipped = place.run_with(&[&refuse[..], &["--on-error", "skip"]].concat(), b"e\t1\nf\t1\nf\t2\n");
    assert!(skipped.err.contains("line 3: key f is there already; skipped"), "{}", skipped.err);
}

#[test]
fn a_replaced_row_is_counted_whatever_the_order_and_the_batch() {
    let place = Place::new();
    let row = |n: u32| format!("{:08x}\t{n}\n", n.wrapping_mul(2_654_435_761));
    let rows: String = (0..2000).chain(500..1000).map(row).collect();
    let report = place.run_with(&["load", "s", "--tsv", "-", "--json"], rows.as_bytes()).text();
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!((report["rows"].as_u64(), report["replaced"].as_u64()), (Some(2500), Some(500)), "{report}");
    let names: Vec<&String> = report.as_object().unwrap().keys().collect();
    assert_eq!(
        names,
        ["complete", "rows", "replaced", "duplicates_skipped", "malformed_skipped", "bytes", "seconds"]
    );
}

#[test]
fn a_failed_first_load_pins_nothing() {
    let place = Place::new();
    place.file("rows.csv", "k,v\none,1\ntwo,2\n");
    let load =
        |store: &str, rest: &[&str]| place.run(&[&["load", store, "--csv", "rows.csv"], rest].concat());
    load("s", &["--key", "k:int"]).fails(3, "line 2: column \"k\" is not an integer");
    assert!(!place.path("s").exists(), "there is no store");
    fs::create_dir(place.path("empty")).unwrap();
    load("empty", &["--key", "k:int"]).fails(3, "line 2");
    assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 0, "the directory is as it was");

    place.run(&["put", "s", "a", "b"]).text();
    load("s", &["--key", "k:int", "--keyspace", "rows"]).fails(3, "line 2");
    place.run(&["scan", "s", "--keyspace", "rows"]).fails(3, "no keyspace \"rows\"");
    load("s", &["--key", "k", "--keyspace", "rows"]).text();
    assert_eq!(place.run(&["scan", "s", "--keyspace", "rows"]).lines(), ["one,1", "two,2"]);
    assert_eq!(place.run(&["scan", "s"]).lines(), ["a\tb"]);

    // A keyspace that is empty again takes other columns.
    place.run(&["delete", "s", "--keyspace", "rows", "--from", ""]).text();
    load("s", &["--key", "v:int", "--keyspace", "rows"]).text();
    assert_eq!(place.run(&["scan", "s", "--keyspace", "rows"]).lines(), ["1,one", "2,two"]);
}

#[test]
fn a_key_column_that_ndjson_lacks_is_refused_and_a_type_is_offered() {
    let place = Place::new();
    let load = |key: &str, line: &str| {
        place.run_with(&["load", "s", "--ndjson", "-", "--key", key], line.as_bytes())
    };
    load("user", "{\"usr\":1}\n").fails(3, "line 1: there is no member \"user\", a column of the key");
    load("user", "{\"user\":17}\n").fails(3, "\"user\" is text, not 17 (user:int in --key takes it)");
    assert!(!place.path("s").exists());
    load("user:int", "{\"user\":17}\n{\"user\":null}\n").text();
    assert_eq!(place.run(&["scan", "s"]).lines(), ["0x00\t{}", "17\t{}"]);
    place.file("n.csv", "k,v\n1.5,1\n");
    place
        .run(&["load", "f", "--csv", "n.csv", "--key", "k:int"])
        .fails(3, "not an integer: \"1.5\" (k:float in --key takes it)");
}

#[test]
fn tables_with_other_delimiters_and_tabs_load() {
    let place = Place::new();
    told(&place, &["s", "--csv", "-", "--key", "k:int", "--delimiter", ";"], "k;v;w\n1;a,b;\"c;d\"\n");
    assert_eq!(place.run(&["get", "s", "1"]).text(), "\"a,b\",c;d\n");
    told(&place, &["t", "--csv", "-", "--key", "k", "--delimiter", "tab"], "k\tv\nx\t\"a\tb\"\n");
    assert_eq!(place.run(&["get", "t", "x"]).text(), "a\tb\n");
    told(&place, &["h", "--tsv", "-", "--header", "--key", "k"], "v\tk\n\\N\tx\na\\tb\ty\n");
    assert_eq!(
        place.run(&["scan", "h", "--format", "json"]).lines(),
        ["{\"k\":\"x\",\"v\":null}", "{\"k\":\"y\",\"v\":\"a\\tb\"}"]
    );
    told(&place, &["h", "--tsv", "-", "--header", "--no-escapes"], "v\tk\n\\N\tx\n");
    assert_eq!(place.run(&["get", "h", "x"]).text(), "\\N\n");
    place.run_with(&["load", "n", "--tsv", "-", "--header"], b"a\tb\n").fails(2, "needs --key");
    place.run(&["load", "n", "--tsv", "-", "--delimiter", ";"]).fails(2, "--delimiter");
    place
        .run(&["load", "n", "--csv", "-", "--key", "k", "--delimiter", ";;"])
        .fails(2, "one ASCII character");
    let wrong = place.run_with(&["load", "n", "--csv", "-", "--key", "k"], b"k;v\n1;2\n");
    wrong.fails(2, "(--delimiter ';', perhaps?)");
    place.run_with(&["load", "n", "--tsv", "-", "--value", "v"], b"a\tb\n").fails(2, "need --header");
    assert!(!place.path("n").exists());
}

#[test]
fn a_file_without_a_header_says_so() {
    let place = Place::new();
    place.file("empty", "");
    for arguments in [&["--csv", "empty"][..], &["--tsv", "empty", "--header"]] {
        let ran = place.run(&[&["load", "s", "--key", "k"], arguments].concat());
        ran.fails(3, "empty is empty: a first line with the names of the columns is expected");
    }
    assert!(!place.path("s").exists());
}

#[test]
fn an_array_of_objects_loads() {
    let place = Place::new();
    let text = "[\n  {\"id\": 2,\n   \"tags\": [\n     \"a\"\n   ]},\n  {\"id\": 1}\n]\n";
    told(&place, &["s", "--ndjson", "-", "--key", "id:int"], text);
    assert_eq!(place.run(&["scan", "s"]).lines(), ["1\t{}", "2\t{\"tags\":[\"a\"]}"]);
    let export = place.run(&["export", "s"]).text();
    told(&place, &["again", "--ndjson", "-", "--key", "id:int"], &export);
    assert_eq!(place.pairs("again"), place.pairs("s"));
}

#[test]
fn times_are_dates_rounded_by_name_or_refused_in_their_own_words() {
    let place = Place::new();
    let load = |store: &str, time: &str, rest: &[&str]| {
        let file = format!("t,v\n{time},1\n");
        let arguments = [&["load", store, "--csv", "-", "--key", "t:time"], rest].concat();
        place.run_with(&arguments, file.as_bytes())
    };
    load("s", "2013-07-04", &[]).text();
    assert_eq!(place.run(&["scan", "s", "--keys-only"]).lines(), ["2013-07-04T00:00:00Z"]);
    let fine = "2013-07-04T09:00:00.123456789Z";
    load("n", fine, &[]).fails(3, "finer than a microsecond");
    load("n", fine, &[]).fails(3, "--round keeps its nearest microsecond");
    for (way, kept) in [
        ("--round", "2013-07-04T09:00:00.123457Z"),
        ("--round=down", "2013-07-04T09:00:00.123456Z"),
        ("--round=up", "2013-07-04T09:00:00.123457Z"),
    ] {
        let store = way.replace("--", "");
        load(&store, fine, &[way]).text();
        assert_eq!(place.run(&["scan", &store, "--keys-only"]).lines(), [kept]);
    }
    let object = format!("{{\"t\":\"{fine}\"}}");
    told(&place, &["o", "--ndjson", "-", "--key", "t:time", "--round=down"], &object);
    assert_eq!(place.run(&["scan", "o", "--keys-only"]).lines(), ["2013-07-04T09:00:00.123456Z"]);
    load("n", "2013-02-30", &[]).fails(3, "out of range: there is no such day");
    load("n", "12013-01-01T00:00:00Z", &[]).fails(3, "out of range: years go from");
    load("n", "2016-12-31T23:59:60Z", &[]).fails(3, "leap second");
    let float = place.run_with(&["load", "n", "--csv", "-", "--key", "x:float"], b"x,v\n1e309,1\n");
    float.fails(3, "column \"x\" is beyond the largest 64-bit number, 1.8e308: \"1e309\"");
    let float = place.run_with(&["load", "n", "--ndjson", "-", "--key", "x:float"], b"{\"x\":1e309}\n");
    float.fails(3, "beyond the largest");
}

#[test]
fn a_null_and_the_empty_text_are_different_rows() {
    let place = Place::new();
    let text = "k,n:int,v\n,1,\"\"\n\"\",1,\n";
    told(&place, &["s", "--csv", "-", "--key", "k,n:int:int"], text);
    assert_eq!(place.run(&["scan", "s"]).text(), ",1,\"\"\n\"\",1,\n");
    assert_eq!(place.run(&["get", "s", ",1"]).text(), "\"\"\n");
    assert_eq!(
        place.run(&["get", "s", "\"\",1", "--format", "json"]).text(),
        "{\"k\":\"\",\"n:int\":1,\"v\":null}\n"
    );
    for format in ["csv", "ndjson", "tsv"] {
        let export = place.run(&["export", "s", "--format", format]);
        let flag = format!("--{format}");
        let again = ["load", format, &flag, "-", "--key", "k,n:int:int"];
        place.run_with(&again, &export.out).text();
        if format == "csv" {
            assert_eq!(place.pairs(format), place.pairs("s"));
        }
    }
}

#[test]
fn quotes_that_are_wrong_are_errors_with_their_lines() {
    let place = Place::new();
    place.file("open.csv", "k,v\n1,a\n2,\"b\n3,c\n4,d\n");
    let load = |file: &str| place.run(&["load", "s", "--csv", file, "--key", "k:int"]);
    load("open.csv").fails(3, "cannot read open.csv from line 3 on: a quote opens there and is never closed");
    assert_eq!(place.run(&["scan", "s"]).lines(), ["1,a"]);
    place.file("after.csv", "k,v\n1,a\n2,\"b\"x\n3,c\n");
    load("after.csv").fails(3, "after.csv line 3: field 2 goes on after its closing quote");
    place.run(&["load", "s", "--csv", "after.csv", "--key", "k:int", "--on-error", "skip"]).text();
    assert_eq!(place.run(&["scan", "s"]).lines(), ["1,a", "3,c"]);
}

#[test]
fn a_table_of_any_width_loads_or_says_the_limit_before_its_first_row() {
    let place = Place::new();
    let names: Vec<String> = (0..8000).map(|n| format!("column_{n:05}")).collect();
    let fields: Vec<String> = (0..8000).map(|n| n.to_string()).collect();
    place.file("wide.csv", format!("{}\n{}\n", names.join(","), fields.join(",")));
    let load = ["load", "s", "--csv", "wide.csv", "--key", "column_00000:int"];
    place.run(&load).fails(2, "the names of 8000 columns take");
    place.run(&load).fails(2, "at most 65536: choose columns with --value, or keep values as objects");
    assert!(!place.path("s").exists(), "nothing was created");
    place.run(&[&load[..], &["--json-values"]].concat()).text();
    assert!(place.run(&["get", "s", "0"]).text().ends_with("\"column_07999\":\"7999\"}\n"));
}

#[test]
fn archives_are_named_with_the_command_that_unpacks_them() {
    let place = Place::new();
    let mut tar = vec![0; 1024];
    tar[257..262].copy_from_slice(b"ustar");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(&tar).unwrap();
    let kinds: [(&str, &[u8], &str, &str); 6] = [
        ("f.xz", b"\xfd7zXZ\0\0", "compressed with xz", "xz -dc f.xz | cantle"),
        ("f.bz2", b"BZh91AY&SY", "compressed with bzip2", "bzip2 -dc f.bz2 | cantle"),
        ("f.zip", b"PK\x03\x04\0", "a ZIP archive", "unzip -p f.zip | cantle"),
        ("f.lz4", b"\x04\x22\x4d\x18", "compressed with lz4", "lz4 -dc f.lz4 | cantle"),
        ("f.tar", &tar, "a tar archive", "tar -xOf f.tar | cantle"),
        ("f.tgz", &gzip.finish().unwrap(), "a tar archive", "tar -xOzf f.tgz | cantle"),
    ];
    for (file, bytes, kind, command) in kinds {
        place.file(file, bytes);
        let ran = place.run(&["load", "s", "--csv", file, "--key", "k"]);
        ran.fails(3, &format!("cannot read {file}: it is {kind}: "));
        assert!(ran.err.contains(command), "{}", ran.err);
    }
    let ran = place.run_with(&["load", "s", "--ndjson", "-", "--key", "k"], b"\xfd7zXZ\0\0");
    ran.fails(3, "xz -dc FILE | cantle");
    told(&place, &["s", "--csv", "-", "--key", "k"], "k,v\nBZh9 is text,1\n");
}

#[test]
fn the_types_of_a_program_outlive_a_load() {
    let place = Place::new();
    let metadata = || {
        let db = cantle::Db::open(place.path("s")).unwrap();
        let columns = db.typed::<(String, i64), String>("default").unwrap();
        let flags = db.typed::<bool, String>("flags").unwrap();
        let metadata = [columns.keyspace().metadata(), flags.keyspace().metadata()];
        let pair = columns.get(&("a".to_owned(), 1)).unwrap();
        drop((columns, flags));
        db.close().unwrap();
        (metadata.map(|bytes| String::from_utf8(bytes.to_vec()).unwrap()), pair)
    };
    let before = metadata().0;
    assert!(before.iter().all(|text| text.contains("\"types\":")), "{before:?}");

    // Both are empty, and keep the columns that their types are of.
    let load = |key: &[&str]| place.run_with(&[&["load", "s", "--tsv", "-"], key].concat(), b"a,1\tx\n");
    load(&["--key", "key1,n:int"]).fails(2, "has the key key1:text,key2:int: load with it");
    load(&["--keyspace", "flags", "--key", "k,n:int"]).fails(2, "keys of types that are no columns");
    assert_eq!(metadata().0, before);

    load(&["--key", "key1,key2:int"]).text();
    let flag = format!("{}\tyes\n", cantle::key::encode(&false).escape_ascii());
    place.run_with(&["load", "s", "--keyspace", "flags", "--tsv", "-"], flag.as_bytes()).text();
    assert_eq!(metadata(), (before.clone(), Some("x".to_owned())));
    load(&[]).text();
    assert_eq!(metadata().0, before, "a later load keeps them as well");
}

#[test]
fn ctrl_c_ends_a_load_with_the_rows_that_are_loaded() {
    let place = Place::new();
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let store = format!("s{signal}");
        let load = ["load", &store, "--csv", "-", "--key", KEY, "--json"];
        let mut child = place.command(&load).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(FLIGHTS.as_bytes()).unwrap();
        stdin.write_all(b"UA,1,EWR,never").unwrap();
        // All is read by then, at the least the first row is taken, and the program waits for more sooner or later.
        let pid = child.id();
        while !place.path(&store).exists() || rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
            std::thread::yield_now();
        }
        let kill = Command::new("kill").args(["-s", signal, &pid.to_string()]).status().unwrap();
        assert!(kill.success());
        let status = child.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!(status.code(), Some(code), "{err}");
        assert!(err.contains("of standard input are in the store"), "{err}");
        let report: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["complete"], false);
        let rows = report["rows"].as_u64().unwrap();
        assert!((1..=6).contains(&rows), "{report}");
        drop(stdin);
        assert_eq!(place.run(&["count", &store]).text(), format!("{rows}\n"));
        assert_eq!(place.run(&["verify", &store]).code, 0);
    }
}

#[test]
fn ctrl_c_before_the_first_row_ends_a_load_without_a_store() {
    let place = Place::new();
    let long_header = vec![b'k'; 4096];
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        // The program waits for the kind of the file, then for the end of the header.
        for begun in [b"carrier,fl".as_slice(), &long_header] {
            let mut child = place.command(&["load", "s", "--csv", "-", "--key", KEY]).spawn().unwrap();
            let mut stdin = child.stdin.take().unwrap();
            stdin.write_all(begun).unwrap();
            while rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
                std::thread::yield_now();
            }
            let pid = child.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
            let ended = child.wait_with_output().unwrap();
            drop(stdin);
            let err = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(code), "{err}");
            assert!(err.contains("interrupted before the first row: nothing is loaded"), "{err}");
            assert!(!place.path("s").exists());
        }
    }
}
