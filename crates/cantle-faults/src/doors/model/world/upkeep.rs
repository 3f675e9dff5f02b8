//! Operations on keyspaces and on the whole store.

use super::super::keys::Keys;
use super::super::readers::read_all;
use super::super::state::{Space, State, nearest, same, show};
use super::{Text, World, of};
use cantle::{Attempt, Error};
use std::time::{Duration, Instant};

impl World<'_> {
    /// Creates, drops, or drops and creates again.
    pub(super) fn keyspaces(&mut self) {
        let name = self.random.pick(&["alpha", "beta"]);
        if let Some(space) = self.state.get(name) {
            self.trace(|_| format!("drop {name}"));
            let handle = space.handle.clone().expect("only the default keyspace has none");
            let done = self.db().drop_keyspace(name);
            if done.is_err() {
                return self.settle(None, done, false, |state| drop(state.remove(name)));
            }
            assert!(matches!(handle.get("a"), Err(Error::NoKeyspace(_))));
            let gone = |error: Error| matches!(error, Error::NoKeyspace(_) | Error::ReadOnly { .. });
            assert!(handle.put("a", "b").is_err_and(gone));
            assert!(self.db().drop_keyspace(name).is_err_and(gone));
            self.settle(None, done, false, |state| drop(state.remove(name)));
            if self.random.chance(50) {
                return;
            }
        }
        self.trace(|_| format!("create {name}"));
        let (order, keys) = self.config.space(name);
        let options = order.apply(self.config.tuning(&mut self.random));
        let created = self.db().keyspace_with(name, options);
        let handle = match created {
            Ok(handle) => handle,
            Err(error) => {
                let space = Space::new(order, None);
                return self.settle(None, Err(error), true, |state| drop(state.insert(name.into(), space)));
            }
        };
        assert_eq!(handle.range(..).count(), 0, "a new keyspace is empty");
        let key = keys.key(&mut self.random);
        assert!(handle.get(key).unwrap().is_none());
        self.state.insert(name.into(), Space::new(order, Some(handle)));
        self.durable();
    }

    pub(super) fn compact(&mut self, name: &str, keys: Keys) {
        let bounds = keys.bounds(self.config.space(name).0, &mut self.random);
        self.trace(|_| format!("compact {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
        let (part, armed) = (self.random.chance(50), self.arm());
        let done = on!(self, self.state[name], it => match part {
            true => it.compact_range(bounds),
            false => it.compact_range(..),
        });
        self.settle(armed, done, true, |_| {});
    }

    pub(super) fn approximate(&mut self, name: &str, keys: Keys) {
        let bounds = keys.bounds(self.config.space(name).0, &mut self.random);
        let space = &self.state[name];
        let (part, whole) = on!(self, space, it => {
            (it.approximate_bytes(bounds.clone()).unwrap(), it.approximate_bytes(..).unwrap())
        });
        // Garbage and uncompressed data count too, so only the order of magnitude can be checked.
        let most = 1 << 30;
        assert!(part < most && whole < most, "{name}: {part} of {whole} bytes");
        let chunks = on!(self, space, it => it.regions()).unwrap();
        assert!(!chunks.is_empty());
        // The first region of a level has no start.
        let starts_rise = chunks
            .windows(2)
            .filter(|pair| pair[0].level == pair[1].level && !pair[0].start.is_empty())
            .all(|pair| space.order.cmp(&pair[0].start, &pair[1].start) == std::cmp::Ordering::Less);
        assert!(starts_rise, "{name}: chunks are out of order");
        let stats = self.db().stats();
        assert!(stats.read_only.is_none() || self.disk.fails());
        let keyspace = stats.keyspaces.iter().find(|keyspace| keyspace.name == name).expect("its statistics");
        assert!(keyspace.live_bytes < space.bytes() * 20 + (64 << 20), "{keyspace:?}");
        self.totals.add_sizes(&stats);
    }

    pub(super) fn back_up(&mut self) {
        self.backups += 1;
        let path = self.path(&format!("backup{}", self.backups));
        self.trace(|_| format!("back up to {}", path.display()));
        let armed = self.arm();
        let done = self.db().backup(&path);
        let failed = done.is_err();
        self.settle(armed, done, true, |_| {});
        if failed {
            return;
        }
        self.totals.backups += 1;
        if let Some(disk) = self.disk.without_power() {
            let backup = self.options().vfs(disk.vfs()).open(&path).unwrap();
            let found = read_all(&backup, &self.config);
            assert!(
                same(&found, &self.state),
                "backup, power lost: {}",
                nearest(&found, std::iter::once(&self.state))
            );
        }
        let read_only = self.random.chance(50);
        let backup = self.options().read_only(read_only).open(&path).unwrap();
        let found = read_all(&backup, &self.config);
        assert!(same(&found, &self.state), "backup: {}", nearest(&found, std::iter::once(&self.state)));
        if !read_only {
            backup.put("only in the backup", "").unwrap();
            backup.delete("only in the backup").unwrap();
        }
        let report = backup.verify().unwrap();
        assert!(report.is_ok(), "backup: {:?}", report.damage);
        drop((found, backup));
        match self.random.below(10) {
            0..3 => self.restore(format!("backup{}", self.backups)),
            3..6 => self.remove(&format!("backup{}", self.backups)),
            _ => {}
        }
    }

    /// Destroys the store, and creates a new one in its place.
    pub(super) fn destroy(&mut self) {
        let home = self.home.clone();
        self.trace(|_| format!("destroy {home}"));
        let refused = cantle::Db::destroy(self.path(&home), self.options());
        assert!(matches!(refused, Err(Error::Locked { .. })), "an open store was destroyed: {refused:?}");
        self.detach();
        self.remove(&home);
        self.state = State::from([("default".into(), Space::new(self.config.space("default").0, None))]);
        self.disk.forget_failed_syncs();
        self.durable();
        self.open();
        self.check_everything();
    }

    /// Removes a store that is not open.
    fn remove(&mut self, name: &str) {
        let path = self.path(name);
        cantle::Db::destroy(&path, self.options()).unwrap();
        self.totals.destroyed += 1;
        let opened = self.options().create_if_missing(false).open(&path);
        assert!(matches!(opened, Err(Error::NotFound { .. })), "destroyed, yet there: {opened:?}");
    }

    pub(super) fn verify(&mut self) {
        self.trace(|_| "verify".into());
        let report = self.db().verify().unwrap();
        // A sync in the background may have failed just now: the store is then read-only, and does
        // not write out its logs any more.
        let is_of_sync = |error: &Error| matches!(error, Error::Io { operation: Attempt::Sync, .. });
        if self.disk.fails() && !report.damage.is_empty() && report.damage.iter().all(is_of_sync) {
            // The thread whose sync failed may not have come so far yet.
            let deadline = Instant::now() + Duration::from_secs(20);
            while self.db().stats().read_only.is_none() && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert!(self.db().stats().read_only.is_some(), "{report:?}");
            return;
        }
        let refused: u64 = self.db().stats().keyspaces.iter().map(|keyspace| keyspace.edits_refused).sum();
        assert_eq!(refused, 0, "changes of files were refused");
        // A file that could not be removed is reported as unknown.
        assert!(
            report.is_ok() && (report.unknown_files.is_empty() || self.disk.fails()),
            "{report:?}, {:?}, {}",
            self.db().stats().read_only,
            self.disk.fails()
        );
    }

    pub(super) fn metadata(&mut self, name: &str) {
        let bytes = self.value();
        let Some(handle) = self.state[name].handle.clone() else { return };
        self.trace(|_| format!("metadata {name} {}", show(&bytes)));
        let armed = self.arm();
        let done = handle.set_metadata(&bytes);
        let is_set = handle.metadata() == bytes;
        assert!(is_set || done.is_err());
        self.settle_either(armed, done, |state| of(state, name).metadata = bytes);
    }

    pub(super) fn sync(&mut self) {
        self.trace(|_| "sync".into());
        let armed = self.arm();
        let done = self.db().sync();
        self.settle(armed, done, true, |_| {});
    }
}
