//! Opening a store and a keyspace for a subcommand.

use crate::failure::{Failure, Outcome};
use crate::keyfmt::{KeyCodec, KeyFormat};
use crate::schema::Schema;
use cantle::{Db, Keyspace, KeyspaceOptions, Options};
use clap::Args;
use std::path::PathBuf;

/// The keyspace that a store's own operations work on.
pub(crate) const DEFAULT_KEYSPACE: &str = "default";

/// The store and keyspace.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreArgs {
    /// The store's directory
    pub(crate) db: PathBuf,
    /// The keyspace [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) keyspace: Option<String>,
}

/// The form of keys.
#[derive(Debug, Args)]
pub(crate) struct KeyArgs {
    /// The form in which keys are written, instead of the key columns that `load` stored
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) key_format: Option<KeyFormat>,
}

/// The access of a command to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read; other readers may do so at the same time.
    Read,
    /// Read and write a store that exists.
    Write,
    /// Read and write; a store and keyspace that are missing are created.
    Create,
}

impl Access {
    /// Options of a store that is opened so.
    pub(crate) fn apply(self, options: Options) -> Options {
        options.read_only(self == Self::Read).create_if_missing(self == Self::Create)
    }
}

/// An opened store and keyspace.
pub(crate) struct Opened {
    /// The store.
    pub(crate) db: Db,
    /// The keyspace.
    pub(crate) keyspace: Keyspace,
}

impl StoreArgs {
    /// Opens the store alone.
    pub(crate) fn open_db(&self, access: Access) -> Outcome<Db> {
        self.open_db_with(access, Options::new())
    }

    fn open_db_with(&self, access: Access, options: Options) -> Outcome<Db> {
        if access == Access::Create {
            self.check_parent()?;
        }
        Ok(access.apply(options).open(&self.db)?)
    }

    /// A store's own directory is made, and no other: a path that is mistyped makes none.
    fn check_parent(&self) -> Outcome {
        match self.db.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) if !parent.exists() => Err(Failure::Failed(format!(
                "there is no directory {0}: check the path, or make it first (mkdir -p {0})",
                parent.display()
            ))),
            _ => Ok(()),
        }
    }

    /// Opens the store and the keyspace.
    pub(crate) fn open(&self, access: Access) -> Outcome<Opened> {
        self.open_with(access, Options::new(), KeyspaceOptions::new())
    }

    /// Opens the store and the keyspace with options of their own.
    pub(crate) fn open_with(
        &self,
        access: Access,
        options: Options,
        keyspace: KeyspaceOptions,
    ) -> Outcome<Opened> {
        let name = self.keyspace.as_deref().unwrap_or(DEFAULT_KEYSPACE);
        let options =
            if name == DEFAULT_KEYSPACE { options.default_keyspace(keyspace.clone()) } else { options };
        let db = self.open_db_with(access, options)?;
        let known = || -> Outcome<bool> { Ok(db.keyspaces()?.iter().any(|known| known == name)) };
        if access != Access::Create && name != DEFAULT_KEYSPACE && !known()? {
            return Err(cantle::Error::NoKeyspace(name.to_owned()).into());
        }
        let keyspace = db.keyspace_with(name, keyspace)?;
        Ok(Opened { db, keyspace })
    }
}

/// The store before it was opened for writing: it is as before if nothing was written.
pub(crate) struct NewStore {
    args: StoreArgs,
    /// Nothing was at the path.
    directory: bool,
    /// There was no store.
    store: bool,
    /// There was no such keyspace.
    keyspace: bool,
}

impl NewStore {
    /// Looks at the store's path and keyspace. A store that cannot be read now is not made by this
    /// command.
    pub(crate) fn before(args: &StoreArgs) -> Outcome<Self> {
        let directory = !args.db.exists();
        let is_empty = || std::fs::read_dir(&args.db).is_ok_and(|mut entries| entries.next().is_none());
        let store = directory || is_empty();
        let keyspace = match &args.keyspace {
            Some(name) if !store && name != DEFAULT_KEYSPACE => {
                args.open_db(Access::Read).and_then(|db| Ok(!db.keyspaces()?.contains(name))).unwrap_or(false)
            }
            _ => false,
        };
        Ok(Self { args: args.clone(), directory, store, keyspace })
    }

    /// Closes the store and removes what was created since, as nothing was written to it.
    pub(crate) fn undo(self, opened: Opened) -> Outcome {
        let Opened { db, keyspace } = opened;
        if self.keyspace && !self.store {
            let name = keyspace.name().to_owned();
            drop(keyspace);
            db.drop_keyspace(&name)?;
            db.sync()?;
        }
        db.close()?;
        if self.store {
            Db::destroy(&self.args.db, Options::new())?;
        }
        if self.directory {
            // Not empty, if somebody else uses it.
            let _ = std::fs::remove_dir(&self.args.db);
        }
        Ok(())
    }
}

impl Opened {
    /// The columns of the keyspace's keys and values.
    pub(crate) fn schema(&self) -> Outcome<Schema> {
        let name = self.keyspace.name();
        Schema::from_metadata(&self.keyspace.metadata()).map_err(|what| {
            Failure::Failed(format!("keyspace {name:?}: {what}; --key-format raw works without them"))
        })
    }

    /// The codec of keys, and the form of values. Metadata of other programs do not matter where
    /// the user says how keys are written.
    pub(crate) fn codec(&self, args: &KeyArgs) -> Outcome<(KeyCodec, Schema)> {
        let schema = match self.schema() {
            Err(_) if args.key_format.is_some() => Schema::default(),
            schema => schema?,
        };
        Ok((KeyCodec::new(args.key_format, &schema), schema))
    }
}
