//! Filter policies: accepted, with one effect only (see [`crate::comparator::begin`]). Cantle has
//! Bloom filters of its own.

use crate::call::{opaque, quietly};
use crate::comparator::{Destructor, Name};
use crate::handles::{Handles, Kind};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

opaque! {
    /// A filter policy.
    leveldb_filterpolicy_t,
}

type CreateFilter =
    unsafe extern "C" fn(*mut c_void, *const *const c_char, *const usize, c_int, *mut usize) -> *mut c_char;
type KeyMayMatch = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> u8;

pub static FILTER_POLICIES: Handles<FilterPolicy> = Handles::new(Kind::FilterPolicy);

pub struct FilterPolicy {
    state: *mut c_void,
    destructor: Option<Destructor>,
    /// True for LevelDB's own Bloom filter, which hashes the bytes of keys.
    pub is_bloom: bool,
}

// SAFETY: `state` is only passed back to the destructor, by the thread that destroys the policy.
unsafe impl Send for FilterPolicy {}
// SAFETY: the same.
unsafe impl Sync for FilterPolicy {}

/// Creates a policy from the caller's functions. Only the destructor is ever called.
///
/// # Safety
///
/// The destructor may be called with `state` when the policy is destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    _create_filter: Option<CreateFilter>,
    _key_may_match: Option<KeyMayMatch>,
    _name: Option<Name>,
) -> *mut leveldb_filterpolicy_t {
    quietly(null_mut(), || FILTER_POLICIES.insert(FilterPolicy { state, destructor, is_bloom: false }))
}

/// LevelDB's Bloom filter.
#[unsafe(no_mangle)]
pub extern "C" fn leveldb_filterpolicy_create_bloom(_bits_per_key: c_int) -> *mut leveldb_filterpolicy_t {
    quietly(null_mut(), || {
        FILTER_POLICIES.insert(FilterPolicy { state: null_mut(), destructor: None, is_bloom: true })
    })
}

/// Destroys a policy. Databases that were opened with it are not affected.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_filterpolicy_destroy(policy: *mut leveldb_filterpolicy_t) {
    quietly((), || {
        let Some(policy) = FILTER_POLICIES.remove(policy) else { return };
        if let Some(destructor) = policy.destructor {
            // SAFETY: as promised to `leveldb_filterpolicy_create`.
            unsafe { destructor(policy.state) };
        }
    });
}
