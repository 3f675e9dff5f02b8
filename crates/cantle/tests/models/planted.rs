//! The bug that a test plants in the modules under test, in the thread that checks the model.

use std::cell::Cell;

thread_local! {
    static PLANTED: Cell<&'static str> = const { Cell::new("") };
}

pub fn plant(bug: &'static str) {
    PLANTED.set(bug);
}

pub fn is_planted(bug: &str) -> bool {
    PLANTED.get() == bug
}
