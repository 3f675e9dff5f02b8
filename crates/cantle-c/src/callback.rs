//! Forbids writes in callbacks.
//!
//! cantle_update calls its callback with the key's value and writes the result, if the key still
//! has that value; otherwise it calls the callback again. A callback that wrote the key would be
//! called for ever. To find out which writes would do so, over batches, transactions and callbacks
//! of other stores, is not worth the effort: none is allowed. Therefore every writing function
//! calls [`check_may_write`] first.

use crate::failure::{Failure, Outcome};
use std::cell::Cell;

thread_local! {
    static MAY_NOT_WRITE: Cell<bool> = const { Cell::new(false) };
}

/// Fails if this thread is in a callback that may not write.
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
