//! Integers that do not fit into 64 bits.

use super::code::SHORT_BYTES_MAX;
use std::cmp::Ordering;
use std::fmt;

/// The longest magnitude that a key can hold, in bytes: its length takes one byte.
pub(super) const MAGNITUDE_BYTES_MAX: usize = 255;

/// An integer of up to 255 bytes beside its sign. [`Part`](super::Part) has one where an integer
/// does not fit into an `i64`.
///
/// ```
/// use cantle::key::BigInt;
///
/// let big = BigInt::from(u64::MAX);
/// assert_eq!(big.to_string(), "18446744073709551615");
/// assert_eq!(i128::try_from(&big), Ok(18_446_744_073_709_551_615));
/// assert!(BigInt::from(i128::MIN) < big);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BigInt {
    is_negative: bool,
    /// Big endian, without leading zeros.
    magnitude: Vec<u8>,
}

impl BigInt {
    /// The integer of this sign and big-endian magnitude. `None` if the magnitude takes more than
    /// 255 bytes, leading zeros not counted.
    pub fn from_magnitude(is_negative: bool, magnitude: &[u8]) -> Option<Self> {
        let zeros = magnitude.iter().take_while(|&&byte| byte == 0).count();
        let magnitude = magnitude.get(zeros..)?;
        (magnitude.len() <= MAGNITUDE_BYTES_MAX).then(|| Self {
            is_negative: is_negative && !magnitude.is_empty(),
            magnitude: magnitude.to_vec(),
        })
    }

    /// Returns true for an integer less than zero.
    pub fn is_negative(&self) -> bool {
        self.is_negative
    }

    /// The absolute value, big endian, without leading zeros; empty for zero.
    pub fn magnitude(&self) -> &[u8] {
        &self.magnitude
    }

    /// The absolute value, if it has at most 128 bits.
    fn absolute(&self) -> Option<u128> {
        let mut bytes = [0; 16];
        let start = bytes.len().checked_sub(self.magnitude.len())?;
        bytes.get_mut(start..)?.copy_from_slice(&self.magnitude);
        Some(u128::from_be_bytes(bytes))
    }
}

/// The absolute value of an integer of any width, as its 16 big-endian bytes and where they begin
/// to count.
pub(super) fn significant(absolute: u128) -> ([u8; 16], usize) {
    (absolute.to_be_bytes(), absolute.leading_zeros() as usize / 8)
}

impl From<i128> for BigInt {
    fn from(int: i128) -> Self {
        let (bytes, start) = significant(int.unsigned_abs());
        Self { is_negative: int < 0, magnitude: bytes[start..].to_vec() }
    }
}
impl From<u128> for BigInt {
    fn from(int: u128) -> Self {
        let (bytes, start) = significant(int);
        Self { is_negative: false, magnitude: bytes[start..].to_vec() }
    }
}
impl From<i64> for BigInt {
    fn from(int: i64) -> Self {
        i128::from(int).into()
    }
}
impl From<u64> for BigInt {
    fn from(int: u64) -> Self {
        u128::from(int).into()
    }
}

/// An integer is too large, or too small, for the type that it was to be converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the integer is out of range")]
pub struct OutOfRange;

impl TryFrom<&BigInt> for i128 {
    type Error = OutOfRange;
    fn try_from(int: &BigInt) -> Result<Self, OutOfRange> {
        let absolute = int.absolute().ok_or(OutOfRange)?;
        if int.is_negative { 0i128.checked_sub_unsigned(absolute) } else { absolute.try_into().ok() }
            .ok_or(OutOfRange)
    }
}
impl TryFrom<&BigInt> for u128 {
    type Error = OutOfRange;
    fn try_from(int: &BigInt) -> Result<Self, OutOfRange> {
        int.absolute().filter(|_| !int.is_negative).ok_or(OutOfRange)
    }
}
impl TryFrom<&BigInt> for i64 {
    type Error = OutOfRange;
    fn try_from(int: &BigInt) -> Result<Self, OutOfRange> {
        if int.magnitude.len() > SHORT_BYTES_MAX {
            return Err(OutOfRange);
        }
        i128::try_from(int)?.try_into().map_err(|_| OutOfRange)
    }
}

impl Ord for BigInt {
    fn cmp(&self, other: &Self) -> Ordering {
        let absolute = |a: &Self, b: &Self| {
            a.magnitude.len().cmp(&b.magnitude.len()).then_with(|| a.magnitude.cmp(&b.magnitude))
        };
        match (self.is_negative, other.is_negative) {
            (false, false) => absolute(self, other),
            (true, true) => absolute(other, self),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}
impl PartialOrd for BigInt {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Decimal.
impl fmt::Display for BigInt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Digits of base 10^9, least significant first: each byte multiplies them by 256.
        const BASE: u64 = 1_000_000_000;
        let mut digits = vec![0u64];
        for byte in &self.magnitude {
            let mut carry = u64::from(*byte);
            for digit in &mut digits {
                let value = *digit * 256 + carry;
                *digit = value % BASE;
                carry = value / BASE;
            }
            if carry > 0 {
                digits.push(carry);
            }
        }
        let mut text = String::new();
        for (index, digit) in digits.iter().rev().enumerate() {
            text += &if index == 0 { format!("{digit}") } else { format!("{digit:09}") };
        }
        f.pad_integral(!self.is_negative, "", &text)
    }
}
