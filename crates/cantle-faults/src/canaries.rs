//! Plants one bug after the other and runs doors until one finds it. This proves that the doors can
//! find bugs.
//!
//! Each bug is planted in a process of its own, as it may crash the process. A finding that a door
//! has at the same seed without the bug proves nothing, and does not count.

use crate::Args;
use crate::report::grouped;
use cantle::LayoutKind;
use cantle::canary::Canary;
use cantle_faults::doors::DOORS;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

/// Maximum time of a door with one bug, in seconds. A door that hangs longer counts as a finding.
const DOOR_SECONDS_MAX: u64 = 240;

/// The doors that look for a bug first.
const FIRST: &[(&str, &[&str])] = &[
    (
        "space",
        &[
            "new-value-counted",
            "logs-not-compressed",
            "hidden-uncounted",
            "full-disk-unnoticed",
            "looked-once",
            "allocation-left",
        ],
    ),
    (
        "paths",
        &["path-resolved-anew", "lock-inode-ignored", "asked-before-the-lock", "recovered-not-backed-up"],
    ),
    ("life", &["split-outside"]),
    ("remount", &["subvolume-ignored"]),
    ("kill-at-calls", &["unread-places-trusted"]),
    ("stores", &["files-not-shared"]),
    ("schedules", &["unnamed-late-files", "munk-gone-too-early", "failure-evicted"]),
    (
        "crash-states",
        &[
            "unsynced-journal-header",
            "durable-with-a-gap",
            "unsynced-cut",
            "unsettled-orphans",
            "unnamed-repair",
            "unnamed-repair-end",
            "unnamed-destruction",
            "deletes-dropped-above",
            "inputs-unlinked",
            "referred-log-unsynced",
        ],
    ),
    ("without-manifest", &["purged-silently"]),
    ("openings", &["deletes-forgotten", "files-left-behind", "manifest-never-rewritten"]),
    ("failing-calls", &["not-revoked", "not-read-only", "append-not-undone"]),
    ("pressure", &["brake-of-the-last"]),
    ("fuzz", &["range-deletes-left", "dropped-too-far"]),
    ("revoked", &["failed-write-not-revoked"]),
    (
        "damage",
        &[
            "log-checksum-skipped",
            "table-checksum-skipped",
            "header-checksum-skipped",
            "look-ahead-short",
            "holes-forgotten",
        ],
    ),
    (
        "model",
        &[
            "snapshot-versions-dropped",
            "version-off-by-one",
            "range-delete-missed",
            "nested-delete-missed",
            "rows-not-outdated",
            "rows-unmarked",
            "rebalance-untold",
            "merge-untold",
            "unsynced-backup",
            "dead-versions-forgotten",
            "prefix-of-some",
            "merge-untold-of-levels",
            "log-left-out",
            "flushed-on-top",
            "deletes-not-flushed",
            "guard-without-its-tables",
            "referred-log-unnamed",
            "referred-log-uncounted",
            "error-of-a-neighbour",
            "block-of-another-load",
            "late-result-ignored",
            "delete-is-no-result",
        ],
    ),
    (
        "histories",
        &[
            "moment-of-each-key",
            "pending-wait-skipped",
            "munk-too-early",
            "retired-chunk-written",
            "conflict-ignored",
            "update-lost",
            "batch-seen-in-half",
            "stripes-not-taken",
            "second-pass-skipped",
            "indexed-under-writers",
            "logs-gone-early",
            "claims-ignored",
        ],
    ),
];

/// The bugs of mechanisms that only the layout `flsm` has. Doors look for them in its stores.
const OF_FLSM: &[&str] = &[
    "stripes-not-taken",
    "second-pass-skipped",
    "indexed-under-writers",
    "merge-untold-of-levels",
    "adopted-below-others",
    "guard-kept-above",
    "guard-without-its-tables",
    "sunk-newest-first",
    "range-deletes-left",
    "dropped-too-far",
    "log-left-out",
    "flushed-on-top",
    "deletes-not-flushed",
    "deletes-dropped-above",
    "logs-gone-early",
    "claims-ignored",
    "inputs-unlinked",
    "inputs-not-named",
    "purged-silently",
    "hidden-uncounted",
    "referred-log-unnamed",
    "referred-log-uncounted",
    "referred-log-unsynced",
    "rows-unmarked",
    "full-disk-unnoticed",
    "looked-once",
];

/// The same of those that `forest` has alone, or shows sooner: a get has to look into more runs.
const OF_FOREST: &[&str] = &["late-result-ignored", "delete-is-no-result", "allocation-left"];

fn layout_of(canary: &Canary) -> LayoutKind {
    match canary.name {
        name if OF_FLSM.contains(&name) => LayoutKind::Flsm,
        name if OF_FOREST.contains(&name) => LayoutKind::Forest,
        _ => LayoutKind::default(),
    }
}

/// The environment variable with the bug that is planted, in this process and in those that doors
/// start.
const PLANTED: &str = "CANTLE_CANARY";

/// Plants the bug that the environment names.
pub fn plant() {
    if let Ok(name) = std::env::var(PLANTED) {
        assert!(Canary::plant(&name), "there is no such bug: {name}");
    }
}

/// The result of the search for one bug.
#[derive(Debug, Serialize)]
struct Hunt {
    canary: &'static str,
    about: &'static str,
    /// The door that found it.
    door: Option<&'static str>,
    seconds: f64,
    /// The first line of the finding.
    finding: String,
}

/// Searches all bugs, or the named ones.
pub fn hunt_all(args: &Args, names: &[String]) -> ExitCode {
    if let Some(name) = names.iter().find(|name| !Canary::ALL.iter().any(|canary| canary.name == **name)) {
        eprintln!("there is no planted bug {name:?}");
        return ExitCode::from(2);
    }
    let wanted = |canary: &&Canary| names.is_empty() || names.iter().any(|name| name == canary.name);
    let canaries: Vec<&Canary> = Canary::ALL.iter().filter(wanted).collect();
    if args.matrix {
        return matrix(args, &canaries);
    }
    let bar = ProgressBar::new(canaries.len() as u64);
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {pos} of {len}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar()),
    );
    let mut hunts = Vec::new();
    let mut lab = Lab::new(args);
    for canary in canaries {
        bar.set_message(canary.name);
        let hunt = lab.hunt(canary);
        if !args.json {
            bar.suspend(|| print(&hunt));
        }
        hunts.push(hunt);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let caught = hunts.iter().filter(|hunt| hunt.door.is_some()).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&hunts).unwrap_or_default());
    } else {
        println!("\n{caught} of {} planted bugs were found", grouped(hunts.len() as u64));
    }
    if caught == hunts.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// For one bug, the finding of each door alone.
#[derive(Debug, Serialize)]
struct Row {
    canary: &'static str,
    about: &'static str,
    /// By door, the first line of its finding, if it found the bug.
    doors: BTreeMap<&'static str, Option<String>>,
}

/// Runs every door, or the named ones, with each bug.
fn matrix(args: &Args, canaries: &[&Canary]) -> ExitCode {
    let doors: Vec<&'static str> =
        DOORS.iter().filter(|door| is_wanted(args, door.name)).map(|door| door.name).collect();
    if !args.json {
        println!("{:26} {}", "", doors.join("  "));
    }
    let mut rows = Vec::new();
    let mut lab = Lab::new(args);
    for canary in canaries {
        let found = doors.iter().map(|&door| (door, lab.enter(canary, door)));
        let row = Row { canary: canary.name, about: canary.about, doors: found.collect() };
        if !args.json {
            let cells = doors.iter().map(|&door| {
                let cell = if row.doors[door].is_some() { "found" } else { "-" };
                format!("{cell:width$}", width = door.len())
            });
            println!("{:26} {}", row.canary, cells.collect::<Vec<_>>().join("  ").trim_end());
        }
        rows.push(row);
    }
    let caught = rows.iter().filter(|row| row.doors.values().any(Option::is_some)).count();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows).unwrap_or_default());
    } else {
        println!("\n{caught} of {} planted bugs were found", grouped(rows.len() as u64));
    }
    if caught == rows.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn is_wanted(args: &Args, door: &str) -> bool {
    args.doors.is_empty() || args.doors.iter().any(|wanted| wanted.name == door)
}

fn print(hunt: &Hunt) {
    let door = hunt.door.unwrap_or("NOT FOUND");
    println!("{:26} {:14} {:>6.1} s  {}", hunt.canary, door, hunt.seconds, hunt.about);
}

/// Runs doors, and remembers which of them have findings without a planted bug.
struct Lab<'a> {
    args: &'a Args,
    /// By door and layout, how long the door was run without a planted bug, and true if it had no
    /// finding.
    unplanted: BTreeMap<(String, &'static str), (Duration, bool)>,
}

impl<'a> Lab<'a> {
    fn new(args: &'a Args) -> Self {
        Self { args, unplanted: BTreeMap::new() }
    }

    fn hunt(&mut self, canary: &Canary) -> Hunt {
        let started = Instant::now();
        let likely = FIRST.iter().filter(|(_, names)| names.contains(&canary.name)).map(|(door, _)| *door);
        let rest = DOORS.iter().map(|door| door.name);
        let mut tried: Vec<&'static str> = Vec::new();
        let mut finding = None;
        for door in likely.chain(rest) {
            if !is_wanted(self.args, door) || tried.contains(&door) {
                continue;
            }
            tried.push(door);
            if let Some(found) = self.enter(canary, door) {
                finding = Some((door, found));
                break;
            }
        }
        let (door, finding) = finding.unzip();
        Hunt {
            canary: canary.name,
            about: canary.about,
            door,
            seconds: started.elapsed().as_secs_f64(),
            finding: finding.unwrap_or_default(),
        }
    }

    /// The finding of the door with the bug planted, if it has none without.
    fn enter(&mut self, canary: &Canary, door: &str) -> Option<String> {
        let begun = Instant::now();
        let layout = layout_of(canary);
        let name = (door.to_owned(), layout.name());
        let found = enter((self.args, layout), Some(canary), door, Duration::from_secs(DOOR_SECONDS_MAX))?;
        // A finding without the bug that takes much longer than this one cannot be the same.
        let limit = 2 * begun.elapsed();
        let (mut looked, mut is_clean) = self.unplanted.get(&name).copied().unwrap_or((Duration::ZERO, true));
        if is_clean && looked < limit {
            let own = enter((self.args, layout), None, door, limit);
            if let Some(own) = &own {
                eprintln!("{door} finds something with nothing planted, and does not count: {own}");
            }
            (looked, is_clean) = (limit, own.is_none());
            self.unplanted.insert(name, (looked, is_clean));
        }
        is_clean.then_some(found)
    }
}

/// The finding of a door in stores of this layout, in a process of its own, with or without a planted
/// bug.
fn enter(
    (args, layout): (&Args, LayoutKind),
    canary: Option<&Canary>,
    door: &str,
    limit: Duration,
) -> Option<String> {
    let program = std::env::current_exe().ok()?;
    let mut command = Command::new(program);
    match canary {
        Some(canary) => command.env(PLANTED, canary.name),
        None => command.env_remove(PLANTED),
    };
    let mut child = command
        .args(["--doors", door, "--json", "--seed", &args.seed.to_string(), "--layout", layout.name()])
        .env("RUST_BACKTRACE", "0")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + limit;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                // The result does not matter any more.
                let _ = child.kill();
                let _ = child.wait();
                return canary.map(|_| format!("still busy after {DOOR_SECONDS_MAX} s"));
            }
        }
    };
    if status.success() {
        return None;
    }
    let mut text = String::new();
    if let Some(mut out) = child.stdout.take() {
        let _ = std::io::Read::read_to_string(&mut out, &mut text);
    }
    let report: Option<serde_json::Value> = serde_json::from_str(&text).ok();
    let finding = report.as_ref().and_then(|report| report["visited"][0]["finding"].as_str());
    Some(finding.map_or_else(
        || format!("the process died: {status}"),
        |text| text.lines().next().unwrap_or("").to_owned(),
    ))
}
