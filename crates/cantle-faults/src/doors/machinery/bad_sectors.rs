//! A device loses its sectors under an open store. Reads fail with EIO, and so may accesses to
//! mapped pages, which must not kill the process.
//!
//! The image is truncated while a process has the store open. The process may not lock its memory,
//! and its mapped pages are taken from it, as when memory is short: it will read them again from
//! lost sectors. Its output must be correct or an error. Then the image is restored, as if a cable
//! had been loose, and all synced data must be there.

use super::child::{DURABILITIES, Part, Role, Running, name_of};
use super::disks::{Image, Kind, are_possible, run};
use super::page_out::page_out;
use super::writer::{Promised, read_what_is_left};
use crate::history::Death;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::Durability;
use std::process::Command;
use std::time::Duration;

const IMAGE_BYTES: u64 = 3 << 30;

pub fn enter(visit: &Visit) {
    let kinds: Vec<Kind> = Kind::JOURNALED.into_iter().filter(|&kind| are_possible(visit, kind)).collect();
    for seed in visit.rounds() {
        for &kind in &kinds {
            for durability in DURABILITIES {
                one(visit, kind, durability, seed).unwrap_or_else(|found| {
                    panic!("{}, {}, seed {seed}: {found}", kind.name(), name_of(durability))
                });
            }
        }
    }
}

fn one(visit: &Visit, kind: Kind, durability: Durability, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let image = Image::new(kind, IMAGE_BYTES)?;
    let mounted = image.mount()?;
    let path = mounted.dir().join("store");
    let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
    let mut promised = Promised::default();
    let mut command = part.command(&visit.program);
    const UNLOCKED: [&str; 6] =
        ["--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock", "prlimit", "--memlock=0"];
    if run("setpriv", &[&UNLOCKED[..], &["true"]].concat()).is_ok() {
        let mut unlocked = Command::new("setpriv");
        unlocked.args(UNLOCKED).arg(command.get_program()).args(command.get_args());
        command = unlocked;
    }
    let mut child = Running::start(&mut command);
    if !child.wait_for("opened") {
        return Err(format!("{:?}", child.kill().lines));
    }
    std::thread::sleep(Duration::from_micros(rng.below(200_000)));
    // The child is stopped, so that the copy is consistent.
    child.hold(true)?;
    mounted.sync();
    let heard = child.heard();
    let whole = image.file().with_extension("whole");
    run("cp", &["--sparse=always", &image.file().to_string_lossy(), &whole.to_string_lossy()])?;
    // The file system's first blocks stay; without them no file could be found.
    let left = (1 << 20) + rng.below(64 << 20);
    let file = std::fs::File::options().write(true).open(image.file());
    file.and_then(|file| file.set_len(left)).map_err(|error| error.to_string())?;
    // If the kernel does not have this call, mapped pages stay.
    if let Ok(bytes) = page_out(child.process(), &part.path) {
        visit.count("mapped pages taken", bytes / 4096);
    }
    child.hold(false)?;
    for entry in std::fs::read_dir(&part.path).map_err(|error| error.to_string())?.flatten() {
        drop_pages(&entry.path());
    }
    let ended = child.wait_or_kill(Duration::from_millis(300));
    if let Some(found) = ended.is_by_itself() {
        return Err(found);
    }
    visit.count("devices that lost sectors", 1);
    ended.count_places(visit);
    let failed = ended.lines.iter().find_map(|line| line.strip_prefix("keys that failed ")?.parse().ok());
    visit.count("keys of batches that failed", failed.unwrap_or(0));
    let mut at_most = Promised::default();
    at_most.hear(&ended.lines, Death::Process, durability)?;
    for failure in &at_most.failures {
        visit.count("failures reported", 1);
        if !failure.contains(&*part.path.to_string_lossy()) && !failure.contains("read-only") {
            return Err(format!("which file? {failure}"));
        }
    }
    promised.hear(&heard, Death::Power, durability)?;
    // The rest of the store is opened, read and verified: errors or correct data, and no panic.
    if let Ok(db) = part.open() {
        visit.count("damaged stores opened", 1);
        let _ = db.range(..).try_for_each(|pair| pair.map(drop));
        let failed = read_what_is_left(&db)?;
        visit.count("keys of batches that failed", failed);
        let _ = db.verify();
    } else {
        visit.count("damaged stores refused", 1);
    }
    mounted.unmount()?;
    std::fs::rename(&whole, image.file()).map_err(|error| error.to_string())?;
    let mounted = image.mount()?;
    let db = part.open().map_err(|error| format!("whole again: {error}"))?;
    promised.check(&db, Death::Power, durability).map_err(|found| format!("whole again: {found}"))?;
    drop(db);
    visit.count("stores checked", 1);
    mounted.unmount()
}

#[expect(unsafe_code, reason = "a call that no library has")]
fn drop_pages(path: &std::path::Path) {
    use std::os::fd::AsRawFd;
    if let Ok(file) = std::fs::File::open(path) {
        // SAFETY: advice about an open file.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
    }
}
