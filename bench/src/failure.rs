//! The only error of the lab: a text for the user.

use std::fmt;

/// The description of a failure.
pub struct Failure(pub String);

/// The result type of most functions here.
pub type Result<T = ()> = std::result::Result<T, Failure>;

impl Failure {
    /// A failure with this text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// Not an `Error` itself, or this would overlap with the conversion of a type to itself.
impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// The failure of an action on a file.
pub fn on<E: fmt::Display>(what: &str, path: &std::path::Path) -> impl FnOnce(E) -> Failure {
    move |error| Failure(format!("cannot {what} {}: {error}", path.display()))
}
