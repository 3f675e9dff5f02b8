//! Tuples as composite keys: `cantle::key` for Python's types.

use crate::bytes_like::bytes;
use crate::errors;
use crate::key_types::{self, KeyTypes};
use cantle::key::{self, Part};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyFloat, PyInt, PyList, PyMemoryView, PyString, PyTuple, PyType,
};

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
        return key_types::integer_part(int);
    }
    if let Ok(bytes) = object.cast_exact::<PyBytes>() {
        return Ok(Part::Bytes(bytes.as_bytes().to_vec()));
    }
    if let Ok(float) = object.cast_exact::<PyFloat>() {
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
    let types = KeyTypes::get(object.py())?;
    if let Ok(float) = object.cast::<PyFloat>() {
        let is_short = object.is_instance(types.float32.bind(object.py()))?;
        return Ok(if is_short { Part::Float32(float.value() as f32) } else { Part::Float(float.value()) });
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        if !object.is_instance(types.versionstamp.bind(object.py()))? {
            return Ok(Part::Bytes(bytes.as_bytes().to_vec()));
        }
        return bytes.as_bytes().try_into().map(Part::Versionstamp).map_err(|_| {
            errors::invalid(&format!("a versionstamp has 12 bytes, not {}", bytes.as_bytes().len()))
        });
    }
    if let Some(part) = types.part_of(object)? {
        return Ok(part);
    }
    if object.is_instance_of::<PyByteArray>() || object.is_instance_of::<PyMemoryView>() {
        let bytes = PyMemoryView::from(object)?.call_method0("tobytes")?;
        return Ok(Part::Bytes(bytes.extract()?));
    }
    Err(PyTypeError::new_err(format!(
        "a part of a key is str, int, float, bool, None, bytes-like, datetime, date, UUID, or a tuple of these, not {}",
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
        Part::BigInt(int) => key_types::integer(py, int)?.unbind(),
        Part::Float32(float) => KeyTypes::get(py)?.float32.call1(py, (f64::from(*float),))?,
        Part::Uuid(uuid) => KeyTypes::get(py)?.uuid(py, uuid)?.unbind(),
        Part::Versionstamp(stamp) => KeyTypes::get(py)?.versionstamp.call1(py, (bytes(py, stamp),))?,
        Part::Float(float) => PyFloat::new(py, *float).into_any().unbind(),
        Part::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any().unbind(),
        Part::Nested(parts) => tuple(py, parts)?.into_any().unbind(),
        other => {
            return Err(errors::invalid(&format!("a key has a part that Python has no type for: {other:?}")));
        }
    })
}

/// The parts as objects of these types, of which there is one for each part.
fn typed_tuple<'py>(
    py: Python<'py>,
    parts: &[Part],
    types: &Bound<'py, PyTuple>,
) -> PyResult<Bound<'py, PyTuple>> {
    if parts.len() != types.len() {
        return Err(errors::invalid(&format!(
            "the key has {} parts, and there are {} types",
            parts.len(),
            types.len()
        )));
    }
    let objects: PyResult<Vec<_>> =
        parts.iter().zip(types.iter_borrowed()).map(|(part, kind)| typed_object(py, part, &kind)).collect();
    PyTuple::new(py, objects?)
}

fn typed_object(py: Python<'_>, part: &Part, kind: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let types = KeyTypes::get(py)?;
    let is = |kinds: &[&Bound<'_, PyType>]| kinds.iter().any(|other| kind.is(*other));
    let same = match part {
        Part::Null => true,
        Part::Nested(parts) => match kind.cast::<PyTuple>() {
            Ok(kinds) => return Ok(typed_tuple(py, parts, kinds)?.into_any().unbind()),
            Err(_) => is(&[&py.get_type::<PyTuple>()]),
        },
        Part::Int(micros) if is(&[types.datetime.bind(py)]) => return Ok(types.time(py, *micros)?.unbind()),
        Part::Int(micros) if is(&[types.date.bind(py)]) => match types.date(py, *micros)? {
            Some(date) => return Ok(date.unbind()),
            None => false,
        },
        Part::Int(_) | Part::BigInt(_) => is(&[&py.get_type::<PyInt>()]),
        Part::Text(_) => is(&[&py.get_type::<PyString>()]),
        Part::Bytes(_) => is(&[&py.get_type::<PyBytes>()]),
        Part::Float(_) => is(&[&py.get_type::<PyFloat>()]),
        Part::Float32(_) => is(&[types.float32.bind(py), &py.get_type::<PyFloat>()]),
        Part::Bool(_) => is(&[&py.get_type::<PyBool>()]),
        Part::Uuid(_) => is(&[types.uuid.bind(py)]),
        Part::Versionstamp(_) => is(&[types.versionstamp.bind(py)]),
        _ => false,
    };
    if same || kind.is(py.get_type::<PyAny>()) {
        return object(py, part);
    }
    let name = kind.cast::<PyType>().map(|kind| kind.name().map(|name| name.to_string()));
    let name = name.unwrap_or_else(|_| Ok(kind.to_string()))?;
    Err(errors::invalid(&format!("the key's part {part} is not of the type {name}")))
}

/// The key, as bytes, of a tuple of str, int, float, bool, None, bytes, datetime, date, UUID and
/// nested tuples.
///
/// Keys sort as their tuples do, part by part, and a tuple directly before those that begin with
/// it. Tuples that are given where a key is wanted are encoded like this.
///
/// A datetime is an integer, microseconds since 1970-01-01T00:00:00Z, and must have a time zone; a
/// date is the datetime at which it begins in UTC. Integers have at most 2,040 bits.
#[pyfunction]
#[pyo3(signature = (parts, /))]
pub fn encode_key<'py>(py: Python<'py>, parts: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyBytes>> {
    Ok(PyBytes::new(py, &encode(parts)?))
}

/// The tuple that encode_key made a key of. Raises InvalidArgumentError for a key that it did not
/// make.
///
/// Times come back as integers, unless types says otherwise: a tuple with the type of each part, as
/// (str, datetime, int). A part of another type raises InvalidArgumentError then; None may be
/// anywhere. object is any type.
#[pyfunction]
#[pyo3(signature = (key, /, types=None))]
pub fn decode_key<'py>(
    py: Python<'py>,
    key: crate::bytes_like::Value<'_>,
    types: Option<&Bound<'py, PyTuple>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let Some(types) = types else { return decode(py, key.as_ref()) };
    typed_tuple(py, &key::parse(key.as_ref()).map_err(|error| errors::raise(py, &error))?, types)
}
