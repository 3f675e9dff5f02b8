//! Random configurations.

use super::keys::Keys;
use super::order::Order;
use super::random::Random;
use crate::layouts::{self, Tuned};
use cantle::{Compression, Durability, KeyspaceOptions, LayoutKind, Options, Resources};
use std::sync::Arc;
use std::time::Duration;

/// Properties that do not change during a store's life.
#[derive(Debug, Clone)]
pub struct Config {
    pub layout: LayoutKind,
    pub durability: Durability,
    /// The order and the keys of each keyspace; the first is the default.
    pub spaces: Vec<(&'static str, Order, Keys)>,
    pub value_bytes_max: usize,
    pub real_directory: bool,
    /// True if the store reads by a ring of the kernel, which knows real files only.
    ring: bool,
    /// Number of calls per thousand that fail while calls may fail.
    pub failing_permille: u64,
    /// Shared by the store and its backups, one after the other and at the same time.
    resources: Option<Resources>,
}

/// Options that may change at each opening.
#[derive(Debug, Clone)]
struct Tuning {
    chunk_bytes: u64,
    space_amplification: f64,
    log_bytes: Option<u64>,
    filter_partitions: u32,
    compression: Compression,
    /// True for the published variant, whose logs are searched linearly, and whose munks are chosen
    /// by recency.
    as_published: bool,
    munks: bool,
    munk_log_bytes: Option<u64>,
    row_cache: bool,
    recent_appends: bool,
}

impl Config {
    /// The configuration of a seed. `turn` ensures that a few consecutive ones cover all values
    /// that must be covered.
    pub fn random(random: &mut Random, layout: LayoutKind, turn: usize) -> Self {
        let durability = [Durability::Process, Durability::Buffered, Durability::Sync][turn % 3];
        let [_, others @ ..] = Order::ALL;
        let first = if turn.is_multiple_of(2) { Order::Bytewise } else { others[turn / 2 % others.len()] };
        let space = |random: &mut Random, name, order, keys| match order {
            // With other keys hardly any are equal.
            Order::CaseInsensitive if random.chance(50) => (name, order, Keys::Letters),
            _ => (name, order, keys),
        };
        let first = space(random, "default", first, Keys::ALL[turn % Keys::ALL.len()]);
        let mut named = |name| {
            let order = if random.chance(30) { Order::Bytewise } else { random.pick(&others) };
            let keys = random.pick(&Keys::ALL);
            space(random, name, order, keys)
        };
        let spaces = vec![first, named("alpha"), named("beta")];
        let value_bytes_max = random.pick(&[16, 300, 1000, 4096]);
        let failing_permille = if turn % 4 == 1 { random.pick(&[10, 50, 200]) } else { 0 };
        let shares = turn % 5 == 3;
        let resources =
            shares.then(|| Resources::new(random.pick(&[1 << 20, 4 << 20, 64 << 20]), 1 + random.below(4)));
        let (real_directory, ring) = (turn % 8 == 7, turn % 16 == 15);
        Self {
            layout,
            durability,
            spaces,
            value_bytes_max,
            real_directory,
            ring,
            failing_permille,
            resources,
        }
    }

    pub fn space(&self, name: &str) -> (Order, Keys) {
        let found = self.spaces.iter().find(|(space, ..)| *space == name);
        found.map(|&(_, order, keys)| (order, keys)).expect("a keyspace of the configuration")
    }

    /// Options of a keyspace; the tuning is random on each call.
    pub fn tuning(&self, random: &mut Random) -> KeyspaceOptions {
        let mut tuning = Tuning::random(random);
        // Guards by hash are refused where equal keys may have different hashes.
        let may_differ = self.spaces.iter().any(|(_, order, _)| *order == Order::CaseInsensitive);
        tuning.as_published &= self.layout != LayoutKind::Flsm || !may_differ;
        tuning.options(self.layout)
    }

    /// Options to open an existing keyspace.
    pub fn plain(&self, name: &str) -> KeyspaceOptions {
        self.space(name).0.apply(KeyspaceOptions::new().layout(self.layout))
    }

    /// Options of a store; the tuning is random on each call.
    pub fn options(&self, random: &mut Random) -> Options {
        let mut default = self.tuning(random);
        let (order, _) = self.space("default");
        // The order is either given, or known by the name that the store keeps.
        default = order.apply(default);
        let mut options = Options::new()
            .durability(self.durability)
            .memory_budget(random.pick(&[1 << 20, 1 << 20, 4 << 20, 64 << 20]))
            .background_threads(1 + random.below(4))
            .checkpoint_interval(Duration::from_millis(random.pick(&[5, 50, 500, 60_000])))
            .write_buffer(random.chance(80))
            .io_uring(self.ring)
            .default_keyspace(default);
        if let Some(resources) = &self.resources {
            options = options.resources(resources.clone());
        }
        for order in Order::ALL {
            options = options.comparator(Arc::new(order));
        }
        options
    }
}

impl Tuning {
    fn random(random: &mut Random) -> Self {
        Self {
            chunk_bytes: random.pick(&[64, 64, 64, 128, 256, 1024]) << 10,
            space_amplification: random.pick(&[1.1, 1.25, 1.5, 2.0, 3.0]),
            log_bytes: random.pick(&[None, None, Some(4 << 10), Some(32 << 10), Some(512 << 10)]),
            filter_partitions: random.pick(&[1, 2, 16, 64]),
            compression: random.pick(&[Compression::None, Compression::Lz4, Compression::Zstd(1)]),
            as_published: random.chance(15),
            munks: random.chance(85),
            munk_log_bytes: random.pick(&[None, None, Some(16 << 10), Some(256 << 10)]),
            row_cache: random.chance(85),
            recent_appends: random.chance(80),
        }
    }

    fn options(&self, layout: LayoutKind) -> KeyspaceOptions {
        let mut layout = layouts::options(layout, self.as_published)
            .with_regions(self.chunk_bytes)
            .with("filter_partitions", self.filter_partitions)
            .with("munks", self.munks)
            .with("recent_appends", self.recent_appends)
            // The one is an option of `chunk`, the other of `flsm`.
            .with("log_is_level_0", self.recent_appends)
            .with_storing(u64::from(self.munks) | u64::from(self.row_cache) << 1);
        if let Some(bytes) = self.log_bytes {
            layout = layout.with("log_bytes", bytes);
        }
        if let Some(bytes) = self.munk_log_bytes {
            layout = layout.with("munk_log_bytes", bytes);
        }
        KeyspaceOptions::new()
            .layout(layout)
            .space_amplification(self.space_amplification)
            .compression(self.compression)
            .row_cache(self.row_cache)
    }
}
