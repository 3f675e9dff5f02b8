//! A device loses its sectors under an open store. Reads fail with EIO, and so may accesses to
//! mapped pages, which must not kill the process.
//!
//! The image is truncated while a process has the store open. The process may not lock its memory,
//! and its mapped pages are taken from it, as when memory is short: it will read them again from
//! lost sectors. Its output must be correct or an error. Then the image is restored, as if a cable
//! had been loose, and all synced data must be there.
//!
//! Before that, places of one file are read together, some of which are lost: these fail, by a ring of the kernel and by
//! hints alike, and the others are read.

use super::child::{DURABILITIES, Part, Role, Running, name_of};
use super::disks::{Image, Kind, are_possible, run};
use super::page_out::page_out;
use super::writer::{Promised, read_what_is_left};
use crate::history::Death;
use crate::rings;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::Durability;
use cantle::vfs::{OpenMode, ReadQueue, ReadRequest, StdVfs, Vfs};
use std::io::Write;
use std::process::Command;
use std::time::Duration;

const IMAGE_BYTES: u64 = 3 << 30;
/// Length of the image with one file in bytes; half of it is lost.
const BATCH_IMAGE_BYTES: u64 = 512 << 20;
/// Length of the file in pieces of 1 MiB: some of them are in either half.
const BATCH_PIECES: u64 = 320;
const PIECE_BYTES: u64 = 1 << 20;
/// A place is read of every fifth piece.
const PIECES_APART: u64 = 5;

pub fn enter(visit: &Visit) {
    let kinds: Vec<Kind> = Kind::JOURNALED.into_iter().filter(|&kind| are_possible(visit, kind)).collect();
    for &kind in &kinds {
        one_batch(visit, kind).unwrap_or_else(|found| panic!("{}: {found}", kind.name()));
    }
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

/// Reads places of a file together, some of which the device has lost.
fn one_batch(visit: &Visit, kind: Kind) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let image = Image::new(kind, BATCH_IMAGE_BYTES)?;
    let mounted = image.mount()?;
    let path = mounted.dir().join("file");
    let mut file = std::fs::File::create_new(&path).map_err(text)?;
    for piece in 0..BATCH_PIECES {
        file.write_all(&vec![piece as u8; PIECE_BYTES as usize]).map_err(text)?;
    }
    drop(file);
    mounted.sync();
    let device = std::fs::File::options().write(true).open(image.file());
    device.and_then(|device| device.set_len(BATCH_IMAGE_BYTES / 2)).map_err(text)?;
    let mut queues = vec![ReadQueue::of_hints()];
    if rings::are_possible(visit) {
        queues.push(ReadQueue::default());
    }
    let mut lost = Vec::new();
    for queue in queues {
        drop_pages(&path);
        let file = StdVfs.open(&path, OpenMode::Read).map_err(text)?;
        let pieces: Vec<u64> = (0..BATCH_PIECES).step_by(PIECES_APART as usize).collect();
        let mut buffers = vec![[0; 4096]; pieces.len()];
        let places = pieces.iter().zip(&mut buffers);
        let mut places: Vec<ReadRequest<'_>> = places
            .map(|(piece, buffer)| ReadRequest { file: &*file, offset: piece * PIECE_BYTES, buffer })
            .collect();
        let outcomes = queue.read_all(&mut places);
        let mut failed = Vec::new();
        for ((piece, outcome), buffer) in pieces.iter().zip(outcomes).zip(&buffers) {
            match outcome {
                Ok(4096) if buffer.iter().all(|byte| *byte == *piece as u8) => {}
                Ok(bytes) => return Err(format!("{bytes} bytes of piece {piece}: {:?}", &buffer[..8])),
                Err(error) if error.raw_os_error() == Some(libc::EIO) => failed.push(*piece),
                Err(error) => return Err(format!("piece {piece}: {error}")),
            }
        }
        if failed.is_empty() || failed.len() == pieces.len() {
            return Err(format!("{} of {} places were lost", failed.len(), pieces.len()));
        }
        let (by_ring, by_hints) = queue.counts();
        visit.count("lost places read by io_uring", if by_ring > 0 { failed.len() as u64 } else { 0 });
        visit.count("lost places read by hints", if by_hints > 0 { failed.len() as u64 } else { 0 });
        lost.push(failed);
    }
    if lost.iter().any(|failed| *failed != lost[0]) {
        return Err(format!("other places were lost by a ring than by hints: {lost:?}"));
    }
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
