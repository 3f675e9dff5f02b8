//! A store and its model, and everything that is done to both.

use super::config::{Config, Tuning};
use super::keys::{Keys, value};
use super::random::Random;
use super::readers::{Held, HeldCursor, HeldRange, assert_same_value, read_all};
use super::state::{Space, State, difference, same, show};
use super::totals::Totals;
use cantle::vfs::{MemVfs, StdVfs, Vfs};
use cantle::{Db, Durability, Error, Options, WriteBatch, WriteOptions};
use std::collections::HashSet;
use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;

/// Does the same to the default keyspace through the store, or to a named one.
macro_rules! on {
    ($world:expr, $space:expr, $it:ident => $act:expr) => {
        match &$space.handle {
            Some($it) => $act,
            None => {
                let $it = $world.db();
                $act
            }
        }
    };
}

/// Does the same to the default keyspace through a transaction, or to a named one.
macro_rules! in_transaction {
    ($tx:expr, $space:expr, $plain:ident, $inside:ident, $($argument:expr),*) => {
        match &$space.handle {
            Some(keyspace) => $tx.$inside(keyspace, $($argument),*),
            None => $tx.$plain($($argument),*),
        }
    };
}

const HELD_MAX: usize = 4;
const HISTORY_MAX: usize = 400;

pub struct World {
    random: Random,
    config: Config,
    disk: Disk,
    db: Option<Db>,
    state: State,
    /// Every state since the last one that is known to be durable. One, where nothing acknowledged may be lost.
    history: Vec<State>,
    held: Vec<Held>,
    pub totals: Totals,
    number: u64,
    backups: usize,
    traces: bool,
}

/// A bound for people.
struct Text<'a>(&'a Bound<Vec<u8>>);

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.as_ref().map(|key| show(key)))
    }
}

enum Disk {
    Memory(MemVfs),
    Real(tempfile::TempDir),
}

impl World {
    pub fn new(seed: u64, turn: usize, operations: usize) -> Self {
        let mut random = Random::new(seed);
        let config = Config::random(&mut random, turn, operations);
        let disk = if config.real_directory {
            Disk::Real(tempfile::tempdir().unwrap())
        } else {
            Disk::Memory(MemVfs::without_history())
        };
        let mut state = State::new();
        state.insert("default".into(), Space::new(config.space("default").0, None));
        let mut world = Self {
            random,
            config,
            disk,
            db: None,
            history: vec![state.clone()],
            state,
            held: Vec::new(),
            totals: Totals::default(),
            number: 0,
            backups: 0,
            traces: std::env::var_os("CANTLE_TRACE").is_some(),
        };
        world.trace(|world| format!("{:?}", world.config));
        world.open();
        world
    }

    pub fn run(mut self) -> Totals {
        for _ in 0..self.config.operations {
            self.step();
        }
        self.close_and_open();
        self.check_everything();
        self.close();
        self.totals
    }

    fn trace(&self, what: impl FnOnce(&Self) -> String) {
        if self.traces {
            eprintln!("{:6} {}", self.number, what(self));
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("an open store")
    }

    fn path(&self, name: &str) -> PathBuf {
        match &self.disk {
            Disk::Memory(_) => PathBuf::from(name),
            Disk::Real(dir) => dir.path().join(name),
        }
    }

    fn options(&mut self) -> Options {
        let vfs: Arc<dyn Vfs> = match &self.disk {
            Disk::Memory(vfs) => Arc::new(vfs.clone()),
            Disk::Real(_) => Arc::new(StdVfs),
        };
        self.config.options(&mut self.random).vfs(vfs)
    }

    fn open(&mut self) {
        let options = self.options();
        let db = options.open(self.path("store")).unwrap();
        self.attach(db);
    }

    /// Takes handles to the keyspaces of the model.
    fn attach(&mut self, db: Db) {
        for (name, space) in &mut self.state {
            let options = Tuning::random(&mut self.random).options();
            let options = if self.random.chance(50) { space.order.apply(options) } else { options };
            let by_name = name != "default" || self.random.chance(50);
            space.handle = by_name.then(|| db.keyspace(name, options).unwrap());
        }
        self.db = Some(db);
    }

    /// Lets go of every handle, so that the store is released.
    fn detach(&mut self) {
        if let Some(db) = &self.db {
            self.totals.add(&db.stats());
        }
        self.held.clear();
        self.state.values_mut().for_each(|space| space.handle = None);
        self.history.iter_mut().flat_map(|state| state.values_mut()).for_each(|space| space.handle = None);
        self.db = None;
    }

    fn close(&mut self) {
        let db = self.db().clone();
        db.close().unwrap();
        assert!(matches!(db.get("a"), Err(Error::Closed)));
        assert!(matches!(db.close(), Err(Error::Closed)));
        drop(db);
        self.detach();
        self.durable();
    }

    fn close_and_open(&mut self) {
        if self.random.chance(50) {
            self.close();
        } else {
            self.detach();
            self.durable();
        }
        if self.random.chance(30) {
            self.look_read_only();
        }
        self.open();
    }

    fn look_read_only(&mut self) {
        let db = self.options().read_only(true).open(self.path("store")).unwrap();
        assert!(matches!(db.put("a", "b"), Err(Error::ReadOnly { .. })));
        let found = read_all(&db, |name| self.config.space(name).0);
        self.settle_on(found, "read-only");
    }

    /// The store as the death of its process leaves it.
    fn kill(&mut self) {
        let Disk::Memory(vfs) = &self.disk else { return self.close_and_open() };
        let after = vfs.kill();
        self.detach();
        self.disk = Disk::Memory(after);
        if self.random.chance(30) {
            self.look_read_only();
        }
        let db = self.options().open(self.path("store")).unwrap();
        let found = read_all(&db, |name| self.config.space(name).0);
        self.settle_on(found, "after a kill");
        self.attach(db);
    }

    /// Finds the model's state that a store came back in: at `Process` and `Sync` the last, else any since the
    /// last checkpoint that was asked for.
    fn settle_on(&mut self, found: State, when: &str) {
        let place = self.history.iter().rposition(|state| same(state, &found));
        let Some(place) = place else {
            panic!("{when}: {} (of {} states)", difference(&found, &self.state), self.history.len());
        };
        self.state = self.history[place].clone();
        self.history.truncate(place + 1);
    }

    /// Everything until now is durable.
    fn durable(&mut self) {
        self.history = vec![self.state.clone()];
    }

    /// A write was acknowledged.
    fn written(&mut self) {
        if self.config.durability == Durability::Buffered {
            self.history.push(self.state.clone());
            if self.history.len() > HISTORY_MAX {
                self.db().sync().unwrap();
                self.durable();
            }
        } else {
            self.durable();
        }
    }

    fn keys(&self, name: &str) -> Keys {
        self.config.space(name).1
    }

    fn value(&mut self) -> Vec<u8> {
        value(&mut self.random, self.config.value_bytes_max, self.number)
    }

    /// A keyspace that there is, most often the default one.
    fn name(&mut self) -> String {
        if self.random.chance(60) {
            return "default".into();
        }
        let names: Vec<_> = self.state.keys().cloned().collect();
        self.random.pick(&names)
    }

    fn step(&mut self) {
        self.number += 1;
        let name = self.name();
        let keys = self.keys(&name);
        match self.random.below(1000) {
            0..400 => self.put(&name, keys),
            400..430 => self.delete(&name, keys),
            430..450 => self.update(&name, keys),
            450..458 => self.delete_range(&name, keys),
            458..485 => self.batch(),
            485..500 => self.transaction(),
            500..800 => self.get(&name, keys),
            800..840 => self.range(&name, keys),
            840..860 => self.cursor(&name, keys),
            860..880 => self.hold(),
            880..970 => self.look_at_held(),
            970..974 => self.keyspaces(),
            974..980 => self.compact(&name, keys),
            980..986 => {
                self.trace(|_| "sync".into());
                self.db().sync().unwrap();
                self.durable();
            }
            986..990 => self.approximate(&name, keys),
            990 => self.back_up(),
            991 => self.verify(),
            992..995 => self.metadata(&name),
            995..997 => {
                self.trace(|_| "close and open".into());
                self.close_and_open();
                self.check_everything();
            }
            _ => {
                self.trace(|_| "kill".into());
                self.kill();
            }
        }
    }

    fn put(&mut self, name: &str, keys: Keys) {
        let (key, value) = (keys.key(&mut self.random), self.value());
        self.trace(|_| format!("put {name} {} {}", show(&key), show(&value)));
        on!(self, self.state[name], it => it.put(&key, &value)).unwrap();
        self.space(name).put(&key, &value);
        self.written();
    }

    fn delete(&mut self, name: &str, keys: Keys) {
        let key = keys.key(&mut self.random);
        self.trace(|_| format!("delete {name} {}", show(&key)));
        on!(self, self.state[name], it => it.delete(&key)).unwrap();
        self.space(name).delete(&key);
        self.written();
    }

    fn update(&mut self, name: &str, keys: Keys) {
        let (key, value) = (keys.key(&mut self.random), self.value());
        self.trace(|_| format!("update {name} {}", show(&key)));
        let delete = self.random.chance(20);
        let old = self.state[name].get(&key);
        let change = |found: Option<&[u8]>| {
            assert_same_value(name, &key, found, old.as_deref());
            (!delete).then(|| value.clone())
        };
        let new = on!(self, self.state[name], it => it.update(&key, change)).unwrap();
        assert_same_value(name, &key, new.as_deref(), (!delete).then_some(&value[..]));
        if delete {
            self.space(name).delete(&key);
        } else {
            self.space(name).put(&key, &value);
        }
        self.written();
    }

    fn delete_range(&mut self, name: &str, keys: Keys) {
        let bounds = if self.random.chance(8) {
            (Bound::Unbounded, Bound::Unbounded)
        } else {
            keys.bounds(&mut self.random)
        };
        self.trace(|_| format!("delete_range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
        on!(self, self.state[name], it => it.delete_range(bounds.clone())).unwrap();
        self.space(name).delete_range(&bounds);
        self.written();
    }

    fn batch(&mut self) {
        let mut batch = WriteBatch::new();
        let mut state = self.state.clone();
        let count = self.random.below(20);
        let mut last: Option<(String, Vec<u8>)> = None;
        for _ in 0..count {
            let (name, key) = match &last {
                Some(last) if self.random.chance(20) => last.clone(),
                _ => {
                    let name = self.name();
                    let key = self.keys(&name).key(&mut self.random);
                    (name, key)
                }
            };
            let value = self.value();
            let Some(space) = state.get_mut(&name) else { continue };
            let handle = space.handle.clone();
            match self.random.below(12) {
                0..8 => {
                    self.trace(|_| format!("- put {name} {} {}", show(&key), show(&value)));
                    space.put(&key, &value);
                    match &handle {
                        Some(keyspace) => batch.put_in(keyspace, &key, &value),
                        None => batch.put(&key, &value),
                    };
                }
                8..11 => {
                    self.trace(|_| format!("- delete {name} {}", show(&key)));
                    space.delete(&key);
                    match &handle {
                        Some(keyspace) => batch.delete_in(keyspace, &key),
                        None => batch.delete(&key),
                    };
                }
                _ => {
                    let bounds = self.config.space(&name).1.bounds(&mut self.random);
                    self.trace(|_| {
                        format!("- delete_range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1))
                    });
                    space.delete_range(&bounds);
                    match &handle {
                        Some(keyspace) => batch.delete_range_in(keyspace, bounds),
                        None => batch.delete_range(bounds),
                    };
                }
            }
            last = Some((name, key));
        }
        self.trace(|_| format!("batch of {}", batch.len()));
        let wanted = self.random.pick(&[Durability::Buffered, Durability::Process, Durability::Sync]);
        let with = self.random.chance(20);
        if with {
            self.db().write_with(batch, WriteOptions::new().durability(wanted)).unwrap();
        } else {
            self.db().write(batch).unwrap();
        }
        self.state = state;
        if with && wanted == Durability::Sync { self.durable() } else { self.written() }
    }

    /// Reads and writes through a transaction, which ends one way or another.
    fn transaction(&mut self) {
        self.trace(|_| "transaction".into());
        let mut tx = self.db().transaction();
        let mut state = self.state.clone();
        let (mut read, mut wrote, mut deleted) = (Vec::new(), Vec::new(), HashSet::new());
        for _ in 0..self.random.below(20) {
            let name = self.name();
            let keys = self.keys(&name);
            let (key, value) = (keys.key(&mut self.random), self.value());
            let Some(space) = state.get_mut(&name) else { continue };
            match self.random.below(12) {
                0..3 => {
                    self.trace(|_| format!("- put {name} {} {}", show(&key), show(&value)));
                    in_transaction!(tx, space, put, put_in, &key, &value).unwrap();
                    space.put(&key, &value);
                    wrote.push((name, space.key(&key)));
                }
                3..5 => {
                    self.trace(|_| format!("- delete {name} {}", show(&key)));
                    in_transaction!(tx, space, delete, delete_in, &key).unwrap();
                    space.delete(&key);
                    wrote.push((name, space.key(&key)));
                }
                5 => {
                    let bounds = keys.bounds(&mut self.random);
                    self.trace(|_| {
                        format!("- delete_range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1))
                    });
                    in_transaction!(tx, space, delete_range, delete_range_in, bounds.clone()).unwrap();
                    space.delete_range(&bounds);
                    if !space.is_empty_range(&bounds) {
                        deleted.insert(name);
                    }
                }
                6..9 => {
                    let found = in_transaction!(tx, space, get, get_in, &key).unwrap();
                    assert_same_value(&name, &key, found.as_deref(), space.get(&key).as_deref());
                    read.push((name, space.key(&key)));
                }
                9 => {
                    let prefix = keys.prefix(&mut self.random);
                    let range = in_transaction!(tx, space, prefix, prefix_in, &prefix);
                    HeldRange::new(range, space.prefix(&prefix)).finish(&mut self.random);
                }
                10 => {
                    let bounds = keys.bounds(&mut self.random);
                    let range = in_transaction!(tx, space, range, range_in, bounds.clone());
                    HeldRange::new(range, space.range(&bounds)).finish(&mut self.random);
                }
                _ => {
                    let bounds = keys.bounds(&mut self.random);
                    let cursor = in_transaction!(tx, space, cursor, cursor_in, bounds.clone());
                    let mut held = HeldCursor::new(cursor, space.range(&bounds), keys);
                    for _ in 0..self.random.below(30) {
                        held.step(&mut self.random);
                    }
                }
            }
        }
        if self.random.chance(20) {
            self.trace(|_| "- rolled back".into());
            return tx.rollback();
        }
        if !read.is_empty() && self.random.chance(20) {
            let (name, key) = self.random.pick(&read);
            // A look-up of what the transaction had written before is none.
            let is_certain = !wrote.contains(&(name.clone(), key.clone())) && !deleted.contains(&name);
            if is_certain {
                self.trace(|_| format!("- meanwhile put {name} {}", show(&key.bytes)));
                let value = self.value();
                on!(self, self.state[&name], it => it.put(&key.bytes, &value)).unwrap();
                self.space(&name).put(&key.bytes, &value);
                self.written();
                let done = tx.commit();
                assert_eq!(
                    done.is_err_and(|error| error.is_conflict()),
                    !wrote.is_empty() || !deleted.is_empty()
                );
                return;
            }
        }
        self.trace(|_| "- committed".into());
        tx.commit().unwrap();
        self.state = state;
        self.written();
    }

    fn get(&mut self, name: &str, keys: Keys) {
        let key = keys.key(&mut self.random);
        let space = &self.state[name];
        let expected = space.get(&key);
        let found = match self.random.below(3) {
            0 => on!(self, space, it => it.get(&key)).unwrap().map(|value| value.to_vec()),
            1 => on!(self, space, it => it.get_with(&key, <[u8]>::to_vec)).unwrap(),
            _ => {
                let found = on!(self, space, it => it.contains_key(&key)).unwrap();
                assert_eq!(found, expected.is_some(), "{name}: {}", show(&key));
                return;
            }
        };
        assert_same_value(name, &key, found.as_deref(), expected.as_deref());
    }

    fn range(&mut self, name: &str, keys: Keys) {
        let space = &self.state[name];
        let held = if self.random.chance(40) {
            let prefix = keys.prefix(&mut self.random);
            self.trace(|_| format!("prefix {name} {}", show(&prefix)));
            HeldRange::new(on!(self, space, it => it.prefix(&prefix)), space.prefix(&prefix))
        } else {
            let bounds = keys.bounds(&mut self.random);
            self.trace(|_| format!("range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
            HeldRange::new(on!(self, space, it => it.range(bounds.clone())), space.range(&bounds))
        };
        held.finish(&mut self.random);
    }

    fn cursor(&mut self, name: &str, keys: Keys) {
        let bounds = keys.bounds(&mut self.random);
        self.trace(|_| format!("cursor {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
        let space = &self.state[name];
        let cursor = on!(self, space, it => it.cursor(bounds.clone()));
        let mut held = HeldCursor::new(cursor, space.range(&bounds), keys);
        for _ in 0..self.random.below(30) {
            held.step(&mut self.random);
        }
    }

    fn hold(&mut self) {
        self.trace(|_| "hold".into());
        if self.held.len() >= HELD_MAX {
            let at = self.random.below(self.held.len());
            let held = self.held.swap_remove(at);
            if self.random.chance(30) {
                held.check_all(&mut self.random);
            }
        }
        let held = Held::new(self.db().snapshot(), self.state.clone());
        self.held.push(held);
    }

    fn look_at_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len());
        let Self { held, random, config, .. } = self;
        held[at].step(random, |name| config.space(name).1);
    }

    /// Creates, drops, or creates anew.
    fn keyspaces(&mut self) {
        let name = self.random.pick(&["alpha", "beta"]);
        if let Some(space) = self.state.get(name) {
            self.trace(|_| format!("drop {name}"));
            let handle = space.handle.clone().expect("only the default keyspace has none");
            self.db().drop_keyspace(name).unwrap();
            assert!(matches!(handle.get("a"), Err(Error::NoKeyspace(_))));
            assert!(matches!(handle.put("a", "b"), Err(Error::NoKeyspace(_))));
            assert!(matches!(self.db().drop_keyspace(name), Err(Error::NoKeyspace(_))));
            self.state.remove(name);
            self.written();
            if self.random.chance(50) {
                return;
            }
        }
        self.trace(|_| format!("create {name}"));
        let (order, keys) = self.config.space(name);
        let options = order.apply(Tuning::random(&mut self.random).options());
        let handle = self.db().keyspace(name, options).unwrap();
        assert_eq!(handle.range(..).count(), 0, "a new keyspace is empty");
        let key = keys.key(&mut self.random);
        assert!(handle.get(key).unwrap().is_none());
        self.state.insert(name.into(), Space::new(order, Some(handle)));
        self.durable();
    }

    fn compact(&mut self, name: &str, keys: Keys) {
        let bounds = keys.bounds(&mut self.random);
        self.trace(|_| format!("compact {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
        if self.random.chance(50) {
            on!(self, self.state[name], it => it.compact_range(bounds)).unwrap();
        } else {
            on!(self, self.state[name], it => it.compact_range(..)).unwrap();
        }
        self.durable();
    }

    fn approximate(&mut self, name: &str, keys: Keys) {
        let bounds = keys.bounds(&mut self.random);
        let space = &self.state[name];
        let (part, whole) = on!(self, space, it => {
            (it.approximate_bytes(bounds.clone()).unwrap(), it.approximate_bytes(..).unwrap())
        });
        // Garbage and what is not compressed count, so only the order of magnitude can be told.
        let most = 1 << 30;
        assert!(part < most && whole < most, "{name}: {part} of {whole} bytes");
        let chunks = on!(self, space, it => it.chunks()).unwrap();
        assert!(!chunks.is_empty());
        let starts_rise = chunks
            .windows(2)
            .skip(1)
            .all(|pair| space.order.cmp(&pair[0].start, &pair[1].start) == std::cmp::Ordering::Less);
        assert!(starts_rise, "{name}: chunks are out of order");
        let stats = self.db().stats();
        assert!(stats.read_only.is_none());
        let keyspace = stats.keyspaces.iter().find(|keyspace| keyspace.name == name).expect("its statistics");
        assert!(keyspace.live_bytes < space.bytes() * 20 + (64 << 20), "{keyspace:?}");
        self.totals.add_sizes(&stats);
    }

    fn back_up(&mut self) {
        self.backups += 1;
        let path = self.path(&format!("backup{}", self.backups));
        self.trace(|_| format!("back up to {}", path.display()));
        self.db().backup(&path).unwrap();
        self.durable();
        let read_only = self.random.chance(50);
        let backup = self.options().read_only(read_only).open(&path).unwrap();
        let found = read_all(&backup, |name| self.config.space(name).0);
        assert!(same(&found, &self.state), "backup: {}", difference(&found, &self.state));
        if !read_only {
            backup.put("only in the backup", "").unwrap();
        }
        let report = backup.verify().unwrap();
        assert!(report.is_ok(), "backup: {:?}", report.damage);
    }

    fn verify(&mut self) {
        self.trace(|_| "verify".into());
        let report = self.db().verify().unwrap();
        assert!(report.is_ok() && report.unknown_files.is_empty(), "{report:?}");
    }

    fn metadata(&mut self, name: &str) {
        let bytes = self.value();
        let Some(handle) = self.state[name].handle.clone() else { return };
        self.trace(|_| format!("metadata {name} {}", show(&bytes)));
        handle.set_metadata(&bytes).unwrap();
        assert_eq!(handle.metadata(), bytes);
        self.space(name).metadata = bytes;
        self.durable();
    }

    fn space(&mut self, name: &str) -> &mut Space {
        self.state.get_mut(name).expect("a keyspace of the model")
    }

    fn check_everything(&mut self) {
        let found = read_all(self.db(), |name| self.config.space(name).0);
        assert!(same(&found, &self.state), "{}", difference(&found, &self.state));
        for (name, space) in &self.state {
            for key in space.map.keys() {
                let found = on!(self, space, it => it.get(&key.bytes)).unwrap();
                assert_same_value(name, &key.bytes, found.as_deref(), space.get(&key.bytes).as_deref());
            }
        }
    }
}
