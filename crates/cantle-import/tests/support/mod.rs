//! LevelDB itself, as a program that is compiled when a test needs it, and what tests have in
//! common.
#![allow(dead_code, reason = "each test crate uses some of it")]

use cantle::Db;
use cantle_import::{Import, Progress, Report, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::SystemTime;

pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The program `leveldb.c`, or none where LevelDB's headers or a C compiler are missing.
pub fn tool() -> Option<&'static Path> {
    static TOOL: OnceLock<Option<PathBuf>> = OnceLock::new();
    TOOL.get_or_init(|| {
        // Test binaries run beside each other: each compiles its own, and moves it to its place at
        // once.
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("leveldb-{}", std::process::id()));
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/leveldb.c");
        let compiled = Command::new("cc")
            .args([
                "-std=c11",
                "-D_POSIX_C_SOURCE=200809L",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Werror",
                source,
                "-o",
            ])
            .args([target.as_os_str(), "-lleveldb".as_ref()])
            .output();
        match compiled {
            Ok(output) if output.status.success() => return Some(target),
            Ok(output) => println!("{}", String::from_utf8_lossy(&output.stderr)),
            Err(error) => println!("cc: {error}"),
        }
        let required = std::env::var_os("CANTLE_REQUIRE_LEVELDB").is_some();
        assert!(!required, "LevelDB is required: install libleveldb-dev and a C compiler");
        println!("skipped: what LevelDB writes here and now (install libleveldb-dev and a C compiler)");
        None
    })
    .as_deref()
}

/// Starts LevelDB on a script.
pub fn start(tool: &Path, dir: &Path, options: &[&str]) -> std::process::Child {
    let mut command = Command::new(tool);
    command.arg(dir).arg("script").args(options);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub fn run_script(tool: &Path, dir: &Path, options: &[&str], script: &str) -> Output {
    let mut child = start(tool, dir, options);
    // It may kill itself before it has read all of it.
    let _ = child.stdin.take().unwrap().write_all(script.as_bytes());
    child.wait_with_output().unwrap()
}

/// Has LevelDB run a script that ends well or with its death by `k`.
#[track_caller]
pub fn write(tool: &Path, dir: &Path, options: &[&str], script: &str) {
    use std::os::unix::process::ExitStatusExt;
    let output = run_script(tool, dir, options, script);
    let killed = script.trim_end().ends_with('k') && output.status.signal() == Some(9);
    assert!(
        output.status.success() || killed,
        "{:?}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

/// The pairs that LevelDB itself finds, in a copy.
pub fn iterated(tool: &Path, dir: &Path) -> Pairs {
    let place = tempfile::tempdir().unwrap();
    let copy = place.path().join("copy");
    copy_dir(dir, &copy);
    let output = Command::new(tool).arg(&copy).arg("dump").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    parse_dump(&output.stdout)
}

pub fn parse_dump(dump: &[u8]) -> Pairs {
    let lines = dump.split(|&byte| byte == b'\n').filter(|line| line.starts_with(b"0x"));
    lines.map(|line| cantle_import::dump::parse_line(line).unwrap()).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold("0x".to_owned(), |mut text, byte| {
        write!(text, "{byte:02X}").unwrap();
        text
    })
}

pub fn copy_dir(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        // A repair of LevelDB's leaves a directory `lost`.
        if entry.file_type().unwrap().is_dir() {
            continue;
        }
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// The store that is checked in.
pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/leveldb")
}

pub fn fixture_pairs() -> Pairs {
    parse_dump(&fs::read(fixture().with_extension("dump")).unwrap())
}

pub fn pairs(store: &Path) -> Pairs {
    let db = cantle::Options::new().create_if_missing(false).open(store).unwrap();
    db.range(..).map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap()).collect()
}

pub fn go_on(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Imports into a new store; what it then has.
#[track_caller]
pub fn import(import: &Import, source: &Path) -> Result<(Report, Pairs)> {
    let place = tempfile::tempdir().unwrap();
    let store = place.path().join("deep/er/new");
    let before = look(source);
    let report = import.leveldb(source, &store, go_on);
    assert_eq!(look(source), before, "the source was changed");
    let names = |dir: &Path| fs::read_dir(dir).map_or(0, Iterator::count);
    let Ok(report) = report else {
        assert_eq!(names(store.parent().unwrap()), 0, "a failed import left something");
        return report.map(|report| (report, Vec::new()));
    };
    assert_eq!(names(store.parent().unwrap()), 1, "an import left something beside its store");
    let found = pairs(&store);
    assert_eq!(report.pairs, found.len() as u64);
    assert_eq!(report.bytes, found.iter().map(|(key, value)| key.len() + value.len()).sum::<usize>() as u64);
    assert!(Db::open(&store).unwrap().verify().unwrap().is_ok());
    Ok((report, found))
}

/// Everything that could be changed about a directory: names, bytes, times.
pub fn look(dir: &Path) -> BTreeMap<String, (Vec<u8>, SystemTime, u32)> {
    use std::os::unix::fs::PermissionsExt;
    let entries = fs::read_dir(dir).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut all: BTreeMap<_, _> = entries
        .map(|path| {
            let metadata = fs::metadata(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (
                name,
                (
                    fs::read(&path).unwrap_or_default(),
                    metadata.modified().unwrap(),
                    metadata.permissions().mode(),
                ),
            )
        })
        .collect();
    if let Ok(metadata) = fs::metadata(dir) {
        all.insert(".".into(), (Vec::new(), metadata.modified().unwrap(), metadata.permissions().mode()));
    }
    all
}

/// A small generator of numbers, the same for the same seed.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
