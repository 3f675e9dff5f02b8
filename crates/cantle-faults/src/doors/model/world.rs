//! A store and its model: how both are opened, closed, killed and compared. The operations on them
//! are in the modules below.

use super::config::Config;
use super::keys::{Keys, value};
use super::random::Random;
use super::readers::{Held, assert_same_value, moves, read_all};
use super::state::{Space, State, nearest, same, show};
use super::totals::Totals;
use cantle::{Db, Durability, Error, LayoutKind, Options};
use disk::{Armed, Disk};
use std::cell::Cell;
use std::ops::Bound;
use std::path::PathBuf;

/// The same operation on the default keyspace through the store, or on a named one.
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

/// The same operation on the default keyspace through a transaction, or on a named one.
macro_rules! in_transaction {
    ($tx:expr, $space:expr, $call:ident, $($argument:expr),*) => {
        match &$space.handle {
            Some(keyspace) => $tx.keyspace(keyspace).$call($($argument),*),
            None => $tx.$call($($argument),*),
        }
    };
}

mod disk;
mod reads;
mod upkeep;
mod writes;

const HELD_MAX: usize = 4;
const HISTORY_MAX: usize = 400;

pub struct World<'a> {
    seed: u64,
    random: Random,
    config: Config,
    disk: Disk,
    /// The name of the store, or of the backup that was restored last.
    home: String,
    db: Option<Db>,
    state: State,
    /// Every state since the last one that is known to be durable. One state if no acknowledged
    /// write may be lost.
    history: Vec<State>,
    held: Vec<Held>,
    pub totals: Totals,
    /// Number of the running operation.
    number: &'a Cell<u64>,
    backups: usize,
    /// True if the store turned read-only.
    must_reopen: bool,
    traces: bool,
}

/// An existing keyspace.
fn of<'a>(state: &'a mut State, name: &str) -> &'a mut Space {
    state.get_mut(name).expect("a keyspace of the model")
}

/// A bound in readable form.
struct Text<'a>(&'a Bound<Vec<u8>>);

impl std::fmt::Debug for Text<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0.as_ref().map(|key| show(key)))
    }
}

impl<'a> World<'a> {
    pub fn new(layout: LayoutKind, seed: u64, number: &'a Cell<u64>, traces: bool) -> Self {
        let mut random = Random::new(seed);
        let config = Config::random(&mut random, layout, (seed % 256) as usize);
        let disk = Disk::new(config.real_directory, config.failing_permille, seed, traces);
        let mut state = State::new();
        state.insert("default".into(), Space::new(config.space("default").0, None));
        let mut world = Self {
            seed,
            random,
            config,
            disk,
            home: "store".into(),
            db: None,
            history: vec![state.clone()],
            state,
            held: Vec::new(),
            totals: Totals::default(),
            number,
            backups: 0,
            must_reopen: false,
            traces,
        };
        world.trace(|world| format!("{:?}", world.config));
        world.open();
        world
    }

    /// Runs these operations of the seed's.
    pub fn run(mut self, operations: &[u64]) -> Totals {
        for &number in operations {
            self.number.set(number);
            self.random = Random::of_operation(self.seed, number);
            self.step();
            if std::mem::take(&mut self.must_reopen) {
                self.detach();
                self.reopen(false, "read-only and opened again");
            }
        }
        self.close_and_open();
        self.check_everything();
        self.close();
        self.totals
    }

    fn trace(&self, what: impl FnOnce(&Self) -> String) {
        if self.traces {
            eprintln!("{:6} {}", self.number.get(), what(self));
        }
    }

    fn db(&self) -> &Db {
        self.db.as_ref().expect("an open store")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.disk.path(name)
    }

    fn options(&mut self) -> Options {
        self.config.options(&mut self.random).vfs(self.disk.vfs())
    }

    fn open(&mut self) {
        let options = self.options();
        let db = options.open(self.path(&self.home)).unwrap();
        self.attach(db);
    }

    /// Opens handles to the keyspaces of the model.
    fn attach(&mut self, db: Db) {
        for (name, space) in &mut self.state {
            let options = self.config.tuning(&mut self.random);
            let options = if self.random.chance(50) { space.order.apply(options) } else { options };
            let by_name = name != "default" || self.random.chance(50);
            space.handle = by_name.then(|| db.keyspace_with(name, options).unwrap());
        }
        self.db = Some(db);
    }

    /// Drops every handle, so that the store is released.
    fn detach(&mut self) {
        if let Some(db) = &self.db {
            self.totals.add(&db.stats());
        }
        if let Some(db) = &self.db {
            let now = moves(db);
            self.totals.outlived += self.held.iter().filter(|held| held.moves < now).count() as u64;
        }
        self.held.clear();
        self.state.values_mut().for_each(|space| space.handle = None);
        self.history.iter_mut().flat_map(|state| state.values_mut()).for_each(|space| space.handle = None);
        self.db = None;
    }

    /// Closes the store; true if that succeeded. It may fail if calls fail.
    fn close(&mut self) -> bool {
        let db = self.db().clone();
        let closed = db.close();
        assert!(closed.is_ok() || self.disk.fails(), "{closed:?}");
        assert!(matches!(db.get("a"), Err(Error::Closed)));
        assert!(matches!(db.close(), Err(Error::Closed)));
        drop(db);
        self.detach();
        if closed.is_ok() {
            self.durable();
        }
        closed.is_ok()
    }

    fn close_and_open(&mut self) {
        let mut is_certain = self.is_certain();
        if self.random.chance(50) {
            is_certain &= self.close();
        } else {
            self.detach();
            if !self.disk.fails() {
                self.durable();
            }
        }
        self.reopen(is_certain, "closed and opened");
    }

    /// Closes and opens the store, and reads nothing of it.
    fn open_cold(&mut self) {
        self.trace(|_| "close and open, cold".into());
        if self.close() && !self.disk.sync_failed() {
            self.open();
        } else {
            self.reopen(false, "closed and opened");
        }
    }

    /// Continues with the store as the death of its process leaves it.
    fn kill(&mut self) {
        let Some(after) = self.disk.killed() else { return self.close_and_open() };
        let is_certain = self.is_certain();
        self.detach();
        self.disk = after;
        self.reopen(is_certain, "after a kill");
    }

    /// Replaces this store by another one, which holds the model's state.
    fn restore(&mut self, name: String) {
        self.trace(|_| format!("restore {name}"));
        self.detach();
        self.home = name;
        self.disk.forget_failed_syncs();
        self.reopen(true, "restored");
    }

    /// True if no acknowledged write may be lost with the process. A store promises this if it has
    /// no reason to doubt its file system.
    fn is_certain(&self) -> bool {
        let has_doubts =
            self.disk.fails() && (self.disk.sync_failed() || self.db().stats().read_only.is_some());
        self.config.durability != Durability::Buffered && !has_doubts
    }

    /// Opens the store and finds the state of the model that it recovered.
    fn reopen(&mut self, is_certain: bool, when: &str) {
        self.totals.reopenings += 1;
        if self.disk.fails() {
            self.open_amid_failures();
        }
        let is_certain = is_certain && !self.disk.sync_failed();
        if self.random.chance(30) {
            let db = self.options().read_only(true).open(self.path(&self.home)).unwrap();
            assert!(matches!(db.put("a", "b"), Err(Error::ReadOnly { .. })));
            let found = read_all(&db, &self.config);
            self.settle_on(found, is_certain, "read-only");
        }
        let db = self.options().open(self.path(&self.home)).unwrap();
        let found = read_all(&db, &self.config);
        self.settle_on(found, is_certain, when);
        if self.disk.fails() {
            db.sync().unwrap();
            self.disk.forget_failed_syncs();
            self.durable();
        }
        self.attach(db);
    }

    /// Recoveries that may fail, but report no damage.
    fn open_amid_failures(&mut self) {
        for _ in 0..self.random.below(3) {
            let (options, path) = (self.options(), self.path(&self.home));
            let armed = self.disk.arm();
            let opened = options.open(path);
            drop(armed);
            if let Err(error) = opened {
                self.trace(|_| format!("- amid failures: {error}"));
                assert!(!error.is_corruption(), "amid failures: {error}");
            }
        }
        self.totals.failed_calls += self.disk.take_failed();
    }

    /// Finds the state of the model that a store recovered: the last one. If that is not certain,
    /// any state since the last one known to be durable.
    fn settle_on(&mut self, found: State, is_certain: bool, when: &str) {
        let first = if is_certain { self.history.len() - 1 } else { 0 };
        let place = self.history[first..].iter().rposition(|state| same(state, &found));
        let Some(place) = place else {
            let states = self.history.len() - first;
            panic!("{when}: {} (of {states} states)", nearest(&found, self.history[first..].iter()));
        };
        self.state = self.history[first + place].clone();
        self.history.truncate(first + place + 1);
    }

    /// Everything until now is durable.
    fn durable(&mut self) {
        self.history = vec![self.state.clone()];
    }

    /// A write was acknowledged.
    fn written(&mut self) {
        let is_durable = self.config.durability == Durability::Sync;
        if self.config.durability == Durability::Buffered || self.disk.fails() && !is_durable {
            self.history.push(self.state.clone());
            if self.history.len() > HISTORY_MAX {
                self.sync();
            }
        } else {
            self.durable();
        }
    }

    /// Lets calls fail, in some cases and only on a disk where calls may fail.
    fn arm(&mut self) -> Option<Armed> {
        if self.random.chance(50) { self.disk.arm() } else { None }
    }

    /// A write returned. If it failed, which it may if calls fail, the state has not changed,
    /// unless the store turned read-only: then it is opened again, and the write is present or not.
    fn settle(
        &mut self,
        armed: Option<Armed>,
        done: cantle::Result<()>,
        is_durable: bool,
        apply: impl FnOnce(&mut State),
    ) {
        drop(armed);
        self.totals.failed_calls += self.disk.take_failed();
        let Err(error) = done else {
            apply(&mut self.state);
            return if is_durable { self.durable() } else { self.written() };
        };
        assert!(self.disk.fails() && !error.is_corruption() && !error.is_conflict(), "{error}");
        self.trace(|_| format!("- {error}"));
        self.totals.failed_operations += 1;
        if self.db().stats().read_only.is_some() {
            self.trace(|_| "- read-only".into());
            let mut after = self.state.clone();
            apply(&mut after);
            self.history.push(after);
            // Not before the operation has dropped its handles.
            self.must_reopen = true;
        }
    }

    /// The same for a write that is made durable by a second step: if only this step fails, the
    /// write is present or not.
    fn settle_either(
        &mut self,
        armed: Option<Armed>,
        done: cantle::Result<()>,
        apply: impl FnOnce(&mut State),
    ) {
        let (failed, mut after) = (done.is_err(), self.state.clone());
        apply(&mut after);
        self.settle(armed, done, true, |state| *state = after.clone());
        if failed && !self.must_reopen && same(&read_all(self.db(), &self.config), &after) {
            self.totals.failed_after_all += 1;
            self.history.push(after.clone());
            self.state = after;
            let done = self.db().sync();
            self.settle(None, done, true, |_| {});
        }
    }

    fn keys(&self, name: &str) -> Keys {
        self.config.space(name).1
    }

    fn value(&mut self) -> Vec<u8> {
        value(&mut self.random, self.config.value_bytes_max, self.number.get())
    }

    /// An existing keyspace, most often the default one.
    fn name(&mut self) -> String {
        if self.random.chance(60) {
            return "default".into();
        }
        let names: Vec<_> = self.state.keys().cloned().collect();
        self.random.pick(&names)
    }

    fn step(&mut self) {
        let name = self.name();
        let keys = self.keys(&name);
        match self.random.below(1000) {
            0..5 => self.load(&name, keys),
            5..385 => self.put(&name, keys),
            385..395 => self.compare_and_swap(&name, keys),
            395..400 => self.pop(&name),
            400..430 => self.delete(&name, keys),
            430..450 => self.update(&name, keys),
            450..458 => self.delete_range(&name, keys),
            458..485 => self.batch(),
            485..495 => self.transaction(),
            495..500 => self.transact(&name, keys),
            500..780 => self.get(&name, keys),
            780..800 => self.get_many(&name, keys),
            800..840 => self.range(&name, keys),
            840..860 => self.cursor(&name, keys),
            860..880 => self.hold(),
            880..970 => self.look_at_held(),
            970..974 => self.keyspaces(),
            974..980 => self.compact(&name, keys),
            980..986 => self.sync(),
            986..990 => self.approximate(&name, keys),
            990 => self.back_up(),
            991 if self.random.chance(10) => self.destroy(),
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

    fn check_everything(&mut self) {
        let found = read_all(self.db(), &self.config);
        assert!(same(&found, &self.state), "{}", nearest(&found, std::iter::once(&self.state)));
        for (name, space) in &self.state {
            for key in space.map.keys() {
                let found = on!(self, space, it => it.get(&key.bytes)).unwrap();
                assert_same_value(name, &key.bytes, found.as_deref(), space.get(&key.bytes).as_deref());
            }
        }
    }
}
