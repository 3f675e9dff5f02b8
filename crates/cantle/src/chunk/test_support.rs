//! Tests of this folder open a whole store, and read its chunks.

use super::Chunks;
use super::settings::Settings;
use crate::layout::Layout;
use crate::sync::Arc;
use crate::{Db, Keyspace};
use std::any::Any;

fn downcast(layout: &Arc<dyn Layout>) -> Arc<Chunks> {
    let layout: Arc<dyn Any + Send + Sync> = layout.clone();
    layout.downcast().unwrap()
}

/// The chunks of the default keyspace.
pub fn chunks_of(db: &Db) -> Arc<Chunks> {
    downcast(&db.own().layout)
}

pub fn chunks_in(keyspace: &Keyspace) -> Arc<Chunks> {
    downcast(&keyspace.inner.layout)
}

/// Changes settings of an open keyspace, including those without an option.
pub fn adjust(chunks: &Chunks, change: impl FnOnce(&mut Settings)) {
    let mut settings = Settings::clone(&chunks.context.options());
    change(&mut settings);
    chunks.context.set_options(settings);
}
