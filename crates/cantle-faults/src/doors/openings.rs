//! Many short openings of one store, each with a few writes, and then closed, killed or followed by
//! a loss of power. After each the store is as small as its bounds demand, and in the end it equals
//! a map.
//!
//! The bounds are those that a store promises over any number of openings (docs/reliability.md):
//! files for each region, bytes of the manifest for each file and region, bytes on disk for live
//! data, work of an opening.

use crate::layouts::Tuned;
use crate::rng::Rng;
use crate::visit::{Visit, words_of};
use cantle::vfs::{Call, CrashPlan, FaultVfs, MemVfs, Operation, Verdict, Vfs};
use cantle::{Db, Durability, KeyspaceOptions, LayoutKind, LayoutOptions, Options, Resources};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Openings of one round: enough for files to be merged, and for the merged ones to be merged
/// again. In one of a few rounds, enough for a manifest to be rewritten.
const OPENINGS: [u64; 8] = [160, 160, 160, 160, 160, 160, 160, 900];
/// Pairs are compared after every 16 openings: a lost delete is not visible once its key is put
/// again.
const OPENINGS_COMPARED: u64 = 16;
/// A closing leaves 8 files and a log; killed processes add 2 before an opening merges.
const REGION_FILES_MAX: usize = 11;
/// Maximum number of files of a region if each opening writes to every region: a quarter of them is
/// merged at a time.
const REGION_FILES_MOST: usize = 18;
/// LOCK, PAGECACHE, two reserves, the write buffer, a manifest and the one that is replacing it,
/// journals.
const OTHER_FILES_MAX: usize = 12;
/// For a file or a region, including boundary keys of the length that is used here.
const MANIFEST_BYTES_EACH: u64 = 140;
const MANIFEST_BYTES: u64 = 64 << 10;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// The use of the store in one round.
struct Plan {
    rng: Rng,
    layout: LayoutKind,
    durability: Durability,
    openings: u64,
    keyspaces: Vec<String>,
    region_bytes: u64,
    keys: u64,
    /// Writes of one opening, in each keyspace.
    writes: u64,
    value_bytes: u64,
    /// One opening in this many ends with a close.
    closed_one_in: u64,
    /// True if the first opening fills the store: files that are merged later have older ones below
    /// them.
    is_filled: bool,
    /// True if some writes are range deletes, with which the newest files are not merged alone.
    deletes_ranges: bool,
}

impl Plan {
    fn random(layout: LayoutKind, seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x6f70_656e);
        let durabilities = [Durability::Process, Durability::Sync, Durability::Buffered];
        let names = ["default", "second", "third"];
        Self {
            layout,
            durability: durabilities[rng.below(3) as usize],
            openings: OPENINGS[rng.below(8) as usize],
            keyspaces: names[..1 + rng.below(3) as usize].iter().map(ToString::to_string).collect(),
            region_bytes: [64 << 10, 256 << 10][rng.below(2) as usize],
            keys: [50, 300, 2_000][rng.below(3) as usize],
            writes: [1, 12][rng.below(2) as usize],
            value_bytes: [20, 400][rng.below(2) as usize],
            // A buffered store that is killed loses the writes that no checkpoint covers.
            closed_one_in: [1, 4, 1_000][rng.below(3) as usize],
            is_filled: rng.below(2) == 0,
            deletes_ranges: rng.below(2) == 0,
            rng,
        }
    }

    fn keyspace(&self) -> KeyspaceOptions {
        let layout = LayoutOptions::from(self.layout).with_regions(self.region_bytes);
        KeyspaceOptions::new().layout(layout.with("log_is_level_0", self.keys != 300))
    }

    fn open(&self, disk: Arc<dyn Vfs>, resources: &Resources) -> Db {
        Options::new()
            .vfs(disk)
            .resources(resources.clone())
            .durability(self.durability)
            .checkpoint_interval(Duration::from_secs(3600))
            .default_keyspace(self.keyspace())
            .open("store")
            .unwrap()
    }

    fn compare(&self, db: &Db, name: &str, pairs: &Pairs) {
        let keyspace = db.keyspace_with(name, self.keyspace()).unwrap();
        let found: Pairs = keyspace
            .range(..)
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())).unwrap())
            .collect();
        assert!(found == *pairs, "{name} has {} pairs, not {}, or others", found.len(), pairs.len());
    }

    fn fill(&self, db: &Db, model: &mut BTreeMap<String, Pairs>) {
        for name in &self.keyspaces {
            let keyspace = db.keyspace_with(name, self.keyspace()).unwrap();
            let pairs = model.entry(name.clone()).or_default();
            for number in 0..self.keys {
                let (key, value) = (format!("key {number:08}").into_bytes(), vec![1; 400]);
                keyspace.put(&key, &value).unwrap();
                pairs.insert(key, value);
            }
            keyspace.compact_range(..).unwrap();
        }
        db.sync().unwrap();
    }

    fn write(&mut self, db: &Db, model: &mut BTreeMap<String, Pairs>) {
        for name in self.keyspaces.clone() {
            let keyspace = db.keyspace_with(&name, self.keyspace()).unwrap();
            let pairs = model.entry(name).or_default();
            for _ in 0..self.writes {
                let number = self.rng.below(self.keys);
                let key = format!("key {number:08}").into_bytes();
                match self.rng.below(24) {
                    0 if self.deletes_ranges => {
                        let to = format!("key {:08}", number + self.rng.below(20)).into_bytes();
                        keyspace.delete_range(&key[..]..&to[..]).unwrap();
                        pairs.retain(|other, _| *other < key || *other >= to);
                    }
                    0..6 => {
                        keyspace.delete(&key).unwrap();
                        pairs.remove(&key);
                    }
                    _ => {
                        let value = vec![number as u8; self.rng.below(self.value_bytes) as usize];
                        keyspace.put(&key, &value).unwrap();
                        pairs.insert(key, value);
                    }
                }
            }
        }
        if self.durability == Durability::Buffered {
            db.sync().unwrap();
        }
    }
}

/// A file system that counts the bytes read and written.
fn counted(disk: &MemVfs, bytes: &Arc<AtomicU64>) -> FaultVfs {
    let (vfs, bytes) = (FaultVfs::over_memory(disk.clone()), bytes.clone());
    vfs.set_rule(move |call: &Call<'_>| {
        if matches!(call.operation, Operation::ReadAt | Operation::WriteAt) {
            bytes.fetch_add(call.len, Relaxed);
        }
        Verdict::Pass
    });
    vfs
}

/// Checks the directory, given the number of regions in the statistics.
fn check_size(disk: &MemVfs, regions: usize, live_bytes: u64, region_files_max: usize) {
    let (mut files, mut data_files, mut data_bytes, mut manifest_bytes) = (0, 0, 0, 0);
    for name in disk.list(Path::new("store")).unwrap() {
        let bytes = disk.metadata(&Path::new("store").join(&name)).unwrap().unwrap().len;
        files += 1;
        if name.ends_with(".log") || name.ends_with(".table") {
            data_files += 1;
            data_bytes += bytes;
        } else if name.starts_with("MANIFEST-") {
            manifest_bytes += bytes;
        }
    }
    // Files of the last checkpoint stay until the next.
    let files_max = 2 * region_files_max * regions + OTHER_FILES_MAX;
    let names = || disk.list(Path::new("store")).unwrap();
    assert!(files <= files_max, "{files} files of {regions} regions: {:?}", names());
    let allowed = MANIFEST_BYTES_EACH * (data_files + regions) as u64 + MANIFEST_BYTES;
    assert!(manifest_bytes <= allowed, "a manifest of {manifest_bytes} bytes for {data_files} files");
    // Headers, filters and indexes of small files, and garbage that is not yet counted.
    let allowed = 6 * live_bytes + 4096 * data_files as u64 + (4 << 20);
    assert!(data_bytes <= allowed, "{data_bytes} bytes for {live_bytes} that are live");
}

fn round(seed: u64, visit: &Visit) {
    let mut plan = Plan::random(visit.layout, seed);
    let resources = Resources::new(4 << 20, 1);
    let mut disk = MemVfs::new();
    let mut model: BTreeMap<String, Pairs> = BTreeMap::new();
    let bytes = Arc::new(AtomicU64::new(0));
    let every_region = plan.writes * u64::from(plan.keys < 100) > 0 || plan.keyspaces.len() > 1;
    let region_files_max = if every_region { REGION_FILES_MOST } else { REGION_FILES_MAX };
    for opening in 0..plan.openings {
        let db = plan.open(Arc::new(counted(&disk, &bytes)), &resources);
        if opening % OPENINGS_COMPARED == 0 {
            model.iter().for_each(|(name, pairs)| plan.compare(&db, name, pairs));
        }
        if opening == 0 && plan.is_filled {
            plan.fill(&db, &mut model);
        }
        plan.write(&db, &mut model);
        // A layout over levels has logs before it has a region.
        let regions: u64 = db.stats().keyspaces.iter().map(|keyspace| keyspace.regions.max(1)).sum();
        if (opening + 1) % plan.closed_one_in == 0 {
            db.close().unwrap();
            disk = if plan.rng.below(2) == 0 { disk.kill() } else { disk.crash(&CrashPlan::LOSE_UNSYNCED) };
            visit.count("openings that were closed", 1);
        } else {
            disk = disk.kill();
            drop(db);
            visit.count("openings that were killed", 1);
        }
        let live = |pairs: &Pairs| {
            pairs.iter().map(|(key, value)| (key.len() + value.len() + 16) as u64).sum::<u64>()
        };
        check_size(&disk, regions as usize, model.values().map(live).sum(), region_files_max);
        let work = bytes.swap(0, Relaxed);
        assert!(work <= 16 << 20, "opening {opening} read and wrote {work} bytes");
    }
    let db = plan.open(Arc::new(disk), &resources);
    assert!(db.verify().unwrap().damage.is_empty());
    for (name, pairs) in &model {
        plan.compare(&db, name, pairs);
        let keyspace = db.keyspace_with(name, plan.keyspace()).unwrap();
        for number in 0..plan.keys {
            let key = format!("key {number:08}").into_bytes();
            assert!(
                keyspace.get(&key).unwrap().as_deref() == pairs.get(&key).map(Vec::as_slice),
                "a get differs"
            );
        }
    }
    visit.count("stores checked", 1);
}

/// A few rounds, each with a store of its own. A case is the seed of a round.
pub fn enter(visit: &Visit) {
    if !visit.is_capable("free space", |layout| layout.frees_space) {
        return;
    }
    let tell = |seed: u64| {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(seed, visit))) {
            let text = words_of(&*panic);
            let layout = visit.layout;
            panic!(
                "{seed}: {text}\nagain: cargo run -p cantle-faults -- --doors openings --layout {layout} --case {seed}"
            );
        }
    };
    if let Some(case) = &visit.case {
        return tell(case.parse().unwrap_or_else(|_| panic!("{case:?} is no seed")));
    }
    for seed in visit.rounds() {
        const STORES: u64 = 32;
        let seeds: Vec<u64> = (0..STORES).map(|store| seed.wrapping_add(store)).collect();
        visit.each(&seeds, |seed| tell(*seed));
    }
}
