//! Framed, checksummed records: the content of log segments, the manifest and the journal.
//!
//! ```text
//!   FileHeader (64 bytes) │ record │ record │ …
//!
//!   record:  crc32c (4) │ length, divided (varint) │ [head length (varint) │ crc32c of the body (4)] │ head │ [body]
//! ```
//!
//! A payload that is long after its *head* is divided; the head identifies the payload (for
//! example, its key). The first checksum covers the file's identity and the record's offset
//! (`FileHeader::salt`), the rest of the frame, and the head. An intact record in the wrong place
//! is thus recognised; a few kilobytes suffice to decide if a record begins somewhere; and damage
//! in a long value harms that value alone. A payload that is not divided is all head.

mod file;
mod frame;
mod reference;
mod salvage;
mod scan;
mod search;
#[cfg(test)]
mod tests;

pub use file::{RecordFile, record_head, record_payload};
pub use frame::{HEAD_BYTES_MAX, encode_record, record_bytes, record_bytes_max};
pub use reference::{Reference, user_bytes};
pub use salvage::{Salvage, Salvaged};
pub use search::valid_extent;
