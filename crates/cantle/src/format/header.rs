//! The 64 bytes at the start of every file.
//!
//! ```text
//!   0        7    8          12          16                  32           40       48            56       60    64
//!   ├────────┼────┼──────────┼───────────┼───────────────────┼────────────┼────────┼─────────────┼────────┼─────┤
//!   │"CANTLE\0"│kind│ version  │ keyspace  │ store id (random) │ file id    │ epoch  │ base version│ zero   │crc32c│
//! ```
//!
//! The store id and the file id identify the file, so that one in the place of another is
//! recognised; they also salt the checksum of every block and record after the header.

use super::codec::{Decoder, NUMBER_MAX};
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::VfsFile;
use std::io;
use std::path::Path;

/// Length of the header in bytes; the first block or record of a file starts here.
pub const HEADER_BYTES: u64 = 64;
/// The format version that this library writes, and the only one that it reads.
pub const FORMAT_VERSION: u32 = 3;

const MAGIC: [u8; 7] = *b"CANTLE\0";

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileKind {
    /// The edits that lead to the current set of files.
    Manifest = b'M',
    /// A log segment of a chunk.
    Log = b'L',
    /// A sorted table.
    Table = b'T',
    /// The journal of spanning batches and of `Sync` writes.
    Journal = b'J',
}

/// The identity of a file: its store, its number and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// The kind of the file.
    pub kind: FileKind,
    /// The keyspace it belongs to; 0 if it belongs to the whole store.
    pub keyspace: u32,
    /// Drawn at random when the store was created.
    pub store: u128,
    /// Unique in the store, never used twice.
    pub file: u64,
    /// The epoch in which the file was created.
    pub epoch: u64,
    /// Versions in the file are stored as differences from this one.
    pub base_version: u64,
}

impl FileHeader {
    /// The bytes on disk.
    pub fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut out = Vec::with_capacity(HEADER_BYTES as usize);
        out.extend_from_slice(&MAGIC);
        out.push(self.kind as u8);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.keyspace.to_le_bytes());
        out.extend_from_slice(&self.store.to_le_bytes());
        out.extend_from_slice(&self.file.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.base_version.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        let mut header = [0; HEADER_BYTES as usize];
        header.copy_from_slice(&out);
        header
    }

    /// Reads the header of `file` and checks that it is a `kind`, in a format version that this
    /// library reads.
    pub fn read(file: &dyn VfsFile, path: &Path, kind: FileKind) -> Result<Self> {
        let mut bytes = [0; HEADER_BYTES as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                Error::corruption(path, 0, "the file is shorter than its 64-byte header")
            }
            _ => Error::io(Attempt::Read, path, source),
        })?;
        Self::decode(&bytes, path, kind)
    }

    /// The header in these bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES as usize], path: &Path, kind: FileKind) -> Result<Self> {
        let (fields, crc) = bytes.split_at(60);
        if fields[..7] != MAGIC {
            return Err(Error::corruption(path, 0, "the magic number of a Cantle file is missing"));
        }
        let mut decoder = Decoder::new(&fields[7..]);
        let decoded = (|| {
            let kind = decoder.u8()?;
            let version = decoder.u32()?;
            let header = (
                decoder.u32()?,
                u128::from_le_bytes(decoder.array()?),
                decoder.u64()?,
                decoder.u64()?,
                decoder.u64()?,
            );
            Ok::<_, super::codec::Malformed>((kind, version, header))
        })();
        let Ok((found_kind, version, (keyspace, store, file_id, epoch, base_version))) = decoded else {
            return Err(Error::corruption(path, 0, "the header does not decode"));
        };
        let is_intact = crc == crc32c::crc32c(fields).to_le_bytes();
        canary!(HEADER_CHECKSUM_SKIPPED => let is_intact = true);
        if !is_intact {
            return Err(Error::corruption(path, 0, "the header's checksum does not match"));
        }
        if version != FORMAT_VERSION {
            return Err(Error::UnsupportedFormat {
                path: path.to_path_buf(),
                found: version,
                supported: FORMAT_VERSION,
            });
        }
        if [file_id, epoch, base_version].into_iter().any(|number| number > NUMBER_MAX) {
            return Err(Error::corruption(path, 0, "the header has a number that is too great"));
        }
        if found_kind != kind as u8 {
            return Err(Error::corruption(
                path,
                7,
                format!("a file of kind {:?} stands where {kind:?} belongs", found_kind as char),
            ));
        }
        Ok(Self { kind, keyspace, store, file: file_id, epoch, base_version })
    }

    /// The header that damaged bytes once were, if its checksum leaves no doubt: the known fields
    /// are restored, and at most one other byte is changed. `described` is the keyspace and epoch,
    /// if they are known.
    pub fn heal(
        damaged: &[u8; HEADER_BYTES as usize],
        kind: FileKind,
        (store, file): (u128, u64),
        described: Option<(u32, u64)>,
    ) -> Option<Self> {
        let (keyspace, epoch) = described.unwrap_or_default();
        let known = Self { kind, keyspace, store, file, epoch, base_version: 0 }.encode();
        let mut overlaid = *damaged;
        overlaid[..12].copy_from_slice(&known[..12]);
        overlaid[16..40].copy_from_slice(&known[16..40]);
        overlaid[56..60].fill(0);
        if described.is_some() {
            overlaid[12..16].copy_from_slice(&known[12..16]);
            overlaid[40..48].copy_from_slice(&known[40..48]);
        }
        let fits = |bytes: &[u8; HEADER_BYTES as usize]| {
            Self::decode(bytes, Path::new(""), kind)
                .ok()
                .filter(|header| (header.store, header.file) == (store, file))
        };
        let mut healed = None;
        for bytes in [*damaged, overlaid] {
            // First unchanged, then with each byte changed to each other value.
            for change in 0..bytes.len() * 256 {
                let mut changed = bytes;
                changed[change / 256] ^= (change % 256) as u8;
                match (fits(&changed), &healed) {
                    (Some(header), None) => healed = Some(header),
                    (Some(header), Some(other)) if header != *other => return None,
                    _ => {}
                }
            }
        }
        healed
    }

    /// The bytes mixed into the checksum of the block or record at `offset`, so that intact bytes
    /// in the wrong place are recognised.
    pub fn salt(&self, offset: u64) -> [u8; 16] {
        let mut salt = [0; 16];
        salt[..8].copy_from_slice(&(self.file ^ self.store as u64).to_le_bytes());
        salt[8..].copy_from_slice(&offset.to_le_bytes());
        salt
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: (u128, u64) = (0xfeed_beef << 64 | 77, 12);

    fn header() -> FileHeader {
        let (store, file) = KNOWN;
        FileHeader { kind: FileKind::Table, keyspace: 3, store, file, epoch: 9, base_version: 123_456 }
    }

    #[test]
    fn one_damaged_byte_and_everything_known_heals() {
        let bytes = header().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes;
            damaged[at] ^= 0x5a;
            assert_eq!(FileHeader::heal(&damaged, FileKind::Table, KNOWN, None), Some(header()), "byte {at}");
        }
        let mut damaged = bytes;
        damaged[..48].fill(0);
        assert_eq!(FileHeader::heal(&damaged, FileKind::Table, KNOWN, Some((3, 9))), Some(header()));
    }

    #[test]
    fn what_is_lost_is_not_made_up() {
        let mut damaged = header().encode();
        damaged[48..56].fill(0);
        assert_eq!(FileHeader::heal(&damaged, FileKind::Table, KNOWN, Some((3, 9))), None);
        assert_eq!(FileHeader::heal(&[0; 64], FileKind::Table, KNOWN, Some((3, 9))), None);
    }
}
