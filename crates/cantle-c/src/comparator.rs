//! Orders of keys that a C program defines.

use crate::boundary::{saying, value};
use crate::db::is_bytewise;
use crate::error::cantle_error;
use crate::failure::Failure;
use crate::handle::{self, Object};
use crate::raw;
use crate::status::cantle_status;
use cantle::Comparator;
use std::cmp::Ordering;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;

/// An order of keys; freed by cantle_comparator_free.
pub struct cantle_comparator {
    _opaque: [u8; 0],
}

/// Compares two keys: negative if `a` comes first, positive if `b` does, 0 if they are equal.
/// Called from many threads at once. The order must be total and never change. The callback must
/// not call the library, and must neither throw nor jump out.
pub type cantle_compare_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        a: *const c_char,
        a_len: usize,
        b: *const c_char,
        b_len: usize,
    ) -> c_int,
>;

/// Returns eight bytes of a key as a number that orders as the keys do: if `a` comes before `b`,
/// the number of `a` is not above that of `b`. Called in the same way as a cantle_compare_fn.
pub type cantle_key_prefix_fn =
    Option<unsafe extern "C" fn(user: *mut c_void, key: *const c_char, key_len: usize) -> u64>;

/// Called once, in any thread, when `user` is not needed any more.
pub type cantle_destroy_fn = Option<unsafe extern "C" fn(user: *mut c_void)>;

pub(crate) struct OpenComparator(pub(crate) Arc<dyn Comparator>);

impl Object for OpenComparator {
    type Opaque = cantle_comparator;
    const NAME: &'static str = "cantle_comparator";
    const OF_A_STORE: bool = false;
}

type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
type Prefix = unsafe extern "C" fn(*mut c_void, *const c_char, usize) -> u64;
type Destroy = unsafe extern "C" fn(*mut c_void);

struct Callbacks {
    name: String,
    user: *mut c_void,
    compare: Compare,
    prefix: Option<Prefix>,
    destroy: Option<Destroy>,
    equal_is_identical: bool,
}

// SAFETY: the header demands that the callbacks may be called with `user` from any thread, and from many at once.
unsafe impl Send for Callbacks {}
// SAFETY: as above.
unsafe impl Sync for Callbacks {}

impl Comparator for Callbacks {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // SAFETY: the callback's own contract; both keys stay as they are during the call.
        let order =
            unsafe { (self.compare)(self.user, a.as_ptr().cast(), a.len(), b.as_ptr().cast(), b.len()) };
        order.cmp(&0)
    }

    fn equal_is_identical(&self) -> bool {
        self.equal_is_identical
    }

    fn prefix(&self, key: &[u8]) -> Option<u64> {
        // SAFETY: as above.
        self.prefix.map(|prefix| unsafe { prefix(self.user, key.as_ptr().cast(), key.len()) })
    }
}

impl Drop for Callbacks {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: nobody calls the other callbacks any more, and this one is called once.
            unsafe { destroy(self.user) }
        }
    }
}

/// Creates an order of keys from callbacks. A keyspace that is created with it records the `name`,
/// and each opening compares the name: change it whenever the order changes. `equal_is_identical`
/// says that keys which compare equal are the same bytes; otherwise, Bloom filters are off.
/// `prefix` may be NULL (then no prefixes of keys are cached), and so may `destroy`.
///
/// Ownership: the comparator is the caller's, to be freed by cantle_comparator_free, even at once:
/// options and stores keep the order itself. `user` must live until `destroy` is called, which
/// happens when the last user of the order is gone, in any thread, and perhaps shortly after
/// cantle_close has returned. If this function fails, `user` stays the caller's, and `destroy` is
/// not called. Errors: NULL and CANTLE_INVALID_ARGUMENT without a name or `compare`, for a name
/// that is not UTF-8, and for "cantle.bytewise", the name of the order without a comparator;
/// CANTLE_OUT_OF_MEMORY if there are too many handles. Threads: any; for the callbacks see their
/// types.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_comparator_new(
    name: *const c_char,
    user: *mut c_void,
    compare: cantle_compare_fn,
    prefix: cantle_key_prefix_fn,
    equal_is_identical: bool,
    destroy: cantle_destroy_fn,
    error: *mut *mut cantle_error,
) -> *mut cantle_comparator {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let name = raw::text(name, "name of the comparator")?.to_owned();
            if name.is_empty() {
                return Err(Failure::invalid("the comparator's name is empty"));
            }
            if is_bytewise(&name) {
                return Err(Failure::invalid(format!(
                    "the comparator is named {name:?}, which is the name of the order without one: give it another"
                )));
            }
            let compare = compare.ok_or_else(|| Failure::invalid("the comparator's function is NULL"))?;
            // `destroy` is set last: a failure before must not call it.
            let made: Arc<Callbacks> =
                Arc::new(Callbacks { name, user, compare, prefix, destroy, equal_is_identical });
            let kept = made.clone();
            handle::create(OpenComparator(made)).inspect_err(|_| std::mem::forget(kept))
        })
    }
}

/// Frees a comparator. Stores and options that use it keep its order. Does nothing for NULL.
///
/// Ownership: the comparator is gone afterwards; `destroy` is called if nothing else uses the
/// order. Errors: CANTLE_INVALID_ARGUMENT for a handle that is no comparator or was freed. Threads:
/// any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_comparator_free(comparator: *mut cantle_comparator) -> cantle_status {
    saying(|| handle::free::<OpenComparator>(comparator))
}
