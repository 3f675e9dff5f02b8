//! Values that are made at their first use.

use std::ops::Deref;
use std::sync::OnceLock;

/// A value behind a pointer, made at its first use: a store may have 20,000 keyspaces, most of
/// which never use theirs.
pub struct OnUse<T>(OnceLock<Box<T>>);

impl<T> OnUse<T> {
    /// The value, if it was used.
    pub fn peek(&self) -> Option<&T> {
        self.0.get().map(|value| &**value)
    }
}

impl<T> Default for OnUse<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

impl<T: Default> Deref for OnUse<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.0.get_or_init(Box::default)
    }
}
