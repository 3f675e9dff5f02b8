//! The machine and the revision, for reports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Facts of the machine by name; unknown ones are left out.
pub fn describe(work: &Path) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.insert(name.to_string(), value);
        }
    };
    let read = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_string());
    let line = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    add("processor", line("/proc/cpuinfo", "model name"));
    add("cores", std::thread::available_parallelism().ok().map(|cores| cores.to_string()));
    add("memory", line("/proc/meminfo", "MemTotal"));
    add("kernel", read("/proc/sys/kernel/osrelease"));
    add("file system", mount(work));
    add("read-ahead of the device", read_ahead(work));
    add("lab", Some(format!("{} {}", env!("CARGO_PKG_VERSION"), std::env::consts::ARCH)));
    facts
}

/// Type and options of the file system that a directory is on.
fn mount(dir: &Path) -> Option<String> {
    let dir = existing(dir)?;
    let text = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = text.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, format!("{} ({})", words.next()?, words.next()?)))
    });
    // Later mounts hide earlier ones.
    mounts.filter(|(at, _)| dir.starts_with(at)).max_by_key(|(at, _)| at.len()).map(|(_, kind)| kind)
}

fn existing(dir: &Path) -> Option<std::path::PathBuf> {
    dir.ancestors().find_map(|ancestor| ancestor.canonicalize().ok())
}

fn read_ahead(dir: &Path) -> Option<String> {
    let device = rustix::fs::stat(existing(dir)?).ok()?.st_dev;
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let kib = fs::read_to_string(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")).ok()?;
    Some(format!("{} KiB", kib.trim()))
}

/// The revision of the project, followed by `+` if there are changes.
pub fn revision() -> String {
    let git = |arguments: &[&str]| {
        let output =
            Command::new("git").arg("-C").arg(env!("CARGO_MANIFEST_DIR")).args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_string())
    };
    let Some(revision) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let is_changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
    if is_changed { revision + "+" } else { revision }
}
