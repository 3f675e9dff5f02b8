//! Options of the stores of a life: with small chunks and logs and random options at each opening,
//! or with the defaults.

use crate::layouts::{self, Tuned};
use crate::rng::Rng;
use cantle::{Durability, KeyspaceOptions, LayoutKind, Options};
use std::time::Duration;

/// Properties that do not change during one life.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    pub layout: LayoutKind,
    pub durability: Durability,
    /// True if everything except the budget has its default.
    pub is_default: bool,
}

impl Tuning {
    /// The tuning of a seed: the last 20 of 40 consecutive seeds have the defaults.
    pub fn of(seed: u64, layout: LayoutKind) -> Self {
        let durability = match Rng::new(seed).below(6) {
            0..4 => Durability::Process,
            4 => Durability::Sync,
            _ => Durability::Buffered,
        };
        Self { layout, durability, is_default: seed / 20 % 2 == 1 }
    }

    /// The size at which chunks split, in bytes.
    pub fn chunk_bytes(self) -> u64 {
        if self.is_default { 8 << 20 } else { 64 << 10 }
    }

    /// Approximate number of bytes that fill a store: one to six chunks, or slightly more than one
    /// of the default size.
    pub fn filling_bytes(self, seed: u64) -> u64 {
        let quarters = if self.is_default { 5 } else { 4 + Rng::new(!seed).below(21) };
        self.chunk_bytes() / 4 * quarters
    }

    /// Options of the next opening.
    pub fn options(self, rng: &mut Rng) -> Options {
        let options = Options::new().durability(self.durability);
        if self.is_default {
            let keyspace = KeyspaceOptions::new().layout(self.layout);
            return options.memory_budget(256 << 20).default_keyspace(keyspace);
        }
        let mut pick = |choices: &[u64]| choices[rng.below(choices.len() as u64) as usize];
        let filter_partitions = pick(&[1, 4, 16, 64]) as u32;
        let space_amplification = pick(&[5, 6, 8]) as f64 / 4.0;
        let mut layout = layouts::options(self.layout, pick(&[0, 1, 1, 1, 1]) == 0)
            .with_regions(self.chunk_bytes())
            .with("filter_partitions", filter_partitions)
            // In the place of filters' partitions, which `chunk` has alone.
            .with_storing(u64::from(filter_partitions.ilog2() / 2))
            .with("munks", pick(&[0, 1, 1, 1, 1, 1]) == 1);
        let write_buffer = pick(&[0, 1, 1]) == 1;
        let appends = pick(&[0, 1, 1]) == 1;
        // The one is an option of `chunk`, the other of `flsm`.
        layout = layout.with("recent_appends", appends).with("log_is_level_0", appends);
        if let Some(bytes) =
            [None, None, None, Some(16 << 10), Some(256 << 10)][pick(&[0, 1, 2, 3, 4]) as usize]
        {
            layout = layout.with("log_bytes", bytes);
        }
        let keyspace = KeyspaceOptions::new().layout(layout).space_amplification(space_amplification);
        options
            .write_buffer(write_buffer)
            .memory_budget(pick(&[4, 16, 64]) << 20)
            .background_threads(pick(&[1, 2]) as usize)
            .checkpoint_interval(Duration::from_millis(pick(&[5, 50, 3_600_000])))
            .default_keyspace(keyspace)
    }
}
