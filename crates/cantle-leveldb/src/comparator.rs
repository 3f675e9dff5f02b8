//! Orders of keys that the caller defines.
//!
//! The databases that were opened with a comparator use it, also on background threads. Its
//! destructor runs when it was destroyed and the last of these databases is closed, whichever
//! happens later.

use crate::call::{opaque, quietly};
use crate::handles::{Handles, Kind};
use crate::status::{LEVELDB_BYTEWISE, Result, Status};
use std::cmp::Ordering;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Acquire},
};

opaque! {
    /// An order of keys.
    leveldb_comparator_t,
}

pub type Destructor = unsafe extern "C" fn(*mut c_void);
type Compare = unsafe extern "C" fn(*mut c_void, *const c_char, usize, *const c_char, usize) -> c_int;
pub type Name = unsafe extern "C" fn(*mut c_void) -> *const c_char;

pub static COMPARATORS: Handles<Arc<Callbacks>> = Handles::new(Kind::Comparator);

/// The functions that define a comparator.
pub struct Callbacks {
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Compare,
    name: Name,
    /// Number of users, and the bit `DESTROYED`. There is no lock, as another thread could hold it
    /// when the process forks.
    life: AtomicUsize,
}

const DESTROYED: usize = 1 << 63;

// SAFETY: LevelDB's contract is that a comparator may be called from any thread; `state` is only
// passed back to it.
unsafe impl Send for Callbacks {}
// SAFETY: the same.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn name(&self) -> Result<String> {
        // SAFETY: as promised to `leveldb_comparator_create`, for as long as the comparator was not
        // destroyed, which the caller guarantees.
        let name = unsafe { (self.name)(self.state) };
        if name.is_null() {
            return Err(Status::invalid("the comparator's name is null"));
        }
        // SAFETY: the same.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    fn destruct(&self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: as promised to `leveldb_comparator_create`; there are no users any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Compares two keys with the callback.
///
/// # Safety
///
/// The destructor has not run.
unsafe fn compare(callbacks: &Callbacks, a: &[u8], b: &[u8]) -> Ordering {
    let Callbacks { state, compare, .. } = callbacks;
    // SAFETY: as promised to `leveldb_comparator_create`, and the caller promises the rest.
    let order = unsafe { compare(*state, a.as_ptr().cast(), a.len(), b.as_ptr().cast(), b.len()) };
    order.cmp(&0)
}

/// A comparator in use by a database. The callbacks may be called until this value is dropped.
pub struct InUse(Arc<Callbacks>);

impl InUse {
    fn begin(callbacks: &Arc<Callbacks>) -> Result<Self> {
        let one_more = |life| (life & DESTROYED == 0).then_some(life + 1);
        match callbacks.life.fetch_update(AcqRel, Acquire, one_more) {
            Ok(_) => Ok(Self(callbacks.clone())),
            Err(_) => Err(Status::invalid("the options' comparator was destroyed")),
        }
    }

    pub fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // SAFETY: the destructor does not run before this value is dropped.
        unsafe { compare(&self.0, a, b) }
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        if self.0.life.fetch_sub(1, AcqRel) == DESTROYED + 1 {
            self.0.destruct();
        }
    }
}

/// The order as the store sees it.
struct Order {
    name: String,
    callbacks: Arc<Callbacks>,
    equal_is_identical: bool,
}

impl cantle::Comparator for Order {
    fn name(&self) -> &str {
        &self.name
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // SAFETY: the database holds an `InUse` for as long as it is open, and calls no order after
        // it is closed.
        unsafe { compare(&self.callbacks, a, b) }
    }

    fn equal_is_identical(&self) -> bool {
        self.equal_is_identical
    }
}

/// The use of a comparator by a database. `None` for LevelDB's own order: names that begin with
/// "leveldb." are reserved.
///
/// LevelDB forbids its Bloom filter together with an order that ignores parts of keys; a program
/// with such an order must define its own policy. Hence a program that sets the Bloom filter
/// declares that equal keys are identical, and that they may be hashed.
pub fn begin(
    callbacks: &Arc<Callbacks>,
    has_bloom_filter: bool,
) -> Result<Option<(Arc<dyn cantle::Comparator>, InUse)>> {
    let in_use = InUse::begin(callbacks)?;
    let name = callbacks.name()?;
    if name == LEVELDB_BYTEWISE {
        return Ok(None);
    }
    let order = Order { name, callbacks: callbacks.clone(), equal_is_identical: has_bloom_filter };
    Ok(Some((Arc::new(order), in_use)))
}

/// Creates an order of keys from callbacks, which any thread may call at any time.
///
/// # Safety
///
/// The functions may be called with `state` until the comparator was destroyed and no database is
/// open with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_create(
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Option<Compare>,
    name: Option<Name>,
) -> *mut leveldb_comparator_t {
    quietly(null_mut(), || {
        let (Some(compare), Some(name)) = (compare, name) else { return null_mut() };
        let life = AtomicUsize::new(0);
        COMPARATORS.insert(Arc::new(Callbacks { state, destructor, compare, name, life }))
    })
}

/// Destroys a comparator: at once, or when the last database that was opened with it is closed.
///
/// # Safety
///
/// No other thread uses it at this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_destroy(comparator: *mut leveldb_comparator_t) {
    quietly((), || {
        let Some(callbacks) = COMPARATORS.remove(comparator) else { return };
        if callbacks.life.fetch_or(DESTROYED, AcqRel) == 0 {
            callbacks.destruct();
        }
    });
}
