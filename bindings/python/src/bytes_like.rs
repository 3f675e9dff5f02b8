//! Keys and values as arguments: `bytes` are borrowed, other bytes-like objects copied, tuples
//! encoded as composite keys.

use crate::composite;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyMemoryView, PyString, PyTuple};

/// Bytes that are borrowed from an argument, or a copy of them.
pub enum Data<'a> {
    Lent(&'a [u8]),
    Copied(Vec<u8>),
}

impl AsRef<[u8]> for Data<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Copied(bytes) => bytes,
        }
    }
}

impl<'a> Data<'a> {
    /// Borrows `bytes`, which cannot change. Copies anything else, which may change while the
    /// interpreter lock is released.
    #[inline]
    fn of(object: Borrowed<'a, '_, PyAny>) -> PyResult<Option<Self>> {
        match <&[u8]>::extract(object) {
            Ok(bytes) => Ok(Some(Self::Lent(bytes))),
            Err(_) => copied(&object).map(|bytes| bytes.map(Self::Copied)),
        }
    }

    pub fn into_vec(self) -> Vec<u8> {
        match self {
            Self::Lent(bytes) => bytes.to_vec(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// The bytes of an object with a buffer, in the order of its memory.
fn copied(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<u8>>> {
    if let Ok(array) = object.cast::<PyByteArray>() {
        return Ok(Some(array.to_vec()));
    }
    // The stable ABI of Python 3.9 has no other way to a buffer.
    let Ok(view) = PyMemoryView::from(object) else { return Ok(None) };
    let bytes = view.call_method0("tobytes")?;
    Ok(Some(bytes.cast::<PyBytes>()?.as_bytes().to_vec()))
}

fn refused(what: &str, wanted: &str, object: &Bound<'_, PyAny>) -> PyErr {
    let hint = if object.is_instance_of::<PyString>() { ": encode it first" } else { "" };
    match object.get_type().name() {
        Ok(name) => PyTypeError::new_err(format!("a {what} is {wanted}, not {name}{hint}")),
        Err(error) => error,
    }
}

/// A key: bytes-like, or a tuple, which is encoded.
pub struct Key<'a>(pub Data<'a>);

impl AsRef<[u8]> for Key<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Key<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Some(data) = Data::of(object)? {
            return Ok(Self(data));
        }
        match object.cast::<PyTuple>() {
            Ok(parts) => composite::encode(&parts).map(|key| Self(Data::Copied(key))),
            Err(_) => Err(refused("key", "bytes-like or a tuple", &object)),
        }
    }
}

/// A value: bytes-like.
pub struct Value<'a>(pub Data<'a>);

impl AsRef<[u8]> for Value<'_> {
    #[inline]
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref()
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Value<'a> {
    type Error = PyErr;

    #[inline]
    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        match Data::of(object)? {
            Some(data) => Ok(Self(data)),
            None => Err(refused("value", "bytes-like", &object)),
        }
    }
}

/// A bytes object for Python.
#[inline]
pub fn bytes(py: Python<'_>, bytes: &[u8]) -> Py<PyAny> {
    PyBytes::new(py, bytes).into_any().unbind()
}
