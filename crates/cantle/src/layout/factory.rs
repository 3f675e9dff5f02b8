//! The list entry by which a layout is known to the store: `layouts.rs` has all of them.

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
    /// The empty state that the keyspace's edits in the manifest lead on from.
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
    /// The logs as the last checkpoint found them.
    pub segments: &'a HashMap<u64, SegmentEdit>,
    /// Logs may hold more than the manifest says (`substrate::page_cache`).
    pub outlived: bool,
    /// The keyspace was dropped: only its files count. Nothing is read, and `order` is none of its own.
    pub dropped: bool,
}
