//! Removes the first or the last pair of a keyspace, and returns it.

use super::handle::Handle;
use super::keyspace::KeyspaceInner;
use super::transaction::{TransactionView, run_until_committed};
use crate::sync::Arc;
use crate::types::error::Result;
use crate::types::value::{Key, Value};

#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    First,
    Last,
}

/// Runs a transaction that reads the pair at one end and deletes it, if `accept` makes something of
/// the pair. Callers of one end take turns, because all of them would conflict with one another. A
/// put nearer to that end is a conflict, and the transaction runs again.
pub(super) fn pop<T>(
    handle: &Arc<Handle>,
    keyspace: &Arc<KeyspaceInner>,
    end: End,
    mut accept: impl FnMut(Key, Value) -> Result<T>,
) -> Result<Option<T>> {
    handle.store.check_writable()?;
    let _turn = keyspace.pops[end as usize].lock();
    run_until_committed(handle, |transaction| {
        TransactionView { transaction, keyspace }.pop_as(end, &mut accept)
    })
}
