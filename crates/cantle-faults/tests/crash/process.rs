//! A real process, really killed.

use cantle::{Db, Durability, KeyspaceOptions, Options, WriteBatch};
use cantle_faults::rng::Rng;
use cantle_faults::visit::factor;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const CHILD: &str = "CANTLE_TEST_CRASH_CHILD";
const THREADS: u64 = 3;
const KEYS: u64 = 400;

fn open(path: &Path, durability: Durability) -> Db {
    Options::new()
        .durability(durability)
        .memory_budget(4 << 20)
        .checkpoint_interval(Duration::from_millis(40))
        .default_keyspace(KeyspaceOptions::new().chunk_bytes(64 << 10).log_bytes(16 << 10))
        .open(path)
        .unwrap()
}

fn durability_of(text: &str) -> Durability {
    if text == "sync" { Durability::Sync } else { Durability::Process }
}

fn key(thread: u64, n: u64, half: u64) -> String {
    format!("{:03}-{thread}-{half}", n % KEYS)
}

/// What the child does: writes and says so, until it is killed. Not a test of its own.
#[test]
fn child() {
    let Ok(arguments) = std::env::var(CHILD) else { return };
    let (durability, path) = arguments.split_once(':').unwrap();
    let db = open(Path::new(path), durability_of(durability));
    let from = |thread| {
        db.get(format!("next-{thread}"))
            .unwrap()
            .map_or(0, |value| String::from_utf8(value.to_vec()).unwrap().parse::<u64>().unwrap())
    };
    println!("opened");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (db, first) = (&db, from(thread));
            scope.spawn(move || {
                for n in first.. {
                    let value = format!("{n:020}").repeat(20);
                    let mut batch = WriteBatch::new();
                    batch.put(key(thread, n, 0), &value).put(key(thread, n, 1), &value);
                    batch.put(format!("next-{thread}"), (n + 1).to_string());
                    db.write(batch).unwrap();
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "done {thread} {n}").unwrap();
                    out.flush().unwrap();
                }
            });
        }
    });
}

fn cycles(name: &str, count: u64) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let mut rng = Rng::new(4);
    let mut last: [Option<u64>; THREADS as usize] = [None; THREADS as usize];
    let mut acknowledged = 0u64;
    for cycle in 0..count {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "process::child", "--nocapture", "--test-threads", "1"])
            .env(CHILD, format!("{name}:{}", path.display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let wait = rng.below(if name == "sync" { 120 } else { 80 });
        let reader = std::thread::spawn(move || output.lines().map_while(Result::ok).collect::<Vec<_>>());
        std::thread::sleep(Duration::from_millis(20 + wait));
        child.kill().unwrap();
        child.wait().unwrap();
        // A line that was cut short acknowledges nothing.
        for line in reader.join().unwrap() {
            let Some(rest) = line.strip_prefix("done ") else { continue };
            let Some((thread, n)) = rest.split_once(' ') else { continue };
            let (thread, n) = (thread.parse::<usize>().unwrap(), n.parse::<u64>().unwrap());
            assert!(last[thread].is_none_or(|last| last < n), "cycle {cycle}: number {n} was taken twice");
            last[thread] = Some(n);
            acknowledged += 1;
        }
        // Every other time the next child is the first to open it.
        if cycle % 2 == 0 {
            continue;
        }
        let db = open(&path, durability_of(name));
        for thread in 0..THREADS {
            let next = db.get(format!("next-{thread}")).unwrap();
            let next =
                next.map_or(0, |value| String::from_utf8(value.to_vec()).unwrap().parse::<u64>().unwrap());
            let wanted = last[thread as usize].map_or(0, |last| last + 1);
            assert!(next >= wanted, "cycle {cycle}: {wanted} writes were acknowledged, {next} are there");
            for n in next.saturating_sub(KEYS)..next {
                let value = format!("{n:020}").repeat(20);
                for half in 0..2 {
                    let found = db.get(key(thread, n, half)).unwrap();
                    assert_eq!(
                        found.as_deref(),
                        Some(value.as_bytes()),
                        "cycle {cycle}, {}",
                        key(thread, n, half)
                    );
                }
            }
        }
    }
    let db = open(&path, durability_of(name));
    assert!(db.verify().unwrap().is_ok());
    println!("{name}: {count} processes killed, {acknowledged} acknowledged batches checked");
    assert!(acknowledged > 0);
}

#[test]
fn a_killed_process_keeps_what_it_acknowledged() {
    cycles("process", 20 * factor());
}

#[test]
fn a_killed_sync_process_keeps_what_it_acknowledged() {
    cycles("sync", 10 * factor());
}
