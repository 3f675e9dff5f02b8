//! What a callback must not do.
//!
//! cantle_update runs its callback on the key's value and writes what it returns, provided that the key still has that value; else it
//! runs the callback again. One that wrote the key would be run again for ever, and to tell which writes may do so, over batches,
//! transactions and other stores' callbacks, is more than is worth its while: none is allowed. So writing functions ask here first.

use crate::failure::{Failure, Outcome};
use std::cell::Cell;

thread_local! {
    static MAY_NOT_WRITE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread may write.
#[inline]
pub(crate) fn check_may_write() -> Outcome<()> {
    if MAY_NOT_WRITE.get() { Err(refused()) } else { Ok(()) }
}

#[cold]
fn refused() -> Failure {
    Failure::invalid("the callback of cantle_update may read stores, but neither write to one nor close it")
}

/// Runs a callback that may not write.
pub(crate) fn without_writes<T>(run: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            MAY_NOT_WRITE.set(self.0);
        }
    }
    let _before = Before(MAY_NOT_WRITE.replace(true));
    run()
}
