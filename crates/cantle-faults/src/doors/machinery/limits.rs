//! A process with a limit of open files, of file lengths, or of memory. It reports its failures, or
//! is killed if the system kills; afterwards the store can be opened and holds everything that was
//! promised.

use super::child::{DURABILITIES, Part, Role, Running, name_of};
use super::writer::Promised;
use crate::history::Death;
use crate::rng::Rng;
use crate::visit::Visit;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub fn enter(visit: &Visit) {
    let dir = tempfile::tempdir().unwrap();
    let group = Group::new(64 << 20).map_err(|error| visit.skip("memory-group", error));
    drop(group);
    for seed in visit.rounds() {
        for durability in DURABILITIES {
            let mut rng = Rng::new(seed);
            let files = 5 + rng.below(30);
            let kilobytes = 1 + rng.below(1200);
            let limits = [
                ("open files", format!("ulimit -n {files}")),
                // The unit of `sh` is 512 bytes.
                ("lengths of files", format!("trap '' XFSZ; ulimit -f {}", kilobytes * 2)),
                ("lengths of files, by death", format!("ulimit -c 0; ulimit -f {}", kilobytes * 2)),
            ];
            for (number, (what, limit)) in limits.into_iter().enumerate() {
                let path = dir.path().join(format!("{seed}-{}-{number}", name_of(durability)));
                let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
                one(visit, &part, &limit, &mut rng).unwrap_or_else(|found| {
                    panic!("{}, {what}, {limit}, seed {seed}: {found}", name_of(durability))
                });
                visit.count("limits", 1);
            }
            let mebibytes = 6 + rng.below(58);
            let path = dir.path().join(format!("{seed}-{}-memory", name_of(durability)));
            let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
            if let Ok(group) = Group::new(mebibytes << 20) {
                let limit = format!("echo $$ > {}/cgroup.procs", group.0.display());
                one(visit, &part, &limit, &mut rng).unwrap_or_else(|found| {
                    panic!("{}, {mebibytes} MiB of memory, seed {seed}: {found}", name_of(durability))
                });
                visit.count("limits of memory", 1);
            }
        }
    }
}

fn one(visit: &Visit, part: &Part, limit: &str, rng: &mut Rng) -> Result<(), String> {
    let played = part.command(&visit.program);
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{limit}; exec \"$0\" \"$@\"")])
        .arg(played.get_program())
        .args(played.get_args());
    let mut promised = Promised::default();
    for _ in 0..2 {
        let child = Running::start(&mut command);
        let ended = child.wait_or_kill(Duration::from_micros(150_000 + rng.below(150_000)));
        let is_killed = ended.is_by_itself();
        if let Some(found) = is_killed {
            return Err(found);
        }
        promised.hear(&ended.lines, Death::Process, part.durability)?;
        visit.count("failures reported", promised.failures.len() as u64);
        ended.count_places(visit);
        // A file that the system cut off, and the state after a failed sync, are as after a loss of
        // power.
        let death = if ended.lines.iter().any(|line| line.starts_with("read-only")) {
            Death::Power
        } else {
            Death::Process
        };
        promised.failures.clear();
        let db = part.open().map_err(|error| format!("cannot open: {error}"))?;
        promised.check(&db, death, part.durability).map_err(|found| {
            let said: Vec<&str> =
                ended.lines.iter().map(String::as_str).filter(|line| !line.starts_with("done")).collect();
            format!("{found}; what the child said: {}", said.join("; "))
        })?;
        let report = db.verify().map_err(|error| format!("cannot verify: {error}"))?;
        if !report.is_ok() {
            return Err(format!("{report:?}"));
        }
        visit.count("stores checked", 1);
    }
    visit.count("batches acknowledged", promised.batches);
    std::fs::remove_dir_all(&part.path).map_err(|error| error.to_string())
}

/// A control group with a limit of memory, of either version, removed at the end.
struct Group(PathBuf);

impl Group {
    fn new(bytes: u64) -> std::io::Result<Self> {
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let name = format!("cantle-faults-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
        let root = Path::new("/sys/fs/cgroup");
        let controllers = std::fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
        let is_second = controllers.split_ascii_whitespace().any(|controller| controller == "memory");
        let (parent, limit) = if is_second {
            (root.into(), "memory.max")
        } else {
            (root.join("memory"), "memory.limit_in_bytes")
        };
        if is_second {
            std::fs::write(parent.join("cgroup.subtree_control"), "+memory")?;
        }
        let group = Self(parent.join(name));
        std::fs::create_dir(&group.0)?;
        std::fs::write(group.0.join(limit), bytes.to_string())?;
        Ok(group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
