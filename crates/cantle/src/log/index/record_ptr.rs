//! Places of records.

/// Where a record stands in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordPtr {
    pub offset: u64,
    pub len: u32,
}
