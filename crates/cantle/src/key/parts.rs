//! Reading a composite key, part by part.

use super::big_int::{BigInt, MAGNITUDE_BYTES_MAX};
use super::code::{self, NESTING_MAX, SHORT_BYTES_MAX};
use super::error::PartError;
use super::part::Part;
use super::value::FromKey;
use crate::types::error::{Error, Result};

/// The parts of a composite key.
///
/// The parts encode to the same bytes again: an encoding that [`Builder`](super::Builder) does not
/// write (an integer with leading zeros, for example) is refused. A key therefore has one reading.
///
/// # Errors
///
/// [`Error::InvalidArgument`] if `key` is not a sequence of the types of [`Part`], is otherwise not
/// what the builder writes, or nests deeper than 32 levels.
pub fn parse(key: &[u8]) -> Result<Vec<Part>> {
    let mut rest = key;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        parts.push(read(&mut rest, 0).map_err(|message| refused(key, &message))?);
    }
    Ok(parts)
}

fn refused(key: &[u8], message: &str) -> Error {
    Error::InvalidArgument(format!("{} is not a composite key: {message}", shown(key)))
}

/// A key as messages show it: its first bytes.
pub(super) fn shown(key: &[u8]) -> String {
    const SHOWN_MAX: usize = 32;
    let rest = if key.len() > SHOWN_MAX { "…" } else { "" };
    format!("b\"{}{rest}\"", key.get(..SHOWN_MAX).unwrap_or(key).escape_ascii())
}

/// A key for people: `("UA", 1545)`, or its first bytes if it is no composite key.
pub fn describe(key: &[u8]) -> String {
    parse(key).map_or_else(|_| shown(key), |parts| super::part::listed(&parts))
}

/// The parts of a key, or of a nested sequence, which [`FromKey`] reads one by one.
#[derive(Debug)]
pub struct Parts<'a> {
    source: Source<'a>,
    /// Number of parts that were read.
    count: usize,
}

#[derive(Debug)]
enum Source<'a> {
    Key(&'a [u8]),
    Nested(std::vec::IntoIter<Part>),
}

impl<'a> Parts<'a> {
    pub(super) fn of_key(key: &'a [u8]) -> Self {
        Self { source: Source::Key(key), count: 0 }
    }

    pub(super) fn of_nested(parts: Vec<Part>) -> Self {
        Self { source: Source::Nested(parts.into_iter()), count: 0 }
    }

    /// Reads the next part, if there is one.
    ///
    /// # Errors
    ///
    /// The bytes are not a composite key.
    pub fn next_part(&mut self) -> Result<Option<Part>, PartError> {
        let part = match &mut self.source {
            Source::Key([]) => None,
            Source::Key(rest) => Some(read(rest, 0).map_err(|message| {
                PartError::new(format!("it is not a composite key: {message}")).at(self.count)
            })?),
            Source::Nested(parts) => parts.next(),
        };
        self.count += usize::from(part.is_some());
        Ok(part)
    }

    /// Reads a value from the next part.
    ///
    /// # Errors
    ///
    /// There is no further part, or it is not of this type.
    pub fn read<T: FromKey>(&mut self) -> Result<T, PartError> {
        let index = self.count;
        let part = self.next_part()?.ok_or_else(|| {
            PartError::new(format!("it ends after {index} parts, and {} is to follow", T::type_name()))
        })?;
        T::from_part(part).map_err(|error| error.at(index))
    }

    pub(super) fn is_at_end(&self) -> bool {
        match &self.source {
            Source::Key(rest) => rest.is_empty(),
            Source::Nested(parts) => parts.len() == 0,
        }
    }

    /// Fails if there are more parts.
    pub(super) fn finish(&self) -> Result<(), PartError> {
        if self.is_at_end() {
            return Ok(());
        }
        Err(PartError::new(format!("it goes on after {} parts", self.count)))
    }
}

const CUT_SHORT: &str = "it is cut short";

/// Reads one part, which is there, from the front of `rest`.
fn read(rest: &mut &[u8], depth: usize) -> Result<Part, String> {
    Ok(match take::<1>(rest)?[0] {
        // Within a sequence the caller has checked that this is a null and not the end.
        code::NULL if depth == 0 => Part::Null,
        code::NULL => {
            take::<1>(rest)?;
            Part::Null
        }
        code::BYTES => Part::Bytes(terminated(rest)?),
        code::TEXT => {
            Part::Text(String::from_utf8(terminated(rest)?).map_err(|_| "it holds a text that is not UTF-8")?)
        }
        code::NESTED => {
            if depth == NESTING_MAX {
                return Err(format!("it is nested deeper than {NESTING_MAX} levels"));
            }
            let mut parts = Vec::new();
            loop {
                match rest {
                    [code::NULL, code::ESCAPE, ..] => {}
                    [code::NULL, after @ ..] => {
                        *rest = after;
                        break;
                    }
                    _ => {}
                }
                parts.push(read(rest, depth + 1)?);
            }
            Part::Nested(parts)
        }
        code::ZERO => Part::Int(0),
        code @ 0x0c..=0x1c => {
            let len = usize::from(code.abs_diff(code::ZERO));
            integer(rest, code < code::ZERO, len)?
        }
        code @ (code::POSITIVE_LONG | code::NEGATIVE_LONG) => {
            let is_negative = code == code::NEGATIVE_LONG;
            let [len] = take(rest)?;
            let len = usize::from(if is_negative { !len } else { len });
            if len <= SHORT_BYTES_MAX {
                return Err(NOT_SHORTEST.into());
            }
            integer(rest, is_negative, len)?
        }
        code::FLOAT32 => {
            let bits = u32::from_be_bytes(take(rest)?);
            // The first bit is the number's sign, turned: see `Builder::float`.
            Part::Float32(f32::from_bits(if bits >> 31 == 1 { bits ^ 1 << 31 } else { !bits }))
        }
        code::FLOAT => {
            let bits = u64::from_be_bytes(take(rest)?);
            Part::Float(f64::from_bits(if bits >> 63 == 1 { bits ^ 1 << 63 } else { !bits }))
        }
        code::FALSE => Part::Bool(false),
        code::TRUE => Part::Bool(true),
        code::UUID => Part::Uuid(take(rest)?),
        code::VERSIONSTAMP => Part::Versionstamp(take(rest)?),
        code => return Err(format!("it holds a part of type code 0x{code:02x}, which is not supported")),
    })
}

const NOT_SHORTEST: &str = "its encoding is not the shortest one: an integer has leading zeros";

fn integer(rest: &mut &[u8], is_negative: bool, len: usize) -> Result<Part, String> {
    let (bytes, after) = rest.split_at_checked(len).ok_or(CUT_SHORT)?;
    *rest = after;
    let turned = if is_negative { u8::MAX } else { 0 };
    if bytes.first().is_none_or(|first| first ^ turned == 0) {
        return Err(NOT_SHORTEST.into());
    }
    let mut magnitude = [0; MAGNITUDE_BYTES_MAX];
    let magnitude = magnitude.get_mut(..len).ok_or(CUT_SHORT)?;
    for (to, from) in magnitude.iter_mut().zip(bytes) {
        *to = from ^ turned;
    }
    if len <= SHORT_BYTES_MAX {
        let absolute = magnitude.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let int = if is_negative { 0i64.checked_sub_unsigned(absolute) } else { absolute.try_into().ok() };
        if let Some(int) = int {
            return Ok(Part::Int(int));
        }
    }
    // As many bytes as fit into a length of one byte.
    BigInt::from_magnitude(is_negative, magnitude).map(Part::BigInt).ok_or_else(|| CUT_SHORT.into())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], String> {
    let (bytes, after) = rest.split_first_chunk().ok_or(CUT_SHORT)?;
    *rest = after;
    Ok(*bytes)
}

/// The bytes up to the zero that ends them.
fn terminated(rest: &mut &[u8]) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    loop {
        let end = rest.iter().position(|&byte| byte == 0).ok_or(CUT_SHORT)?;
        let (run, after) = rest.split_at(end);
        bytes.extend_from_slice(run);
        match after {
            [0, code::ESCAPE, after @ ..] => {
                bytes.push(0);
                *rest = after;
            }
            [_, after @ ..] => {
                *rest = after;
                return Ok(bytes);
            }
            [] => return Err(CUT_SHORT.into()),
        }
    }
}
