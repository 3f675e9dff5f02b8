//! A place for the sorted view of a log's indexed parts (`read::view` makes it).

use crate::block::Block;
use crate::memory::account::Charge;
use crate::sync::Arc;
use crate::sync::atomic::AtomicU64;
use arc_swap::ArcSwapOption;

/// A place for a view, and how often it was missed.
pub struct MergedIndex {
    pub view: ArcSwapOption<View>,
    /// Scans that merged the parts since the last view.
    pub merges: AtomicU64,
    /// Of all parts together.
    pub entries: u64,
}

impl MergedIndex {
    /// For parts that have so many entries together.
    pub fn new(entries: u64) -> Self {
        Self { view: ArcSwapOption::empty(), merges: AtomicU64::new(0), entries }
    }
}

/// A view, which counts as logs' memory.
pub struct View {
    pub block: Arc<Block>,
    pub _charge: Charge,
}
