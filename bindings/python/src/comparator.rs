//! Orders of keys that are written in Python.
//!
//! The library asks a comparator from any of its threads and expects an answer. A function of Python may raise instead, if only
//! because a signal arrived while it ran: then it is asked again. If it answers, the answer counts, and what was raised is raised
//! by the operation that the comparison was for, once that is done; where there is none, as in the background, it goes to
//! `sys.unraisablehook`. If it does not, the order has failed, which the library is told: nothing of what it was asked for
//! is written, and the store is read-only. Keys that the function cannot compare with themselves are refused
//! before the store sees them ([`PythonOrder::admit`]), so that one it was not made for does not end up somewhere.

use crate::errors;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::sync::Arc;

/// How often a function is asked for one answer. More than one signal seldom arrives within one comparison.
const ATTEMPTS_MAX: usize = 4;

thread_local! {
    /// How many comparisons this thread is in.
    static RUNNING: Cell<u32> = const { Cell::new(0) };
    /// Whether an operation waits for what this thread does, and can raise.
    static EXPECTED: Cell<bool> = const { Cell::new(false) };
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Whether this thread is being asked for an order right now.
pub fn is_running() -> bool {
    RUNNING.get() > 0
}

/// What a comparison raised since it was last asked.
pub fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

/// The time of an operation that raises what its comparisons raise.
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

    /// Keeps what a comparison raised for the operation that it was for, or shows it where nobody waits.
    fn hold_back(&self, py: Python<'_>, raised: PyErr) {
        if !EXPECTED.get() {
            return raised.write_unraisable(py, Some(self.function.bind(py)));
        }
        RAISED.with_borrow_mut(|first| {
            first.get_or_insert(raised);
        });
    }

    /// Refuses a key that the order does not know what to do with.
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

    /// Nothing is known of the function.
    fn equal_is_identical(&self) -> bool {
        false
    }
}
