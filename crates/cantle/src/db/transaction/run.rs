//! Running a transaction again until it commits without a conflict.

use super::Transaction;
use crate::db::handle::{Db, Handle};
use crate::sync::random::{self, Rng};
use crate::sync::{Arc, thread};
use crate::types::error::{Error, Result};
use std::time::Duration;

/// Upper bound of the first pause after a conflict: about the time that a commit takes.
const PAUSE_FIRST: Duration = Duration::from_micros(20);
/// Maximum of this bound, which doubles with each conflict.
const PAUSE_LONGEST: Duration = Duration::from_millis(5);

impl Db {
    /// Begins a transaction, which reads the store as it is now. Waits some microseconds for the
    /// writes that are under way, as [`snapshot`](Self::snapshot) does.
    pub fn transaction(&self) -> Transaction {
        Transaction::begin(&self.handle)
    }

    /// Calls `run` with a transaction and commits it. After a conflict, starts again with a new
    /// transaction, after a pause that grows to some milliseconds. Returns the result of the last
    /// call.
    ///
    /// `run` may be called several times, and should have no effects except on the transaction. If
    /// it reads keys in the transaction and writes them directly to the store, it conflicts with
    /// itself for ever. Every conflict means that another writer succeeded, so some caller always
    /// makes progress. But a transaction that reads much, or for long, among many short ones may
    /// need many attempts.
    ///
    /// ```
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cantle::Db::open(dir.path().join("store"))?;
    /// # db.put("ada", [10])?;
    /// # db.put("bob", [0])?;
    /// let left = db.transact(|tx| {
    ///     let (from, to) = (tx.get("ada")?.map_or(0, |n| n[0]), tx.get("bob")?.map_or(0, |n| n[0]));
    ///     tx.put("ada", [from - 3])?;
    ///     tx.put("bob", [to + 3])?;
    ///     Ok(from - 3)
    /// })?;
    /// assert_eq!(left, 7);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Any error of `run` rolls the transaction back and is returned; `run` is not called again,
    /// even if the error is a conflict of another transaction. Errors of
    /// [`commit`](Transaction::commit), except conflicts. To roll back with an error type of the
    /// program's own, use [`try_transact`](Self::try_transact): `Ok(Err(..))` here commits.
    pub fn transact<T>(&self, run: impl FnMut(&Transaction) -> Result<T>) -> Result<T> {
        self.try_transact(run)
    }

    /// The same as [`transact`](Self::transact), with an error type of the program's own: an error
    /// of `run` rolls the transaction back and is returned.
    ///
    /// ```
    /// # #[derive(Debug)]
    /// enum Failed {
    ///     TooPoor,
    ///     Store(cantle::Error),
    /// }
    ///
    /// impl From<cantle::Error> for Failed {
    ///     fn from(error: cantle::Error) -> Self {
    ///         Self::Store(error)
    ///     }
    /// }
    ///
    /// # fn main() -> cantle::Result<()> {
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = cantle::Db::open(dir.path().join("store"))?;
    /// # db.put("ada", [2])?;
    /// let paid = db.try_transact(|tx| {
    ///     let has = tx.get("ada")?.map_or(0, |n| n[0]);
    ///     tx.put("paid", [1])?;
    ///     tx.put("ada", [has.checked_sub(3).ok_or(Failed::TooPoor)?])?;
    ///     Ok(())
    /// });
    /// assert!(matches!(paid, Err(Failed::TooPoor)));
    /// assert!(!db.contains_key("paid")?);
    /// # Ok(()) }
    /// ```
    pub fn try_transact<T, E: From<Error>>(
        &self,
        run: impl FnMut(&Transaction) -> Result<T, E>,
    ) -> Result<T, E> {
        run_until_committed(&self.handle, run)
    }
}

/// Calls `run` with a new transaction until the transaction's own commit meets no conflict. An
/// error of `run` never leads to another call.
pub(in crate::db) fn run_until_committed<T, E: From<Error>>(
    handle: &Arc<Handle>,
    mut run: impl FnMut(&Transaction) -> Result<T, E>,
) -> Result<T, E> {
    let mut rng: Option<Rng> = None;
    let mut pause = PAUSE_FIRST;
    loop {
        let transaction = Transaction::begin(handle);
        let result = run(&transaction)?;
        match transaction.commit() {
            Err(error) if error.is_conflict() => {
                // A random pause, so that transactions that conflicted do not conflict again.
                let rng = rng.get_or_insert_with(|| Rng::new(random::u64()));
                thread::sleep(Duration::from_nanos(rng.below(pause.as_nanos() as u64)));
                pause = (pause * 2).min(PAUSE_LONGEST);
            }
            done => return done.map(|()| result).map_err(E::from),
        }
    }
}
