//! The library's errors as exceptions: the classes are in `cantle/_errors.py`.

use cantle::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};
use std::ops::Bound as KeyBound;
use std::path::Path;

// As Linux has them.
const ENOENT: i32 = 2;
const EIO: i32 = 5;
const EAGAIN: i32 = 11;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

static MODULE: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let module = MODULE.get_or_try_init(py, || PyModule::import(py, "cantle._errors").map(Bound::unbind))?;
    module.bind(py).getattr(name)
}

/// The exception for an error of the library.
pub fn raise(py: Python<'_>, error: &Error) -> PyErr {
    exception(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

/// True for a conflict of a transaction.
pub fn is_conflict(py: Python<'_>, error: &PyErr) -> bool {
    class(py, "ConflictError").is_ok_and(|class| error.matches(py, class).unwrap_or(false))
}

/// The message of an error. A command that the library's message names becomes a function of this
/// package.
fn named(error: &Error) -> String {
    match error {
        Error::NotAStore { path, what, .. } if what.contains("cantle import --leveldb") => {
            let path = path.display();
            format!(
                "{path} is not a Cantle store: it is a LevelDB store, and was not touched; copy it into a new one with \
                 cantle.import_leveldb({:?}, NEW)",
                path.to_string()
            )
        }
        error => error.to_string(),
    }
}

/// The exception for an error of the library, as an object.
pub fn exception<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let message = named(error);
    let plain = |name: &str| class(py, name)?.call1((&message,));
    let system = |name: &str, errno: i32, path: &Path| class(py, name)?.call1((errno, &message, path));
    // The class is that of the cause; the message says that the write took place.
    let error = match error {
        Error::NotDurable { source, .. } => source,
        error => error,
    };
    Ok(match error {
        Error::Io { path, source, .. } => system("IoError", source.raw_os_error().unwrap_or(EIO), path)?,
        Error::NoSpace { path, source, .. } => {
            system("NoSpaceError", source.raw_os_error().unwrap_or(ENOSPC), path)?
        }
        Error::NotFound { path, .. } => system("NotFoundError", ENOENT, path)?,
        Error::AlreadyExists { path, .. } => system("AlreadyExistsError", EEXIST, path)?,
        Error::Corruption { path, offset, what, .. } => {
            let error = plain("CorruptionError")?;
            error.setattr("path", path)?;
            error.setattr("offset", offset)?;
            error.setattr("what", what)?;
            error
        }
        Error::ReadOnly { .. } => plain("ReadOnlyError")?,
        Error::Locked { path, pid, .. } => {
            let error = system("LockedError", EAGAIN, path)?;
            error.setattr("pid", pid)?;
            error
        }
        Error::InvalidArgument(_) => plain("InvalidArgumentError")?,
        Error::NotAStore { path, .. } => {
            let error = plain("NotAStoreError")?;
            error.setattr("path", path)?;
            error
        }
        Error::UnsupportedFormat { path, found, supported, .. } => {
            let error = plain("UnsupportedFormatError")?;
            error.setattr("path", path)?;
            error.setattr("found", found)?;
            error.setattr("supported", supported)?;
            error
        }
        Error::OptionMismatch { keyspace, option, stored, given, .. } => {
            let error = plain("OptionMismatchError")?;
            error.setattr("keyspace", keyspace)?;
            error.setattr("option", option)?;
            error.setattr("stored", stored)?;
            error.setattr("given", given)?;
            error
        }
        Error::WrongType { keyspace, key, .. } => {
            let error = plain("WrongTypeError")?;
            error.setattr("keyspace", keyspace)?;
            error.setattr("key", PyBytes::new(py, key))?;
            error
        }
        Error::NoKeyspace(keyspace) => {
            let error = plain("NoKeyspaceError")?;
            error.setattr("keyspace", keyspace)?;
            error
        }
        Error::Conflict { keyspace, keys, .. } => {
            let error = plain("ConflictError")?;
            error.setattr("keyspace", keyspace)?;
            error.setattr("keys", bounds(py, keys)?)?;
            error
        }
        Error::Closed => plain("ClosedError")?,
        _ => plain("Error")?,
    })
}

/// The exception for an operation that the operating system refused.
pub fn io(py: Python<'_>, error: &std::io::Error, what: &str, path: &Path) -> PyResult<PyErr> {
    let name = match error.kind() {
        std::io::ErrorKind::AlreadyExists => "AlreadyExistsError",
        std::io::ErrorKind::WouldBlock => "LockedError",
        std::io::ErrorKind::StorageFull => "NoSpaceError",
        _ => "IoError",
    };
    let errno = error.raw_os_error().unwrap_or(if name == "AlreadyExistsError" { EEXIST } else { EIO });
    let raised = class(py, name)?.call1((errno, format!("{what}: {error}"), path))?;
    if name == "LockedError" {
        raised.setattr("pid", py.None())?;
    }
    Ok(PyErr::from_value(raised))
}

/// The exception for an import that failed.
pub fn raise_import(py: Python<'_>, error: &cantle_import::Error) -> PyErr {
    import_exception(py, error).map_or_else(|failed| failed, PyErr::from_value)
}

fn import_exception<'py>(py: Python<'py>, error: &cantle_import::Error) -> PyResult<Bound<'py, PyAny>> {
    use cantle_import::Error as Import;
    // The message names the command's flag --skip-damaged, which is an argument here.
    let message = error.to_string().replace("--skip-damaged", "skip_damaged=True");
    let plain = |name: &str| class(py, name)?.call1((&message,));
    let system = |name: &str, errno: i32, path: &Path| class(py, name)?.call1((errno, &message, path));
    Ok(match error {
        Import::Damaged(damage) | Import::Unreadable(damage) => {
            let error = plain("CorruptionError")?;
            error.setattr("path", &damage.path)?;
            error.setattr("offset", damage.offset)?;
            error.setattr("what", &damage.what)?;
            error
        }
        Import::NotLevelDb { path, .. } | Import::Comparator { path, .. } => {
            let error = plain("NotAStoreError")?;
            error.setattr("path", path)?;
            error
        }
        Import::InUse { path, pid, .. } => {
            let error = system("LockedError", EAGAIN, path)?;
            error.setattr("pid", pid)?;
            error
        }
        Import::UnderWay { path, .. } => system("LockedError", EAGAIN, path)?,
        Import::DestinationExists { path, .. } => system("AlreadyExistsError", EEXIST, path)?,
        Import::TooLarge { .. } | Import::InvalidArgument(_) => plain("InvalidArgumentError")?,
        Import::Io { path, source, .. } => system("IoError", source.raw_os_error().unwrap_or(EIO), path)?,
        Import::Store(error) => exception(py, error)?,
        _ => plain("Error")?,
    })
}

/// Both ends of a range of keys; `None` for an open end.
pub fn bounds<'py>(
    py: Python<'py>,
    keys: &(KeyBound<Vec<u8>>, KeyBound<Vec<u8>>),
) -> PyResult<Bound<'py, PyTuple>> {
    let end = |bound: &KeyBound<Vec<u8>>| match bound {
        KeyBound::Unbounded => None,
        KeyBound::Included(key) | KeyBound::Excluded(key) => Some(PyBytes::new(py, key)),
    };
    (end(&keys.0), end(&keys.1)).into_pyobject(py)
}

/// An error that the binding itself raises.
fn own(name: &'static str, message: String) -> PyErr {
    let made = Python::try_attach(|py| class(py, name)?.call1((message,)).map(PyErr::from_value));
    match made {
        Some(made) => made.unwrap_or_else(|failed| failed),
        None => PyRuntimeError::new_err("the interpreter is shutting down"),
    }
}

/// The exception for an operation on a closed object; `what` names it.
#[cold]
pub fn closed(what: &str) -> PyErr {
    own("ClosedError", format!("the {what} is closed"))
}

/// The exception for a store that this process has only because it was forked.
#[cold]
pub fn forked(path: &Path) -> PyErr {
    let path = path.display();
    own(
        "ForkedError",
        format!(
            "{path} was opened by the process that this one was forked from: open it after the fork, in one of them"
        ),
    )
}

/// The exception for an argument of the right type and a wrong value.
#[cold]
pub fn invalid(message: &str) -> PyErr {
    own("InvalidArgumentError", message.to_owned())
}
