//! The command from the outside: the program is run as a user runs it.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

#[path = "support/place.rs"]
mod place;

use place::{FLIGHTS, KEY, Place};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

#[test]
fn rows_are_found_by_key_and_scanned_in_key_order() {
    let place = Place::new();
    place.flights();
    let run = |arguments: &[&str]| place.run(&[&arguments[..1], &["flights"], &arguments[1..]].concat());

    assert_eq!(run(&["get", "UA,EWR,2013-07-04T09:00:00Z,9"]).text(), "ORD,\"quick, \"\"short\"\"\"\n");
    assert_eq!(run(&["get", "DL,LGA,2013-07-04T10:00:00+02:00,-7"]).text(), "ATL,ä\n");
    assert_eq!(
        run(&["get", ",LGA,,3", "--format", "json"]).text(),
        "{\"carrier\":null,\"origin\":\"LGA\",\"time_hour\":null,\"flight\":3,\"dest\":\"ATL\",\"note\":\"no carrier\"}\n"
    );

    let all = [
        ",LGA,,3",
        "DL,LGA,2013-07-04T08:00:00Z,-7",
        "DL,LGA,2013-07-04T08:00:00Z,7",
        "UA,EWR,2013-07-04T09:00:00Z,9",
        "UA,EWR,2013-07-04T09:00:00Z,1545",
        "UA,EWR,2013-07-04T10:30:00.5Z,20",
    ];
    let keys = |arguments: &[&str]| run(&[&["scan", "--keys-only"], arguments].concat()).lines();
    assert_eq!(keys(&[]), all);
    assert_eq!(keys(&["--reverse"]), all.iter().rev().copied().collect::<Vec<_>>());
    assert_eq!(keys(&["--prefix", "UA,EWR"]), all[3..]);
    assert_eq!(keys(&["--prefix", "U"]), [""; 0]);
    assert_eq!(keys(&["--prefix", "UA", "--reverse", "--limit", "2"]), [all[5], all[4]]);
    assert_eq!(keys(&["--from", "DL", "--to", "UA"]), all[1..3]);
    assert_eq!(keys(&["--from", "DL,LGA,2013-07-04T08:00:00Z,0", "--limit", "2"]), all[2..4]);
    assert_eq!(keys(&["--to", ",", "--limit", "0"]), [""; 0]);
    run(&["scan", "--from", "UA", "--to", "DL"]).fails(2, "--from UA lies after --to DL");

    let rows = run(&["scan", "--prefix", "UA"]).text();
    assert_eq!(
        rows,
        "UA,EWR,2013-07-04T09:00:00Z,9,ORD,\"quick, \"\"short\"\"\"\n\
         UA,EWR,2013-07-04T09:00:00Z,1545,IAH,\nUA,EWR,2013-07-04T10:30:00.5Z,20,SFO,\"two\nlines\"\n"
    );
    assert_eq!(
        run(&["scan", "--prefix", "DL", "--limit", "1", "--format", "json"]).text(),
        "{\"carrier\":\"DL\",\"origin\":\"LGA\",\"time_hour\":\"2013-07-04T08:00:00Z\",\"flight\":-7,\
         \"dest\":\"ATL\",\"note\":\"ä\"}\n"
    );
    assert_eq!(
        run(&["scan", "--limit", "1", "--format", "hex"]).text(),
        "00024c474100001503\t41544c2c6e6f2063617272696572\n"
    );
    assert_eq!(
        run(&["scan", "--limit", "2", "--keys-only", "--key-format", "tuple"]).lines(),
        ["[null,\"LGA\",null,3]", "[\"DL\",\"LGA\",1372924800000000,-7]"]
    );
    assert_eq!(run(&["get", "[null,\"LGA\",null,3]", "--key-format", "tuple"]).text(), "ATL,no carrier\n");
    assert_eq!(run(&["get", "00024c474100001503", "--key-format", "hex"]).text(), "ATL,no carrier\n");
}

#[test]
fn an_export_of_columns_loads_back_exactly() {
    let place = Place::new();
    place.flights();
    let export = place.run(&["export", "flights"]);
    assert!(export.text().starts_with("carrier,origin,time_hour,flight,dest,note\n,LGA,,3,ATL,no carrier\n"));
    place.run_with(&["load", "again", "--csv", "-", "--key", KEY], &export.out).text();
    assert_eq!(place.pairs("again"), place.pairs("flights"));
    assert_eq!(place.run(&["export", "again"]).out, export.out);
    // The stored columns suffice for the store that has them.
    place.run_with(&["load", "again", "--csv", "-"], &export.out).text();
    assert_eq!(place.pairs("again"), place.pairs("flights"));

    // Hexadecimal keys carry any keyspace, without its columns.
    let raw = place.run(&["export", "flights", "--key-format", "hex"]);
    raw.text();
    place.run_with(&["load", "raw", "--tsv", "-", "--key-format", "hex"], &raw.out).text();
    assert_eq!(place.pairs("raw"), place.pairs("flights"));

    // A part of it.
    assert_eq!(place.run(&["export", "flights", "--prefix", "DL"]).lines().len(), 3);
}

#[test]
fn an_export_of_objects_loads_back_exactly() {
    let place = Place::new();
    let lines = "{\"at\":\"2020-01-01T00:00:00Z\",\"user\":\"b\",\"n\":1.10,\"big\":12345678901234567890123}\n\
                 \n{\"user\":\"a\",\"deep\":{ \"x\":[1, 2]},\"at\":\"2020-01-01T01:00:00+01:00\"}\n";
    place.run_with(&["load", "s", "--ndjson", "-", "--key", "user,at:time"], lines.as_bytes()).text();
    let export = place.run(&["export", "s"]);
    assert_eq!(
        export.text(),
        "{\"user\":\"a\",\"at\":\"2020-01-01T00:00:00Z\",\"deep\":{ \"x\":[1, 2]}}\n\
         {\"user\":\"b\",\"at\":\"2020-01-01T00:00:00Z\",\"n\":1.10,\"big\":12345678901234567890123}\n"
    );
    assert_eq!(
        place.run(&["get", "s", "b,2020-01-01T00:00:00Z"]).text(),
        "{\"n\":1.10,\"big\":12345678901234567890123}\n"
    );
    place.run_with(&["load", "again", "--ndjson", "-", "--key", "user,at:time"], &export.out).text();
    assert_eq!(place.pairs("again"), place.pairs("s"));

    // CSV can be kept as objects, too.
    place.file("flights.csv", FLIGHTS);
    place
        .run(&["load", "o", "--csv", "flights.csv", "--key", KEY, "--json-values", "--value", "note,dest"])
        .text();
    assert_eq!(place.run(&["get", "o", ",LGA,,3"]).text(), "{\"note\":\"no carrier\",\"dest\":\"ATL\"}\n");
    let export = place.run(&["export", "o"]);
    place.run_with(&["load", "o2", "--ndjson", "-", "--key", KEY], &export.out).text();
    assert_eq!(place.pairs("o2"), place.pairs("o"));
}

#[test]
fn raw_pairs_of_any_bytes_load_back_exactly() {
    let place = Place::new();
    let keys: [&[u8]; 6] =
        [b"", b"plain", b"tab\tnewline\nreturn\rbackslash\\", b"\0\xff", "é".as_bytes(), b"-x"];
    for (index, key) in keys.iter().enumerate() {
        let hex: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        let value = [*key, &[u8::try_from(index).unwrap(), b'\r', b'\n']].concat();
        place.run_with(&["put", "raw", &hex, "-", "--key-format", "hex"], &value).text();
    }
    for (format, load) in [("tsv", "--tsv"), ("ndjson", "--ndjson")] {
        let export = place.run(&["export", "raw", "--format", format]);
        assert_eq!(export.lines().len(), keys.len());
        place.run_with(&["load", format, load, "-"], &export.out).text();
        assert_eq!(place.pairs(format), place.pairs("raw"));
    }
    let get = place.run(&["get", "raw", "\\x00\\xff", "--format", "bytes"]);
    assert_eq!((get.code, get.out.as_slice()), (0, b"\0\xff\x03\r\n".as_slice()));
    assert_eq!(place.run(&["get", "raw", "-x", "--format", "hex"]).text(), "2d78050d0a\n");
    assert_eq!(
        place.run(&["scan", "raw", "--prefix", "tab", "--keys-only"]).lines(),
        ["tab\\tnewline\\nreturn\\rbackslash\\\\"]
    );

    // Text that has backslashes of its own.
    place.run_with(&["load", "plain", "--tsv", "-", "--no-escapes"], b"C:\\new\t\\q\n").text();
    assert_eq!(place.run(&["get", "plain", "C:\\\\new"]).text(), "\\q\n");
}

#[test]
fn compressed_files_are_read_directly_whatever_their_names() {
    let place = Place::new();
    place.flights();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(FLIGHTS.as_bytes()).unwrap();
    place.file("flights.csv.gz", gzip.finish().unwrap());
    place.run(&["load", "gz", "--csv", "flights.csv.gz", "--key", KEY]).text();
    assert_eq!(place.pairs("gz"), place.pairs("flights"));

    let cut = &fs::read(place.path("flights.csv.gz")).unwrap()[..60];
    place.run_with(&["load", "cut", "--csv", "-", "--key", KEY], cut).fails(3, "standard input");
    for tiny in [b"".as_slice(), b"a", b"\x1f\x8b"] {
        let ran = place.run_with(&["load", "tiny", "--csv", "-", "--key", KEY], tiny);
        assert!(ran.code >= 2 && !ran.err.contains("panicked"), "{}", ran.err);
    }
}

#[cfg(feature = "zstd")]
#[test]
fn zstd_is_read_directly() {
    let place = Place::new();
    place.flights();
    let zstd = zstd::stream::encode_all(FLIGHTS.as_bytes(), 3).unwrap();
    place.run_with(&["load", "zst", "--csv", "-", "--key", KEY], &zstd).text();
    assert_eq!(place.pairs("zst"), place.pairs("flights"));
}

#[test]
fn a_malformed_row_names_its_line_and_what_was_loaded_stays() {
    let place = Place::new();
    let text = "k,v\n1,a\n\"2\",\"b\nb\"\nthree,c\n4,d\n5\n6,f\n";
    place.file("bad.csv", text);
    let load = ["load", "s", "--csv", "bad.csv", "--key", "k:int"];
    place.run(&load).fails(3, "bad.csv line 5: column \"k\" is not an integer: \"three\"; 2 rows");
    assert_eq!(place.run(&["scan", "s", "--keys-only"]).lines(), ["1", "2"]);

    let skipped = place.run(&[&load[..], &["--on-error", "skip"]].concat());
    skipped.text();
    assert!(
        skipped.err.contains("line 5: ") && skipped.err.contains("line 7: 1 field where"),
        "{}",
        skipped.err
    );
    assert!(skipped.err.contains("loaded 4 rows"), "{}", skipped.err);
    assert_eq!(place.run(&["scan", "s", "--keys-only"]).lines(), ["1", "2", "4", "6"]);

    let long = format!("short\tv\n{}\tv\n", "k".repeat((1 << 20) + 1));
    place
        .run_with(&["load", "long", "--tsv", "-"], long.as_bytes())
        .fails(3, "line 2: the key has 1048577 bytes");
    assert_eq!(place.run(&["scan", "long", "--keys-only"]).lines(), ["short"]);
}

#[test]
fn exit_codes_tell_absence_usage_and_failure_apart() {
    let place = Place::new();
    place.flights();
    place.run(&["get", "flights", "UA,EWR,,1"]).fails(1, "cantle: there is no key UA,EWR,,1");
    place.run(&["delete", "flights", "UA,EWR,,1"]).fails(1, "no key");

    place.run(&["get", "flights", "UA"]).fails(2, "the key has 4 columns");
    place.run(&["scan", "flights", "--prefix", "a,b,c,d,e"]).fails(2, "only 4 columns");
    place.run(&["scan", "flights", "--prefix", "a,b,yesterday"]).fails(2, "RFC 3339");
    place.run(&["scan", "flights", "--sideways"]).fails(2, "--sideways");
    place.run(&["frobnicate"]).fails(2, "frobnicate");
    place.run(&["delete", "flights"]).fails(2, "required");
    place.run(&["load", "s", "--csv", "flights.csv"]).fails(2, "--key");
    place.run(&["load", "s", "--csv", "flights.csv", "--key", "carrier:word"]).fails(2, "word");
    place.run(&["load", "s", "--csv", "flights.csv", "--key", "airline"]).fails(2, "no column \"airline\"");
    place
        .run(&["load", "s", "--csv", "flights.csv", "--key", "dest", "--value", "dest"])
        .fails(2, "in the key");

    place.run(&["get", "nowhere", "a"]).fails(3, "nowhere");
    place.run(&["scan", "flights", "--keyspace", "none"]).fails(3, "\"none\"");
    place.run(&["load", "s", "--csv", "missing.csv", "--key", "a"]).fails(3, "missing.csv");
    place.run(&["stats", "flights.csv"]).fails(3, "flights.csv");
    assert!(!place.path("nowhere").exists() && !place.path("s").exists(), "nothing was created");
}

#[test]
fn a_keyspace_keeps_its_columns() {
    let place = Place::new();
    place.flights();
    let load = |rest: &[&str]| place.run(&[&["load", "flights", "--csv", "flights.csv"], rest].concat());
    load(&["--key", "carrier,flight:int"])
        .fails(2, "has the key carrier:text,origin:text,time_hour:time,flight:int");
    load(&["--key", KEY, "--value", "dest"]).fails(2, "the columns dest,note");
    load(&["--key", KEY, "--json-values"]).fails(2, "values of the columns");
    load(&[]).text();
    load(&["--key", "carrier,flight:int", "--keyspace", "other"]).text();
    assert_eq!(place.run(&["scan", "flights", "--keyspace", "other", "--keys-only"]).lines()[0], ",3");
    assert_eq!(place.run(&["scan", "flights", "--keys-only"]).lines()[0], ",LGA,,3");

    place.run(&["put", "raw", "a", "b"]).text();
    place.run(&["load", "raw", "--csv", "flights.csv", "--key", KEY]).fails(2, "raw keys");
}

#[test]
fn pairs_are_put_and_deleted_by_their_columns() {
    let place = Place::new();
    place.flights();
    let key = "UA,EWR,2014-01-01T00:00:00Z,1";
    place.run(&["put", "flights", key, "LAX,\"x\""]).text();
    assert_eq!(place.run(&["get", "flights", key]).text(), "LAX,x\n");
    place.run(&["put", "flights", key, "LAX"]).fails(2, "2 columns (dest, note), not 1");
    place.run(&["put", "flights", "UA", "LAX,x"]).fails(2, "4 columns");
    place.run(&["delete", "flights", key]).text();
    place.run(&["get", "flights", key]).fails(1, "no key");
    place.run(&["delete", "flights", "--prefix", "UA,EWR"]).text();
    place.run(&["delete", "flights", "--to", "DL"]).text();
    assert_eq!(
        place.run(&["scan", "flights", "--keys-only"]).lines(),
        ["DL,LGA,2013-07-04T08:00:00Z,-7", "DL,LGA,2013-07-04T08:00:00Z,7"]
    );

    // A pair that was written past the columns is shown, and not exported as if it had them.
    place.run(&["put", "flights", "7a", "ATL,", "--key-format", "hex"]).text();
    assert_eq!(place.run(&["scan", "flights", "--reverse", "--limit", "1"]).text(), "0x7a\tATL,\n");
    let export = place.run(&["export", "flights"]);
    export.fails(3, "key 0x7a does not fit");
    assert_eq!(export.out.iter().filter(|byte| **byte == b'\n').count(), 3, "what came before is there");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_silently() {
    let place = Place::new();
    let rows: String = (0..200_000).map(|n| format!("{n}\tsome value of some length\n")).collect();
    place.run_with(&["load", "s", "--tsv", "-"], rows.as_bytes()).text();
    for arguments in [&["scan", "s"][..], &["export", "s"], &["scan", "s", "--reverse", "--format", "json"]] {
        let mut child = place.command(arguments).spawn().unwrap();
        let mut first = String::new();
        BufReader::with_capacity(64, child.stdout.take().unwrap()).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn a_reader_of_notes_that_goes_away_stops_nothing() {
    let place = Place::new();
    place.file("flights.csv", FLIGHTS);
    let mut child = place.command(&["load", "s", "--csv", "flights.csv", "--key", KEY]).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(place.run(&["scan", "s", "--keys-only"]).lines().len(), 6);
    let mut child = place.command(&["get", "s", "UA"]).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(2));
}

#[test]
fn a_store_is_described_verified_and_backed_up() {
    let place = Place::new();
    place.flights();
    let verify = place.run(&["verify", "flights"]).text();
    assert!(verify.contains("no damage"), "{verify}");
    let json: serde_json::Value =
        serde_json::from_str(&place.run(&["verify", "flights", "--json"]).text()).unwrap();
    assert_eq!((json["ok"].as_bool(), json["entries"].as_u64() >= Some(6)), (Some(true), true), "{json}");

    let stats: serde_json::Value =
        serde_json::from_str(&place.run(&["stats", "flights", "--json"]).text()).unwrap();
    assert_eq!(stats["keyspaces"][0]["name"], "default");
    assert!(stats["disk_bytes"].as_u64() > Some(0));
    let prometheus = place.run(&["stats", "flights", "--format", "prometheus"]).text();
    assert!(prometheus.contains("# TYPE cantle_disk_bytes gauge\ncantle_disk_bytes "), "{prometheus}");
    assert!(prometheus.contains("cantle_keyspace_regions{keyspace=\"default\"} 1\n"), "{prometheus}");
    assert!(place.run(&["stats", "flights"]).text().contains("disk bytes"));
    place.run(&["load", "flights", "--csv", "flights.csv", "--key", "flight:int", "--keyspace", "k2"]).text();
    let one = place.run(&["stats", "flights", "--keyspace", "k2", "--json"]).text();
    let one: serde_json::Value = serde_json::from_str(&one).unwrap();
    assert!(one["keyspaces"].as_array().unwrap().iter().all(|keyspace| keyspace["name"] == "k2"), "{one}");

    let inspect = place.run(&["inspect", "flights"]).text();
    assert!(inspect.contains("key      carrier:text,origin:text,time_hour:time,flight:int"), "{inspect}");
    assert!(inspect.contains("(first)") && inspect.contains("\n1 chunk: "), "{inspect}");
    let chunks: serde_json::Value =
        serde_json::from_str(&place.run(&["inspect", "flights", "--json"]).text()).unwrap();
    assert_eq!(chunks.as_array().map(Vec::len), Some(1));

    let pairs = place.pairs("flights");
    place.run(&["compact", "flights"]).text();
    assert_eq!(place.pairs("flights"), pairs);
    place.run(&["backup", "flights", "copy"]).text();
    assert_eq!(place.pairs("copy"), pairs);
    place.run(&["backup", "flights", "copy"]).fails(3, "copy");
    place.run(&["put", "copy", "UA,EWR,,1", "x,y"]).text();
    assert_eq!(place.pairs("flights"), pairs, "a backup is a store of its own");
    assert_eq!(place.run(&["scan", "copy", "--keys-only", "--prefix", "UA"]).lines()[0], "UA,EWR,,1");
}

#[test]
fn damage_is_found_and_named() {
    let place = Place::new();
    place.flights();
    place.run(&["compact", "flights"]).text();
    let files = |dir: &Path| {
        let mut files = Vec::new();
        let mut folders = vec![dir.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() { folders.push(path) } else { files.push(path) }
            }
        }
        files
    };
    // One bit of a value, wherever it lies.
    let mut damaged = 0;
    for file in files(&place.path("flights")) {
        let mut bytes = fs::read(&file).unwrap();
        if let Some(at) = bytes.windows(5).position(|window| window == b"short") {
            bytes[at] ^= 1;
            fs::write(&file, bytes).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    let verify = place.run(&["verify", "flights"]);
    verify.fails(1, "cantle: ");
    let said = String::from_utf8_lossy(&verify.out).into_owned() + &verify.err;
    assert!(said.contains("corruption in ") && said.contains("offset"), "{said}");
    place.run(&["get", "flights", "UA,EWR,2013-07-04T09:00:00Z,9"]).fails(1, "corruption");
    let several = ["get", "flights", "UA,EWR,2013-07-04T09:00:00Z,9", ",LGA,,3"];
    place.run(&several).fails(1, "cantle: UA,EWR,2013-07-04T09:00:00Z,9: corruption in ");
}

/// The files of a store with this ending.
fn files_ending(place: &Place, store: &str, ending: &str) -> Vec<PathBuf> {
    let paths = fs::read_dir(place.path(store)).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.to_string_lossy().ends_with(ending)).collect()
}

#[test]
fn a_damaged_store_is_repaired_into_a_new_one() {
    let place = Place::new();
    let rows: String = (0..20_000).map(|row| format!("key{row:06}\tvalue {row} of many\n")).collect();
    place.file("rows.tsv", &rows);
    place.run(&["load", "words", "--tsv", "rows.tsv"]).text();
    place.run(&["compact", "words"]).text();
    let export = |store: &str| place.run(&["export", store]).lines();
    let whole = export("words");

    // Undamaged, it comes out as it is.
    let repaired = place.run(&["repair", "words", "same"]);
    assert!(repaired.text().contains("keyspace \"default\": 20,000 pairs"), "{}", repaired.text());
    assert!(repaired.err.contains("saved 20,000 pairs"), "{}", repaired.err);
    assert!(export("same") == whole);

    // One byte of a table.
    let tables = files_ending(&place, "words", ".table");
    let mut bytes = fs::read(&tables[0]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&tables[0], bytes).unwrap();
    place.run(&["verify", "words"]).fails(1, "cantle repair");
    let repaired = place.run(&["repair", "words", "most", "--json"]);
    repaired.fails(1, "what most has is what is left");
    let report: serde_json::Value = serde_json::from_slice(&repaired.out).unwrap();
    assert_eq!(
        (report["ok"].as_bool(), report["damage"].as_array().unwrap().len()),
        (Some(false), 1),
        "{report}"
    );
    let lost = &report["uncertain"][0];
    let (from, to) = (lost["from"]["key"].as_str().unwrap(), lost["to"]["key"].as_str().unwrap());
    let most = export("most");
    let missing: Vec<&String> = whole.iter().filter(|line| !most.contains(line)).collect();
    assert!((1..200).contains(&missing.len()) && most.len() + missing.len() == whole.len());
    assert!(missing.iter().all(|line| &line[..9] > from && &line[..9] < to), "{from} {to} {missing:?}");
    assert!(place.run(&["verify", "most"]).text().contains("no damage"));

    // No manifest.
    for manifest in fs::read_dir(place.path("words")).unwrap().map(|entry| entry.unwrap().path()) {
        if manifest.to_string_lossy().contains("MANIFEST") {
            fs::remove_file(manifest).unwrap();
        }
    }
    let repaired = place.run(&["repair", "words", "files"]);
    repaired.fails(1, "what files has is what is left");
    let said = String::from_utf8_lossy(&repaired.out);
    assert!(said.contains("the manifest is missing") && said.contains("may be back"), "{said}");
    assert!(export("files") == most);
}

#[test]
fn repair_refuses_what_makes_no_sense() {
    let place = Place::new();
    place.run(&["put", "store", "a", "1"]).text();
    place.run(&["repair", "nowhere", "new"]).fails(3, "no store at nowhere");
    place.run(&["repair", "store", "store"]).fails(2, "must not be changed");
    place.file("file", "text");
    place.run(&["repair", "store", "file"]).fails(3, "something already");
    place.run(&["repair", "file", "new"]).fails(3, "is not a Cantle store");
    place.run(&["put", "other", "a", "1"]).text();
    place.run(&["repair", "store", "other"]).fails(3, "a store exists already");
    let holder = cantle::Db::open(place.path("store")).unwrap();
    place.run(&["repair", "store", "new"]).fails(3, "in use");
    drop(holder);
    assert!(!place.path("new").exists());
    place.run(&["repair", "store", "new"]).text();
    assert_eq!(place.run(&["get", "new", "a"]).text(), "1\n");
}

#[test]
fn every_subcommand_helps_and_completes() {
    let place = Place::new();
    let help = place.run(&["--help"]).text();
    for name in [
        "load", "get", "put", "delete", "scan", "export", "stats", "inspect", "verify", "repair", "compact",
        "backup",
    ] {
        assert!(help.contains(&format!("  {name} ")), "{help}");
        assert!(place.run(&[name, "--help"]).text().contains("Examples:\n"), "{name}");
    }
    assert!(place.run(&["completions", "bash"]).text().contains("cantle"));
    place.run(&["completions", "cobol"]).fails(2, "cobol");
}

#[test]
fn the_flights_out_of_new_york_load_and_load_back() {
    let data = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/flights.csv.gz");
    let place = Place::new();
    let load = place.run(&["load", "flights", "--csv", data, "--key", KEY]);
    load.text();
    // The examples of the help.
    let united = "UA,EWR,2013-07-04T10:00:00Z,1506";
    assert!(place.run(&["get", "--help"]).text().contains(united));
    assert!(place.run(&["--help"]).text().contains(united));
    assert!(place.run(&["get", "flights", united]).text().contains("2013,7,4,"));
    assert_eq!(place.run(&["delete", "flights", united, "--dry-run"]).err, "would delete 1 pair\n");
    assert!(load.err.contains("loaded 336,776 rows"), "{}", load.err);
    let morning = place.run(&[
        "scan",
        "flights",
        "--keys-only",
        "--prefix",
        "UA,EWR",
        "--from",
        "UA,EWR,2013-07-04T10:00:00Z",
        "--to",
        "UA,EWR,2013-07-04T12:00:00Z",
    ]);
    let morning = morning.lines();
    assert!(morning.len() == 19 && morning.is_sorted_by_key(|key| key[..27].to_owned()), "{morning:?}");
    assert!(morning.iter().all(|key| key.starts_with("UA,EWR,2013-07-04T1")), "{morning:?}");

    let export = place.run(&["export", "flights"]);
    assert_eq!(export.out.iter().filter(|byte| **byte == b'\n').count(), 336_777);
    place.run_with(&["load", "again", "--csv", "-", "--key", KEY], &export.out).text();
    assert!(place.run(&["export", "again"]).out == export.out);
}

#[test]
fn options_of_the_store_hold_for_a_load() {
    let place = Place::new();
    let rows: String =
        (0..100_000).map(|row| format!("key{row:06}\tvalue {row} of many that are alike\n")).collect();
    place.file("rows.tsv", &rows);
    let load = |store: &str, options: &[&str]| {
        let mut arguments = vec!["load", store, "--tsv", "rows.tsv", "--keyspace", "words"];
        arguments.extend(options);
        place.run(&arguments).text();
        let map = place.run(&["inspect", store, "--keyspace", "words", "--json"]).text();
        let chunks: Vec<serde_json::Value> = serde_json::from_str(&map).unwrap();
        chunks.len()
    };
    assert_eq!(load("large", &[]), 1);
    let small = load(
        "small",
        &["--layout", "chunk:chunk_bytes=64KiB", "--memory", "32MiB", "--durability", "buffered"],
    );
    assert!(small > 1, "{small}");
    let export = |store: &str| place.run(&["export", store, "--keyspace", "words"]).out;
    assert!(export("small") == export("large"));
    place.run(&["load", "no", "--tsv", "rows.tsv", "--compression", "best"]).fails(2, "no compression");
    place
        .run(&["load", "no", "--tsv", "rows.tsv", "--layout", "chunk:chunk_bytes=1"])
        .fails(2, "chunk_bytes");
}
