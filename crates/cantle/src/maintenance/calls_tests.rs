//! Calls and a close beside each other, with real threads; `tests/loom_calls.rs` has every interleaving of a few.

use super::calls::Calls;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn closing_waits_for_calls_under_way_and_lets_none_begin() {
    for _ in 0..200 {
        let calls = Arc::new(Calls::default());
        let (under_way, closed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(_call) = calls.begin() {
                        under_way.fetch_add(1, SeqCst);
                        assert!(!closed.load(SeqCst), "a call is under way in a closed store");
                        under_way.fetch_sub(1, SeqCst);
                    }
                });
            }
            crate::sync::thread::sleep(Duration::from_micros(100));
            calls.close();
            closed.store(true, SeqCst);
            assert_eq!(under_way.load(SeqCst), 0);
            assert!(calls.begin().is_none());
        });
    }
}
