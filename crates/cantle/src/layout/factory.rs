//! Entry of a layout in the list of layouts (`layouts.rs`).

use super::Layout;
use super::kind::LayoutKind;
use super::options::Settings;
use crate::manifest::{LayoutState, SegmentEdit};
use crate::substrate::Substrate;
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::order::KeyOrder;
use std::collections::HashMap;

/// Makes keyspaces of one layout.
pub trait LayoutFactory: Sync {
    fn kind(&self) -> LayoutKind;
    /// The empty state, to which the keyspace's edits in the manifest are applied.
    fn state(&self) -> Box<dyn LayoutState>;
    /// The edits that create an empty keyspace.
    fn first_edits(&self) -> Vec<Vec<u8>>;
    /// Opens a keyspace. Reads no log and no table.
    fn open(&self, keyspace: OpenKeyspace<'_>) -> Result<Arc<dyn Layout>>;
}

/// A keyspace that is to be opened.
pub struct OpenKeyspace<'a> {
    pub substrate: Arc<Substrate>,
    pub id: u32,
    pub order: KeyOrder,
    pub settings: Settings,
    /// Made by [`LayoutFactory::state`], with all edits applied.
    pub state: Box<dyn LayoutState>,
    /// The logs as recorded by the last checkpoint, by file number.
    pub segments: &'a HashMap<u64, SegmentEdit>,
    /// True if logs may hold more records than the manifest says (`substrate::page_cache`).
    pub outlived: bool,
    /// True if the keyspace was dropped. Then its files are only referenced: nothing is read, and
    /// `order` is not the keyspace's own.
    pub dropped: bool,
}
