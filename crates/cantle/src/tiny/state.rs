//! The layout's state in the manifest: its logs, and the number of operations at a checkpoint.

use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::format::header::FileKind;
use crate::manifest::{Area, AreaFile, LayoutState};
use crate::types::order::KeyOrder;
use crate::types::span::Span;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    /// Writes go to a new log from now on.
    Log { file: u64, epoch: u64 },
    /// With a checkpoint: minimum number of operations in the logs.
    Counted { operations: u64 },
}

const LOG: u8 = 1;
const COUNTED: u8 = 2;

impl Edit {
    pub fn encode(&self) -> Vec<u8> {
        let (tag, numbers) = match *self {
            Self::Log { file, epoch } => (LOG, vec![file, epoch]),
            Self::Counted { operations } => (COUNTED, vec![operations]),
        };
        let mut out = vec![tag];
        numbers.into_iter().for_each(|number| put_varint(&mut out, number));
        out
    }

    pub fn decode(payload: &[u8]) -> Result<Self, Malformed> {
        let mut decoder = Decoder::new(payload);
        let edit = match decoder.u8()? {
            LOG => Self::Log { file: decoder.number()?, epoch: decoder.number()? },
            COUNTED => Self::Counted { operations: decoder.number()? },
            _ => return Err(Malformed("is of an unknown kind")),
        };
        decoder.finish()?;
        Ok(edit)
    }
}

#[derive(Debug, Default)]
pub struct State {
    /// File numbers and epochs, oldest first.
    pub logs: Vec<(u64, u64)>,
    pub operations: u64,
}

impl LayoutState for State {
    fn apply(&mut self, payload: &[u8]) -> Result<(), Malformed> {
        match Edit::decode(payload)? {
            Edit::Log { file, epoch } => self.logs.push((file, epoch)),
            Edit::Counted { operations } => self.operations = operations,
        }
        Ok(())
    }

    /// Does nothing: keys are dropped only by operations in logs, and recovery decides on each of
    /// these.
    fn resolve(&mut self, _dead: &dyn Fn(u64, u64) -> bool) {}

    fn dump(&self, emit: &mut dyn FnMut(Vec<u8>)) {
        self.logs.iter().for_each(|&(file, epoch)| emit(Edit::Log { file, epoch }.encode()));
        emit(Edit::Counted { operations: self.operations }.encode());
    }

    fn files(&self, visit: &mut dyn FnMut(FileKind, u64, u64)) {
        self.logs.iter().for_each(|&(file, epoch)| visit(FileKind::Log, file, epoch));
    }

    fn areas(&self, _order: &KeyOrder) -> Result<Vec<Area>, Malformed> {
        let span = Span { start: None, end: None };
        let file =
            |&(file, epoch): &(u64, u64)| AreaFile { kind: FileKind::Log, file, epoch, span: span.clone() };
        Ok(vec![Area { files: self.logs.iter().rev().map(file).collect(), span: span.clone() }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_lead_to_the_state_that_they_are_dumped_from() {
        let mut state = State::default();
        for edit in [
            Edit::Log { file: 3, epoch: 1 },
            Edit::Log { file: 9, epoch: 2 },
            Edit::Counted { operations: 7 },
        ] {
            assert_eq!(Edit::decode(&edit.encode()), Ok(edit.clone()));
            state.apply(&edit.encode()).unwrap();
        }
        let mut again = State::default();
        state.dump(&mut |payload| again.apply(&payload).unwrap());
        assert_eq!((&again.logs, again.operations), (&vec![(3, 1), (9, 2)], 7));
        for wrong in [&[][..], &[0], &[3, 1], &[1, 1], &[2, 1, 1]] {
            assert!(state.apply(wrong).is_err(), "{wrong:?}");
        }
    }
}
