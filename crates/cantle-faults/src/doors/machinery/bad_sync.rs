//! A sync that really fails. The image of a file system is on another file system that is full.
//! Data that the system writes back are lost, the sync reports this once, and the next sync
//! succeeds.
//!
//! A store that trusts the second sync would acknowledge lost data. The store must turn read-only.
//! When it is opened again, it must hold a consistent state: what the file system had, which is the
//! synced state or a newer one, but no mix.
//!
//! Writes that were acknowledged before the image was full must be there. After that ext4 itself
//! sometimes reports a sync as successful whose data are missing after the next mount (seen on
//! Linux 6.18, for one acknowledged write in some hundred runs, around the moment at which it
//! remounts itself read-only). Such losses are counted, and are no finding: no store can detect
//! them. Errors of a store after a failed sync are found by `failing-calls`, where the file system
//! reports correctly.

use super::child::{DURABILITIES, Part, Role, Running, name_of};
use super::disks::{Image, Kind, are_possible};
use super::writer::Promised;
use crate::history::Death;
use crate::rng::Rng;
use crate::visit::Visit;
use cantle::Durability;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Space for the image: the writer's data take some MiB, the file system's own some more.
const ROOM_BYTES: u64 = 64 * MIB;

pub fn enter(visit: &Visit) {
    if !are_possible(visit, Kind::Ext4) {
        return;
    }
    for seed in visit.rounds() {
        for durability in DURABILITIES {
            one(visit, durability, seed)
                .unwrap_or_else(|found| panic!("{}, seed {seed}: {found}", name_of(durability)));
        }
    }
}

fn one(visit: &Visit, durability: Durability, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let image = Image::on_tmpfs(Kind::Ext4, 3 << 30, ROOM_BYTES)?;
    let below = image.below().ok_or("no file system below")?;
    let mounted = image.mount()?;
    let path = mounted.dir().join("store");
    let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
    let mut promised = Promised::default();
    let mut child = Running::start(&mut part.command(&visit.program));
    if !child.wait_for("opened") {
        return Err(format!("{:?}", child.kill().lines));
    }
    std::thread::sleep(Duration::from_micros(rng.below(300_000)));
    promised.hear(&child.heard(), Death::Power, durability)?;
    // From here on new data find no space on the device.
    let spare = rng.below(256 << 10);
    let taken = || std::fs::metadata(image.file()).map(|image| image.blocks() * 512);
    // The image may grow at the same time.
    for attempt in 0.. {
        let bytes = taken().map_err(|error| error.to_string())? + spare + (attempt << 16);
        match below.resize(bytes) {
            Ok(()) => break,
            Err(error) if attempt == 100 => return Err(error),
            Err(_) => {}
        }
    }
    let ended = child.wait_or_kill(Duration::from_secs(4));
    if let Some(found) = ended.is_by_itself() {
        return Err(found);
    }
    let mut told = Promised::default();
    told.hear(&ended.lines, Death::Power, durability)?;
    let said = |word: &str| ended.lines.iter().any(|line| line.starts_with(word));
    let is_of_sync = |failure: &&String| failure.contains("cannot sync");
    if let Some(failure) = told.failures.iter().find(is_of_sync) {
        visit.count("syncs failed", 1);
        // After a failed sync at closing the process does not continue.
        let has_gone_on = !failure.starts_with("failed to close") && said("read");
        if has_gone_on && !said("read-only: ") && !said("failed to read") {
            return Err(format!("a sync failed, and the store goes on: {:?}", told.failures));
        }
    } else {
        visit.count("no sync failed", 1);
    }
    // There is space again; first with the same page cache, then without it. A second opening first
    // reads the pages as they are cached, which a failed sync has marked as clean.
    below.resize(ROOM_BYTES * 4)?;
    let mut checked = promised.clone();
    match part.open() {
        Ok(db) => {
            checked.check(&db, Death::Power, durability).map_err(|found| format!("same mount: {found}"))?;
            visit.count("stores checked", 1);
        }
        // A file system that lost its own writes is read-only or returns errors.
        Err(error) if !error.is_corruption() => visit.count("opening refused by the file system", 1),
        Err(error) => return Err(format!("same mount: {error}")),
    }
    mounted.unmount()?;
    let mounted = image.mount()?;
    let db = part.open().map_err(|error| format!("mounted again: {error}"))?;
    checked.check(&db, Death::Power, durability).map_err(|found| format!("mounted again: {found}"))?;
    if told.check(&db, Death::Power, durability).is_err() {
        visit.count("syncs that the file system invented", 1);
    }
    drop(db);
    visit.count("stores checked", 1);
    mounted.unmount()
}
