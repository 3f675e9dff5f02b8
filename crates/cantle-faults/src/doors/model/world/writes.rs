//! Writes: one by one, in batches, and in transactions.

use super::super::keys::Keys;
use super::super::readers::{
    HeldCursor, HeldRange, assert_same_pair, assert_same_value, check_batch, of_calls, of_values,
};
use super::super::state::show;
use super::{Text, World, of};
use cantle::{Durability, Error, WriteBatch, WriteOptions};
use std::collections::HashSet;
use std::ops::Bound;

/// The arguments of a `compare_and_swap`.
struct Swap {
    expected: Option<Vec<u8>>,
    new: Option<Vec<u8>>,
}

impl World<'_> {
    pub(super) fn put(&mut self, name: &str, keys: Keys) {
        let key = keys.key(&mut self.random);
        self.put_value(name, &key);
    }

    fn put_value(&mut self, name: &str, key: &[u8]) {
        let value = self.value();
        self.trace(|_| format!("put {name} {} {}", show(key), show(&value)));
        let armed = self.arm();
        let done = on!(self, self.state[name], it => it.put(key, &value));
        self.settle(armed, done, false, |state| of(state, name).put(key, &value));
    }

    /// Puts of some keys in their order.
    pub(super) fn load(&mut self, name: &str, keys: Keys) {
        let order = self.config.space(name).0;
        let count = 5 + self.random.below(100);
        let mut loaded: Vec<Vec<u8>> = (0..count).map(|_| keys.key(&mut self.random)).collect();
        loaded.sort_by(|a, b| order.cmp(a, b));
        loaded.dedup();
        for key in loaded {
            if self.must_reopen {
                return;
            }
            self.put_value(name, &key);
        }
    }

    pub(super) fn delete(&mut self, name: &str, keys: Keys) {
        let key = keys.key(&mut self.random);
        self.trace(|_| format!("delete {name} {}", show(&key)));
        let armed = self.arm();
        let done = on!(self, self.state[name], it => it.delete(&key));
        self.settle(armed, done, false, |state| of(state, name).delete(&key));
    }

    pub(super) fn update(&mut self, name: &str, keys: Keys) {
        let (key, value) = (keys.key(&mut self.random), self.value());
        self.trace(|_| format!("update {name} {}", show(&key)));
        let delete = self.random.chance(20);
        let old = self.state[name].get(&key);
        let change = |found: Option<&[u8]>| {
            assert_same_value(name, &key, found, old.as_deref());
            (!delete).then(|| value.clone())
        };
        let armed = self.arm();
        let done = on!(self, self.state[name], it => it.update(&key, change));
        if let Ok(new) = &done {
            assert_same_value(name, &key, new.as_deref(), (!delete).then_some(&value[..]));
        }
        self.settle(armed, done.map(drop), false, |state| match delete {
            true => of(state, name).delete(&key),
            false => of(state, name).put(&key, &value),
        });
    }

    /// Removes the pair at one of the ends.
    pub(super) fn pop(&mut self, name: &str) {
        let is_back = self.random.chance(50);
        self.trace(|_| format!("pop_{} {name}", if is_back { "last" } else { "first" }));
        let expected = self.state[name].end(is_back);
        let armed = self.arm();
        let done = on!(self, self.state[name], it => if is_back { it.pop_last() } else { it.pop_first() });
        let done = done.map(|found| assert_same_pair(found, expected.as_ref(), is_back));
        self.totals.popped += u64::from(done.is_ok() && expected.is_some());
        self.settle(armed, done, false, |state| {
            if let Some((key, _)) = &expected {
                of(state, name).delete(&key.bytes);
            }
        });
    }

    /// Replaces a value that is expected, most often the right one.
    pub(super) fn compare_and_swap(&mut self, name: &str, keys: Keys) {
        let key = keys.key(&mut self.random);
        let old = self.state[name].get(&key);
        let Swap { expected, new } = self.swap(old.as_deref());
        self.trace(|_| {
            format!(
                "compare_and_swap {name} {}, {}",
                show(&key),
                expected == old.as_deref().map(<[u8]>::to_vec)
            )
        });
        let swaps = expected.as_deref() == old.as_deref();
        let armed = self.arm();
        let done = on!(self, self.state[name], it => match (&expected, &new) {
            (None, Some(new)) => it.insert_if_absent(&key, new),
            _ => it.compare_and_swap(&key, expected.as_ref(), new.as_ref()),
        });
        let done = done.map(|swapped| assert_eq!(swapped, swaps, "{name}: swap of {}", show(&key)));
        self.totals.swapped += u64::from(done.is_ok() && swaps);
        self.settle(armed, done, false, |state| {
            if swaps {
                of(state, name).set(&key, new.as_deref());
            }
        });
    }

    fn swap(&mut self, old: Option<&[u8]>) -> Swap {
        let expected = match self.random.below(5) {
            0 => None,
            1 => Some(self.value()),
            _ => old.map(<[u8]>::to_vec),
        };
        let new = (!self.random.chance(20)).then(|| self.value());
        Swap { expected, new }
    }

    pub(super) fn delete_range(&mut self, name: &str, keys: Keys) {
        let bounds = if self.random.chance(8) {
            (Bound::Unbounded, Bound::Unbounded)
        } else {
            keys.bounds(self.config.space(name).0, &mut self.random)
        };
        self.trace(|_| format!("delete_range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1)));
        let armed = self.arm();
        let done = on!(self, self.state[name], it => it.delete_range(bounds.clone()));
        self.settle(armed, done, false, |state| of(state, name).delete_range(&bounds));
    }

    pub(super) fn batch(&mut self) {
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
                        Some(keyspace) => _ = batch.keyspace(keyspace).put(&key, &value),
                        None => _ = batch.put(&key, &value),
                    }
                }
                8..11 => {
                    self.trace(|_| format!("- delete {name} {}", show(&key)));
                    space.delete(&key);
                    match &handle {
                        Some(keyspace) => _ = batch.keyspace(keyspace).delete(&key),
                        None => _ = batch.delete(&key),
                    }
                }
                _ => {
                    let bounds = self.keys(&name).bounds(space.order, &mut self.random);
                    self.trace(|_| {
                        format!("- delete_range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1))
                    });
                    space.delete_range(&bounds);
                    match &handle {
                        Some(keyspace) => _ = batch.keyspace(keyspace).delete_range(bounds),
                        None => _ = batch.delete_range(bounds),
                    }
                }
            }
            last = Some((name, key));
        }
        self.trace(|_| format!("batch of {}", batch.len()));
        let wanted = self.random.pick(&[Durability::Buffered, Durability::Process, Durability::Sync]);
        let with = self.random.chance(20);
        let armed = self.arm();
        let done = if with {
            self.db().write_with(batch, WriteOptions::new().durability(wanted))
        } else {
            self.db().write(batch)
        };
        match with && wanted > self.config.durability {
            true => self.settle_either(armed, done, |it| *it = state),
            false => self.settle(armed, done, false, |it| *it = state),
        }
    }

    /// Reads and writes a key in a transaction that is run until it has no conflict. Some have a
    /// conflict, some are abandoned.
    pub(super) fn transact(&mut self, name: &str, keys: Keys) {
        let (key, value, other) = (keys.key(&mut self.random), self.value(), self.value());
        let is_met = !self.disk.fails() && self.random.chance(50);
        let gives_up = self.random.chance(20);
        self.trace(|_| format!("transact {name} {} {}, met {is_met}", show(&key), show(&value)));
        let armed = self.arm();
        let space = &self.state[name];
        let before = space.get(&key);
        let mut runs = 0;
        let done = self.db().transact(|tx| {
            runs += 1;
            let found = in_transaction!(tx, space, get, &key)?;
            let expected = if runs > 1 { Some(&other[..]) } else { before.as_deref() };
            assert_same_value(name, &key, found.as_deref(), expected);
            in_transaction!(tx, space, put, &key, &value)?;
            if is_met && runs == 1 {
                on!(self, space, it => it.put(&key, &other)).unwrap();
            }
            if gives_up && (!is_met || runs > 1) { Err(Error::Closed) } else { Ok(()) }
        });
        assert!(runs == 1 || is_met && runs == 2, "run {runs} times");
        if is_met {
            assert_eq!(runs, 2, "a write that it met was overlooked");
            self.totals.run_again += 1;
            self.settle(None, Ok(()), false, |state| of(state, name).put(&key, &other));
        }
        match done {
            // The error of the closure.
            Err(Error::Closed) if gives_up => {
                drop(armed);
                self.totals.failed_calls += self.disk.take_failed();
            }
            done => self.settle(armed, done, false, |state| of(state, name).put(&key, &value)),
        }
    }

    /// Reads and writes through a transaction that is committed or abandoned.
    pub(super) fn transaction(&mut self) {
        self.trace(|_| "transaction".into());
        let tx = self.db().transaction();
        let mut state = self.state.clone();
        let (mut read, mut wrote, mut deleted) = (Vec::new(), Vec::new(), HashSet::new());
        for _ in 0..self.random.below(20) {
            let name = self.name();
            let keys = self.keys(&name);
            let (key, value) = (keys.key(&mut self.random), self.value());
            let Some(space) = state.get_mut(&name) else { continue };
            match self.random.below(15) {
                0..3 => {
                    self.trace(|_| format!("- put {name} {} {}", show(&key), show(&value)));
                    let done = in_transaction!(tx, space, put, &key, &value);
                    if done.is_err() {
                        return self.settle(None, done, false, |_| {});
                    }
                    space.put(&key, &value);
                    wrote.push((name, space.key(&key)));
                }
                3..5 => {
                    self.trace(|_| format!("- delete {name} {}", show(&key)));
                    let done = in_transaction!(tx, space, delete, &key);
                    if done.is_err() {
                        return self.settle(None, done, false, |_| {});
                    }
                    space.delete(&key);
                    wrote.push((name, space.key(&key)));
                }
                5 => {
                    let bounds = keys.bounds(space.order, &mut self.random);
                    self.trace(|_| {
                        format!("- delete_range {name} {:?} {:?}", Text(&bounds.0), Text(&bounds.1))
                    });
                    let done = in_transaction!(tx, space, delete_range, bounds.clone());
                    if done.is_err() {
                        return self.settle(None, done, false, |_| {});
                    }
                    space.delete_range(&bounds);
                    if !space.is_empty_range(&bounds) {
                        deleted.insert(name);
                    }
                }
                6..9 => {
                    let found = in_transaction!(tx, space, get, &key).unwrap();
                    assert_same_value(&name, &key, found.as_deref(), space.get(&key).as_deref());
                    read.push((name, space.key(&key)));
                }
                14 => {
                    let wanted = keys.batch(&mut self.random);
                    self.trace(|_| format!("- get_many {name} {} keys", wanted.len()));
                    let found = match self.random.chance(50) {
                        true => of_values(in_transaction!(tx, space, get_many, &wanted)),
                        false => of_calls(wanted.len(), |read| {
                            in_transaction!(tx, space, get_many_with, &wanted, read)
                        }),
                    };
                    assert_eq!(check_batch(&name, space, &wanted, &found), 0, "{name}: {found:?}");
                    read.extend(wanted.iter().map(|key| (name.clone(), space.key(key))));
                    self.totals.batches_in_transactions += 1;
                }
                9 => {
                    let prefix = keys.prefix(&mut self.random);
                    let range = in_transaction!(tx, space, prefix, &prefix);
                    HeldRange::new(range, space.prefix(&prefix)).finish(&mut self.random);
                }
                10 => {
                    let bounds = keys.bounds(space.order, &mut self.random);
                    let range = in_transaction!(tx, space, range, bounds.clone());
                    HeldRange::new(range, space.range(&bounds)).finish(&mut self.random);
                }
                11 => {
                    let is_back = self.random.chance(50);
                    self.trace(|_| format!("- pop_{} {name}", if is_back { "last" } else { "first" }));
                    let expected = space.end(is_back);
                    let done = match is_back {
                        true => in_transaction!(tx, space, pop_last,),
                        false => in_transaction!(tx, space, pop_first,),
                    };
                    match done {
                        Ok(found) => assert_same_pair(found, expected.as_ref(), is_back),
                        Err(error) => return self.settle(None, Err(error), false, |_| {}),
                    }
                    if let Some((key, _)) = expected {
                        space.delete(&key.bytes);
                        wrote.push((name, key));
                    }
                }
                12 => {
                    let old = space.get(&key);
                    let Swap { expected, new } = self.swap(old.as_deref());
                    self.trace(|_| format!("- compare_and_swap {name} {}", show(&key)));
                    let done = match (&expected, &new) {
                        (None, Some(new)) => in_transaction!(tx, space, insert_if_absent, &key, new),
                        _ => in_transaction!(
                            tx,
                            space,
                            compare_and_swap,
                            &key,
                            expected.as_ref(),
                            new.as_ref()
                        ),
                    };
                    let swaps = expected.as_deref() == old.as_deref();
                    match done {
                        Ok(swapped) => assert_eq!(swapped, swaps, "{name}: swap of {}", show(&key)),
                        Err(error) => return self.settle(None, Err(error), false, |_| {}),
                    }
                    let ordered = space.key(&key);
                    if swaps {
                        space.set(&key, new.as_deref());
                        wrote.push((name, ordered));
                    } else {
                        read.push((name, ordered));
                    }
                }
                _ => {
                    let bounds = keys.bounds(space.order, &mut self.random);
                    let cursor = in_transaction!(tx, space, cursor, bounds.clone());
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
            // A read of a key that the transaction had written before is not recorded as a read.
            let is_certain = !wrote.contains(&(name.clone(), key.clone())) && !deleted.contains(&name);
            if is_certain {
                self.trace(|_| format!("- meanwhile put {name} {}", show(&key.bytes)));
                let value = self.value();
                let put = on!(self, self.state[&name], it => it.put(&key.bytes, &value));
                if put.is_ok() {
                    let done = tx.commit();
                    // A transaction that only read has no conflict, and a store that is read-only
                    // reports that first.
                    let is_conflict = !wrote.is_empty() || !deleted.is_empty();
                    let was_read_only = matches!(done, Err(Error::ReadOnly { .. }));
                    assert!(was_read_only || done.is_err_and(|error| error.is_conflict()) == is_conflict);
                    assert!(!was_read_only || self.disk.fails());
                }
                self.settle(None, put, false, |state| of(state, &name).put(&key.bytes, &value));
                return;
            }
        }
        self.trace(|_| "- committed".into());
        let armed = self.arm();
        let done = tx.commit();
        let writes = !wrote.is_empty() || !deleted.is_empty();
        assert!(writes || done.is_ok(), "what only read is committed: {done:?}");
        self.settle(armed, done, false, |it| *it = state);
    }
}
