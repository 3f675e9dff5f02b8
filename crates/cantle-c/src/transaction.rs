//! Optimistic, serializable transactions.

use crate::batch::write_options;
use crate::bound::{cantle_range, cantle_slice, keys};
use crate::boundary::{saying, status, value};
use crate::callback;
use crate::db::{OpenDb, cantle_db, is_bytewise};
use crate::error::{OpenError, cantle_error};
use crate::failure::{Failure, Outcome};
use crate::handle::{self, Held, Object, OfProcess};
use crate::keyspace::{OpenKeyspace, cantle_keyspace};
use crate::raw;
use crate::read::{Lookup, cantle_get_many_fn, contains, get, get_into, get_many};
use crate::status::*;
use cantle::{Keyspace, Transaction};
use cantle_bindings::Pauses;
use parking_lot::RwLock;
use std::cell::RefCell;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{from_ref, null_mut};

/// Reads and writes that take effect together at the moment of the commit, or not at all. Ended and
/// freed by cantle_transaction_commit or cantle_transaction_rollback. Several threads may use it at
/// once.
pub struct cantle_transaction {
    _opaque: [u8; 0],
}

/// The body of a transaction. It reads and writes by `transaction`, and returns CANTLE_OK to have
/// it committed, or another status to have it rolled back. It may be called several times, once
/// after each conflict, and should have no effects except on the transaction. It may put an error
/// into `*error` (NULL at first), which cantle_transact then returns. It must neither commit nor
/// free the transaction, and neither throw nor jump out.
pub type cantle_transact_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        transaction: *mut cantle_transaction,
        error: *mut *mut cantle_error,
    ) -> c_int,
>;

pub(crate) struct OpenTransaction {
    /// `None` once the transaction was taken out to be ended.
    pub(crate) transaction: RwLock<Option<Transaction>>,
    /// True if the default keyspace is in bytewise order.
    pub(crate) bytewise: bool,
    /// True if a callback has the transaction, for the time of its call only.
    lent: bool,
}

impl Object for OpenTransaction {
    type Opaque = cantle_transaction;
    const NAME: &'static str = "cantle_transaction";
    const OF_A_STORE: bool = true;
}

impl OpenTransaction {
    fn of(db: &OpenDb, transaction: Transaction, lent: bool) -> Self {
        let bytewise = is_bytewise(db.db.comparator_name());
        Self { transaction: RwLock::new(Some(transaction)), bytewise, lent }
    }

    pub(crate) fn with<T>(&self, with: impl FnOnce(&Transaction) -> Outcome<T>) -> Outcome<T> {
        // Only a thread that ends the transaction locks it for writing.
        let guard = OfProcess::new(self.transaction.try_read().ok_or_else(over)?);
        with(guard.as_ref().ok_or_else(over)?)
    }

    /// True if a range of this keyspace may be given by a prefix.
    pub(crate) fn is_bytewise(&self, keyspace: Option<&Keyspace>) -> bool {
        keyspace.map_or(self.bytewise, |keyspace| is_bytewise(keyspace.comparator_name()))
    }
}

thread_local! {
    /// The transactions with a [`CallingBack`] in this thread, the last one at the end.
    static CALLING_BACK: RefCell<Vec<*const OpenTransaction>> = const { RefCell::new(Vec::new()) };
}

/// A read of a transaction that calls callbacks in this thread. An end of the transaction waits for its
/// reads, so that a callback that ended it would wait for ever.
struct CallingBack;

impl CallingBack {
    fn of(transaction: &OpenTransaction) -> Self {
        CALLING_BACK.with_borrow_mut(|all| all.push(from_ref(transaction)));
        Self
    }

    /// True if this thread is in a callback of such a read.
    fn is_of(transaction: &OpenTransaction) -> bool {
        // A thread that has ended its thread-local data is in no callback.
        CALLING_BACK.try_with(|all| all.borrow().contains(&from_ref(transaction))).unwrap_or(false)
    }
}

impl Drop for CallingBack {
    fn drop(&mut self) {
        CALLING_BACK.with_borrow_mut(Vec::pop);
    }
}

fn over() -> Failure {
    Failure::invalid("the cantle_transaction is over")
}

/// Takes a transaction out of its handle, to be ended.
fn take(handle: *const cantle_transaction) -> Outcome<Transaction> {
    let open = handle::get::<OpenTransaction>(handle)?;
    if open.lent {
        return Err(Failure::invalid("the transaction of a callback is ended by what the callback returns"));
    }
    if CallingBack::is_of(&open) {
        return Err(Failure::invalid("a callback must not end the transaction whose read calls it"));
    }
    drop(open);
    // Waits for other threads that use the transaction. No other thread can find it any more.
    handle::release::<OpenTransaction>(handle)?.transaction.write().take().ok_or_else(over)
}

/// A keyspace in a transaction.
pub(crate) struct Within {
    pub(crate) transaction: Held<OpenTransaction>,
    pub(crate) keyspace: Option<Held<OpenKeyspace>>,
}

impl Within {
    pub(crate) fn of(
        transaction: *const cantle_transaction,
        keyspace: *const cantle_keyspace,
    ) -> Outcome<Self> {
        Ok(Self { transaction: handle::get(transaction)?, keyspace: handle::get_or_null(keyspace)? })
    }
}

/// Evaluates the same expression for a transaction's default keyspace or for another one:
/// `Transaction` and `TransactionView` have the same operations, but no common type.
macro_rules! within {
    ($within:expr, $on:ident => $call:expr) => {
        $within.transaction.with(|transaction| {
            Ok(match &$within.keyspace {
                None => {
                    let $on = transaction;
                    $call
                }
                Some(keyspace) => {
                    let $on = transaction.keyspace(&keyspace.keyspace);
                    $call
                }
            }?)
        })
    };
}
pub(crate) use within;

impl Lookup for Within {
    const HANDLE: &'static str = OpenTransaction::NAME;

    fn lend<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Outcome<Option<T>> {
        within!(self, on => on.get_with(key, read))
    }

    fn lend_many(
        &self,
        keys: &[&[u8]],
        read: impl FnMut(usize, cantle::Result<Option<&[u8]>>),
    ) -> Outcome<()> {
        let _calling_back = CallingBack::of(&self.transaction);
        within!(self, on => {
            on.get_many_with(keys, read);
            Ok::<(), cantle::Error>(())
        })
    }
}

/// Begins a transaction, which reads the store as it is now, overlaid with its own writes. Nobody
/// else sees these writes before the commit.
///
/// Ownership: the transaction is the caller's, to be ended by cantle_transaction_commit or
/// cantle_transaction_rollback, also after cantle_close. Errors: NULL and CANTLE_INVALID_ARGUMENT
/// for an invalid handle. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_new(
    db: *mut cantle_db,
    error: *mut *mut cantle_error,
) -> *mut cantle_transaction {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        value(error, null_mut(), || {
            let db = handle::get::<OpenDb>(db)?;
            handle::create(OpenTransaction::of(&db, db.db.transaction(), false))
        })
    }
}

/// Makes the writes take effect now, if everything that was read (keys, found or not, and ranges as
/// far as they were consumed) has not been written to since. `durability` is the least durability
/// of the writes: a cantle_durability, CANTLE_DEFAULT for that of the store.
///
/// Ownership: the transaction is gone afterwards, even if this fails (except for an invalid handle
/// or durability, and in a callback that must not write). Errors: CANTLE_CONFLICT if something that
/// was read has changed: run the transaction again; CANTLE_NO_KEYSPACE if a keyspace was dropped;
/// as cantle_write. Nothing was written then. Threads: any; waits for calls of other threads that
/// use the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_commit(
    transaction: *mut cantle_transaction,
    durability: c_int,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let options = write_options(durability)?;
            Ok(take(transaction)?.commit_with(options)?)
        })
    }
}

/// Ends a transaction and discards its writes. Does nothing for NULL.
///
/// Ownership: the transaction is gone afterwards. Errors: CANTLE_INVALID_ARGUMENT for a handle that
/// is no transaction, was ended, or was handed to a callback. Threads: any; waits for calls of
/// other threads that use the transaction.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_rollback(transaction: *mut cantle_transaction) -> cantle_status {
    saying(|| {
        if transaction.is_null() {
            return Ok(());
        }
        match take(transaction) {
            // In a forked child the handle goes, and the store's part stays as it is.
            Err(failure) if failure.0.status == CANTLE_FORKED => handle::free::<OpenTransaction>(transaction),
            done => done.map(Transaction::rollback),
        }
    })
}

/// The key's value: the one that the transaction wrote, or else the one when the transaction began,
/// as cantle_get returns it. `keyspace` may be NULL for the default one.
///
/// Ownership: the block is the caller's, to be freed by cantle_free. Errors: as cantle_get, and CANTLE_INVALID_ARGUMENT for a keyspace of
/// another store. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_get(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    value: *mut *mut c_char,
    value_len: *mut usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || get(Within::of(transaction, keyspace), key, key_len, value, value_len)) }
}

/// Copies the key's value into the caller's buffer, as cantle_get_into does.
///
/// Ownership: the buffer stays the caller's. Errors: as cantle_transaction_get. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_get_into(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    buffer: *mut c_void,
    capacity: usize,
    value_len: *mut usize,
    found: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            get_into(Within::of(transaction, keyspace), key, key_len, buffer, capacity, value_len, found)
        })
    }
}

/// Tests if the key has a value: `*found` is true then.
///
/// Ownership: nothing changes hands. Errors: as cantle_transaction_get; `*found` is false then. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_contains(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    found: *mut bool,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe { status(error, || contains(Within::of(transaction, keyspace), key, key_len, found)) }
}

/// Reads the values of `count` keys as the transaction sees them, and calls `receive` with `user`
/// and the value of each key, as cantle_get_many does. Each key counts as read, as by
/// cantle_transaction_get. `keyspace` may be NULL for the default one.
///
/// Ownership: as cantle_get_many. Errors: as cantle_get_many; for a keyspace of another store, each
/// key fails with CANTLE_INVALID_ARGUMENT. Threads: any; `receive` is called in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_get_many(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    keys: *const cantle_slice,
    count: usize,
    receive: cantle_get_many_fn,
    user: *mut c_void,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`); `receive` keeps to its type's contract.
    unsafe { status(error, || get_many(Within::of(transaction, keyspace), keys, count, receive, user)) }
}

/// Stores a pair when the transaction is committed. `keyspace` may be NULL for the default one.
///
/// Ownership: key and value are copied. Errors: as cantle_put for invalid arguments and in a store
/// that cannot be written to; other errors come with the commit. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_put(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    value: *const c_void,
    value_len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let within = Within::of(transaction, keyspace)?;
            let (key, value) = (raw::key(key, key_len)?, raw::value(value, value_len, "value")?);
            within!(within, on => on.put(key, value))
        })
    }
}

/// Removes a key, if it is there, when the transaction is committed. `keyspace` may be NULL for the default one.
///
/// Ownership: the key is copied. Errors: as cantle_transaction_put. Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_delete(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    key: *const c_void,
    key_len: usize,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let within = Within::of(transaction, keyspace)?;
            let key = raw::key(key, key_len)?;
            within!(within, on => on.delete(key))
        })
    }
}

/// Removes every key of the range (NULL: every key) when the transaction is committed: keys that
/// the transaction sees, and keys that other writers have put there before the commit. Reads
/// nothing, so no put of another writer conflicts with it. `keyspace` may be NULL for the default
/// one.
///
/// Ownership: the range is copied. Errors: as cantle_transaction_put; CANTLE_INVALID_ARGUMENT for a prefix in a keyspace with a comparator.
/// Threads: any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transaction_delete_range(
    transaction: *mut cantle_transaction,
    keyspace: *mut cantle_keyspace,
    range: *const cantle_range,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`).
    unsafe {
        status(error, || {
            let within = Within::of(transaction, keyspace)?;
            let keyspace = within.keyspace.as_ref().map(|keyspace| &keyspace.keyspace);
            let bounds = keys(range)?.bounds(within.transaction.is_bytewise(keyspace))?;
            within!(within, on => on.delete_range(bounds))
        })
    }
}

/// Calls `run` with a transaction and `user`, and commits the transaction. After a conflict, starts
/// again with a new transaction, after a pause that grows to some milliseconds.
///
/// Ownership: the transaction is the library's, and the callback has it for its call only; `user`
/// stays the caller's. Errors: the status that `run` returned, with its error or one that says so;
/// as cantle_transaction_commit, except conflicts; CANTLE_FORKED in a child that was forked by
/// `run`, which writes nothing. Threads: any; `run` is called in this thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cantle_transact(
    db: *mut cantle_db,
    run: cantle_transact_fn,
    user: *mut c_void,
    error: *mut *mut cantle_error,
) -> cantle_status {
    // SAFETY: the caller keeps to the header (see `raw`); `run` keeps to its type's contract.
    unsafe {
        status(error, || {
            callback::check_may_write()?;
            let db = handle::get::<OpenDb>(db)?;
            let run = run.ok_or_else(|| Failure::invalid("the function of the transaction is NULL"))?;
            let mut pauses = Pauses::default();
            loop {
                let lent = lend(&db, db.db.transaction(), |handle, error| run(user, handle, error))?;
                match lent.commit() {
                    Err(error) if error.is_conflict() => std::thread::sleep(pauses.next_pause()),
                    done => return Ok(done?),
                }
            }
        })
    }
}

/// Gives a callback a handle to the transaction, for the time of its call.
fn lend(
    db: &OpenDb,
    transaction: Transaction,
    run: impl FnOnce(*mut cantle_transaction, *mut *mut cantle_error) -> c_int,
) -> Outcome<Transaction> {
    let handle = handle::create(OpenTransaction::of(db, transaction, true))?;
    let mut error = null_mut();
    let code = run(handle, &mut error);
    let lent = handle::release::<OpenTransaction>(handle);
    let told = if error.is_null() { None } else { Some(handle::release::<OpenError>(error)?.to_failure()) };
    if code == CANTLE_OK as c_int {
        return lent?.transaction.write().take().ok_or_else(over);
    }
    drop(lent);
    Err(told.unwrap_or_else(|| {
        let status = cantle_status::from_number(code).unwrap_or(CANTLE_ABORTED);
        Failure::new(status, format!("the callback of the transaction gave up with status {code}"))
    }))
}
