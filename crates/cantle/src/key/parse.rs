//! Reading a composite key back.

use super::builder::Builder;
use super::part::Part;
use crate::types::error::{Error, Result};
use foundationdb_tuple::{Element, TupleUnpack};

/// Nested sequences deeper than this are refused: the decoder recurses once for each level, and a key of
/// 1 MiB could ask for as many levels.
const NESTING_MAX: usize = 32;

/// The parts of a composite key.
///
/// What parses encodes to the same bytes again: an encoding that differs from what [`Builder`] writes (an
/// integer with leading zeros, for example) is refused, so that a key has one reading.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if `key` is not a sequence of the types of [`Part`], says otherwise what the
/// builder would not write, or nests deeper than 32 levels.
pub fn parse(key: &[u8]) -> Result<Vec<Part>> {
    let refused = |what: &str| {
        let shown = key.get(..32).unwrap_or(key).escape_ascii();
        let rest = if key.len() > 32 { "…" } else { "" };
        Error::InvalidArgument(format!("b\"{shown}{rest}\" is not a composite key: {what}"))
    };
    if !nesting_is_bounded(key) {
        return Err(refused("it is cut short, of an unknown type, or nested deeper than 32 levels"));
    }
    let elements = Vec::<Element<'_>>::unpack_root(key).map_err(|error| refused(&error.to_string()))?;
    let parts = elements
        .into_iter()
        .map(part_of)
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| refused("it holds a type that is not supported"))?;
    let again = parts.iter().fold(Builder::new(), |builder, part| builder.part(part)).finish();
    if again != key {
        return Err(refused("its encoding is not the shortest one"));
    }
    Ok(parts)
}

fn part_of(element: Element<'_>) -> Option<Part> {
    Some(match element {
        Element::Nil => Part::Null,
        Element::Bytes(bytes) => Part::Bytes(bytes.into_owned()),
        Element::String(text) => Part::Text(text.into_owned()),
        Element::Tuple(elements) => {
            Part::Nested(elements.into_iter().map(part_of).collect::<Option<Vec<_>>>()?)
        }
        Element::Int(int) => Part::Int(int),
        Element::Double(float) => Part::Float(float),
        Element::Bool(bool) => Part::Bool(bool),
        _ => return None,
    })
}

/// Walks over the parts without decoding them and says whether they end where the key does, nested at most
/// [`NESTING_MAX`] deep.
fn nesting_is_bounded(key: &[u8]) -> bool {
    let mut depth = 0usize;
    let mut rest = key;
    while let Some((&code, after)) = rest.split_first() {
        let skip = match code {
            // Within a sequence a zero ends it, unless escaped: then it is a null.
            0x00 if depth > 0 && after.first() == Some(&0xff) => 1,
            0x00 => {
                depth = depth.saturating_sub(1);
                0
            }
            0x01 | 0x02 => match end_of_bytes(after) {
                Some(end) => end,
                None => return false,
            },
            0x05 => {
                depth += 1;
                if depth > NESTING_MAX {
                    return false;
                }
                0
            }
            0x0c..=0x1c => usize::from(code.abs_diff(0x14)),
            0x21 => 8,
            0x26 | 0x27 => 0,
            _ => return false,
        };
        match after.get(skip..) {
            Some(next) => rest = next,
            None => return false,
        }
    }
    depth == 0
}

/// The length of an escaped byte string with its terminator.
fn end_of_bytes(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += bytes.get(at..)?.iter().position(|&byte| byte == 0)? + 1;
        if bytes.get(at) != Some(&0xff) {
            return Some(at);
        }
        at += 1;
    }
}
