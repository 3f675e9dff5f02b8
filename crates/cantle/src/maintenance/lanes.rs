//! Jobs that wait for a worker, by class, and the order in which they run.
//!
//! Invariants: jobs of one class are taken in the order in which they came. While a job is the
//! first of its class, it is passed over by at most `PASSED_MAX` jobs of more urgent classes and
//! one of each other class.
//!
//! Thread safety: belongs to one thread at a time; the pool keeps it under a lock.

use std::collections::VecDeque;

/// The urgency of a background job, the most urgent class first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A checkpoint. Other jobs may wait for it, so it has a thread of its own.
    Checkpoint,
    /// A job that makes room for writers and takes milliseconds: a memtable or a log is sealed, a chunk is split. It
    /// has a thread of its own, and others do it before everything else.
    Seal,
    /// A job that reduces the number of runs that a read searches: a merge of the youngest runs.
    Level0,
    /// A merge of older runs, which takes seconds: rebalances and loads of chunks.
    Deep,
    /// A job that can wait for all others: a merge that a user asked for, or the removal of unused
    /// files.
    Asked,
}

impl Class {
    pub const ALL: [Self; 5] = [Self::Checkpoint, Self::Seal, Self::Level0, Self::Deep, Self::Asked];
}

/// Number of jobs of more urgent classes that run before one job of a waiting class. During a flood
/// of urgent jobs each other class then still gets a ninth of a thread.
pub const PASSED_MAX: u32 = 8;

#[derive(Debug)]
struct Lane<J> {
    jobs: VecDeque<J>,
    /// Jobs of more urgent classes that were taken while the first job of this lane waited.
    passed: u32,
}

/// Waiting jobs, by class.
#[derive(Debug)]
pub struct Lanes<J>([Lane<J>; Class::ALL.len()]);

impl<J> Default for Lanes<J> {
    fn default() -> Self {
        Self(Class::ALL.map(|_| Lane { jobs: VecDeque::new(), passed: 0 }))
    }
}

impl<J> Lanes<J> {
    pub fn push(&mut self, class: Class, job: J) {
        self.0[class as usize].jobs.push_back(job);
    }

    /// Number of jobs of a class that wait.
    pub fn waiting(&self, class: Class) -> usize {
        self.0[class as usize].jobs.len()
    }

    /// True if a waiting job of these classes satisfies `fits`.
    pub fn has(&self, classes: &[Class], fits: impl Fn(&J) -> bool) -> bool {
        classes.iter().any(|&class| self.0[class as usize].jobs.iter().any(&fits))
    }

    /// Takes the next job of these classes that satisfies `fits`. The most urgent of the classes is
    /// the first.
    pub fn take(&mut self, classes: &[Class], fits: impl Fn(&J) -> bool) -> Option<(Class, J)> {
        let first = |class: Class| self.0[class as usize].jobs.iter().position(&fits);
        let next = classes.iter().filter_map(|&class| Some((class, first(class)?)));
        let overdue = next
            .clone()
            .filter(|&(class, _)| self.0[class as usize].passed >= PASSED_MAX)
            .max_by_key(|&(class, _)| (self.0[class as usize].passed, std::cmp::Reverse(class as usize)));
        let (class, at) = overdue.or_else(|| next.clone().next())?;
        for &less_urgent in classes.iter().filter(|&&other| other as usize > class as usize) {
            let lane = &mut self.0[less_urgent as usize];
            if !lane.jobs.is_empty() {
                lane.passed = lane.passed.saturating_add(1);
            }
        }
        let lane = &mut self.0[class as usize];
        lane.passed = 0;
        lane.jobs.remove(at).map(|job| (class, job))
    }

    /// Takes all jobs.
    pub fn take_all(&mut self) -> Vec<J> {
        self.0.iter_mut().flat_map(|lane| std::mem::take(&mut lane.jobs)).collect()
    }
}
