//! The layout `forest`: SifrDB's split multi-stage forest, as a policy of `lsm`.
//!
//! A *stage* has several *trees*, which may have keys in common; a merge makes one tree of the next stage of
//! the oldest trees of a stage, and leaves the trees there as they are (SifrDB §2). So every pair is
//! written once for each stage. A tree is a list of *sub-trees* of about equal length, tables with no key
//! in common (§4.1): only sub-trees that overlap are merged, the others are handed over as they are.
//!
//! *Early cleaning* (§4.2). A merge of trees advances in steps of some sub-trees. Each step is one edit of the
//! manifest: the tree that grows gets the keys up to a boundary, and the trees that it takes up have only
//! those from there on. The sub-trees that lie before it are free. So a merge needs space for a step
//! and not for a tree, and after a crash it goes on at the last step. The paper's journal, its
//! redirection map and its twice-check are the manifest, the view that readers hold, and the references
//! of that view to files.
//!
//! ```text
//!   stage 1   ▒▒▒▒▒▒▒▒   ▒▒▒▒▒▒▒▒   ▒▒▒▒▒▒▒▒            newest first
//!   stage 2   ████······                                   grows: it has the keys before the boundary
//!             ▓▓▓▓▓▓▓▓▓▓▓▓   ▓▓▓▓▓▓▓▓▓▓▓▓
//!   stage 3   ████████████████████████████████
//! ```
//!
//! Invariants, besides those of `lsm`:
//!
//! * Trees of a lower stage are newer than those of a higher one; within a stage, those with a higher
//!   number are newer.
//! * The runs of a tree have no key in common.
//! * A tree that grows is the newest of its stage, and has no key in common with the trees that it
//!   takes up.

mod changing;
pub mod factory;
mod pick;
#[cfg(test)]
mod pick_tests;
#[cfg(test)]
mod search_tests;
mod shape;
mod step;
#[cfg(test)]
mod storing_tests;
#[cfg(test)]
mod tests;
mod tree;
mod trees;
