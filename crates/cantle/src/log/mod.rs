//! Framed, checksummed records: what log segments, the manifest and the journal are made of.
//!
//! ```text
//!   FileHeader (64 bytes) │ record │ record │ …
//!
//!   record:  crc32c (4) │ length (varint) │ payload
//! ```
//!
//! The checksum covers the file's identity and the record's offset (`FileHeader::salt`), the length and the
//! payload, so that an intact record in the wrong place is recognised.

mod record;
mod salvage;

pub use record::{RecordFile, encode_record, record_bytes_max, record_payload, valid_prefix};
pub use salvage::{Salvage, Salvaged};
