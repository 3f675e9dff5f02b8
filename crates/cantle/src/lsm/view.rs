//! The files of a keyspace as readers see them. Immutable and replaced as a whole.
//!
//! A reader that holds a view finds everything that was written before it took the view. The active
//! generation goes on growing meanwhile, and a merge changes no result of an open snapshot.

use super::generation::Generation;
use super::shape::{Group, Shape, Stretch};
use crate::log::shared::SharedLog;
use crate::run::run::Run;
use crate::run::stack::RunStack;
use crate::run::stack::StackSizes;
use crate::sync::Arc;
use crate::types::order::KeyOrder;

/// A generation of this layout: several writers append to its log.
pub type LogGeneration = Generation<SharedLog>;

pub struct View<S> {
    /// The generation that writes enter; `None` until the first write after an opening.
    pub active: Option<Arc<LogGeneration>>,
    /// Level 0, newest first: the logs of the active generation, of sealed ones and of earlier
    /// openings, and the tables of those that were flushed.
    pub level0: Vec<Run>,
    pub shape: Arc<S>,
}

impl<S> Clone for View<S> {
    fn clone(&self) -> Self {
        Self { active: self.active.clone(), level0: self.level0.clone(), shape: self.shape.clone() }
    }
}

impl<S: Shape> View<S> {
    /// The runs that may hold `key`, newest first.
    pub fn runs_at<'a>(&'a self, order: &'a KeyOrder, key: &'a [u8]) -> impl Iterator<Item = &'a Run> {
        self.level0.iter().chain(self.shape.runs_at(order, key))
    }

    /// The tables of a stretch with the files of level 0 above them, each limited to the stretch: a table of a
    /// group that is wider has keys that other tables hide only in their own stretch.
    pub fn stack_of(&self, order: &KeyOrder, stretch: &Stretch) -> RunStack {
        let whole = Arc::new(stretch.span.clone());
        let level0 = self.level0.iter().map(|run| Run { span: whole.clone(), ..run.clone() });
        let within = |run: &Run| {
            let span = run.span.intersect(order, &stretch.span)?;
            Some(Run { span: if span == *whole { whole.clone() } else { span.into() }, ..run.clone() })
        };
        RunStack { files: level0.chain(stretch.runs.iter().filter_map(within)).collect() }
    }

    /// All tables of groups, and the logs in their groups.
    pub fn tables(&self) -> impl Iterator<Item = &Run> {
        self.shape.groups().flat_map(|group: Group<'_>| group.runs)
    }

    /// Bytes of level 0.
    pub fn level0_bytes(&self) -> u64 {
        self.level0.iter().map(Run::bytes).sum()
    }

    /// Sizes of the files of all runs.
    pub fn sizes(&self) -> StackSizes {
        let files = self.level0.iter().chain(self.tables()).cloned().collect();
        RunStack { files }.sizes()
    }
}
