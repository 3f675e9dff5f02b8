//! The health of a store: it accepts writes, or is read-only, closing or closed.

use crate::sync::Arc;
use crate::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use crate::types::error::{Error, Result};
use crate::types::order::KeyOrder;
use arc_swap::ArcSwapOption;

/// Latches the first failure after which nothing may be written: a failed sync. The kernel has
/// dropped the pages that it did not write, and another sync would report success.
#[derive(Default)]
pub struct Health {
    read_only: ArcSwapOption<String>,
    closing: AtomicBool,
    closed: AtomicBool,
}

impl Health {
    /// Turns the store read-only; the first reason stays.
    pub fn fail(&self, reason: impl Into<String>) {
        let reason = Arc::new(reason.into());
        let before = self.read_only.compare_and_swap(&None::<Arc<String>>, Some(reason.clone()));
        if before.is_none() {
            tracing::error!(%reason, "the store turns read-only");
        }
    }

    pub fn reason(&self) -> Option<String> {
        self.read_only.load().as_ref().map(|reason| reason.to_string())
    }

    /// Rejects writes from now on; those announced before still count.
    pub fn begin_close(&self) {
        self.closing.store(true, Release);
    }

    /// True if writes and maintenance must stop.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Acquire)
    }

    pub fn close(&self) -> bool {
        self.begin_close();
        self.closed.swap(true, Release)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Acquire)
    }

    /// Fails if reads are no longer allowed.
    pub fn check_open(&self) -> Result<()> {
        if self.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Fails if writes are no longer allowed.
    pub fn check_writable(&self) -> Result<()> {
        if self.is_closing() {
            return Err(Error::Closed);
        }
        self.check_sound()
    }

    /// Fails after a failure that forbids any write.
    pub fn check_sound(&self) -> Result<()> {
        match &*self.read_only.load() {
            Some(reason) => Err(Error::ReadOnly { reason: reason.to_string() }),
            None => Ok(()),
        }
    }
}

impl KeyOrder {
    /// Fails if data sorted by this order until now must not be used, that is written or returned
    /// to a caller.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure() {
            None => Ok(()),
            Some(reason) => Err(Error::ReadOnly { reason: reason.to_owned() }),
        }
    }
}
