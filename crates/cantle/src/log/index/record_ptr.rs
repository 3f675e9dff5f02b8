//! Pointers to records.

/// The place and the length of a record in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPtr {
    pub offset: u64,
    pub len: u32,
}
