//! The stores under measurement, each behind one small adapter in a file of its own.
//!
//! An adapter opens its store with the settings that all stores of a run share (memory, durability, background
//! threads), says how it was configured and what of the settings it could not keep, and hands out [`Engine`]. Everything
//! is measured outside of it. Which adapters there are is decided by cargo features: none of the peers is compiled
//! unless it is asked for.

mod btree;
mod cantle;
#[cfg(feature = "fjall")]
mod fjall;
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

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// What a store counts of itself, by its own names: differences of two are reported.
pub type Figures = BTreeMap<String, f64>;

/// An open store. Every method may be called from any thread at any time.
pub trait Engine: Send + Sync {
    /// Writes one pair; it survives what the settings say when this returns.
    fn put(&self, key: &[u8], value: &[u8]) -> Result;

    /// Removes one pair.
    fn delete(&self, key: &[u8]) -> Result;

    /// Writes many pairs, in whatever way is fastest for the store. For loading, which is not measured.
    fn put_all(&self, pairs: &[Pair]) -> Result {
        pairs.iter().try_for_each(|(key, value)| self.put(key, value))
    }

    /// Hands the value of `key` to `read`; whether there is one.
    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool>;

    /// Hands the pairs from `from` to `read` in key order, up to `to` (not included) and at most `rows`.
    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result;

    /// Makes everything written before durable.
    fn sync(&self) -> Result;

    /// What the store counts of itself.
    fn figures(&self) -> Figures {
        Figures::new()
    }

    /// Ends it in order.
    fn close(self: Box<Self>) -> Result;
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// The end of the process
    Process,
    /// Power loss
    Sync,
}

/// What every store of a run is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Where the store is.
    pub dir: PathBuf,
    /// Memory for its caches and buffers.
    pub budget_bytes: u64,
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// Threads for what it does beside the operations: the default of Cantle on this machine, unless said otherwise.
    pub background_threads: usize,
}

/// A store that has been opened.
pub struct Opened {
    /// It.
    pub engine: Box<dyn Engine>,
    /// How it was configured, for the report.
    pub configuration: String,
    /// Where it does not do what the others do.
    pub caveats: Vec<String>,
    /// What is measured.
    pub version: String,
}

type Open = fn(&Spec, &Settings) -> Result<Opened>;

/// One row of the table of adapters.
struct Adapter {
    name: &'static str,
    about: &'static str,
    /// Extensions of files that it writes once: after it was closed, whoever opens it reads or removes them.
    written_once: &'static [&'static str],
    /// The feature that compiles it; empty if it always is.
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

fn adapters() -> [Adapter; 9] {
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

/// Whether an engine writes a file of this name once, so that copies of a closed store may share it.
pub fn is_written_once(spec: &Spec, file: &Path) -> bool {
    let extension = file.extension().unwrap_or_default();
    let adapter = adapters().into_iter().find(|adapter| adapter.name == spec.name);
    adapter.is_some_and(|adapter| adapter.written_once.iter().any(|once| extension == *once))
}

/// Opens the store that `spec` names.
pub fn open(spec: &Spec, settings: &Settings) -> Result<Opened> {
    (find(&spec.name)?.1)(spec, settings)
}

/// Whether an engine of this name can be opened; the error says why not.
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

/// Names, and whether they are compiled in, for people.
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

/// The version of a crate, as the lab's lock file has it.
pub fn locked_version(package: &str) -> String {
    let lock = include_str!("../../Cargo.lock");
    let heading = format!("name = \"{package}\"\nversion = \"");
    let version = lock.split_once(&heading).and_then(|(_, rest)| rest.split_once('"'));
    version.map_or("unknown", |(version, _)| version).to_string()
}

#[cfg(test)]
mod tests;
