//! Reports of the library as Python objects.

use crate::errors;
use cantle::Report;
use cantle::repair::RepairReport;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use serde_json::{Map, Value};

/// A serializable value of the library as Python objects: structures are dicts, and durations are
/// seconds.
pub fn plain(py: Python<'_>, value: &impl serde::Serialize) -> PyResult<Py<PyAny>> {
    let value = serde_json::to_value(value).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    object(py, &value)
}

fn object(py: Python<'_>, value: &Value) -> PyResult<Py<PyAny>> {
    Ok(match value {
        Value::Null => py.None(),
        Value::Bool(flag) => flag.into_pyobject(py)?.to_owned().into_any().unbind(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any().unbind(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any().unbind(),
            (None, None) => number.as_f64().into_pyobject(py)?.unbind(),
        },
        Value::String(text) => text.into_pyobject(py)?.into_any().unbind(),
        Value::Array(values) => {
            let objects: PyResult<Vec<_>> = values.iter().map(|value| object(py, value)).collect();
            PyList::new(py, objects?)?.into_any().unbind()
        }
        Value::Object(members) => match seconds(members) {
            Some(seconds) => seconds.into_pyobject(py)?.into_any().unbind(),
            None => {
                let dict = PyDict::new(py);
                for (name, value) in members {
                    dict.set_item(name, object(py, value)?)?;
                }
                dict.into_any().unbind()
            }
        },
    })
}

/// A `Duration`, which is recognised by its two members.
fn seconds(members: &Map<String, Value>) -> Option<f64> {
    let (seconds, nanos) = (members.get("secs")?.as_u64()?, members.get("nanos")?.as_u64()?);
    (members.len() == 2).then_some(seconds as f64 + nanos as f64 / 1e9)
}

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    PyModule::import(py, "cantle._reports")?.getattr(name)
}

fn damage<'py>(py: Python<'py>, damage: &[cantle::Error]) -> PyResult<Vec<Bound<'py, PyAny>>> {
    damage.iter().map(|error| errors::exception(py, error)).collect()
}

/// The report of a verification.
pub fn verify_report<'py>(py: Python<'py>, report: &Report) -> PyResult<Bound<'py, PyAny>> {
    let members = PyDict::new(py);
    members.set_item("files", report.files)?;
    members.set_item("bytes", report.bytes)?;
    members.set_item("entries", report.entries)?;
    members.set_item("damage", damage(py, &report.damage)?)?;
    members.set_item("unknown_files", &report.unknown_files)?;
    class(py, "VerifyReport")?.call((), Some(&members))
}

/// The report of a repair.
pub fn repair_report<'py>(py: Python<'py>, report: &RepairReport) -> PyResult<Bound<'py, PyAny>> {
    let mut keyspaces = Vec::new();
    for keyspace in &report.keyspaces {
        let saved = (&keyspace.name, keyspace.pairs, keyspace.bytes);
        keyspaces.push(class(py, "RepairedKeyspace")?.call1(saved)?);
    }
    let mut left_out = Vec::new();
    for file in &report.left_out {
        left_out.push(class(py, "LeftOut")?.call1((&file.path, &file.why, file.loses))?);
    }
    let mut uncertain = Vec::new();
    for keys in &report.uncertain {
        let ends = errors::bounds(py, &keys.keys)?;
        uncertain.push(class(py, "UncertainKeys")?.call1((&keys.keyspace, ends, &keys.path, keys.offset))?);
    }
    let mut may_return = Vec::new();
    for keys in &report.may_return {
        let ends = errors::bounds(py, &keys.keys)?;
        may_return.push(class(py, "ReturnedKeys")?.call1((&keys.keyspace, ends, &keys.path))?);
    }
    let members = PyDict::new(py);
    members.set_item("keyspaces", keyspaces)?;
    members.set_item("files", report.files)?;
    members.set_item("bytes", report.bytes)?;
    members.set_item("damage", damage(py, &report.damage)?)?;
    members.set_item("damage_untold", report.damage_untold)?;
    members.set_item("left_out", left_out)?;
    members.set_item("uncertain", uncertain)?;
    members.set_item("uncertain_untold", report.uncertain_untold)?;
    members.set_item("may_return", may_return)?;
    members.set_item("may_return_untold", report.may_return_untold)?;
    members.set_item("notes", &report.notes)?;
    members.set_item("ok", report.is_ok())?;
    class(py, "RepairReport")?.call((), Some(&members))
}

/// The report of an import.
pub fn import_report<'py>(py: Python<'py>, report: &cantle_import::Report) -> PyResult<Bound<'py, PyAny>> {
    let places = |damage: &[cantle_import::Damage]| -> PyResult<Vec<Bound<'py, PyAny>>> {
        let place = |damage: &cantle_import::Damage| {
            let keys = damage.keys.as_ref().map(|(from, to)| (PyBytes::new(py, from), PyBytes::new(py, to)));
            class(py, "ImportDamage")?.call1((&damage.path, damage.offset, &damage.what, keys))
        };
        damage.iter().map(place).collect()
    };
    let members = PyDict::new(py);
    members.set_item("pairs", report.pairs)?;
    members.set_item("bytes", report.bytes)?;
    members.set_item("tables", report.tables)?;
    members.set_item("logs", report.logs)?;
    members.set_item("read_bytes", report.read_bytes)?;
    members.set_item("torn", places(&report.torn)?)?;
    members.set_item("lost", places(&report.lost)?)?;
    members.set_item("lost_untold", report.lost_untold)?;
    class(py, "ImportReport")?.call((), Some(&members))
}
