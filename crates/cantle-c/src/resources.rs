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
    // Resources have threads.
    const OF_A_STORE: bool = true;
}

/// Creates one memory budget in bytes and one pool of threads, for every store that is opened with
/// these resources.
///
/// Ownership: the resources are the caller's, to be freed by cantle_resources_free, even at once:
/// stores keep the parts that they need. Errors: NULL if there are too many handles; cantle_open
/// returns the error of numbers out of their range. Threads: any.
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

/// Frees resources. Stores that were opened with them keep them. Does nothing for NULL.
///
/// Ownership: the handle is gone afterwards; threads end with the last store. Errors:
/// CANTLE_INVALID_ARGUMENT for a handle that is no resources or was freed. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_resources_free(resources: *mut cantle_resources) -> cantle_status {
    saying(|| handle::free::<OpenResources>(resources))
}
