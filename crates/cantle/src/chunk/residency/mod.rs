//! Chunks in memory: which ones, how they come and go, and how they are rid of garbage.

pub(super) mod clean;
pub(super) mod load;
pub(super) mod popularity;
