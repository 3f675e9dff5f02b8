//! Repeats a transaction until its commit meets no conflict.

use crate::comparator;
use crate::errors;
use cantle_bindings::Pauses;
use pyo3::prelude::*;

/// Calls `run` until it returns `Some`, with a pause between calls. Signals interrupt it.
pub fn until_done<T>(py: Python<'_>, mut run: impl FnMut() -> PyResult<Option<T>>) -> PyResult<T> {
    if comparator::is_running() {
        return Err(errors::invalid("a comparator cannot use the store that waits for it"));
    }
    let mut pauses = Pauses::default();
    loop {
        if let Some(done) = run()? {
            return Ok(done);
        }
        py.check_signals()?;
        let pause = pauses.next_pause();
        py.detach(|| std::thread::sleep(pause));
    }
}
