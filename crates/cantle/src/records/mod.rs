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

mod record;
mod salvage;

pub use record::{
    HEAD_BYTES_MAX, RecordFile, encode_record, record_bytes, record_bytes_max, record_payload, valid_extent,
};
pub use salvage::{Salvage, Salvaged};
