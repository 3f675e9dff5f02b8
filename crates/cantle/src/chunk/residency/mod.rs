//! Chunks in memory: choosing, loading and evicting them, and removing their garbage.

pub(super) mod clean;
pub(super) mod load;
pub(super) mod popularity;
