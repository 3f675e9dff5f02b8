//! Arbitrary bytes are passed to every parser: each kind of file, with valid checksums so that the
//! parser after the checksum sees the bytes; a whole directory; sequences of operations; the
//! loader's text files and keys.
//!
//! Each target takes bytes and panics with its finding. Here the bytes are random changes of real
//! ones. In the workspace `fuzz` a fuzzer chooses them, guided by the code that they reach. Both
//! begin with the same [`seeds`](Target::seeds).

mod directory;
mod files;
mod mutate;
mod operations;

use crate::memory;
use crate::rng::Rng;
use crate::visit::{Visit, words_of};
use crate::watchdog::Watchdog;
use cantle::LayoutKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// A parser of bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Parses the bytes; panics with its finding.
    pub run: fn(LayoutKind, &[u8]),
    /// Valid inputs.
    pub seeds: fn(LayoutKind) -> Vec<Vec<u8>>,
    /// Number of runs in `cargo test`.
    runs: u64,
}

pub const TARGETS: &[Target] = &[
    Target { name: "header", run: files::header, seeds: files::header_seeds, runs: 400 },
    Target { name: "table", run: files::table, seeds: files::table_seeds, runs: 1500 },
    Target { name: "log", run: files::log, seeds: files::log_seeds, runs: 1500 },
    Target { name: "manifest", run: files::manifest, seeds: files::manifest_seeds, runs: 1500 },
    Target { name: "numbers", run: files::numbers, seeds: files::number_seeds, runs: 1500 },
    Target { name: "journal", run: files::journal, seeds: files::journal_seeds, runs: 1500 },
    Target { name: "write-buffer", run: files::write_buffer, seeds: files::write_buffer_seeds, runs: 1500 },
    Target { name: "page-cache", run: files::page_cache, seeds: files::page_cache_seeds, runs: 500 },
    Target { name: "directory", run: directory::run, seeds: directory::seeds, runs: 2000 },
    Target { name: "operations", run: operations::run, seeds: operations::seeds, runs: 400 },
    Target {
        name: "loader",
        run: |_, input| cantle_cli::fuzzing::loader(input),
        seeds: loader_seeds,
        runs: 30_000,
    },
    Target {
        name: "leveldb-log",
        run: |_, input| cantle_import::fuzzing::log(input),
        seeds: leveldb_logs,
        runs: 20_000,
    },
    Target {
        name: "leveldb-manifest",
        run: |_, input| cantle_import::fuzzing::manifest(input),
        seeds: leveldb_manifests,
        runs: 20_000,
    },
    Target {
        name: "leveldb-table",
        run: |_, input| cantle_import::fuzzing::table(input),
        seeds: leveldb_tables,
        runs: 20_000,
    },
    Target {
        name: "rocksdb-dump",
        run: |_, input| cantle_import::fuzzing::dump(input),
        seeds: rocksdb_dumps,
        runs: 10_000,
    },
    Target { name: "keys", run: |_, input| cantle_cli::fuzzing::keys(input), seeds: key_seeds, runs: 60_000 },
];

/// The target with this name.
pub fn target(name: &str) -> Option<Target> {
    TARGETS.iter().copied().find(|target| target.name == name)
}

/// Maximum number of findings of a round that are shown.
const FINDINGS_SHOWN: usize = 40;
/// Runs a target with the bytes, on stores in the layout that `CANTLE_LAYOUT` names.
pub fn run(name: &str, input: &[u8]) {
    let target = target(name).unwrap_or_else(|| panic!("there is no target {name}"));
    (target.run)(layout_of_fuzzer(), input);
}

/// The layout that `CANTLE_LAYOUT` names. A fuzzer's arguments are its own.
pub fn layout_of_fuzzer() -> LayoutKind {
    std::env::var("CANTLE_LAYOUT").map_or_else(|_| LayoutKind::default(), |name| name.parse().unwrap())
}

/// Maximum size of one allocation, in bytes. It is more than any target needs: inputs have less
/// than 64 KiB.
const ALLOCATION_BYTES_MAX: usize = 32 << 20;

pub fn enter(visit: &Visit) {
    let watchdog = Watchdog::start("fuzz");
    if let Some(case) = &visit.case {
        let parsed = case.split_once(':').and_then(|(name, seed)| Some((target(name)?, seed.parse().ok()?)));
        let (target, seed) = parsed.unwrap_or_else(|| panic!("there is no case {case:?}"));
        return one(visit, &watchdog, &target, &(target.seeds)(visit.layout), seed)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    for seed in visit.rounds() {
        let found = Mutex::new(Vec::new());
        for target in TARGETS {
            let seeds = (target.seeds)(visit.layout);
            let mut rng = Rng::new(seed);
            let cases: Vec<u64> = (0..target.runs).map(|_| rng.next()).collect();
            visit.each(&cases, |&case| {
                if let Err(wrong) = one(visit, &watchdog, target, &seeds, case) {
                    found.lock().unwrap().push(wrong);
                }
            });
        }
        let found = found.into_inner().unwrap();
        let shown = &found[..found.len().min(FINDINGS_SHOWN)];
        assert!(found.is_empty(), "{} findings, such as\n{}", found.len(), shown.join("\n"));
    }
}

fn one(
    visit: &Visit,
    watchdog: &Watchdog,
    target: &Target,
    seeds: &[Vec<u8>],
    case: u64,
) -> Result<(), String> {
    let input = mutate::mutated(seeds, &mut Rng::new(case));
    let name = format!("{}:{case}", target.name);
    let done =
        watchdog.watch(&name, || catch_unwind(AssertUnwindSafe(|| (target.run)(visit.layout, &input))));
    if let Err(panic) = done {
        let text = words_of(&*panic);
        return Err(format!("case {name}: {text}"));
    }
    let largest = memory::take_largest();
    if largest > ALLOCATION_BYTES_MAX {
        return Err(format!("case {name}, or one beside it: {largest} bytes were asked for at once"));
    }
    visit.count(target.name, 1);
    Ok(())
}

fn loader_seeds(_: LayoutKind) -> Vec<Vec<u8>> {
    let texts: [(u8, &str); 8] = [
        (9, "a,v\nx,1\n\"y,z\",\"2\"\"\"\n,\n"),
        (10, "a,n,v\nx,-5,1\ny,9223372036854775807,\"a\nb\"\n"),
        (15, "a,n,x,at,v,w\nx,1,1.5e3,2013-07-04T09:00:00Z,p,q\n,,,,,\n"),
        (16, "{\"key\":\"a\",\"value\":\"b\"}\n{\"key_hex\":\"ff\",\"value_hex\":\"00\"}\n"),
        (22, "{\"a\":\"x\",\"n\":5,\"v\":[1,2.0,{\"u\":null}]}\n"),
        (
            31,
            "{\"a\":\"\\u00e9\",\"n\":1,\"x\":-0.0,\"at\":\"2013-07-04T09:00:00.5+02:00\",\"v\":\"1\",\"w\":\"2\"}\n",
        ),
        (32, "key\tvalue\r\na\\tb\t\\x00\\\\\n"),
        (43, "x,1,1e9,2013-07-04T09:00:00Z\t1\n"),
    ];
    texts.map(|(draw, text)| [&[draw], text.as_bytes()].concat()).to_vec()
}

/// A file of the store that LevelDB wrote for the import's tests.
macro_rules! leveldb {
    ($name:literal) => {
        include_bytes!(concat!("../../../../cantle-import/tests/data/leveldb", $name)).to_vec()
    };
}

fn leveldb_logs(_: LayoutKind) -> Vec<Vec<u8>> {
    vec![leveldb!("/000008.log")]
}

fn leveldb_manifests(_: LayoutKind) -> Vec<Vec<u8>> {
    vec![leveldb!("/MANIFEST-000006")]
}

fn leveldb_tables(_: LayoutKind) -> Vec<Vec<u8>> {
    vec![leveldb!("/000005.ldb"), leveldb!("/000007.ldb")]
}

fn rocksdb_dumps(_: LayoutKind) -> Vec<Vec<u8>> {
    let dump = leveldb!(".dump");
    vec![dump[..400].to_vec(), dump]
}

fn key_seeds(_: LayoutKind) -> Vec<Vec<u8>> {
    let texts: [(u8, &str); 7] = [
        (0, "a\\tb\\xff"),
        (0, "00ff17"),
        (1, "\"a,b\""),
        (2, "x,-9223372036854775808"),
        (3, "x,1,-1.5e-300,1969-12-31T23:59:59.999999Z"),
        (0, "[\"UA\",1545,null,-1.5,true,[\"x\",[]],{\"bytes\":\"00ff\"}]"),
        (0, "[\"\\u0000\",18446744073709551615]"),
    ];
    texts.map(|(draw, text)| [&[draw], text.as_bytes()].concat()).to_vec()
}
