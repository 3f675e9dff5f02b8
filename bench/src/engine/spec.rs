//! The engine and its own settings: `cantle`, `leveldb=PATH.so`, `cantle:munks=off`.

use super::grid;
use crate::failure::{Failure, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// An engine and what distinguishes it from the same engine with its usual settings.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    /// The adapter's name.
    pub name: String,
    /// The library that `leveldb=` names.
    pub library: Option<PathBuf>,
    /// Settings by name.
    pub settings: BTreeMap<String, String>,
}

impl Spec {
    /// An engine without settings.
    pub fn plain(name: &str) -> Self {
        Self { name: name.into(), library: None, settings: BTreeMap::new() }
    }

    /// The same engine with one more setting.
    pub fn with(mut self, name: &str, value: impl fmt::Display) -> Self {
        self.settings.insert(name.into(), value.to_string());
        self
    }

    /// Parses one spec, or two for `rocksdb`, which names both configurations, or those of the grid.
    pub fn parse(text: &str) -> Result<Vec<Self>> {
        if text == grid::NAME {
            return Ok(grid::ROCKSDB.map(Self::parse).into_iter().collect::<Result<Vec<_>>>()?.concat());
        }
        if text == "rocksdb" {
            return Ok(vec![Self::plain("rocksdb-default"), Self::plain("rocksdb-tuned")]);
        }
        if let Some(path) = text.strip_prefix("leveldb=") {
            return Ok(vec![Self { library: Some(path.into()), ..Self::plain("leveldb") }]);
        }
        let mut words = text.split(':');
        let mut spec = Self::plain(words.next().unwrap_or_default());
        for word in words {
            let Some((name, value)) = word.split_once('=') else {
                return Err(Failure(format!("{word:?} of {text:?} is no setting: give NAME=VALUE")));
            };
            spec.settings.insert(name.into(), value.into());
        }
        Ok(vec![spec])
    }

    /// True for Cantle, in any configuration.
    pub fn is_cantle(&self) -> bool {
        self.name.starts_with("cantle")
    }

    /// True for RocksDB, in any configuration.
    pub fn is_rocksdb(&self) -> bool {
        self.name.starts_with("rocksdb")
    }

    /// True for RocksDB with tiers instead of levels.
    pub fn is_universal(&self) -> bool {
        self.is_rocksdb() && self.settings.get("compaction").is_some_and(|style| style == "universal")
    }

    /// True if the engine keeps nothing on disk, so that a data set cannot be copied to it.
    pub fn is_volatile(&self) -> bool {
        self.name == "btree"
    }

    /// A name for its directories.
    pub fn file_name(&self) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-=.".contains(c) { c } else { '_' };
        self.to_string().chars().map(plain).collect()
    }
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if let Some(library) = &self.library {
            write!(f, "={}", library.display())?;
        }
        self.settings.iter().try_for_each(|(name, value)| write!(f, ":{name}={value}"))
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> Self {
        spec.to_string()
    }
}

impl TryFrom<String> for Spec {
    type Error = String;

    fn try_from(text: String) -> std::result::Result<Self, String> {
        let mut specs = Self::parse(&text).map_err(|failure| failure.0)?;
        match specs.pop() {
            Some(spec) if specs.is_empty() => Ok(spec),
            _ => Err(format!("{text} is more than one engine")),
        }
    }
}
