//! What a thread of a child is about, and death at the n-th call of that.
//!
//! The library says what it does by spans of `tracing`: rebalances, splits, merges, checkpoints, on whichever thread. The child
//! adds what it asks for itself: opening, batches, closing. A call on files belongs to the innermost of them, on the thread that
//! makes it. Stores into mapped memory are calls here, too.
//!
//! The parent says where to die by the environment; the child that lives to its end says how many calls there were.

use cantle::vfs::{FaultVfs, StdVfs, Verdict, Vfs};
use std::cell::RefCell;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const KILL_AT: &str = "CANTLE_FAULTS_KILL_AT";

/// What is under way.
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

    /// As the library's spans are called, where it has one.
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

    /// What was killed, for the tally.
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

    /// How many calls it has, for the tally.
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

    /// This thread is about this until the guard is dropped.
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

/// The process that `command` starts dies before the n-th call of a phase; `None` has it count.
pub fn order(command: &mut Command, death: Option<(Phase, u64)>) {
    let text = death.map_or_else(|| "none".to_owned(), |(phase, n)| format!("{}:{n}", phase.name()));
    command.env(KILL_AT, text);
}

/// What the child opens its store on, as it was ordered.
pub fn vfs() -> Arc<dyn Vfs> {
    let Ok(order) = std::env::var(KILL_AT) else { return Arc::new(StdVfs) };
    let death = order.split_once(':').and_then(|(name, n)| Some((Phase::of_name(name)?, n.parse().ok()?)));
    // Nobody else has set one in this process.
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

/// How many calls there were, as [`parse_counts`] reads it; none if nobody asked.
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

/// Spans, by their names: all of one name are the same.
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
