//! Bounds of ranges, as stored in logs and the journal.

use super::codec::{Decoder, Malformed, put_bytes};
use crate::types::bounds::Bounds;
use std::ops::Bound;

/// Encodes bounds for the value field of a record, as its key field holds one key only.
pub(crate) fn encode_bounds(bounds: &Bounds) -> Vec<u8> {
    let mut out = Vec::new();
    for bound in [&bounds.start, &bounds.end] {
        match bound {
            Bound::Unbounded => out.push(0),
            Bound::Included(key) => {
                out.push(1);
                put_bytes(&mut out, key);
            }
            Bound::Excluded(key) => {
                out.push(2);
                put_bytes(&mut out, key);
            }
        }
    }
    out
}

pub(crate) fn decode_bounds(decoder: &mut Decoder<'_>) -> Result<Bounds, Malformed> {
    let mut bound = || {
        Ok(match decoder.u8()? {
            0 => Bound::Unbounded,
            1 => Bound::Included(decoder.bytes()?.to_vec()),
            2 => Bound::Excluded(decoder.bytes()?.to_vec()),
            _ => return Err(Malformed("has an unknown bound")),
        })
    };
    Ok(Bounds { start: bound()?, end: bound()? })
}
