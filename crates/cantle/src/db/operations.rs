//! The operations that `Db` and `Keyspace` share, written once.

use super::cursor::Cursor;
use super::handle::Db;
use super::keyspace::Keyspace;
use super::pop::{End, pop};
use super::range::Range;
use super::read::in_order;
use super::snapshot::Snapshot;
use crate::layout::Op;
use crate::layout::kind::LayoutKind;
use crate::layout::stats::RegionInfo;
use crate::mvcc::KeySpan;
use crate::types::bounds::{Bounds, KeyRange};
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use crate::types::value::{Key, Value};

macro_rules! operations {
    ($type:ty) => {
        impl $type {
            /// Stores a pair, and replaces the key's previous value. When this returns, the write
            /// has the durability of the store
            /// ([`Options::durability`](crate::Options::durability); EvenDB §3.3).
            ///
            /// # Errors
            ///
            /// [`InvalidArgument`](crate::Error::InvalidArgument) for a key over 1 MiB or a value
            /// over 1 GiB, [`NoSpace`](crate::Error::NoSpace) on a full disk,
            /// [`ReadOnly`](crate::Error::ReadOnly) in a read-only store,
            /// [`Closed`](crate::Error::Closed) in a closed one,
            /// [`NoKeyspace`](crate::Error::NoKeyspace) in a dropped keyspace. Nothing was written
            /// then, unless the error says that a sync failed: in this case the next opening shows
            /// if the write took effect.
            pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
                self.handle.store.write_one(self.own(), Op::put(key.as_ref(), value.as_ref()))
            }

            /// The key's value; `None` if the key is absent. Never waits for writers (EvenDB §3.3).
            ///
            /// # Errors
            ///
            /// [`Corruption`](crate::Error::Corruption) if the read needs damaged bytes; other keys
            /// stay readable. [`Io`](crate::Error::Io) if the file system fails,
            /// [`Closed`](crate::Error::Closed) in a closed store,
            /// [`NoKeyspace`](crate::Error::NoKeyspace) in a dropped keyspace.
            pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
                Ok(self.handle.store.get(self.own(), key.as_ref(), u64::MAX)?.map(Value::new))
            }

            /// Calls `read` with the key's value, without copying it, and returns the result;
            /// `None` if the key is absent. Fails as `get` does.
            pub fn get_with<T>(
                &self,
                key: impl AsRef<[u8]>,
                read: impl FnOnce(&[u8]) -> T,
            ) -> Result<Option<T>> {
                self.handle.store.get_with(self.own(), key.as_ref(), u64::MAX, read)
            }

            /// The values of many keys, in the order of the keys and as of one moment; `None` for an absent
            /// key. The device reads for many keys at the same time: keys that are in no cache take
            /// about two fifths of the time that as many gets take. Each key fails by itself, as `get` does.
            ///
            /// All values are in memory at the same time. [`get_many_with`](Self::get_many_with) holds few.
            ///
            /// ```
            /// # fn main() -> cantle::Result<()> {
            /// # let dir = tempfile::tempdir().unwrap();
            /// # let db = cantle::Db::open(dir.path().join("store"))?;
            /// db.put("ada", "1815")?;
            /// db.put("grace", "1906")?;
            /// let years: cantle::Result<Vec<_>> = db.get_many(["grace", "bob", "ada"]).into_iter().collect();
            /// let years: Vec<_> = years?.iter().map(|year| year.as_ref().map(|year| year.to_vec())).collect();
            /// assert_eq!(years, [Some(b"1906".to_vec()), None, Some(b"1815".to_vec())]);
            /// # Ok(()) }
            /// ```
            pub fn get_many(
                &self,
                keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
            ) -> Vec<Result<Option<Value>>> {
                canary!(MOMENT_OF_EACH_KEY => return keys.into_iter().map(|key| self.get(key)).collect());
                in_order(|answer| self.moment().read_many(self.own(), keys, answer))
            }

            /// As [`get_many`](Self::get_many), with a call of `read` for each key, in any order: with the
            /// number of the key, from 0, and its value. Memory holds one value, or up to 64 short ones
            /// whose blocks were read together. `read` may read and write the store; what it writes is not
            /// seen.
            pub fn get_many_with(
                &self,
                keys: impl IntoIterator<Item = impl AsRef<[u8]>>,
                mut read: impl FnMut(usize, Result<Option<&[u8]>>),
            ) {
                self.moment().read_many(self.own(), keys, |number, found| {
                    read(number, found.as_ref().map(Option::as_deref).map_err(Error::clone))
                });
            }

            /// True if the key has a value. Fails as `get` does.
            pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                Ok(self.handle.store.get_with(self.own(), key.as_ref(), u64::MAX, |_| ())?.is_some())
            }

            /// Removes the key, if it is there. Fails as `put` does, but succeeds for longer on a
            /// full disk: deletes may use disk space that the store sets aside.
            pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
                self.handle.store.write_one(self.own(), Op::delete(key.as_ref()))
            }

            /// Removes every key of the range, atomically. Chunks that lie entirely within the
            /// range are dropped at once, whatever they contain. Snapshots that were taken before
            /// can still read them. Fails as `delete` does.
            pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
                self.handle.store.delete_range(self.own(), Bounds::of(&range))
            }

            /// Replaces the key's value by the result of `change`, atomically. `change` is called
            /// with the current value, or with `None` if the key is absent; if it returns `None`,
            /// the key is deleted. Returns the new value. `change` may be called several times. It
            /// may read the store, but not write to it. Fails as `get` and `put` do.
            pub fn update(
                &self,
                key: impl AsRef<[u8]>,
                change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
            ) -> Result<Option<Value>> {
                self.handle.store.update(self.own(), key.as_ref(), change)
            }

            /// Stores a pair if the key is absent, atomically. Returns true if the key was absent.
            /// Fails as `get` and `put` do.
            pub fn insert_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
                self.compare_and_swap(key, None::<&[u8]>, Some(value))
            }

            /// Replaces the key's value by `new` if the value is `expected`, atomically. `None`
            /// stands for an absent key. Returns true if the value was `expected`. Fails as `get`
            /// and `put` do.
            ///
            /// ```
            /// # fn main() -> cantle::Result<()> {
            /// # let dir = tempfile::tempdir().unwrap();
            /// # let db = cantle::Db::open(dir.path().join("store"))?;
            /// assert!(db.insert_if_absent("leader", "ada")?);
            /// assert!(!db.compare_and_swap("leader", Some("bob"), Some("eve"))?);
            /// assert!(db.compare_and_swap("leader", Some("ada"), None::<&str>)?);
            /// assert!(!db.contains_key("leader")?);
            /// # Ok(()) }
            /// ```
            pub fn compare_and_swap(
                &self,
                key: impl AsRef<[u8]>,
                expected: Option<impl AsRef<[u8]>>,
                new: Option<impl AsRef<[u8]>>,
            ) -> Result<bool> {
                let expected = expected.as_ref().map(AsRef::as_ref);
                let new = new.as_ref().map(AsRef::as_ref);
                self.handle.store.compare_and_swap(self.own(), key.as_ref(), expected, new)
            }

            /// The pair with the least key; `None` if there is no pair. Fails as `get` does.
            pub fn first(&self) -> Result<Option<(Key, Value)>> {
                self.range(..).next().transpose()
            }

            /// The pair with the greatest key; `None` if there is no pair. Fails as `get` does.
            pub fn last(&self) -> Result<Option<(Key, Value)>> {
                self.range(..).next_back().transpose()
            }

            /// Removes the pair with the least key and returns it, atomically; `None` if there is
            /// no pair. Each pair is returned to one caller only: a keyspace can serve as a queue
            /// in the order of keys. Fails as `get` and `put` do.
            pub fn pop_first(&self) -> Result<Option<(Key, Value)>> {
                self.pop_as(End::First, |key, value| Ok((key, value)))
            }

            /// The same as [`pop_first`](Self::pop_first), for the pair with the greatest key.
            pub fn pop_last(&self) -> Result<Option<(Key, Value)>> {
                self.pop_as(End::Last, |key, value| Ok((key, value)))
            }

            /// Estimated number of pairs, from counters that maintenance keeps. May include
            /// overwritten and deleted pairs that are not merged yet, and takes the pairs of a log
            /// that regions share since a split to be evenly spread: until such a log is merged, it
            /// may miss some, a sixth in a load that was just split. Takes microseconds.
            /// `range(..).count()` is exact, and reads every pair.
            pub fn len_estimate(&self) -> Result<u64> {
                self.handle.store.check_open()?;
                self.own().check()?;
                Ok(self.own().layout.stats().live_pairs)
            }

            /// An iterator over the pairs of the range, in key order and from either end. It reads
            /// from a snapshot that is taken now (EvenDB §3.3). Errors are returned as items. A
            /// range whose end is before its start is empty.
            pub fn range(&self, range: impl KeyRange) -> Range {
                self.range_of(Bounds::of(&range))
            }

            /// An iterator over the pairs whose keys start with `prefix`, in key order, on a
            /// snapshot that is taken now. In a keyspace with a comparator, it reads every pair of
            /// the keyspace.
            pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Range {
                let span = match self.own().order {
                    KeyOrder::Bytewise => self.own().span(&Bounds::prefix(prefix.as_ref())),
                    KeyOrder::Custom(_) => KeySpan::ALL,
                };
                let snapshot = Snapshot::take(&self.handle, span);
                Range::with_prefix(&snapshot, self.own(), prefix.as_ref())
            }

            /// A cursor over the range, on a snapshot that is taken now. The cursor has no position
            /// until its first movement.
            pub fn cursor(&self, range: impl KeyRange) -> Cursor {
                let bounds = Bounds::of(&range);
                let snapshot = Snapshot::take(&self.handle, self.own().span(&bounds));
                Cursor::new(&snapshot, self.own(), bounds)
            }

            /// Approximate number of bytes on disk that the keys of the range take, garbage
            /// included. The number is off by some percent if much was written to the range, and 0
            /// if nothing was. The numbers for two adjacent ranges add up to that for both
            /// together. Reads indexes, and at most two blocks of pairs for each table. Fails as
            /// `get` does.
            pub fn approximate_bytes(&self, range: impl KeyRange) -> Result<u64> {
                self.handle.store.check_open()?;
                self.own().check()?;
                let bytes = self.own().layout.approximate_bytes(&Bounds::of(&range));
                self.own().order.check().and(bytes)
            }

            /// Sorts everything within the range and removes garbage, now, in the calling thread
            /// (EvenDB §3.4, funk rebalance). Never necessary. Afterwards the range takes as little
            /// disk space as possible, but for later writes, which it does not wait for. Fails as `put`
            /// does.
            pub fn compact_range(&self, range: impl KeyRange) -> Result<()> {
                let _call = self.handle.store.begin_call()?;
                self.handle.store.check_writable()?;
                self.own().check()?;
                self.own().layout.compact(&Bounds::of(&range))?;
                self.handle.store.substrate.checkpoint()
            }

            /// The name of the order of keys: that of the comparator, or `cantle.bytewise`.
            pub fn comparator_name(&self) -> &str {
                self.own().order.name()
            }

            /// The layout of the keyspace.
            pub fn layout(&self) -> LayoutKind {
                self.own().kind
            }

            /// The key ranges that the layout manages, in key order, with the bytes of their files.
            /// In the layout `chunk` these are the chunks (EvenDB §2.2).
            pub fn regions(&self) -> Result<Vec<RegionInfo>> {
                self.handle.store.check_open()?;
                self.own().check()?;
                Ok(self.own().layout.regions())
            }

            /// Removes the pair at one end if `accept` makes something of it, and returns that. An error of
            /// `accept` leaves the pair.
            pub(crate) fn pop_as<T>(
                &self,
                end: End,
                accept: impl FnMut(Key, Value) -> Result<T>,
            ) -> Result<Option<T>> {
                pop(&self.handle, self.own(), end, accept)
            }

            fn moment(&self) -> Snapshot {
                Snapshot::take(&self.handle, KeySpan::ALL)
            }

            fn range_of(&self, bounds: Bounds) -> Range {
                let snapshot = Snapshot::take(&self.handle, self.own().span(&bounds));
                Range::new(&snapshot, self.own(), bounds)
            }
        }
    };
}

operations!(Db);
operations!(Keyspace);
