//! Paths as arguments: `str`, `bytes`, or an object with `__fspath__` that returns either.

use crate::errors;
use pyo3::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A path in the file system. A path that is not valid UTF-8 keeps its bytes.
pub struct FilePath(PathBuf);

impl AsRef<Path> for FilePath {
    fn as_ref(&self) -> &Path {
        &self.0
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for FilePath {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        // Bytes that are not valid in the file system's encoding become surrogates, and bytes again
        // below.
        let text = PyModule::import(object.py(), "os")?.getattr("fsdecode")?.call1((object,))?;
        let path: OsString = text.extract()?;
        if path.as_encoded_bytes().contains(&0) {
            return Err(errors::invalid("a path holds a zero byte, which no file system allows"));
        }
        Ok(Self(path.into()))
    }
}
