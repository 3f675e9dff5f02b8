//! Creates a new store.

use super::keyspaces::keyspace_edit;
use super::{DEFAULT_ID, Opened};
use crate::db::Options;
use crate::db::store::DEFAULT_KEYSPACE;
use crate::files::Files;
use crate::layout::kind::LayoutKind;
use crate::layout::options::LayoutOptions;
use crate::layouts;
use crate::manifest::{CheckpointEdit, Edit, Manifest, StartEdit, State};
use crate::mvcc::Recovery;
use crate::substrate::VERSIONS_PER_CHECKPOINT;
use crate::substrate::page_cache::PageCacheWitness;
use crate::sync::{Arc, random};
use crate::types::durability::Durability;
use crate::types::error::{Error, Result};
use crate::vfs::Vfs;
use std::path::Path;

pub(super) fn create(vfs: Arc<dyn Vfs>, path: &Path, options: &Options) -> Result<Opened> {
    let start = StartEdit { epoch: 1, first_version: 1, ..StartEdit::default() };
    let files = Arc::new(Files::new(vfs.clone(), path.to_path_buf(), random::u128(), start.epoch, 1));
    let vouch =
        PageCacheWitness::begin(&vfs, path, start.epoch, options.durability != Durability::Buffered, false)?;
    let checkpoint = CheckpointEdit {
        ceiling: VERSIONS_PER_CHECKPOINT,
        next_file: 2,
        next_keyspace: DEFAULT_ID + 1,
        next_batch: 1,
        ..CheckpointEdit::default()
    };
    let order = options.default_keyspace.order.clone().unwrap_or_default();
    let kind = options.default_keyspace.layout.as_ref().map_or_else(LayoutKind::default, LayoutOptions::kind);
    let first = layouts::factory(kind)?.first_edits();
    let first = first.into_iter().map(|payload| Edit::Layout { keyspace: DEFAULT_ID, payload });
    let mut edits =
        vec![Edit::Start(start), Edit::Keyspace(keyspace_edit(DEFAULT_ID, DEFAULT_KEYSPACE, kind, &order))];
    edits.extend(first);
    edits.push(Edit::Checkpoint(checkpoint));
    let mut state = State::new(layouts::new_state);
    for edit in edits.clone() {
        state.apply(edit).map_err(|what| Error::corruption(path, 0, what.0))?;
    }
    let manifest = Manifest::create(files.clone(), layouts::new_state, &edits)?;
    let recovery = Recovery { epoch: 1, first_version: 1, ..Recovery::default() };
    tracing::info!(path = %path.display(), "created a store");
    Ok(Opened {
        files,
        manifest,
        state,
        recovery,
        vouch,
        journals: Vec::new(),
        replay: Vec::new(),
        outlived: false,
        provisional_bytes: 0,
        next_batch: 1,
        orphans: Vec::new(),
        damage: Vec::new(),
        uncounted: None,
    })
}
