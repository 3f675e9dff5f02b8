//! A memory limit that counts the page cache: a control group, version 1 or 2.

use crate::failure::{Result, on};
use std::fs;
use std::path::{Path, PathBuf};

/// The kinds of control groups for memory.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    V1,
    V2,
}

/// A group for one process; removed when this is dropped, if the process has ended.
#[derive(Debug)]
pub struct Group {
    kind: Kind,
    dir: PathBuf,
}

/// The directory in which memory groups are made, if there is one.
fn hierarchy() -> Option<(Kind, PathBuf)> {
    let v2 = Path::new("/sys/fs/cgroup");
    if fs::read_to_string(v2.join("cgroup.controllers")).is_ok_and(|names| has_word(&names, "memory")) {
        return Some((Kind::V2, v2.into()));
    }
    let v1 = Path::new("/sys/fs/cgroup/memory");
    v1.join("memory.limit_in_bytes").exists().then(|| (Kind::V1, v1.into()))
}

fn has_word(text: &str, word: &str) -> bool {
    text.split_whitespace().any(|found| found == word)
}

impl Group {
    /// A group named `name` whose processes have `limit_bytes` of memory, page cache included, and
    /// no swap.
    pub fn new(name: &str, limit_bytes: u64) -> Result<Self> {
        let Some((kind, parent)) = hierarchy() else {
            return Err(crate::failure::Failure::new("this machine has no memory control groups"));
        };
        if kind == Kind::V2 {
            // If another program uses the controllers, they are enabled already. If not, writing
            // the limit fails and reports it.
            let _ = fs::write(parent.join("cgroup.subtree_control"), "+memory +io");
        }
        let dir = parent.join(name);
        fs::create_dir(&dir).map_err(on("create", &dir))?;
        let group = Self { kind, dir };
        match group.kind {
            Kind::V1 => group.write("memory.limit_in_bytes", &limit_bytes.to_string())?,
            Kind::V2 => {
                group.write("memory.max", &limit_bytes.to_string())?;
                // Without swap accounting this file does not exist, and mostly there is no swap.
                let _ = group.write("memory.swap.max", "0");
            }
        }
        Ok(group)
    }

    /// Moves a process into the group.
    pub fn add(&self, process: u32) -> Result {
        self.write("cgroup.procs", &process.to_string())
    }

    fn write(&self, file: &str, text: &str) -> Result {
        let path = self.dir.join(file);
        fs::write(&path, text).map_err(on("write", &path))
    }

    /// Peak memory of its processes and their page cache.
    pub fn peak_bytes(&self) -> Option<u64> {
        let file = match self.kind {
            Kind::V1 => "memory.max_usage_in_bytes",
            Kind::V2 => "memory.peak",
        };
        fs::read_to_string(self.dir.join(file)).ok()?.trim().parse().ok()
    }

    /// Number of processes of the group that were killed because the limit was reached.
    pub fn kills(&self) -> u64 {
        let file = match self.kind {
            Kind::V1 => "memory.oom_control",
            Kind::V2 => "memory.events",
        };
        let text = fs::read_to_string(self.dir.join(file)).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    }

    /// Bytes that the group has read from and written to devices, if the kernel attributes them
    /// (version 2).
    pub fn device_bytes(&self) -> Option<(u64, u64)> {
        if self.kind == Kind::V1 {
            return None;
        }
        let text = fs::read_to_string(self.dir.join("io.stat")).ok()?;
        let sum = |name: &str| -> u64 {
            text.split_whitespace().filter_map(|word| word.strip_prefix(name)?.parse::<u64>().ok()).sum()
        };
        Some((sum("rbytes="), sum("wbytes=")))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // The remaining page cache is charged to the parent. A failure is ignored.
        let _ = fs::remove_dir(&self.dir);
    }
}

/// Removes groups of interrupted runs: those named after a process that does not exist any more.
fn remove_stale() {
    let Some((_, parent)) = hierarchy() else { return };
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(process) = name.strip_prefix(NAME).and_then(|rest| rest.split('-').next()) else { continue };
        if process.parse::<u32>().is_ok() && !Path::new("/proc").join(process).exists() {
            // The kernel refuses while a process is in it.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// A name for a group of this process.
pub fn name(number: u64) -> String {
    format!("{NAME}{}-{number}", std::process::id())
}

/// Prefix of the names of groups; the number of the process that made them follows.
const NAME: &str = "cantle-lab-";

/// Checks that a limit can be set here; the error is the reason if not.
pub fn probe() -> Result {
    remove_stale();
    Group::new(&name(u64::MAX), 1 << 30).map(drop)
}
