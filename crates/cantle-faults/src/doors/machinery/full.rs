//! File systems that are really full: of the store's own data (`filling`), or of other files, while
//! a process writes.

use super::child::{DURABILITIES, Part, Role};
use super::disks::{Image, Kind, Mounted, are_possible, run};
use crate::filling::{a_disk_that_fills_up, check, eventually, fill, setup};
use crate::rng::Rng;
use crate::setup::has_layout;
use crate::visit::Visit;
use std::collections::BTreeMap;
use std::sync::Arc;

const MIB: u64 = 1 << 20;

pub fn enter(visit: &Visit) {
    if let Err(error) = tempfile::tempdir()
        .map_err(|error| error.to_string())
        .and_then(|dir| Mounted::tmpfs(dir.path(), MIB).and_then(Mounted::unmount))
    {
        return visit.skip("tmpfs", error);
    }
    let kinds: Vec<Kind> = Kind::JOURNALED.into_iter().filter(|&kind| are_possible(visit, kind)).collect();
    let mut cut_short = 0;
    for (round, seed) in visit.rounds().enumerate() {
        for durability in DURABILITIES {
            cut_short += own_data(visit, seed, durability);
            // XFS needs at least 300 MiB, which takes long to fill.
            if let Some(&kind) = kinds.get(round % 8).filter(|&&kind| visit.is_long() || kind == Kind::Ext4) {
                others_data(visit, kind, seed, durability).unwrap();
            }
        }
    }
    // On a busy machine all maintenance may have ended before the disk was full.
    for seed in 1..10 {
        if cut_short == 0 {
            cut_short += own_data(visit, seed, cantle::Durability::Process);
        }
    }
}

/// The store itself fills the file system while it loads, splits and rebalances. Returns the number
/// of such operations that were running then.
fn own_data(visit: &Visit, seed: u64, durability: cantle::Durability) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let mounted = Mounted::tmpfs(dir.path(), 8 * MIB).unwrap();
    let options = setup(visit.layout, seed, durability).options(Arc::new(cantle::vfs::StdVfs));
    let db = options.open(dir.path().join("store")).unwrap();
    assert!(has_layout(&db, visit.layout), "the store has another layout");
    let filled = a_disk_that_fills_up(&db, seed, || mounted.resize(64 * MIB).unwrap());
    visit.count("rebalances while it filled up", filled.loaded.rebalances);
    visit.count("splits while it filled up", filled.loaded.splits);
    visit.count("compactions that found room", filled.compacted);
    visit.count("file systems that took puts again before they grew", filled.took_puts.into());
    let cut_short = filled.cut_short.rebalances + filled.cut_short.splits;
    visit.count("rebalances and splits under way when it was full", cut_short);
    db.close().unwrap();
    drop(db);
    mounted.unmount().unwrap();
    visit.count("file systems filled up and healed", 1);
    cut_short
}

/// Another file leaves the store less and less space; then it is removed.
fn others_data(visit: &Visit, kind: Kind, seed: u64, durability: cantle::Durability) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let image = Image::new(kind, if kind == Kind::Xfs { 320 * MIB } else { 48 * MIB })?;
    let mounted = image.mount()?;
    let path = mounted.dir().join("store");
    let part = Part { role: Role::Write, path, layout: visit.layout, durability, seed };
    let options = setup(visit.layout, seed, durability).options(Arc::new(cantle::vfs::StdVfs));
    let db = options.clone().open(&part.path).map_err(|error| error.to_string())?;
    assert!(has_layout(&db, visit.layout), "the store has another layout");
    let mut values = BTreeMap::new();
    for n in 0..200 + rng.below(400) {
        let (key, value) =
            (crate::workload::key(rng.below(2000)), vec![n as u8; 1 + rng.below(3000) as usize]);
        db.put(&key, &value).map_err(|error| error.to_string())?;
        values.insert(key, value);
    }
    let other = mounted.dir().join("other");
    let space = run("df", &["--output=avail", "-B1", &mounted.dir().to_string_lossy()])?;
    let available =
        space.lines().last().and_then(|bytes| bytes.trim().parse::<u64>().ok()).unwrap_or_default();
    let taken = available.saturating_sub(rng.below(2 * MIB));
    // The file system needs some space itself, and the store uses more at the same time.
    let take = |less: u64| {
        let bytes = taken.saturating_sub(less * MIB).max(1).to_string();
        run("fallocate", &["-l", &bytes, &other.to_string_lossy()])
    };
    (0..4).map(|times| take(2 * times)).find(Result::is_ok).unwrap_or_else(|| take(16))?;
    if !fill(&db, &mut values, &mut rng) {
        return Err("the disk never got full".into());
    }
    check(&db, &values);
    std::fs::remove_file(&other).map_err(|error| error.to_string())?;
    eventually(&db, "a put after space was freed", || db.put("healed", "1"));
    values.insert(b"healed".to_vec(), b"1".to_vec());
    eventually(&db, "a sync after space was freed", || db.sync());
    check(&db, &values);
    if let Some(reason) = db.stats().read_only {
        return Err(format!("read-only: {reason}"));
    }
    drop(db);
    mounted.unmount()?;
    let mounted = image.mount()?;
    let db = options.open(&part.path).map_err(|error| error.to_string())?;
    check(&db, &values);
    drop(db);
    mounted.unmount()?;
    visit.count("file systems that others filled", 1);
    Ok(())
}
