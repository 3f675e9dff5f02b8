//! The stores under measurement, each with one small adapter in a file of its own.
//!
//! An adapter opens its store with the settings that all stores of a run share (memory, durability,
//! background threads). It returns an [`Engine`], a description of the configuration, and the
//! settings that it could not apply. All measurements are made outside of the adapters. Cargo
//! features select the adapters: a peer is only compiled if it is requested.

mod btree;
mod cantle;
#[cfg(feature = "fjall")]
mod fjall;
mod grid;
#[cfg(feature = "leveldb")]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
#[cfg(feature = "rocksdb")]
mod rocksdb;
mod spec;

pub use spec::Spec;

use crate::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// A store's own statistics, by their names. Differences of two are reported.
pub type Figures = BTreeMap<String, f64>;

/// An open store. Every method may be called from any thread at any time.
pub trait Engine: Send + Sync {
    /// Writes one pair, which is as durable as the settings demand when this returns.
    fn put(&self, key: &[u8], value: &[u8]) -> Result;

    /// Removes one pair.
    fn delete(&self, key: &[u8]) -> Result;

    /// Writes many pairs in the fastest way of the store. For loading, which is not measured.
    fn put_all(&self, pairs: &[Pair]) -> Result {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Passes the value of `key` to `read`. Returns true if there is one.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Passes the values of those of the keys that there are to `read`, with their numbers, in any order, in the
    /// fastest way of the store.
    fn get_many(&self, keys: &[Vec<u8>], read: &mut dyn FnMut(usize, &[u8])) -> Result {
        for (number, key) in keys.iter().enumerate() {
            self.get(key, &mut |value| read(number, value))?;
        }
        Ok(())
    }

    /// Passes the pairs from `from` to `read` in key order, up to `to` (not included) and at most
    /// `rows`.
    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result;

    /// Makes everything written before durable.
    fn sync(&self) -> Result;

    /// Waits for the end of background work in the store's own way, if it has one, at most this long.
    fn wait_for_background(&self, _longest: Duration) -> Result {
        Ok(())
    }

    /// True if no background work waits or runs, or if the store does not say.
    fn is_idle(&self) -> bool {
        true
    }

    /// Bytes of logs that are complete, with their indexes, and were not merged yet; 0 if the store does not say.
    fn unmerged_bytes(&self) -> u64 {
        0
    }

    /// The store's own statistics.
    fn figures(&self) -> Figures {
        Figures::new()
    }

    /// Closes the store.
    fn close(self: Box<Self>) -> Result;
}

/// The failure that an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The end of the process
    Process,
    /// Power loss
    Sync,
}

/// Settings that all stores of a run share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The store's directory.
    pub dir: PathBuf,
    /// Memory for its caches and buffers.
    pub budget_bytes: u64,
    /// The failure that an acknowledged write survives.
    pub durability: Durability,
    /// Number of background threads: Cantle's default on this machine, unless the run sets it.
    pub background_threads: usize,
}

/// A store that has been opened.
pub struct Opened {
    /// The engine.
    pub engine: Box<dyn Engine>,
    /// Its configuration, for the report.
    pub configuration: String,
    /// Differences between its behaviour and that of the other engines.
    pub caveats: Vec<String>,
    /// The version of the store.
    pub version: String,
}

type Open = fn(&Spec, &Settings) -> Result<Opened>;

/// One row of the table of adapters.
struct Adapter {
    name: &'static str,
    about: &'static str,
    /// Extensions of files that it writes once: after a close, an opening only reads or removes
    /// them.
    written_once: &'static [&'static str],
    /// The feature that compiles it; empty if it is always compiled.
    feature: &'static str,
    /// `None` if it is not compiled.
    open: Option<Open>,
}

macro_rules! peer {
    ($feature:literal, $open:path) => {{
        #[cfg(feature = $feature)]
        let open: Option<Open> = Some($open);
        #[cfg(not(feature = $feature))]
        let open: Option<Open> = None;
        open
    }};
}

fn adapters() -> [Adapter; 10] {
    let adapter =
        |name, about, written_once, feature, open| Adapter { name, about, written_once, feature, open };
    let (cantle, rocksdb) = (&["table", "log"][..], &["sst"][..]);
    [
        adapter(
            "cantle",
            "defaults and the memory budget, nothing else",
            cantle,
            "",
            Some(cantle::open as Open),
        ),
        adapter("cantle-published", "the settings of EvenDB §5.1", cantle, "", Some(cantle::open_published)),
        adapter("btree", "a BTreeMap behind a RwLock: the limit, no store", &[], "", Some(btree::open)),
        adapter(
            "rocksdb-default",
            "RocksDB as it comes",
            rocksdb,
            "rocksdb",
            peer!("rocksdb", rocksdb::open_default),
        ),
        adapter(
            "rocksdb-tuned",
            "RocksDB tuned for the memory",
            rocksdb,
            "rocksdb",
            peer!("rocksdb", rocksdb::open_tuned),
        ),
        adapter(
            "rocksdb",
            "RocksDB with settings; rocksdb-grid is a set of them",
            rocksdb,
            "rocksdb",
            peer!("rocksdb", rocksdb::open_tuned),
        ),
        adapter(
            "leveldb",
            "a library with LevelDB's C API",
            &["ldb", "sst"],
            "leveldb",
            peer!("leveldb", leveldb::open),
        ),
        adapter("fjall", "fjall", &[], "fjall", peer!("fjall", fjall::open)),
        adapter("redb", "redb", &[], "redb", peer!("redb", redb::open)),
        adapter("lmdb", "LMDB by way of heed", &[], "lmdb", peer!("lmdb", lmdb::open)),
    ]
}

/// True if an engine writes a file of this name once, so that copies of a closed store may share
/// it.
pub fn is_written_once(spec: &Spec, file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default();
    let adapter = adapters().into_iter().find(|adapter| adapter.name == spec.name);
    adapter.is_some_and(|adapter| adapter.written_once.iter().any(|once| extension == *once))
}

/// Opens the store that `spec` names.
pub fn open(spec: &Spec, settings: &Settings) -> Result<Opened> {
    (find(&spec.name)?.1)(spec, settings)
}

/// Checks that an engine of this name can be opened; the error is the reason if not.
pub fn check(spec: &Spec) -> Result {
    find(&spec.name).map(drop)
}

fn find(name: &str) -> Result<(Adapter, Open)> {
    let found = adapters().into_iter().find(|adapter| adapter.name == name);
    match found {
        None => {
            let names: Vec<&str> = adapters().iter().map(|adapter| adapter.name).collect();
            Err(Failure(format!("there is no engine {name:?}; there are {}", names.join(", "))))
        }
        Some(Adapter { open: None, feature, .. }) => {
            Err(Failure(format!("{name} is not compiled in: build the lab with --features {feature}")))
        }
        Some(adapter @ Adapter { open: Some(open), .. }) => Ok((adapter, open)),
    }
}

/// A list of the engines, with the features that compile the missing ones.
pub fn list() -> Vec<String> {
    let line = |adapter: Adapter| {
        let missing = if adapter.open.is_some() {
            String::new()
        } else {
            format!(" (needs --features {})", adapter.feature)
        };
        format!("{:18}{}{missing}", adapter.name, adapter.about)
    };
    adapters().into_iter().map(line).collect()
}

/// The version of a crate in the lab's lock file.
pub fn locked_version(package: &str) -> String {
    let lock = include_str!("../../Cargo.lock");
    let heading = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&heading).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_string()
}

#[cfg(test)]
mod tests;
