//! A merge of two trees into the next stage, step by step, beside writers, gets, a parked iterator, a snapshot and
//! losses of power: early cleaning (SifrDB §4.2). The keys of a step go from their trees by the edit that brings
//! the output, and their files go once that edit is durable and nobody reads them.
//!
//! Properties:
//!
//! * *Recency.* A get finds the version that was last installed, or a later one, and no older version is above a newer
//!   one.
//! * *Snapshots.* An iterator finds each key once, in the version of its snapshot, whatever was merged and removed
//!   while it was parked.
//! * *Crashes.* Whatever part of the edits that are not durable a loss of power leaves, every file that the manifest names
//!   is there, and no key has lost a version that was installed by these edits.

use super::lsm::busy::{Busy, Claim, Claims};
use shuttle::sync::atomic::AtomicU64;
use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::sync::{Arc, Mutex, MutexGuard};
use shuttle::thread::{spawn, yield_now};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// An error of the code around the claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// The files of a step's inputs go as soon as its output is written.
    CleansBeforeItsEdit,
    /// They go before the edit is durable.
    CleansBeforeDurable,
    /// They go although somebody reads them.
    CleansWhatIsRead,
    /// A sub-tree that reaches beyond the step goes as a whole.
    ForgetsTheRest,
    /// A sub-tree of all keys stays as a whole.
    LeavesTheMerged,
    /// A step puts its output into the view in the place of the trees of its start.
    InstallsOverItsStart,
    /// A merge keeps the newest version of each key only.
    ForgetsSnapshots,
}

/// Numbers of what the model has tried.
#[derive(Debug, Default)]
pub struct Done {
    pub steps: AtomicUsize,
    /// Steps that left a part of a sub-tree.
    pub narrowed: AtomicUsize,
    /// Files that went before the merge was complete.
    pub cleaned_early: AtomicUsize,
    /// Files that waited for a reader, or for an edit to be durable.
    pub held: AtomicUsize,
    /// Stretches that an iterator reached by another view than the one before.
    pub moved: AtomicUsize,
    /// Losses of power in the middle of the merge.
    pub crashes: AtomicUsize,
}

const KEYS: usize = 4;
/// Number of keys that a step merges.
const PACE: usize = 1;
/// Number of checkpoints.
const ROUNDS: usize = 8;
/// Numbers of the trees, newest first: those that come later, the two that are merged, and the one that grows.
const LATER: u64 = 0;
const INPUTS: [u64; 2] = [1, 2];
const TARGET: u64 = 3;

/// The versions of each key in a file, newest first.
type Content = [Vec<u64>; KEYS];

/// A sub-tree: a file, and the keys for which it is read.
#[derive(Clone)]
struct Run {
    file: Arc<u64>,
    keys: Range<usize>,
}

/// The runs of each tree, by its number; the newest tree first.
type View = BTreeMap<(u64, u64), Vec<Run>>;

/// An edit of the manifest.
struct Edit {
    /// The files that are named after it, with their keys.
    named: Vec<(u64, Range<usize>)>,
    /// The last version installed.
    installed: u64,
}

#[derive(Default)]
struct Disk {
    next_file: u64,
    files: BTreeMap<u64, Content>,
    edits: Vec<Edit>,
    durable: usize,
    /// Files that no view has from this edit on.
    obsolete: Vec<(Arc<u64>, usize)>,
}

struct Store {
    claims: Claims,
    view: Mutex<View>,
    disk: Mutex<Disk>,
    installed: AtomicU64,
    /// The version of the snapshot that is open.
    snapshot: AtomicU64,
    fault: Fault,
    done: std::sync::Arc<Done>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// The keys of a span that another one does not have, of two that overlap.
fn without(span: &Range<usize>, other: &Range<usize>) -> Vec<Range<usize>> {
    let rest = [span.start..other.start.max(span.start), other.end.min(span.end)..span.end];
    rest.into_iter().filter(|rest| !rest.is_empty()).collect()
}

impl Store {
    /// Writes a file; it is on the disk, and nothing names it.
    fn write(&self, content: Content) -> Arc<u64> {
        let mut disk = locked(&self.disk);
        disk.next_file += 1;
        let id = disk.next_file;
        disk.files.insert(id, content);
        Arc::new(id)
    }

    fn read(&self, run: &Run, key: usize) -> Vec<u64> {
        yield_now();
        let disk = locked(&self.disk);
        let content = disk.files.get(&*run.file);
        assert!(content.is_some(), "broken: file {} is read, and gone", run.file);
        content.map(|content| content[key].clone()).unwrap_or_default()
    }

    /// Appends an edit that leaves the view like this, and changes the view. The caller has the lock of the claims.
    fn publish(&self, before: &View, after: View, installed: u64) {
        let runs = |view: &View| view.values().flatten().cloned().collect::<Vec<Run>>();
        let left = runs(&after);
        let named = left.iter().map(|run| (*run.file, run.keys.clone())).collect();
        let at = {
            let mut disk = locked(&self.disk);
            disk.edits.push(Edit { named, installed });
            disk.edits.len()
        };
        yield_now();
        *locked(&self.view) = after;
        let gone = runs(before).into_iter().filter(|run| left.iter().all(|left| left.file != run.file));
        locked(&self.disk).obsolete.extend(gone.map(|run| (run.file, at)));
    }

    /// A memtable of all keys is merged into a tree of its own, the newest one.
    fn install(&self, version: u64) {
        let file = self.write(std::array::from_fn(|_| vec![version]));
        let busy = self.claims.lock();
        let before = locked(&self.view).clone();
        let mut after = before.clone();
        after.insert((LATER, u64::MAX - version), vec![Run { file, keys: 0..KEYS }]);
        self.publish(&before, after, version);
        self.installed.store(version, SeqCst);
        drop(busy);
    }

    /// The next step of the merge; false if nothing is left to merge.
    fn step(&self) -> bool {
        let busy = self.claims.lock();
        let start = locked(&self.view).clone();
        let inputs = || INPUTS.iter().filter_map(|tree| start.get(&(1, *tree))).flatten();
        let target = start.get(&(2, TARGET)).into_iter().flatten();
        let first = target.map(|run| run.keys.end).max().unwrap_or(0);
        if first == KEYS {
            return false;
        }
        let keys = first..first + PACE;
        let claim = Claim { from: INPUTS.to_vec(), into: vec![TARGET], logs: false };
        if !busy.admits(&claim) {
            drop(busy);
            yield_now();
            return true;
        }
        let claimed = self.claims.claim(busy, claim);
        // Only now: a snapshot that is opened later needs only the newest version of each key.
        let snapshot = self.snapshot.load(SeqCst);
        let taken: Vec<Run> = inputs().filter(|run| run.keys.contains(&first)).cloned().collect();
        let content = std::array::from_fn(|key| {
            let versions = taken.iter().filter(|_| keys.contains(&key)).flat_map(|run| self.read(run, key));
            let mut versions: Vec<u64> = versions.collect();
            let seen = versions.iter().copied().find(|version| *version <= snapshot);
            let newest = versions.first().copied();
            versions.retain(|version| {
                Some(*version) == newest || Some(*version) == seen && self.fault != Fault::ForgetsSnapshots
            });
            versions
        });
        let output = Run { file: self.write(content), keys: keys.clone() };
        if self.fault == Fault::CleansBeforeItsEdit {
            taken.iter().filter(|run| run.keys.end == keys.end).for_each(|run| self.remove(*run.file));
        }
        let busy = self.claims.lock();
        self.change(&busy, &start, &taken, output);
        drop(busy);
        drop(claimed);
        self.done.steps.fetch_add(1, Relaxed);
        true
    }

    /// Takes what was merged out of its trees, and puts the output into the tree that grows.
    fn change(&self, _: &Busy, start: &View, taken: &[Run], output: Run) {
        let before = locked(&self.view).clone();
        let mut after =
            if self.fault == Fault::InstallsOverItsStart { start.clone() } else { before.clone() };
        let inputs = || INPUTS.iter().filter_map(|tree| before.get(&(1, *tree))).flatten();
        let is_there = |taken: &Run| inputs().any(|run| run.file == taken.file && run.keys == taken.keys);
        assert!(taken.iter().all(is_there), "broken: a run that a step took is gone");
        for tree in INPUTS {
            let Some(runs) = after.remove(&(1, tree)) else { continue };
            let left: Vec<Run> =
                runs.into_iter().flat_map(|run| self.left(run, taken, &output.keys)).collect();
            if !left.is_empty() {
                after.insert((1, tree), left);
            }
        }
        after.entry((2, TARGET)).or_default().push(output);
        let installed = self.installed.load(SeqCst);
        self.publish(&before, after, installed);
        self.check();
    }

    /// The newest versions of a key never ascend towards older runs.
    fn check(&self) {
        let view = locked(&self.view).clone();
        let disk = locked(&self.disk);
        for key in 0..KEYS {
            let runs = view.values().flatten().filter(|run| run.keys.contains(&key));
            let newest = runs.filter_map(|run| disk.files.get(&*run.file)?[key].first());
            assert!(
                newest.is_sorted_by(|a, b| a > b),
                "broken: key {key} has an older version above a newer one"
            );
        }
    }

    /// The parts of a run that are left after a step.
    fn left(&self, run: Run, taken: &[Run], merged: &Range<usize>) -> Vec<Run> {
        if !taken.iter().any(|taken| taken.file == run.file) {
            return vec![run];
        }
        let rest = match self.fault {
            Fault::ForgetsTheRest => Vec::new(),
            Fault::LeavesTheMerged if run.keys.len() == KEYS => vec![run.keys.clone()],
            _ => without(&run.keys, merged),
        };
        self.done.narrowed.fetch_add(rest.len(), Relaxed);
        rest.into_iter().map(|keys| Run { file: run.file.clone(), keys }).collect()
    }

    /// Removes a file, and the power fails at once, as far as the others know.
    fn remove(&self, file: u64) {
        locked(&self.disk).files.remove(&file);
        self.crash();
    }

    /// Makes the edits durable, as a checkpoint does.
    fn sync(&self) {
        let mut disk = locked(&self.disk);
        disk.durable = disk.edits.len();
    }

    /// Removes the files that nothing names and nobody reads.
    fn clean(&self) {
        let obsolete = std::mem::take(&mut locked(&self.disk).obsolete);
        for (file, edit) in obsolete {
            yield_now();
            let is_durable = edit <= locked(&self.disk).durable || self.fault == Fault::CleansBeforeDurable;
            let is_read = Arc::strong_count(&file) > 1 && self.fault != Fault::CleansWhatIsRead;
            if is_durable && !is_read {
                self.remove(*file);
                let is_merging = INPUTS.iter().any(|tree| locked(&self.view).contains_key(&(1, *tree)));
                self.done.cleaned_early.fetch_add(is_merging.into(), Relaxed);
            } else {
                locked(&self.disk).obsolete.push((file, edit));
                self.done.held.fetch_add(1, Relaxed);
            }
        }
    }

    /// The newest version of a key that a snapshot sees.
    fn find(&self, view: &View, key: usize, snapshot: u64) -> Option<u64> {
        let runs = view.values().flatten().filter(|run| run.keys.contains(&key));
        runs.flat_map(|run| self.read(run, key)).find(|version| *version <= snapshot)
    }

    fn get(&self, key: usize) {
        let least = self.installed.load(SeqCst);
        let view = locked(&self.view).clone();
        let found = self.find(&view, key, u64::MAX);
        assert!(found >= Some(least), "broken: key {key} has {found:?}, and had {least}");
    }

    /// An iterator at the snapshot. It keeps the files of the stretch that it stands in, and no view.
    fn scan(&self) {
        let snapshot = self.snapshot.load(SeqCst);
        let mut last: Option<Vec<u64>> = None;
        let mut key = 0;
        while key < KEYS {
            let view = locked(&self.view).clone();
            let files: Vec<u64> = view.values().flatten().map(|run| *run.file).collect();
            self.done.moved.fetch_add(last.is_some_and(|last| last != files).into(), Relaxed);
            last = Some(files);
            // As far as the shortest of the runs that have the key.
            let with_key = || view.values().flatten().filter(|run| run.keys.contains(&key));
            let end = with_key().map(|run| run.keys.end).min().unwrap_or(KEYS);
            let stretch: View = view
                .iter()
                .map(|(tree, runs)| {
                    (*tree, runs.iter().filter(|run| run.keys.contains(&key)).cloned().collect())
                })
                .collect();
            drop(view);
            for key in key..end {
                // Parked, while others merge and clean.
                yield_now();
                let found = self.find(&stretch, key, snapshot);
                assert_eq!(found, Some(snapshot), "broken: key {key} at snapshot {snapshot}");
            }
            key = end;
        }
    }

    /// The power fails: some of the edits that are not durable are left.
    fn crash(&self) {
        let disk = locked(&self.disk);
        for Edit { named, installed } in disk.edits.iter().skip(disk.durable.saturating_sub(1)) {
            for (file, _) in named {
                assert!(disk.files.contains_key(file), "broken: file {file} is named, and gone");
            }
            for key in 0..KEYS {
                let runs = named.iter().filter(|(_, keys)| keys.contains(&key));
                let newest =
                    runs.flat_map(|(file, _)| disk.files.get(file)).flat_map(|file| &file[key]).max();
                assert!(newest >= Some(installed), "broken: key {key} has {newest:?} of {installed}");
            }
            let is_merging = named.iter().any(|(_, keys)| keys.len() < KEYS);
            self.done.crashes.fetch_add(is_merging.into(), Relaxed);
        }
    }
}

/// A store with two trees to merge: the older one in one sub-tree, the newer one in two. The newer one has newer
/// versions of all keys, and the snapshot sees the older ones.
fn store(fault: Fault, done: &std::sync::Arc<Done>) -> Store {
    let store = Store {
        claims: Claims::default(),
        view: Mutex::default(),
        disk: Mutex::default(),
        installed: AtomicU64::new(0),
        snapshot: AtomicU64::new(1),
        fault,
        done: done.clone(),
    };
    let half = KEYS / 2;
    let content = |keys: Range<usize>, version: u64| -> Content {
        std::array::from_fn(|key| if keys.contains(&key) { vec![version] } else { Vec::new() })
    };
    let run = |keys: Range<usize>, version| Run { file: store.write(content(keys.clone(), version)), keys };
    let older = vec![run(0..KEYS, 1)];
    let newer = vec![run(0..half, 2), run(half..KEYS, 2)];
    let view = View::from([((1, INPUTS[0]), newer), ((1, INPUTS[1]), older)]);
    store.publish(&View::new(), view, 2);
    store.installed.store(2, SeqCst);
    store.sync();
    store
}

/// Steps of the merge by two threads beside writes, reads, checkpoints with removals, and losses of power.
pub fn everything(fault: Fault, done: &std::sync::Arc<Done>) {
    let store = Arc::new(store(fault, done));
    let run = |act: fn(&Store)| {
        let store = store.clone();
        spawn(move || act(&store))
    };
    let threads = [
        run(|store| while store.step() {}),
        run(|store| (0..2).for_each(|_| _ = store.step())),
        run(|store| (3..5).for_each(|version| store.install(version))),
        run(|store| (0..KEYS).for_each(|key| store.get(key))),
        run(Store::scan),
        run(|store| {
            for _ in 0..ROUNDS {
                store.clean();
                store.sync();
                store.clean();
                yield_now();
            }
        }),
        run(|store| (0..3).for_each(|_| store.crash())),
    ];
    for thread in threads {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
    store.claims.wait_for_all();
    store.crash();
    store.sync();
    store.clean();
    (0..KEYS).for_each(|key| store.get(key));
    store.scan();
    let disk = locked(&store.disk);
    let named = disk.edits.last().map(|edit| edit.named.len()).unwrap_or(0);
    assert_eq!((disk.files.len(), disk.obsolete.len()), (named, 0), "broken: files are left");
}
