//! A store to look at: opened for reading, or through the program that has it open.

use crate::failure::{Failure, Outcome};
use crate::keyfmt::KeyCodec;
use crate::monitored::Monitored;
use crate::schema::Schema;
use crate::store::{Access, DEFAULT_KEYSPACE, KeyArgs, Opened, StoreArgs};
use cantle::stats::RegionInfo;
use cantle::{LayoutKind, Stats};
use std::time::Duration;

/// A store and one of its keyspaces.
pub(crate) enum Seen {
    /// By this command.
    Opened(Opened),
    /// By another program, with the keyspace's name.
    Elsewhere(Monitored, String),
}

impl Seen {
    /// Looks for a program that has the store open, and opens it otherwise.
    pub(crate) fn open(args: &StoreArgs) -> Outcome<Self> {
        match Self::elsewhere(args)? {
            Some(seen) => Ok(seen),
            None => args.open(Access::Read).map(Self::Opened),
        }
    }

    /// Through the program that has the store open, if there is one.
    pub(crate) fn elsewhere(args: &StoreArgs) -> Outcome<Option<Self>> {
        let Some(found) = Monitored::find(&args.db) else { return Ok(None) };
        let name = args.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
        if !found.stats()?.keyspaces.iter().any(|keyspace| keyspace.name == name) {
            return Err(cantle::Error::NoKeyspace(name.to_owned()).into());
        }
        Ok(Some(Self::Elsewhere(found, name.to_owned())))
    }

    /// The keyspace's name.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Opened(opened) => opened.keyspace.name(),
            Self::Elsewhere(_, name) => name,
        }
    }

    /// The store's statistics. Records that an opening left behind are counted in a fraction of a second.
    pub(crate) fn stats(&self) -> Outcome<Stats> {
        loop {
            let stats = match self {
                Self::Opened(opened) => opened.db.stats(),
                Self::Elsewhere(monitored, _) => return monitored.stats(),
            };
            if !stats.left_behind_pending {
                return Ok(stats);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The keyspace's regions in key order.
    pub(crate) fn regions(&self) -> Outcome<Vec<RegionInfo>> {
        match self {
            Self::Opened(opened) => Ok(opened.keyspace.regions()?),
            Self::Elsewhere(monitored, name) => monitored.regions(name),
        }
    }

    /// The keyspace's layout.
    pub(crate) fn layout(&self) -> Outcome<LayoutKind> {
        match self {
            Self::Opened(opened) => Ok(opened.keyspace.layout()),
            Self::Elsewhere(monitored, name) => {
                let stats = monitored.stats()?;
                let keyspace = stats.keyspaces.iter().find(|keyspace| keyspace.name == *name);
                keyspace
                    .map(|keyspace| keyspace.layout)
                    .ok_or_else(|| cantle::Error::NoKeyspace(name.clone()).into())
            }
        }
    }

    /// As [`Opened::codec`].
    pub(crate) fn codec(&self, args: &KeyArgs) -> Outcome<(KeyCodec, Schema)> {
        match self {
            Self::Opened(opened) => opened.codec(args),
            Self::Elsewhere(monitored, name) => {
                let schema = Schema::from_metadata(&monitored.metadata(name)?);
                let schema = match schema {
                    Err(_) if args.key_format.is_some() => Schema::default(),
                    schema => schema.map_err(|what| Failure::Failed(format!("keyspace {name:?}: {what}")))?,
                };
                Ok((KeyCodec::new(args.key_format, &schema), schema))
            }
        }
    }
}
