//! Running a transaction again until it has met no conflict.

use crate::comparator;
use crate::errors;
use pyo3::prelude::*;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// As `Db::transact`: the first pause is at most what a commit takes, and each may be twice as long.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
const PAUSE_LONGEST: Duration = Duration::from_millis(5);

/// Calls `run`, which says whether it has got through, until it has; lets signals interrupt it.
pub fn until_done<T>(py: Python<'_>, mut run: impl FnMut() -> PyResult<Option<T>>) -> PyResult<T> {
    if comparator::is_running() {
        return Err(errors::invalid("a comparator cannot use the store that waits for it"));
    }
    let mut pause = PAUSE_FIRST;
    loop {
        if let Some(done) = run()? {
            return Ok(done);
        }
        py.check_signals()?;
        // At random, lest those who met meet again: each `RandomState` has other keys.
        let share = RandomState::new().hash_one(0u8) % 1024;
        py.detach(|| std::thread::sleep(pause * share as u32 / 1024));
        pause = (pause * 2).min(PAUSE_LONGEST);
    }
}
