//! `cantle import` and `export --format rocksdb-dump` from the outside.
#![expect(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cantle-import/tests/data/leveldb")
}

fn fixture_dump() -> Vec<u8> {
    fs::read(fixture().with_extension("dump")).unwrap()
}

fn run_program(program: &str, dir: &Path, arguments: &[&str], input: &[u8]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(dir);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_vec();
    // It may end without reading all of it.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn cantle(dir: &Path, arguments: &[&str], input: &[u8]) -> Output {
    run_program(env!("CARGO_BIN_EXE_cantle"), dir, arguments, input)
}

#[track_caller]
fn works(dir: &Path, arguments: &[&str], input: &[u8]) -> Vec<u8> {
    let output = cantle(dir, arguments, input);
    assert!(output.status.success(), "{}", err(&output));
    output.stdout
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[track_caller]
fn fails(output: &Output, code: i32, says: &[&str]) {
    let err = err(output);
    assert_eq!(output.status.code(), Some(code), "{err}");
    assert!(says.iter().all(|part| err.contains(part)), "{err}");
    assert!(!err.contains("panicked"), "{err}");
}

fn copy_fixture(to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(fixture()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

#[test]
fn a_leveldb_store_is_imported_and_exported_as_leveldb_iterates_it() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let source = fixture();
    let source = source.to_str().unwrap();
    let output = cantle(dir, &["import", "--leveldb", source, "new"], b"");
    assert!(output.status.success() && err(&output).contains("imported 9 pairs"), "{}", err(&output));
    assert!(works(dir, &["export", "new", "--format", "rocksdb-dump"], b"") == fixture_dump());
    works(dir, &["verify", "new"], b"");
    fails(&cantle(dir, &["import", "--leveldb", source, "new"], b""), 3, &["something at", "new already"]);

    let json = works(dir, &["import", "--leveldb", source, "other", "--keyspace", "old", "--json"], b"");
    let report: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&report["ok"], &report["pairs"], &report["tables"], &report["logs"]),
        (&true.into(), &9.into(), &2.into(), &1.into())
    );
    assert!(
        works(dir, &["export", "other", "--keyspace", "old", "--format", "rocksdb-dump"], b"")
            == fixture_dump()
    );
}

#[test]
fn opening_another_store_names_the_import() {
    let place = tempfile::tempdir().unwrap();
    copy_fixture(&place.path().join("level"));
    for command in [&["get", "level", "key"][..], &["scan", "level"], &["load", "level", "--tsv", "-"]] {
        fails(&cantle(place.path(), command, b""), 3, &["LevelDB", "cantle import --leveldb level NEW"]);
    }
    fs::write(place.path().join("level/IDENTITY"), "1").unwrap();
    fails(
        &cantle(place.path(), &["scan", "level"], b""),
        3,
        &["ldb --db=level --hex dump | cantle import --rocksdb NEW"],
    );
}

#[test]
fn damage_ends_an_import_or_is_left_out_and_told() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    copy_fixture(&dir.join("level"));
    let table = dir.join("level/000005.ldb");
    let mut bytes = fs::read(&table).unwrap();
    bytes[20] ^= 1;
    fs::write(&table, bytes).unwrap();
    let output = cantle(dir, &["import", "--leveldb", "level", "new"], b"");
    fails(&output, 1, &["level/000005.ldb at offset 0", "checksum", "--skip-damaged"]);
    assert_eq!(fs::read_dir(dir).unwrap().count(), 1, "nothing was left");

    let output = cantle(dir, &["import", "--leveldb", "level", "new", "--skip-damaged"], b"");
    fails(&output, 1, &["what new has is what is left"]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("left out level/000005.ldb at offset 0") && told.contains("(keys from "), "{told}");
    let output = cantle(dir, &["import", "--leveldb", "level", "other", "--skip-damaged", "--json"], b"");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["ok"], &report["lost"][0]["offset"]), (&false.into(), &0.into()));
    assert!(report["pairs"].as_u64().unwrap() < 9);
}

#[test]
fn a_dump_comes_back_as_it_was_with_or_without_columns() {
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let dump = fixture_dump();
    works(dir, &["import", "--rocksdb", "new"], &dump);
    assert!(works(dir, &["export", "new", "--format", "rocksdb-dump"], b"") == dump);
    let part = works(dir, &["export", "new", "--format", "rocksdb-dump", "--prefix", "flights/"], b"");
    assert!(part.ends_with(b"Keys in range: 3\n"), "{}", part.escape_ascii());

    works(dir, &["load", "table", "--csv", "-", "--key", "a,b:int"], b"a,b,c\nx,1,2\ny,-1,\"3,\"\n");
    let dump = works(dir, &["export", "table", "--format", "rocksdb-dump"], b"");
    works(dir, &["import", "--rocksdb", "copy"], &dump);
    let pairs = |store| works(dir, &["scan", store, "--format", "hex"], b"");
    assert!(pairs("copy") == pairs("table"));
}

#[test]
fn wrong_dumps_are_told_with_their_line_and_leave_nothing() {
    let place = tempfile::tempdir().unwrap();
    let import = |text: &str| cantle(place.path(), &["import", "--rocksdb", "new"], text.as_bytes());
    fails(&import("0x61 ==> 0x62\nb ==> c\n"), 3, &["standard input line 2", "dump with --hex"]);
    fails(
        &import("0x61 ==> 0x62\nKeys in range: 2\n"),
        3,
        &["standard input line 2", "part of it is missing"],
    );
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    let output = import("0x61 ==> 0x62\n");
    assert!(
        output.status.success() && err(&output).contains("does not end with its count"),
        "{}",
        err(&output)
    );
    fails(&cantle(place.path(), &["import", "new"], b""), 2, &["--leveldb"]);
    fails(
        &cantle(place.path(), &["import", "new", "--rocksdb", "--skip-damaged"], b""),
        2,
        &["--skip-damaged"],
    );
}

/// With RocksDB's own tool: Debian's package rocksdb-tools.
#[test]
fn rocksdb_reads_what_is_exported_and_what_it_dumps_is_imported() {
    if Command::new("ldb").arg("--version").output().is_err() {
        assert!(
            std::env::var_os("CANTLE_REQUIRE_LEVELDB").is_none(),
            "ldb is required: install rocksdb-tools"
        );
        println!("skipped: RocksDB's ldb (install rocksdb-tools)");
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let dir = place.path();
    let ldb = |arguments: &[&str], input: &[u8]| {
        let output = run_program("ldb", dir, &[&["--db=rocks", "--hex"], arguments].concat(), input);
        assert!(output.status.success(), "{}", err(&output));
        output.stdout
    };
    let dump = fixture_dump();
    works(dir, &["import", "--rocksdb", "new"], &dump);
    let exported = works(dir, &["export", "new", "--format", "rocksdb-dump"], b"");
    ldb(&["--create_if_missing", "load"], &exported);
    let dumped = ldb(&["dump"], b"");
    assert!(dumped == dump, "{}", dumped.escape_ascii());
    works(dir, &["import", "--rocksdb", "again"], &dumped);
    assert!(works(dir, &["export", "again", "--format", "rocksdb-dump"], b"") == dump);
    fails(
        &cantle(dir, &["scan", "rocks"], b""),
        3,
        &["RocksDB", "ldb --db=rocks --hex dump | cantle import --rocksdb NEW"],
    );
    // The command that the message names works.
    let piped =
        format!("ldb --db=rocks --hex dump | {} import --rocksdb third", env!("CARGO_BIN_EXE_cantle"));
    assert!(run_program("sh", dir, &["-c", &piped], b"").status.success());
    assert!(works(dir, &["export", "third", "--format", "rocksdb-dump"], b"") == dump);
    // And a store of its own is no LevelDB store.
    fails(&cantle(dir, &["import", "--leveldb", "rocks", "fourth"], b""), 3, &["RocksDB wrote it"]);
}
