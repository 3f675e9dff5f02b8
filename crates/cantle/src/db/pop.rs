//! Removes the first or the last pair of a keyspace, and returns it.

use super::handle::Handle;
use super::keyspace::KeyspaceInner;
use super::transaction::{TransactionView, run_until_committed};
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::value::{Key, Value};

#[derive(Debug, Clone, Copy)]
pub(super) enum End {
    First,
    Last,
}

/// Runs a transaction that reads the pair at one end and deletes it. Callers take turns, because
/// all of them would conflict with one another. A put nearer to that end is a conflict, and the
/// transaction runs again.
pub(super) fn pop(
    handle: &Arc<Handle>,
    keyspace: &Arc<KeyspaceInner>,
    end: End,
) -> Result<Option<(Key, Value)>> {
    handle.store.check_writable()?;
    let _turn = keyspace.pops.lock();
    run_until_committed(handle, |transaction| {
        let view = TransactionView { transaction, keyspace };
        match end {
            End::First => view.pop_first(),
            End::Last => view.pop_last(),
        }
    })
}
