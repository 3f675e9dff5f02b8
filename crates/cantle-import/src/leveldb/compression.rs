//! Blocks of tables unpacked, never to more than a block can have.

use super::coding::Decoder;

pub(crate) const NONE: u8 = 0;
pub(crate) const SNAPPY: u8 = 1;
pub(crate) const ZSTD: u8 = 2;

/// Snappy's shortest element that makes the most of it: three bytes for 64.
const SNAPPY_RATIO: u64 = 22;

/// A block ends with the entry that fills it: LevelDB's largest block size, and the largest pair
/// that a store of ours takes.
pub(crate) const UNPACKED_BYTES_MAX: u64 = (1 << 30) + (16 << 20);

/// The contents of `bytes`, which are compressed as `kind` says.
pub(crate) fn unpack(kind: u8, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    match kind {
        NONE => Ok(bytes),
        SNAPPY => unsnap(&bytes),
        ZSTD => unzstd(&bytes),
        other => Err(format!("a block is compressed by method {other}, which LevelDB does not have")),
    }
}

fn unsnap(bytes: &[u8]) -> Result<Vec<u8>, String> {
    // Memory is taken only for what the bytes can hold.
    let promised = Decoder::new(bytes).varint32().map_or(0, u64::from);
    if promised > bytes.len() as u64 * SNAPPY_RATIO || promised > UNPACKED_BYTES_MAX {
        return Err(format!("a Snappy block of {} bytes promises {promised}", bytes.len()));
    }
    snap::raw::Decoder::new()
        .decompress_vec(bytes)
        .map_err(|error| format!("a Snappy block cannot be unpacked: {error}"))
}

#[cfg(feature = "zstd")]
fn unzstd(bytes: &[u8]) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut unpacked = Vec::new();
    zstd::stream::read::Decoder::new(bytes)
        .and_then(|decoder| decoder.take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut unpacked))
        .map_err(|error| format!("a Zstandard block cannot be unpacked: {error}"))?;
    if unpacked.len() as u64 > UNPACKED_BYTES_MAX {
        return Err(format!("a Zstandard block of {} bytes has more than 1 GiB", bytes.len()));
    }
    Ok(unpacked)
}

#[cfg(not(feature = "zstd"))]
fn unzstd(_bytes: &[u8]) -> Result<Vec<u8>, String> {
    Err("a block is compressed with Zstandard, which this build cannot read: build it with the feature `zstd`".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_unpacked(bytes: Vec<u8>, repeated in 0..10_000usize) {
            let bytes = [bytes, vec![7; repeated]].concat();
            let packed = snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
            prop_assert_eq!(unpack(SNAPPY, packed).unwrap(), bytes.clone());
            #[cfg(feature = "zstd")]
            prop_assert_eq!(unpack(ZSTD, zstd::bulk::compress(&bytes, 1).unwrap()).unwrap(), bytes.clone());
            prop_assert_eq!(unpack(NONE, bytes.clone()).unwrap(), bytes);
        }

        #[test]
        fn any_bytes_are_unpacked_or_refused(kind in 0..4u8, bytes: Vec<u8>) {
            let _ = unpack(kind, bytes);
        }
    }

    #[test]
    fn a_block_that_promises_too_much_takes_no_memory() {
        let four_gigabytes = [0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0];
        assert!(unpack(SNAPPY, four_gigabytes.to_vec()).unwrap_err().contains("promises 4294967295"));
    }

    #[test]
    fn the_densest_snappy_block_is_unpacked() {
        let packed = snap::raw::Encoder::new().compress_vec(&vec![0; 60_000]).unwrap();
        assert!(packed.len() < 3000);
        assert_eq!(unpack(SNAPPY, packed).unwrap(), vec![0; 60_000]);
    }
}
