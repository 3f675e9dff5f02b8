//! Tuples as composite keys: `cantle::key` for Python's types.

use crate::bytes_like::bytes;
use crate::errors;
use cantle::key::{self, Part};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple};

/// As deep as `cantle::key::parse` reads back.
const NESTING_MAX: usize = 32;

/// The parts of a key that a tuple is.
pub fn parts(tuple: &Bound<'_, PyTuple>) -> PyResult<Vec<Part>> {
    tuple.iter_borrowed().map(|part| part_of(&part, NESTING_MAX)).collect()
}

/// The key of a tuple.
pub fn encode(tuple: &Bound<'_, PyTuple>) -> PyResult<Vec<u8>> {
    Ok(key::encode(&parts(tuple)?))
}

fn part_of(object: &Bound<'_, PyAny>, nesting_left: usize) -> PyResult<Part> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok(Part::Text(text.to_cow()?.into_owned()));
    }
    // Before integers: Python's booleans are some.
    if let Ok(truth) = object.cast::<PyBool>() {
        return Ok(Part::Bool(truth.is_true()));
    }
    if let Ok(int) = object.cast::<PyInt>() {
        return int.extract().map(Part::Int).map_err(|_| {
            errors::invalid(&format!("an integer in a key has 64 bits with its sign: {int} has more"))
        });
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Part::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Part::Float(float.value()));
    }
    if object.is_none() {
        return Ok(Part::Null);
    }
    if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
        let Some(left) = nesting_left.checked_sub(1) else {
            return Err(errors::invalid(&format!("a key is nested deeper than {NESTING_MAX} levels")));
        };
        let parts: PyResult<Vec<_>> = object.try_iter()?.map(|part| part_of(&part?, left)).collect();
        return Ok(Part::Nested(parts?));
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let bytes = PyMemoryView::from(object)?.call_method0("tobytes")?;
        return Ok(Part::Bytes(bytes.extract()?));
    }
    Err(PyTypeError::new_err(format!(
        "a part of a key is str, int, float, bool, None, bytes-like, or a tuple of these, not {}",
        object.get_type().name()?
    )))
}

/// The parts of a key.
pub fn decode<'py>(py: Python<'py>, key: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
    tuple(py, &key::parse(key).map_err(|error| errors::raise(py, &error))?)
}

fn tuple<'py>(py: Python<'py>, parts: &[Part]) -> PyResult<Bound<'py, PyTuple>> {
    let objects: PyResult<Vec<_>> = parts.iter().map(|part| object(py, part)).collect();
    PyTuple::new(py, objects?)
}

fn object(py: Python<'_>, part: &Part) -> PyResult<Py<PyAny>> {
    Ok(match part {
        Part::Null => py.None(),
        Part::Bytes(part) => bytes(py, part),
        Part::Text(text) => PyString::new(py, text).into_any().unbind(),
        Part::Int(int) => int.into_pyobject(py)?.into_any().unbind(),
        Part::Float(float) => PyFloat::new(py, *float).into_any().unbind(),
        Part::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any().unbind(),
        Part::Nested(parts) => tuple(py, parts)?.into_any().unbind(),
        other => {
            return Err(errors::invalid(&format!("a key has a part that Python has no type for: {other:?}")));
        }
    })
}

/// The key, as bytes, of a tuple of str, int (64 bits), float, bool, None, bytes and nested tuples.
///
/// Keys sort as their tuples do, part by part, and a tuple directly before those that begin with it. Tuples that are given
/// where a key is wanted are encoded like this.
#[pyfunction]
#[pyo3(signature = (parts, /))]
pub fn encode_key<'py>(py: Python<'py>, parts: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &encode(parts)?))
}

/// The tuple that encode_key made a key of. Raises InvalidArgumentError for a key that it did not make.
#[pyfunction]
#[pyo3(signature = (key, /))]
pub fn decode_key<'py>(py: Python<'py>, key: crate::bytes_like::Value<'_>) -> PyResult<Bound<'py, PyTuple>> {
    decode(py, key.as_ref())
}
