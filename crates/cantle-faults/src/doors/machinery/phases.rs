//! The phase that a thread of a child is in, and a kill at the n-th call of a phase.
//!
//! The library marks its work by spans of `tracing`: rebalances, splits, merges, checkpoints, on
//! any thread. The child adds its own calls: opening, batches, closing. A call on files belongs to
//! the innermost phase on the thread that makes it. Stores into mapped memory are calls here, too.
//!
//! The parent passes the place of the kill in the environment; a child that lives to its end
//! reports the number of calls.

use cantle::vfs::{FaultVfs, StdVfs, Verdict, Vfs};
use std::cell::RefCell;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const KILL_AT: &str = "CANTLE_FAULTS_KILL_AT";

/// The kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Open,
    Batch,
    Rebalance,
    Split,
    Merge,
    Checkpoint,
    Close,
}

impl Phase {
    pub const ALL: [Self; 7] =
        [Self::Open, Self::Batch, Self::Rebalance, Self::Split, Self::Merge, Self::Checkpoint, Self::Close];

    /// The name of the library's span, if it has one.
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Batch => "batch",
            Self::Rebalance => "rebalance",
            Self::Split => "split",
            Self::Merge => "merge",
            Self::Checkpoint => "checkpoint",
            Self::Close => "close",
        }
    }

    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }

    /// The counter of kills in this phase.
    pub fn killed(self) -> &'static str {
        match self {
            Self::Open => "killed in open",
            Self::Batch => "killed in batch",
            Self::Rebalance => "killed in rebalance",
            Self::Split => "killed in split",
            Self::Merge => "killed in merge",
            Self::Checkpoint => "killed in checkpoint",
            Self::Close => "killed in close",
        }
    }

    /// The counter of calls in this phase.
    pub fn calls(self) -> &'static str {
        match self {
            Self::Open => "calls of open",
            Self::Batch => "calls of batch",
            Self::Rebalance => "calls of rebalance",
            Self::Split => "calls of split",
            Self::Merge => "calls of merge",
            Self::Checkpoint => "calls of checkpoint",
            Self::Close => "calls of close",
        }
    }

    /// This thread is in the phase until the guard is dropped.
    pub fn enter(self) -> Entered {
        PHASES.with_borrow_mut(|phases| phases.push(self));
        Entered
    }
}

thread_local! {
    static PHASES: RefCell<Vec<Phase>> = const { RefCell::new(Vec::new()) };
}
static CALLS: [AtomicU64; Phase::ALL.len()] = [const { AtomicU64::new(0) }; Phase::ALL.len()];

/// See [`Phase::enter`].
pub struct Entered;

impl Drop for Entered {
    fn drop(&mut self) {
        PHASES.with_borrow_mut(Vec::pop);
    }
}

/// Makes the process that `command` starts die before the n-th call of a phase; with `None` it only
/// counts.
pub fn order(command: &mut Command, death: Option<(Phase, u64)>) {
    let text = death.map_or_else(|| "none".to_owned(), |(phase, n)| format!("{}:{n}", phase.name()));
    command.env(KILL_AT, text);
}

/// The file system for the child's store, as `order` requested.
pub fn vfs() -> Arc<dyn Vfs> {
    let Ok(order) = std::env::var(KILL_AT) else { return Arc::new(StdVfs) };
    let death = order.split_once(':').and_then(|(name, n)| Some((Phase::of_name(name)?, n.parse().ok()?)));
    // No other subscriber was set in this process.
    let _ = tracing::subscriber::set_global_default(Spans);
    let vfs = FaultVfs::new(Arc::new(StdVfs));
    vfs.set_rule(move |_| {
        if let Some(phase) = PHASES.with_borrow(|phases| phases.last().copied()) {
            let n = CALLS[phase as usize].fetch_add(1, Relaxed) + 1;
            if death == Some((phase, n)) {
                die();
            }
        }
        Verdict::Pass
    });
    Arc::new(vfs)
}

/// The number of calls in each phase, in the format of [`parse_counts`]; `None` if the parent did
/// not ask.
pub fn counts() -> Option<String> {
    std::env::var_os(KILL_AT)?;
    let count = |phase: &Phase| format!("{}:{}", phase.name(), CALLS[*phase as usize].load(Relaxed));
    Some(Phase::ALL.iter().map(count).collect::<Vec<_>>().join(" "))
}

pub fn parse_counts(text: &str) -> Option<Vec<(Phase, u64)>> {
    let count = |count: &str| {
        let (name, n) = count.split_once(':')?;
        Some((Phase::of_name(name)?, n.parse().ok()?))
    };
    text.split(' ').map(count).collect()
}

#[expect(unsafe_code, reason = "a signal to oneself")]
fn die() -> ! {
    loop {
        // SAFETY: it reads no memory.
        unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    }
}

/// Spans by their names: all spans of one name have one id.
struct Spans;

impl Subscriber for Spans {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_span() && Phase::of_name(metadata.name()).is_some()
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let phase = Phase::of_name(span.metadata().name());
        Id::from_u64(phase.map_or(u64::MAX, |phase| phase as u64 + 1))
    }

    fn enter(&self, span: &Id) {
        let phase = Phase::ALL.get(span.into_u64() as usize - 1).copied();
        PHASES.with_borrow_mut(|phases| phases.extend(phase));
    }

    fn exit(&self, _: &Id) {
        PHASES.with_borrow_mut(Vec::pop);
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
}
