//! Opens, creates and drops keyspaces.

use crate::db::activity::Activity;
use crate::db::check_options::check_keyspace_options;
use crate::db::keyspace::KeyspaceInner;
use crate::db::store::{DEFAULT_KEYSPACE, Store};
use crate::db::{KeyspaceOptions, Options};
use crate::layout::Layout;
use crate::layout::factory::OpenKeyspace;
use crate::layout::kind::LayoutKind;
use crate::layout::options::LayoutOptions;
use crate::layouts;
use crate::manifest::{Edit, KeyspaceEdit};
use crate::substrate::Substrate;
use crate::sync::atomic::{AtomicBool, AtomicU64};
use crate::sync::{Arc, Mutex};
use crate::types::durability::Durability;
use crate::types::error::{Error, Result};
use crate::types::order::{BYTEWISE, KeyOrder};

pub(crate) fn keyspace_edit(keyspace: u32, name: &str, layout: LayoutKind, order: &KeyOrder) -> KeyspaceEdit {
    KeyspaceEdit {
        keyspace,
        name: name.to_owned(),
        layout: layout.code(),
        comparator: order.name().to_owned(),
        metadata: Vec::new(),
    }
}

/// The options of a keyspace according to the store's options.
pub(super) fn given_options(edit: &KeyspaceEdit, options: &Options) -> KeyspaceOptions {
    if edit.name == DEFAULT_KEYSPACE { options.default_keyspace.clone() } else { KeyspaceOptions::default() }
}

/// The order with which a keyspace was created; an error if its comparator is not registered.
pub(crate) fn keyspace_order(edit: &KeyspaceEdit, options: &Options) -> Result<KeyOrder> {
    let given = given_options(edit, options);
    check_fixed(edit, &given)?;
    if let Some(order) = &given.order {
        return Ok(order.watched(|_| {}));
    }
    if edit.comparator == BYTEWISE {
        return Ok(KeyOrder::Bytewise);
    }
    let registered = options.comparators.iter().find(|comparator| comparator.name() == edit.comparator);
    registered.map(|comparator| KeyOrder::custom(comparator.clone())).ok_or_else(|| Error::OptionMismatch {
        keyspace: edit.name.clone(),
        option: "comparator",
        stored: edit.comparator.clone(),
        given: format!("{BYTEWISE} (register the comparator with Options::comparator)"),
    })
}

/// An order whose failure turns the store read-only.
pub(super) fn watched(order: KeyOrder, substrate: &Substrate) -> KeyOrder {
    let health = substrate.health.clone();
    order.watched(move |reason| health.fail(reason))
}

/// Fails if the options name another comparator or layout than those of an existing keyspace.
fn check_fixed(edit: &KeyspaceEdit, given: &KeyspaceOptions) -> Result<()> {
    let mismatch = |option, stored: &str, given: &str| {
        Err(Error::OptionMismatch {
            keyspace: edit.name.clone(),
            option,
            stored: stored.to_owned(),
            given: given.to_owned(),
        })
    };
    let kind = layouts::factory_of(edit.layout).map(|factory| factory.kind());
    match (&given.order, &given.layout) {
        (Some(order), _) if order.name() != edit.comparator => {
            mismatch("comparator", &edit.comparator, order.name())
        }
        (_, Some(layout)) if kind.is_some_and(|kind| kind != layout.kind()) => {
            mismatch("layout", kind.map_or("", LayoutKind::name), layout.kind().name())
        }
        _ => Ok(()),
    }
}

pub(super) fn keyspace_inner(
    edit: &KeyspaceEdit,
    order: KeyOrder,
    (layout, kind): (Arc<dyn Layout>, LayoutKind),
    is_durable: bool,
    activity: &Arc<Activity>,
) -> Arc<KeyspaceInner> {
    Arc::new_cyclic(|this| KeyspaceInner {
        id: edit.keyspace,
        name: edit.name.clone(),
        order,
        layout,
        kind,
        metadata: Mutex::new(edit.metadata.clone()),
        dropped_at: AtomicU64::new(0),
        is_durable: AtomicBool::new(is_durable),
        active: AtomicBool::new(false),
        pops: Default::default(),
        activity: activity.clone(),
        this: this.clone(),
    })
}

/// Treatment of a keyspace that exists already, with the options of a new one.
#[derive(Debug, Clone)]
pub(in crate::db) enum Existing {
    /// It is returned with its present settings. A new one has the defaults.
    AsItIs,
    /// It must have the comparator and the layout, if these are given, and takes the other
    /// settings.
    With(KeyspaceOptions),
    /// It is an error.
    Refused(KeyspaceOptions),
}

impl Existing {
    fn options(&self) -> KeyspaceOptions {
        match self {
            Self::AsItIs => KeyspaceOptions::default(),
            Self::With(options) | Self::Refused(options) => options.clone(),
        }
    }
}

impl Store {
    /// The keyspace of this name, created if there is none; `existing` is the treatment of one that
    /// exists.
    pub(in crate::db) fn keyspace(&self, name: &str, existing: Existing) -> Result<Arc<KeyspaceInner>> {
        let _call = self.begin_call()?;
        let options = existing.options();
        check_keyspace_options(&options)?;
        if name.is_empty() || name.len() > 255 {
            return Err(Error::InvalidArgument(format!(
                "a keyspace's name has 1 to 255 bytes, not {}",
                name.len()
            )));
        }
        // Held throughout, so that two callers do not create it twice.
        let mut keyspaces = self.keyspaces.write();
        if let Some(found) = keyspaces.get(name) {
            match existing {
                Existing::AsItIs => {}
                Existing::With(options) => {
                    check_fixed(&found.edit(Vec::new()), &options)?;
                    options.layout.as_ref().map_or(Ok(()), |layout| layout.check_order(&found.order))?;
                    if name != DEFAULT_KEYSPACE {
                        found.layout.set_options(options.settings(found.kind));
                    }
                }
                Existing::Refused(_) => {
                    let (path, keyspace) = (self.path.clone(), Some(name.to_owned()));
                    return Err(Error::AlreadyExists { path, keyspace });
                }
            }
            let found = found.clone();
            drop(keyspaces);
            found.publish_creation(&self.substrate)?;
            return Ok(found);
        }
        if self.options.read_only {
            return Err(Error::NoKeyspace(name.to_owned()));
        }
        self.check_writable()?;
        let order = watched(options.order.clone().unwrap_or_default(), &self.substrate);
        let id = self.substrate.checkpoints.take_keyspace_id();
        let kind = options.layout.as_ref().map_or_else(LayoutKind::default, LayoutOptions::kind);
        let factory = layouts::factory(kind)?;
        let edit = keyspace_edit(id, name, kind, &order);
        let mut state = factory.state();
        let mut edits = vec![Edit::Keyspace(edit.clone())];
        for payload in factory.first_edits() {
            state.apply(&payload).map_err(|what| Error::corruption(&self.path, 0, what.0))?;
            edits.push(Edit::Layout { keyspace: id, payload });
        }
        self.substrate.manifest.append(&edits)?;
        let layout = factory.open(OpenKeyspace {
            substrate: self.substrate.clone(),
            id,
            order: order.clone(),
            settings: options.settings(kind),
            state,
            segments: &Default::default(),
            outlived: false,
            dropped: false,
        })?;
        let inner = keyspace_inner(&edit, order, (layout, kind), false, &self.activity);
        keyspaces.insert(name.to_owned(), inner.clone());
        drop(keyspaces);
        inner.publish_creation(&self.substrate)?;
        Ok(inner)
    }

    pub(in crate::db) fn drop_keyspace(&self, name: &str) -> Result<()> {
        let _call = self.begin_call()?;
        self.check_writable()?;
        if name == DEFAULT_KEYSPACE {
            return Err(Error::InvalidArgument(
                "the default keyspace cannot be dropped; delete_range(..) empties it".into(),
            ));
        }
        let mut keyspaces = self.keyspaces.write();
        let keyspace = keyspaces.get(name).cloned().ok_or_else(|| Error::NoKeyspace(name.to_owned()))?;
        // The drop has a version like any write: a recovery to an earlier version undoes it.
        let substrate = &self.substrate;
        let announced = substrate.unjournaled.announce(&substrate.mvcc, crate::mvcc::KeySpan::ALL);
        self.check_writable()?;
        let version = announced.version();
        self.substrate.manifest.append(&[Edit::DropKeyspace { keyspace: keyspace.id, version }])?;
        keyspace.mark_dropped(version);
        keyspaces.remove(name);
        self.dropped.lock().push((version, keyspace));
        drop(announced);
        drop(keyspaces);
        self.substrate.pool.wake();
        // The journal does not record the drop.
        if self.substrate.durability == Durability::Sync { self.substrate.checkpoint() } else { Ok(()) }
    }
}
