//! System calls counted, killed at, and failed, by `strace`.
//!
//! `strace` counts calls of each kind per thread, and so does this module: a fault at the n-th call
//! of a kind happens on the thread that reaches its n-th call first. (Not with `--seccomp-bpf`: it
//! is faster, and loses the signals.) A signal at a call arrives before the call is made.

use super::disks::run;
use crate::visit::Visit;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Calls that read or change files, names or memory. Children print with `write`; a store never
/// calls it.
const CALLS: &str = "trace=%file,%desc,munmap,madvise,mlock2";

/// Number of calls of each kind by a thread: from its first call after the store's path was used,
/// to the maximum of any thread.
pub type Counts = BTreeMap<String, std::ops::RangeInclusive<u64>>;

/// True if `strace` is installed and may trace; reports the reason if not.
pub fn is_possible(visit: &Visit) -> bool {
    match run("strace", &["-f", "-o", "/dev/null", "-e", "inject=fsync:error=EIO:when=1", "true"]) {
        Ok(_) => true,
        Err(error) => {
            visit.skip("strace", error);
            false
        }
    }
}

/// `command`, with its system calls recorded to a file.
pub fn recorded(command: &Command, to: &Path) -> Command {
    traced(command, &["-o".as_ref(), to.as_os_str(), "-e".as_ref(), CALLS.as_ref()])
}

/// `command`, with an injection at the n-th call of a kind: `signal=KILL`, `error=EIO`.
pub fn injected(command: &Command, call: &str, what: &str, when: &str) -> Command {
    let (trace, inject) = (format!("trace={call}"), format!("inject={call}:{what}:when={when}"));
    let arguments = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
    traced(command, &arguments.map(AsRef::as_ref))
}

fn traced(command: &Command, arguments: &[&std::ffi::OsStr]) -> Command {
    let mut traced = Command::new("strace");
    traced.args(["-f", "-qqq"]).args(arguments);
    traced.arg("--").arg(command.get_program()).args(command.get_args());
    traced
}

/// Counts the calls in a record.
pub fn counts(record: &str, path: &Path) -> Counts {
    let path = path.to_string_lossy();
    let mut by_thread: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut counts = Counts::new();
    // The store's path is also an argument of the program.
    let mut is_ours = false;
    for line in record.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let Some((name, rest)) = call.trim_start().split_once('(') else { continue };
        let is_name =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !is_name || name.is_empty() {
            // The rest of a call that began on another line.
            continue;
        }
        let n = by_thread.entry((thread, name)).or_default();
        *n += 1;
        is_ours |= name != "execve" && rest.contains(&*path);
        if is_ours {
            let range = counts.entry(name.to_owned()).or_insert(*n..=*n);
            *range = *range.start().min(n)..=*range.end().max(n);
        }
    }
    counts.retain(|call, _| call != "execve" && call != "write");
    counts
}
