//! A `BTreeMap` in a `RwLock`: not a store, but a reference for stores whose data are in memory.

use super::{Engine, Opened, Settings, Spec};
use crate::failure::Result;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

type Map = BTreeMap<Box<[u8]>, Box<[u8]>>;

struct Locked(RwLock<Map>);

/// An empty map; the directory is ignored.
pub fn open(_: &Spec, _: &Settings) -> Result<Opened> {
    Ok(Opened {
        engine: Box::new(Locked(RwLock::default())),
        configuration: "std::collections::BTreeMap behind std::sync::RwLock".into(),
        caveats: vec!["writes nothing to disk and survives nothing; all data in memory".into()],
        version: "Rust's standard library".into(),
    })
}

impl Locked {
    // A thread that panicked while it held the lock ends the run anyway.
    fn read(&self) -> RwLockReadGuard<'_, Map> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Map> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine for Locked {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        let (key, value) = (key.into(), value.into());
        self.write().insert(key, value);
        Ok(())
    }

    fn delete(&self, key: &[u8]) -> Result {
        self.write().remove(key);
        Ok(())
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.read().get(key).map(|value| read(value)).is_some())
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let to = to.map_or(Bound::Unbounded, Bound::Excluded);
        let map = self.read();
        let range = map.range::<[u8], _>((Bound::Included(from), to));
        range.take(usize::try_from(rows)?).for_each(|(key, value)| read(key, value));
        Ok(())
    }

    fn sync(&self) -> Result {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result {
        Ok(())
    }
}
