//! Reads: by key, by range, by cursor, and on snapshots that are kept.

use super::super::keys::Keys;
use super::super::readers::{
    Held, HeldCursor, HeldRange, assert_same_value, check_batch, moves, of_calls, of_values,
};
use super::super::state::show;
use super::{HELD_MAX, Text, World};

impl World<'_> {
    pub(super) fn get(&mut self, name: &str, keys: Keys) {
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

    /// Reads a batch of keys. Some stores have just been opened, so that the batch reads files; on a
    /// disk where calls may fail, reads fail in some batches.
    pub(super) fn get_many(&mut self, name: &str, keys: Keys) {
        let wanted = keys.batch(&mut self.random);
        let (by_calls, fails) = (self.random.chance(50), self.random.chance(50));
        if self.random.chance(10) {
            self.open_cold();
        }
        self.trace(|_| format!("get_many {name} {} keys", wanted.len()));
        let armed = if fails { self.disk.arm_reads() } else { None };
        let space = &self.state[name];
        let found = match by_calls {
            true => of_calls(wanted.len(), |read| on!(self, space, it => it.get_many_with(&wanted, read))),
            false => of_values(on!(self, space, it => it.get_many(&wanted))),
        };
        drop(armed);
        let failed_calls = self.disk.take_failed();
        let failed = check_batch(name, space, &wanted, &found);
        // Each key that failed has repeated the read by itself.
        assert!(failed <= failed_calls, "{failed} keys failed by {failed_calls} calls: {found:?}");
        if failed > 0 {
            let again = of_values(on!(self, space, it => it.get_many(&wanted)));
            assert_eq!(check_batch(name, space, &wanted, &again), 0, "the error stays: {again:?}");
            self.totals.read_beside_failed += wanted.len() as u64 - failed;
        }
        self.totals.batches += 1;
        self.totals.failed_in_batches += failed;
        self.totals.failed_calls += failed_calls;
    }

    pub(super) fn range(&mut self, name: &str, keys: Keys) {
        let space = &self.state[name];
        let held = if self.random.chance(40) {
            let prefix = keys.prefix(&mut self.random);
            self.trace(|_| format!("prefix {name} {}", show(&prefix)));
            HeldRange::new(on!(self, space, it => it.prefix(&prefix)), space.prefix(&prefix))
        } else {
            let bounds = keys.bounds(self.config.space(name).0, &mut self.random);
            self.trace(|_| format!("range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
            HeldRange::new(on!(self, space, it => it.range(bounds.clone())), space.range(&bounds))
        };
        held.finish(&mut self.random);
    }

    pub(super) fn cursor(&mut self, name: &str, keys: Keys) {
        let bounds = keys.bounds(self.config.space(name).0, &mut self.random);
        self.trace(|_| format!("cursor {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
        let space = &self.state[name];
        let cursor = on!(self, space, it => it.cursor(bounds.clone()));
        let mut held = HeldCursor::new(cursor, space.range(&bounds), keys);
        for _ in 0..self.random.below(30) {
            held.step(&mut self.random);
        }
    }

    pub(super) fn hold(&mut self) {
        self.trace(|_| "hold".into());
        if self.held.len() >= HELD_MAX {
            let at = self.random.below(self.held.len());
            let held = self.held.swap_remove(at);
            self.totals.outlived += u64::from(held.moves < moves(self.db()));
            if self.random.chance(30) {
                held.check_all(&mut self.random);
            }
        }
        let held = Held::new(self.db().snapshot(), self.state.clone(), moves(self.db()));
        self.held.push(held);
    }

    pub(super) fn look_at_held(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let at = self.random.below(self.held.len());
        let Self { held, random, config, totals, .. } = self;
        held[at].step(random, config, totals);
    }
}
