//! The layout's entry in the list of layouts.

use super::Chunks;
use super::edit::{ChunkEdit, ChunkMap, ChunkRecord};
use crate::layout::Layout;
use crate::layout::factory::{LayoutFactory, OpenKeyspace};
use crate::layout::kind::LayoutKind;
use crate::manifest::LayoutState;
use crate::sync::Arc;
use crate::types::error::{Error, Result};
use std::any::Any;

pub struct Chunk;

impl LayoutFactory for Chunk {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Chunk
    }

    fn state(&self) -> Box<dyn LayoutState> {
        Box::<ChunkMap>::default()
    }

    /// One chunk with all keys.
    fn first_edits(&self) -> Vec<Vec<u8>> {
        let first = ChunkRecord { id: 1, start: None, files: Vec::new() };
        vec![ChunkEdit::Replace { removed: Vec::new(), added: vec![first] }.encode()]
    }

    fn open(&self, mut keyspace: OpenKeyspace<'_>) -> Result<Arc<dyn Layout>> {
        let state = std::mem::replace(&mut keyspace.state, self.state());
        let Ok(map) = (state as Box<dyn Any>).downcast::<ChunkMap>() else {
            let what = format!("keyspace {} is in another layout", keyspace.id);
            return Err(Error::corruption(keyspace.substrate.manifest.path(), 0, what));
        };
        let map = if keyspace.dropped { map.only_files() } else { *map };
        Ok(Chunks::open(keyspace, map)?)
    }
}
