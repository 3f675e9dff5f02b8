//! Values that cannot be parts of keys, and parts that are not of the type that was asked for.

use super::part::Part;
use crate::types::error::Error;
use std::fmt;

/// A value that no key can hold, or a part of a key that is not of the type that was to be read.
///
/// The functions of this module return it as [`Error::InvalidArgument`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartError {
    /// The number of the part, from 1, and of the part within that part. Innermost last.
    path: Vec<usize>,
    message: String,
}

impl PartError {
    /// An error with a message of the caller's: it names the value and the reason, and not the key.
    pub fn new(message: impl Into<String>) -> Self {
        Self { path: Vec::new(), message: message.into() }
    }

    /// A part of a key is something else than `expected`, which begins with an article: `an
    /// airport's code`.
    pub fn expected(expected: &str, part: &Part) -> Self {
        Self::new(format!("{} is not {expected}", part.shown()))
    }

    /// The error is about part `index`, counted from 0, of a sequence.
    pub(super) fn at(mut self, index: usize) -> Self {
        self.path.insert(0, index + 1);
        self
    }

    /// The error as the library's functions return it.
    pub(super) fn refusal(self) -> Error {
        Error::InvalidArgument(self.to_string())
    }
}

impl fmt::Display for PartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (level, number) in self.path.iter().enumerate() {
            write!(f, "{}{number}", if level == 0 { "part " } else { "." })?;
        }
        write!(f, "{}{}", if self.path.is_empty() { "" } else { ": " }, self.message)
    }
}

impl std::error::Error for PartError {}
