//! Holds the sorted view of a log's indexed parts (`read::view` makes it).

use crate::block::Block;
use crate::memory::account::Charge;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use arc_swap::ArcSwapOption;

/// An optional view, and the number of scans that did without.
pub struct MergedIndex {
    pub view: ArcSwapOption<View>,
    /// Number of scans that merged the parts since the last view.
    pub merges: AtomicU64,
    /// Number of entries of all parts together.
    pub entries: u64,
}

impl MergedIndex {
    /// An empty place, for parts that have `entries` entries together.
    pub fn new(entries: u64) -> Self {
        Self { view: ArcSwapOption::empty(), merges: AtomicU64::new(0), entries }
    }
}

/// A view, charged to the logs' memory.
pub struct View {
    pub block: Arc<Block>,
    pub _charge: Charge,
}
