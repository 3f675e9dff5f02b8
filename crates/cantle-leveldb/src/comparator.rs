//! Orders of keys that callers bring along.
//!
//! A comparator is used by the databases that are open with it, in the background as well. Its destructor runs when it was
//! destroyed and the last of them is closed, whichever comes later.

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

/// What a caller wants to be called for.
pub struct Callbacks {
    state: *mut c_void,
    destructor: Option<Destructor>,
    compare: Compare,
    name: Name,
    /// How many use it, and `DESTROYED`. Without a lock, as another thread may hold it when the process forks.
    life: AtomicUsize,
}

const DESTROYED: usize = 1 << 63;

// SAFETY: LevelDB's contract is that a comparator may be called from any thread; `state` is only handed back to it.
unsafe impl Send for Callbacks {}
// SAFETY: the same.
unsafe impl Sync for Callbacks {}

impl Callbacks {
    fn name(&self) -> Result<String> {
        // SAFETY: as `leveldb_comparator_create` was promised, for as long as the comparator was not destroyed, which
        // who calls has made sure of.
        let name = unsafe { (self.name)(self.state) };
        if name.is_null() {
            return Err(Status::invalid("the comparator's name is null"));
        }
        // SAFETY: the same.
        Ok(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
    }

    fn destruct(&self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: as `leveldb_comparator_create` was promised; nobody uses the comparator any more.
            unsafe { destructor(self.state) };
        }
    }
}

/// Orders two keys by the callback.
///
/// # Safety
///
/// The destructor has not run.
unsafe fn compare(callbacks: &Callbacks, a: &[u8], b: &[u8]) -> Ordering {
    let Callbacks { state, compare, .. } = callbacks;
    // SAFETY: as `leveldb_comparator_create` was promised, and the caller promises the rest.
    let order = unsafe { compare(*state, a.as_ptr().cast(), a.len(), b.as_ptr().cast(), b.len()) };
    order.cmp(&0)
}

/// A comparator while a database has it: the callbacks may be called until this is dropped.
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
        // SAFETY: the destructor waits for the drop of this.
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

/// The order as the store calls it.
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
        // SAFETY: the database holds an `InUse` for as long as it is open, and calls no order when it is closed.
        unsafe { compare(&self.callbacks, a, b) }
    }

    fn equal_is_identical(&self) -> bool {
        self.equal_is_identical
    }
}

/// What a database needs of a comparator. `None` for LevelDB's own order: names that begin with "leveldb." are reserved.
///
/// LevelDB forbids its Bloom filter together with an order that ignores parts of keys; a program with such an order must bring a
/// policy of its own. So only who sets the Bloom filter says that equal keys are identical, and that they may be hashed.
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

/// An order of keys, by callbacks that any thread may call at any time.
///
/// # Safety
///
/// The functions may be called with `state` until the comparator was destroyed and no database is open with it.
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

/// Destroys a comparator: at once, or when the last database is closed that is open with it.
///
/// # Safety
///
/// No other thread uses it in this moment.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn leveldb_comparator_destroy(comparator: *mut leveldb_comparator_t) {
    quietly((), || {
        let Some(callbacks) = COMPARATORS.remove(comparator) else { return };
        if callbacks.life.fetch_or(DESTROYED, AcqRel) == 0 {
            callbacks.destruct();
        }
    });
}
