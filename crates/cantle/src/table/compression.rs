//! Compression of single blocks.
//!
//! A compressed payload is the length before compression as a varint, then the LZ4 block or Zstd
//! frame. The length is checked against the maximum that the compressed bytes can expand to, before
//! memory is allocated for it.

use super::BLOCK_BYTES_MAX;
use crate::format::codec::{Decoder, Malformed, put_varint};
use crate::types::compression::Compression;
use crate::types::error::{Error, Result};
use bytes::Bytes;

/// Tag of a block that is stored uncompressed. The numbers are on disk.
pub(super) const RAW: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// Maximum expansion of LZ4: one byte extends a match by at most 255 bytes.
const LZ4_RATIO_MAX: usize = 255;
/// Maximum expansion of Zstd, which stores a run of up to 128 KiB in four bytes.
const ZSTD_RATIO_MAX: usize = (128 << 10) / 4;
/// Maximum of scratch memory in bytes that is kept after a block; more is freed.
const SCRATCH_KEPT_BYTES: usize = 1 << 20;

/// The reason why a payload does not decompress.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DecompressError {
    /// The bytes are wrong.
    Malformed(Malformed),
    /// This build lacks the method.
    #[cfg(not(feature = "zstd"))]
    Missing(&'static str),
}

impl From<Malformed> for DecompressError {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Compresses one block after another.
pub(super) struct Compressor {
    method: Method,
    scratch: Vec<u8>,
}

enum Method {
    None,
    Lz4,
    #[cfg(feature = "zstd")]
    Zstd(zstd::bulk::Compressor<'static>),
}

impl Compressor {
    /// Fails with `InvalidArgument` if the method is not built in or its level does not exist.
    pub(super) fn new(compression: Compression) -> Result<Self> {
        let method = match compression {
            Compression::None => Method::None,
            Compression::Lz4 => Method::Lz4,
            Compression::Zstd(level) if !(1..=22).contains(&level) => {
                return Err(Error::InvalidArgument(format!("Zstd level {level} is not within 1 to 22")));
            }
            #[cfg(feature = "zstd")]
            Compression::Zstd(level) => {
                let compressor = zstd::bulk::Compressor::new(level)
                    .map_err(|error| Error::InvalidArgument(format!("cannot compress with Zstd: {error}")))?;
                Method::Zstd(compressor)
            }
            #[cfg(not(feature = "zstd"))]
            Compression::Zstd(_) => {
                return Err(Error::InvalidArgument("Zstd needs a build with the feature `zstd`".into()));
            }
        };
        Ok(Self { method, scratch: Vec::new() })
    }

    /// The compressed payload and its tag. `None` if the block does not shrink by an eighth at
    /// least: then reading it back would cost more than it saves.
    pub(super) fn compress(&mut self, raw: &[u8]) -> Option<(&[u8], u8)> {
        if matches!(self.method, Method::None) {
            return None;
        }
        if self.scratch.capacity() > SCRATCH_KEPT_BYTES {
            self.scratch = Vec::new();
        }
        self.scratch.clear();
        put_varint(&mut self.scratch, raw.len() as u64);
        let prefix_bytes = self.scratch.len();
        let (compressed_bytes, tag) = match &mut self.method {
            Method::None => return None,
            Method::Lz4 => {
                self.scratch.resize(prefix_bytes + lz4_flex::block::get_maximum_output_size(raw.len()), 0);
                let bytes = lz4_flex::block::compress_into(raw, &mut self.scratch[prefix_bytes..]).ok()?;
                (bytes, LZ4)
            }
            #[cfg(feature = "zstd")]
            Method::Zstd(compressor) => {
                self.scratch.resize(prefix_bytes + zstd::zstd_safe::compress_bound(raw.len()), 0);
                let bytes = compressor.compress_to_buffer(raw, &mut self.scratch[prefix_bytes..]).ok()?;
                (bytes, ZSTD)
            }
        };
        let payload = &self.scratch[..prefix_bytes + compressed_bytes];
        (payload.len() <= raw.len() - raw.len() / 8).then_some((payload, tag))
    }
}

/// Decompresses a payload with this tag, which must not be [`RAW`].
pub(super) fn decompress(tag: u8, payload: &[u8]) -> Result<Bytes, DecompressError> {
    let ratio_max = match tag {
        LZ4 => LZ4_RATIO_MAX,
        ZSTD => ZSTD_RATIO_MAX,
        _ => return Err(Malformed("a block is compressed by an unknown method").into()),
    };
    let mut decoder = Decoder::new(payload);
    let raw_bytes = decoder.length()?;
    let compressed = decoder.rest();
    if raw_bytes > BLOCK_BYTES_MAX || raw_bytes / ratio_max > compressed.len() {
        return Err(Malformed("a compressed block claims an impossible length").into());
    }
    let mut raw = vec![0; raw_bytes];
    let written = match tag {
        LZ4 => lz4_flex::block::decompress_into(compressed, &mut raw).ok(),
        _ => decompress_zstd(compressed, &mut raw)?,
    };
    if written == Some(raw_bytes) {
        Ok(Bytes::from(raw))
    } else {
        Err(Malformed("a block does not decompress").into())
    }
}

#[cfg(feature = "zstd")]
fn decompress_zstd(compressed: &[u8], raw: &mut [u8]) -> Result<Option<usize>, DecompressError> {
    use std::cell::RefCell;

    thread_local! {
        // A context is about 100 KiB and takes longer to set up than a block takes to decompress.
        static CONTEXT: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let decompressed = CONTEXT.with_borrow_mut(|context| {
        if context.is_none() {
            *context = zstd::bulk::Decompressor::new().ok();
        }
        context.as_mut()?.decompress_to_buffer(compressed, raw).ok()
    });
    Ok(decompressed)
}

#[cfg(not(feature = "zstd"))]
fn decompress_zstd(_: &[u8], _: &mut [u8]) -> Result<Option<usize>, DecompressError> {
    Err(DecompressError::Missing(
        "it is compressed with Zstd; read it with a build that has the feature `zstd`",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn methods() -> Vec<Compression> {
        let mut methods = vec![Compression::Lz4];
        if cfg!(feature = "zstd") {
            methods.extend([Compression::Zstd(1), Compression::Zstd(19)]);
        }
        methods
    }

    #[test]
    fn runs_of_a_byte_round_trip_within_the_ratio_bounds() {
        for method in methods() {
            let mut compressor = Compressor::new(method).unwrap();
            for raw_bytes in [100, 4096, 1 << 20, 16 << 20] {
                let raw = vec![b'x'; raw_bytes];
                let (payload, tag) = compressor.compress(&raw).unwrap();
                assert_eq!(decompress(tag, payload).unwrap(), raw, "{method:?}");
            }
        }
    }

    #[test]
    fn what_does_not_shrink_by_an_eighth_is_left_alone() {
        let noise: Vec<u8> = (0u32..4096).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for method in methods() {
            assert!(Compressor::new(method).unwrap().compress(&noise[..100]).is_none());
            assert!(Compressor::new(method).unwrap().compress(&[]).is_none());
        }
        assert!(Compressor::new(Compression::None).unwrap().compress(&[0; 1000]).is_none());
    }

    #[test]
    fn an_impossible_length_is_refused_before_it_is_allocated() {
        for tag in [LZ4, ZSTD] {
            for claim in [1 << 20, BLOCK_BYTES_MAX as u64 + 1, u64::MAX] {
                let mut payload = Vec::new();
                put_varint(&mut payload, claim);
                payload.extend_from_slice(&[0; 8]);
                let refused = Malformed("a compressed block claims an impossible length");
                assert_eq!(decompress(tag, &payload), Err(refused.into()));
            }
        }
        assert!(decompress(9, &[1, 2, 3]).is_err());
    }

    #[cfg(not(feature = "zstd"))]
    #[test]
    fn a_build_without_zstd_says_so() {
        assert!(matches!(decompress(ZSTD, &[1, 2, 3]), Err(DecompressError::Missing(_))));
        assert!(matches!(Compressor::new(Compression::Zstd(1)), Err(Error::InvalidArgument(_))));
    }

    #[test]
    fn levels_that_do_not_exist_are_refused() {
        for level in [i32::MIN, 0, 23] {
            assert!(matches!(Compressor::new(Compression::Zstd(level)), Err(Error::InvalidArgument(_))));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_decompress_or_fail(payload in proptest::collection::vec(any::<u8>(), 0..200), tag in 0u8..4) {
            if tag != RAW {
                let _ = decompress(tag, &payload);
            }
        }

        #[test]
        fn damage_is_an_error_or_gives_the_claimed_length(at in 0usize..60, flip in 1u8..) {
            for method in methods() {
                let raw = b"abcabcabdabcabcabdabcabcabdabc".repeat(20);
                let mut compressor = Compressor::new(method).unwrap();
                let (payload, tag) = compressor.compress(&raw).unwrap();
                let mut payload = payload.to_vec();
                let at = at % payload.len();
                payload[at] ^= flip;
                let _ = decompress(tag, &payload);
            }
        }
    }
}
