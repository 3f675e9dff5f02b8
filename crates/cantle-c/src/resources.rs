//! Memory and threads that stores of one process share.

use crate::boundary::{saying, value};
use crate::error::cantle_error;
use crate::handle::{self, Object};
use crate::status::cantle_status;
use cantle::Resources;
use std::ptr::null_mut;

/// A memory budget and threads for several stores; freed by cantle_resources_free.
pub struct cantle_resources {
    _opaque: [u8; 0],
}

pub(crate) struct OpenResources(pub(crate) Resources);

impl Object for OpenResources {
    type Opaque = cantle_resources;
    const NAME: &'static str = "cantle_resources";
    // They have threads.
    const OF_A_STORE: bool = true;
}

/// One budget in bytes and one pool of threads for every store that is opened with these resources.
///
/// Ownership: the resources are the caller's, to be freed by cantle_resources_free, at once if need be: stores keep what they need.
/// Errors: NULL if there are too many handles; numbers that will not do are told by cantle_open. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_resources_new(
    memory_budget: u64,
    background_threads: usize,
    error: *mut *mut cantle_error,
) -> *mut cantle_resources {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            handle::create(OpenResources(Resources::new(memory_budget, background_threads)))
        })
    }
}

/// Frees resources. Stores that were opened with them keep them. NULL is nothing to free.
///
/// Ownership: the handle is gone afterwards; threads end with the last store. Errors: CANTLE_INVALID_ARGUMENT for what are no resources,
/// or were freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_resources_free(resources: *mut cantle_resources) -> cantle_status {
    saying(|| handle::free::<OpenResources>(resources))
}
