//! Suites that run once for each layout: a suite opens its keyspaces with [`small`], and names its
//! tests to [`in_guards`].

use cantle::{ChunkOptions, FlsmOptions, KeyspaceOptions, LayoutKind};
use std::cell::Cell;

thread_local! {
    static LAYOUT: Cell<LayoutKind> = const { Cell::new(LayoutKind::Chunk) };
}

/// Options of a keyspace in the layout of this thread, with regions so small that few pairs make
/// several.
pub fn small() -> KeyspaceOptions {
    match LAYOUT.get() {
        LayoutKind::Flsm => {
            // Below 1 KiB a value is part of a table. Tables that refer to longer ones would be few.
            let layout = FlsmOptions::new().generation_bytes(32 << 10).guard_bytes(32 << 10);
            KeyspaceOptions::new().layout(layout.max_sstables_per_guard(3))
        }
        _ => KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes(64 << 10).log_bytes(64 << 10)),
    }
}

/// Runs the tests in levels of guards, in this thread.
pub fn in_guards(tests: &[fn()]) {
    LAYOUT.set(LayoutKind::Flsm);
    for test in tests {
        test();
    }
}
