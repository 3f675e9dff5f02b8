//! Orders of keys that are Python functions.
//!
//! The library calls a comparator from any of its threads and needs an answer. A Python function
//! may raise instead, if only because a signal arrived while it ran; it is then called again. If a
//! later call answers, the answer counts, and the operation that needed the comparison raises the
//! exception once it is done. A comparison in the background has no such operation; its exception
//! goes to
//! `sys.unraisablehook`. If no call answers, the order has failed: the library writes nothing of
//! the operation, and the store becomes read-only. A key that the function cannot compare with
//! itself is refused before the store sees it ([`PythonOrder::admit`]), so no key of a foreign kind
//! gets a place.

use crate::errors;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

/// Calls of a function for one answer. More than one signal seldom arrives within one comparison.
const ATTEMPTS_MAX: usize = 4;

thread_local! {
    /// Number of comparisons that this thread is in.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
    /// True while this thread runs an operation that can raise an exception of a comparison.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// True while this thread runs a comparator.
pub fn is_running() -> bool {
    RUNNING.get() > 0
}

/// Takes the exception that a comparison of this thread has raised.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// Scope of an operation that raises the exceptions of its comparisons.
pub struct Scope {
    before: Option<bool>,
}

impl Scope {
    #[inline]
    pub fn enter(has_comparators: bool) -> Self {
        Self { before: has_comparators.then(|| EXPECTED.replace(true)) }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            EXPECTED.set(before);
        }
    }
}

/// A function of two byte strings that returns a negative number, zero or a positive one.
pub struct PythonOrder {
    name: String,
    function: Py<PyAny>,
}

impl PythonOrder {
    pub fn new(name: String, function: &Bound<'_, PyAny>) -> PyResult<Arc<Self>> {
        if !function.is_callable() {
            return Err(PyTypeError::new_err(format!("the comparator {name:?} is not callable")));
        }
        Ok(Arc::new(Self { name, function: function.clone().unbind() }))
    }

    fn call(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        RUNNING.set(RUNNING.get() + 1);
        let answer = self.ask(py, a, b);
        RUNNING.set(RUNNING.get() - 1);
        answer
    }

    fn ask(&self, py: Python<'_>, a: &[u8], b: &[u8]) -> PyResult<Ordering> {
        let answer = self.function.bind(py).call1((PyBytes::new(py, a), PyBytes::new(py, b)))?;
        if answer.lt(0)? {
            Ok(Ordering::Less)
        } else if answer.gt(0)? {
            Ok(Ordering::Greater)
        } else {
            Ok(Ordering::Equal)
        }
    }

    /// Keeps an exception for the operation that needed the comparison, or reports it if there is
    /// none.
    fn hold_back(&self, py: Python<'_>, raised: PyErr) {
        if !EXPECTED.get() {
            return raised.write_unraisable(py, Some(self.function.bind(py)));
        }
        RAISED.with_borrow_mut(|first| {
            first.get_or_insert(raised);
        });
    }

    /// Refuses a key that the function cannot compare with itself.
    pub fn admit(&self, py: Python<'_>, key: &[u8]) -> PyResult<()> {
        match self.call(py, key, key)? {
            Ordering::Equal => Ok(()),
            _ => Err(errors::invalid(&format!(
                "the comparator {:?} takes the key \"{}\" for another than itself: the key was not used",
                self.name,
                key[..key.len().min(64)].escape_ascii()
            ))),
        }
    }
}

impl cantle::Comparator for PythonOrder {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.try_compare(a, b).unwrap_or_else(|_| a.cmp(b))
    }

    fn try_compare(&self, a: &[u8], b: &[u8]) -> Result<Ordering, String> {
        if a == b {
            return Ok(Ordering::Equal);
        }
        let answer = Python::try_attach(|py| {
            let mut why = String::new();
            for _ in 0..ATTEMPTS_MAX {
                match self.call(py, a, b) {
                    Ok(order) => return Ok(order),
                    Err(raised) => {
                        why = format!("it raised {raised}");
                        self.hold_back(py, raised);
                    }
                }
            }
            Err(why)
        });
        answer.unwrap_or_else(|| Err("the interpreter is shutting down".into()))
    }

    /// The function may take different keys for equal.
    fn equal_is_identical(&self) -> bool {
        false
    }
}
