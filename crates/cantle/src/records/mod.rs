//! Framed, checksummed records: what log segments, the manifest and the journal are made of.
//!
//! ```text
//!   FileHeader (64 bytes) │ record │ record │ …
//!
//!   record:  crc32c (4) │ length, divided (varint) │ [head length (varint) │ crc32c of the body (4)] │ head │ [body]
//! ```
//!
//! A payload that is long behind its *head*, which tells whose it is, is divided. The first checksum covers the file's identity
//! and the record's offset (`FileHeader::salt`), the rest of the frame and the head, so that an intact record in the wrong
//! place is recognised, a few kilobytes tell whether a record begins somewhere, and damage in a long value harms that value
//! alone. A payload that is not divided is all head.

mod file;
mod frame;
mod salvage;
mod scan;
mod search;
#[cfg(test)]
mod tests;

pub use file::{RecordFile, record_payload};
pub use frame::{HEAD_BYTES_MAX, encode_record, record_bytes, record_bytes_max};
pub use salvage::{Salvage, Salvaged};
pub use search::valid_extent;
