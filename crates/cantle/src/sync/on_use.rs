//! Values that are made at their first use.

use once_cell::race::OnceBox;
use std::ops::Deref;

/// A value behind a pointer, made at its first use: a store may have 20,000 keyspaces, most of
/// which never use theirs. Threads that use it first at the same time may each make one, of which one stays.
pub struct OnUse<T>(OnceBox<T>);

impl<T> OnUse<T> {
    /// The value, if it was used.
    pub fn peek(&self) -> Option<&T> {
        self.0.get()
    }

    /// The value, which `make` makes at its first use.
    #[inline]
    pub fn or_make(&self, make: impl FnOnce() -> T) -> &T {
        self.0.get_or_init(|| Box::new(make()))
    }
}

impl<T> Default for OnUse<T> {
    fn default() -> Self {
        Self(OnceBox::new())
    }
}

impl<T: Default> Deref for OnUse<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.or_make(T::default)
    }
}
