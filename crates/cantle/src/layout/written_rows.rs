//! The cached rows of keys that are written ([`Rows`]).
//!
//! A write enters the stripes of its keys before it is visible, and leaves them once it is. Then, with the locks of its
//! keys still held, it may replace the rows of what it has put.

use super::Op;
use crate::cache::rows::{Rows, Stripe};
use crate::filter::bloom;
use crate::types::entry::Kind;

/// Called before the operations are visible.
pub fn enter(rows: &Rows, ops: &[Op<'_>]) {
    mark(rows, ops, Stripe::enter);
}

/// Called once they are.
pub fn leave(rows: &Rows, ops: &[Op<'_>]) {
    mark(rows, ops, Stripe::leave);
}

/// Replaces the rows of what was put, where there are some. Not for a write that deletes ranges: its operations
/// take effect in their order.
pub fn update<'a>(rows: &Rows, ops: impl Iterator<Item = &'a Op<'a>>) {
    canary!(ROWS_NOT_OUTDATED => return);
    ops.filter(|op| op.kind == Kind::Put).for_each(|op| rows.update(op.key, bloom::hash(op.key), op.value));
}

pub fn has_ranges(ops: &[Op<'_>]) -> bool {
    ops.iter().any(|op| op.bounds.is_some())
}

fn mark(rows: &Rows, ops: &[Op<'_>], mark: impl Fn(&Stripe)) {
    canary!(ROWS_NOT_OUTDATED => return);
    for op in ops {
        mark(if op.bounds.is_some() { rows.of_all() } else { rows.of_key(bloom::hash(op.key)) });
    }
}
