//! Options of the lab's stores.

use crate::layouts::{self, Tuned};
use crate::rng::Rng;
use cantle::vfs::Vfs;
use cantle::{Db, Durability, KeyspaceOptions, LayoutKind, Options, Resources};
use std::sync::Arc;
use std::time::Duration;

/// The path of a store in its file system.
pub const STORE: &str = "/store";

thread_local! {
    /// Resources that the stores which a thread inspects share.
    static SHARED: Resources = Resources::new(BUDGET_BYTES, 1);
}

const BUDGET_BYTES: u64 = 4 << 20;

/// The options of a store.
#[derive(Debug, Clone)]
pub struct Setup {
    pub layout: LayoutKind,
    pub durability: Durability,
    pub checkpoint_interval: Duration,
    pub chunk_bytes: u64,
    pub log_bytes: u64,
    /// True for the published variant of the layout, which searches logs linearly.
    pub as_published: bool,
    /// False if every generation of `flsm` is flushed.
    pub log_is_level_0: bool,
    pub threads: usize,
}

/// True if all keyspaces of a store report this layout.
pub fn has_layout(db: &Db, layout: LayoutKind) -> bool {
    db.stats().keyspaces.iter().all(|keyspace| keyspace.layout == layout)
}

impl Setup {
    pub fn random(rng: &mut Rng, durability: Durability) -> Self {
        let intervals = [Duration::ZERO, Duration::from_millis(30), Duration::from_secs(3600)];
        let checkpoint_interval = intervals[rng.below(3) as usize];
        let log_bytes = [4096, 16 << 10, 64 << 10][rng.below(3) as usize];
        Self {
            layout: LayoutKind::default(),
            durability,
            checkpoint_interval,
            chunk_bytes: 64 << 10,
            log_bytes,
            as_published: rng.below(8) == 0,
            // Another layout has this option than that with the length of logs.
            log_is_level_0: log_bytes != 4096,
            threads: 1 + rng.below(2) as usize,
        }
    }

    pub fn keyspace(&self) -> KeyspaceOptions {
        let layout = layouts::options(self.layout, self.as_published)
            .with_regions(self.chunk_bytes)
            .with("log_bytes", self.log_bytes)
            .with("munk_log_bytes", self.log_bytes)
            .with("filter_partitions", 4)
            .with("log_is_level_0", self.log_is_level_0)
            // One of four, by numbers that have another meaning for another layout.
            .with_storing(self.threads as u64 ^ self.log_bytes >> 13);
        KeyspaceOptions::new().layout(layout)
    }

    pub fn options(&self, vfs: Arc<dyn Vfs>) -> Options {
        Options::new()
            .vfs(vfs)
            .memory_budget(BUDGET_BYTES)
            .background_threads(self.threads)
            .durability(self.durability)
            .checkpoint_interval(self.checkpoint_interval)
            .default_keyspace(self.keyspace())
    }

    /// Options to inspect an image: threads of its own would take most of the time.
    pub fn image_options(&self, vfs: Arc<dyn Vfs>) -> Options {
        self.options(vfs).resources(SHARED.with(Resources::clone))
    }

    pub fn open_image(&self, vfs: Arc<dyn Vfs>) -> cantle::Result<Db> {
        self.image_options(vfs).open(STORE)
    }

    pub fn open(&self, vfs: Arc<dyn Vfs>) -> cantle::Result<Db> {
        self.options(vfs).open(STORE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle::vfs::MemVfs;

    /// The doors check the stores that they open with [`has_layout`].
    #[test]
    fn stores_report_the_layout_that_was_asked_for() {
        for &layout in LayoutKind::ALL {
            assert_eq!(layout.name().parse::<LayoutKind>().unwrap(), layout);
            let setup = Setup { layout, ..Setup::random(&mut Rng::new(1), Durability::Process) };
            let db = setup.open(Arc::new(MemVfs::new())).unwrap();
            db.keyspace_with("another", setup.keyspace()).unwrap();
            assert!(has_layout(&db, layout));
        }
        assert!("".parse::<LayoutKind>().is_err());
    }
}
