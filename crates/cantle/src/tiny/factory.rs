//! The layout's entry in the list of layouts.

use super::keyspace::Keyspace;
use super::state::State;
use crate::layout::Layout;
use crate::layout::factory::{LayoutFactory, OpenKeyspace};
use crate::layout::kind::LayoutKind;
use crate::manifest::LayoutState;
use crate::sync::Arc;
use crate::types::error::{Error, Result};
use std::any::Any;

pub struct Tiny;

impl LayoutFactory for Tiny {
    fn kind(&self) -> LayoutKind {
        LayoutKind::Tiny
    }

    fn state(&self) -> Box<dyn LayoutState> {
        Box::<State>::default()
    }

    fn first_edits(&self) -> Vec<Vec<u8>> {
        Vec::new()
    }

    fn open(&self, mut keyspace: OpenKeyspace<'_>) -> Result<Arc<dyn Layout>> {
        let state = std::mem::replace(&mut keyspace.state, self.state());
        match (state as Box<dyn Any>).downcast::<State>() {
            Ok(state) => Ok(Keyspace::open(keyspace, *state)),
            Err(_) => {
                let what = format!("keyspace {} is in another layout", keyspace.id);
                Err(Error::corruption(keyspace.substrate.manifest.path(), 0, what))
            }
        }
    }
}
