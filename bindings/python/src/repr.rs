//! Texts for `repr`: the public name of the class, the keyspace, the store, details, and the state.
//!
//! A `repr` never raises and never waits for an operation of another thread. In a forked process it
//! reads nothing but the names, since a lock may be held by a thread that the process does not
//! have.

use crate::store::Store;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsStr;
use std::fmt::Write;

/// Longest part of a key that is shown, in bytes: a key may have 1 MiB.
const SHOWN_KEY_BYTES_MAX: usize = 64;

/// An object of an open store.
pub struct Shown<'a> {
    /// The name of the class as users import it.
    pub class: &'static str,
    pub store: &'a Store,
    pub keyspace: Option<&'a str>,
}

impl Shown<'_> {
    /// `<class of keyspace 'name' of 'path', detail, detail (state)>`. `details` gets the texts to
    /// append, and returns the state of an object that is not usable any more.
    pub fn text(
        &self,
        py: Python<'_>,
        details: impl FnOnce(&mut Vec<String>) -> Option<&'static str>,
    ) -> String {
        let mut text = format!("<{}", self.class);
        if let Some(name) = self.keyspace {
            text.push_str(" of keyspace ");
            text.push_str(&quoted(py, OsStr::new(name)));
            text.push_str(" of ");
        } else {
            text.push(' ');
        }
        text.push_str(&quoted(py, self.store.path.as_os_str()));
        let mut state = Some("forked");
        if !self.store.is_forked() {
            let mut found = Vec::new();
            state = details(&mut found);
            if self.store.is_closed() {
                state = state.or(Some("closed"));
            }
            for detail in found {
                text.push_str(", ");
                text.push_str(&detail);
            }
        }
        if let Some(state) = state {
            // Writing to a string cannot fail.
            let _ = write!(text, " ({state})");
        }
        text.push('>');
        text
    }
}

/// Text as Python quotes it; bytes of a path that are no text become Python's escapes.
pub fn quoted(py: Python<'_>, text: &OsStr) -> String {
    let shown = text.into_pyobject(py).map_err(PyErr::from).and_then(|object| object.repr());
    shown.map_or_else(
        |_| format!("{:?}", text.to_string_lossy()),
        |shown| shown.to_string_lossy().into_owned(),
    )
}

/// A key as Python shows bytes, shortened if it is long.
pub fn key(py: Python<'_>, key: &[u8]) -> String {
    let shown = &key[..key.len().min(SHOWN_KEY_BYTES_MAX)];
    let text = PyBytes::new(py, shown).repr().map_or_else(
        |_| format!("b\"{}\"", shown.escape_ascii()),
        |text| text.to_string_lossy().into_owned(),
    );
    if shown.len() < key.len() { format!("{text}... ({} bytes)", key.len()) } else { text }
}

/// A number and its noun: `1 operation`, `2 operations`.
pub fn counted(number: u64, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
