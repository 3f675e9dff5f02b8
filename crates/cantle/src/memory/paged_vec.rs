//! A vector of fixed capacity whose memory is mapped if it is large ([`crate::memory::pages`]): a
//! large vector that lives long leaves no hole in the allocator's heap when it is dropped.
#![expect(unsafe_code, reason = "memory of any length")]

use crate::memory::pages::{Pages, asked_for};
use std::alloc::Layout;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::NonNull;

/// Invariant: the first `len` places of the pages hold a `T` each.
pub struct PagedVec<T> {
    pages: Option<Pages>,
    len: usize,
    capacity: usize,
    holds: PhantomData<T>,
}

impl<T> PagedVec<T> {
    /// An empty vector with room for `capacity` values.
    pub fn with_capacity(capacity: usize) -> Self {
        let bytes = capacity.checked_mul(size_of::<T>()).map(asked_for);
        let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, align_of::<T>()).ok());
        let layout = layout.unwrap_or_else(|| panic!("{capacity} values do not fit in memory"));
        let pages = (layout.size() > 0).then(|| Pages::new(layout));
        Self { pages, len: 0, capacity, holds: PhantomData }
    }

    /// # Panics
    /// If the vector is full.
    pub fn push(&mut self, value: T) {
        assert!(self.len < self.capacity, "it is full");
        // SAFETY: within the pages, which have room for `capacity` values, aligned.
        unsafe { self.start().add(self.len).write(value) };
        self.len += 1;
    }

    /// Pushes values until the vector is full.
    pub fn fill_with(&mut self, mut value: impl FnMut() -> T) {
        (self.len..self.capacity).for_each(|_| self.push(value()));
    }

    fn start(&self) -> NonNull<T> {
        self.pages.as_ref().map_or(NonNull::dangling(), |pages| pages.start().cast())
    }
}

impl<T> Deref for PagedVec<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `len` values were written there, and they live as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }
}

impl<T> Drop for PagedVec<T> {
    fn drop(&mut self) {
        let values = std::ptr::slice_from_raw_parts_mut(self.start().as_ptr(), self.len);
        // SAFETY: `len` values were written there, and nobody else owns them.
        unsafe { values.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn it_holds_what_was_pushed_and_drops_it() {
        for &capacity in if cfg!(miri) { &[0, 1, 7, 5_000][..] } else { &[0, 1, 7, 5_000, 20_000] } {
            let counted = Rc::new(());
            let mut values = PagedVec::with_capacity(capacity);
            for number in 0..capacity / 2 {
                values.push((number, counted.clone()));
            }
            let mut number = capacity / 2;
            values.fill_with(|| {
                number += 1;
                (number - 1, counted.clone())
            });
            assert!(values.iter().map(|(number, _)| *number).eq(0..capacity));
            assert_eq!(Rc::strong_count(&counted), capacity + 1);
            drop(values);
            assert_eq!(Rc::strong_count(&counted), 1);
        }
    }

    #[test]
    #[should_panic(expected = "it is full")]
    fn it_does_not_grow() {
        let mut values = PagedVec::with_capacity(1);
        values.push(1);
        values.push(2);
    }
}
