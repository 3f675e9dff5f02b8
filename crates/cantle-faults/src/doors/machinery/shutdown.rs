//! A file system loses everything that was not synced, while a process writes to it: like a loss of
//! power, except that it neither reorders nor tears.
//!
//! An acknowledgement counts only if it was read before the shutdown of the file system. One that
//! races with the shutdown may be for a sync that the shutdown undid.

use super::child::{DURABILITIES, Part, Role, Running, name_of};
use super::disks::{Image, Kind, are_possible};
use super::writer::Promised;
use crate::history::Death;
use crate::rng::Rng;
use crate::visit::Visit;
use std::time::Duration;

/// Number of losses on one store.
const CHAIN: u64 = 8;
/// Enough for a write buffer, which needs 2 GiB of free space.
const IMAGE_BYTES: u64 = 3 << 30;

pub fn enter(visit: &Visit) {
    let kinds: Vec<Kind> = Kind::JOURNALED.into_iter().filter(|&kind| are_possible(visit, kind)).collect();
    for seed in visit.rounds() {
        for &kind in &kinds {
            for durability in DURABILITIES {
                chain(visit, kind, durability, seed).unwrap_or_else(|found| {
                    panic!("{}, {}, seed {seed}: {found}", kind.name(), name_of(durability))
                });
            }
        }
    }
}

fn chain(visit: &Visit, kind: Kind, durability: cantle::Durability, seed: u64) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let image = Image::new(kind, IMAGE_BYTES)?;
    let mut promised = Promised::default();
    for cycle in 0..CHAIN {
        if visit.is_over() {
            break;
        }
        let context = |found| format!("cycle {cycle}: {found}");
        let mounted = image.mount()?;
        let path = mounted.dir().join("store");
        let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
        let mut child = Running::start(&mut part.command(&visit.program));
        if rng.below(4) > 0 {
            child.wait_for("opened");
        }
        std::thread::sleep(Duration::from_micros(rng.below(60_000)));
        if rng.below(2) == 0 {
            mounted.sync();
        }
        let heard = child.heard();
        mounted.shut_down().map_err(|error| context(error.to_string()))?;
        // The process runs for a moment on a file system that is gone, and must not die.
        std::thread::sleep(Duration::from_millis(20));
        let ended = child.kill();
        mounted.unmount()?;
        if let Some(found) = ended.is_by_itself() {
            return Err(context(found));
        }
        promised.hear(&heard, Death::Power, durability).map_err(context)?;
        if let Some(failure) = promised.failures.first() {
            return Err(context(failure.clone()));
        }
        visit.count("losses of power", 1);
        ended.count_places(visit);
        let mounted = image.mount()?;
        if rng.below(4) > 0 || cycle + 1 == CHAIN {
            let db = part.open().map_err(|error| context(format!("cannot open: {error}")))?;
            promised.check(&db, Death::Power, durability).map_err(context)?;
            let report = db.verify().map_err(|error| context(format!("cannot verify: {error}")))?;
            if !report.is_ok() {
                return Err(context(format!("{report:?}")));
            }
            visit.count("stores checked", 1);
        }
        mounted.unmount()?;
    }
    visit.count("batches acknowledged", promised.batches);
    Ok(())
}
