//! Typed handles: how an object gets one, is found by it, and is released.

use crate::failure::{Failure, Outcome};
use crate::status::{CANTLE_FORKED, CANTLE_INTERNAL, CANTLE_OUT_OF_MEMORY};
use crate::token::{self, Entry, EntryGuard, Tokens};
use cantle_bindings::Process;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

static TOKENS: Tokens = Tokens::new();

/// An object to which C has handles.
pub(crate) trait Object: Send + Sync + 'static {
    /// The opaque type of the pointer that C has.
    type Opaque;
    /// The name of this type.
    const NAME: &'static str;
    /// True if the object is a store or holds something of one, and so is of no use in a forked
    /// child.
    const OF_A_STORE: bool;
}

/// An object that is not dropped while this exists.
pub(crate) struct Held<T, K = EntryGuard> {
    object: NonNull<T>,
    _keeps: K,
    _type: PhantomData<T>,
}

impl<T, K> Deref for Held<T, K> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: `object` lies in the box of the entry that `_keeps` holds, and nobody has it mutably.
        unsafe { self.object.as_ref() }
    }
}

/// An object whose handle was released; the object is dropped with this.
pub(crate) type Released<T> = Held<T, Arc<Entry>>;

/// A value that is dropped only in the process that made it. A child that a callback forked leaves the value
/// as it is: threads that do not exist in the child may hold the locks that a drop needs.
pub(crate) struct OfProcess<T> {
    value: ManuallyDrop<T>,
    process: Process,
}

impl<T> OfProcess<T> {
    /// The caller holds a handle of a store, so that forks are watched.
    pub(crate) fn new(value: T) -> Self {
        Self { value: ManuallyDrop::new(value), process: Process::current() }
    }
}

impl<T> Deref for OfProcess<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        if self.process.is_current() {
            // SAFETY: dropped here only, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

/// Creates a handle to an object.
pub(crate) fn create<T: Object>(object: T) -> Outcome<*mut T::Opaque> {
    let process = if T::OF_A_STORE { Some(watched()?) } else { None };
    let object = Box::new(object);
    let token = TOKENS.insert(|token| Entry { token, process, name: T::NAME, object });
    let token = token.ok_or_else(|| {
        Failure::new(CANTLE_OUT_OF_MEMORY, "16,777,216 handles are open: free those that are done with")
    })?;
    Ok(std::ptr::without_provenance_mut(token as usize))
}

/// The object of a handle. Inlined, because returning the result by memory is a part of the cost of
/// a look-up.
#[inline(always)]
pub(crate) fn get<T: Object>(handle: *const T::Opaque) -> Outcome<Held<T>> {
    let Some(entry) = TOKENS.get(handle.addr() as u64) else { return Err(unknown::<T>(handle)) };
    let object = object_of::<T>(entry.as_ref())?;
    if let Some(entry) = entry.as_ref()
        && entry.process.is_some_and(|process| !process.is_current())
    {
        return Err(forked(T::NAME));
    }
    Ok(Held { object, _keeps: entry, _type: PhantomData })
}

/// The object of a handle, or nothing for `NULL`.
#[inline(always)]
pub(crate) fn get_or_null<T: Object>(handle: *const T::Opaque) -> Outcome<Option<Held<T>>> {
    if handle.is_null() { Ok(None) } else { get(handle).map(Some) }
}

/// Number of handles that are in use.
pub(crate) fn count() -> usize {
    TOKENS.count()
}

/// True if the pointer has the form of a handle, which no address of memory has.
#[inline]
pub(crate) fn may_be_one(pointer: *const c_void) -> bool {
    token::is_tagged(pointer.addr() as u64)
}

/// Takes the object out of its handle; the handle is invalid from now on. In a forked child an
/// object of a store is left as it is, and this fails.
pub(crate) fn release<T: Object>(handle: *const T::Opaque) -> Outcome<Released<T>> {
    let token = handle.addr() as u64;
    {
        let entry = TOKENS.get(token).ok_or_else(|| unknown::<T>(handle))?;
        object_of::<T>(entry.as_ref())?;
    }
    let entry = TOKENS.remove(token).ok_or_else(|| unknown::<T>(handle))?;
    if entry.process.is_some_and(|process| !process.is_current()) {
        std::mem::forget(entry);
        return Err(forked(T::NAME));
    }
    let object = object_of::<T>(Some(&entry))?;
    Ok(Held { object, _keeps: entry, _type: PhantomData })
}

/// Frees a handle and its object. Does nothing for `NULL`. In a forked child the handle is freed,
/// and the object stays as it is.
pub(crate) fn free<T: Object>(handle: *const T::Opaque) -> Outcome<()> {
    if handle.is_null() {
        return Ok(());
    }
    match release::<T>(handle) {
        Err(failure) if failure.0.status == CANTLE_FORKED => Ok(()),
        done => done.map(drop),
    }
}

#[inline(always)]
fn object_of<T: Object>(entry: Option<&Arc<Entry>>) -> Outcome<NonNull<T>> {
    match entry.map(|entry| entry.object.downcast_ref::<T>()) {
        Some(Some(object)) => Ok(NonNull::from(object)),
        _ => Err(of_another_type::<T>(entry)),
    }
}

#[cold]
fn of_another_type<T: Object>(entry: Option<&Arc<Entry>>) -> Failure {
    Failure::invalid(match entry {
        Some(entry) => format!("a {} was given where a {} is needed", entry.name, T::NAME),
        None => format!("the {} is gone", T::NAME),
    })
}

#[cold]
fn unknown<T: Object>(handle: *const T::Opaque) -> Failure {
    let name = T::NAME;
    Failure::invalid(if handle.is_null() {
        format!("the {name} is NULL")
    } else {
        format!("the {name} was freed or closed already, or never was one")
    })
}

/// The present process, whose forks are noticed from now on.
fn watched() -> Outcome<Process> {
    Process::watched().map_err(|error| {
        Failure::new(CANTLE_INTERNAL, format!("forks of the process cannot be watched: {error}"))
    })
}

#[cold]
pub(crate) fn forked(name: &str) -> Failure {
    let message =
        format!("this {name} belongs to the process that this one was forked from, and is of no use here");
    Failure::new(CANTLE_FORKED, message)
}
