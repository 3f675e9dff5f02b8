//! The type codes of FoundationDB's tuple layer (`design/tuple.md` there), in their order, which is
//! the order of types in keys.

/// Nothing. Within a nested sequence it is followed by [`ESCAPE`], since a bare zero ends the
/// sequence.
pub(super) const NULL: u8 = 0x00;
/// A byte string: its bytes, each zero followed by [`ESCAPE`], then a zero.
pub(super) const BYTES: u8 = 0x01;
/// A text: the same with its UTF-8.
pub(super) const TEXT: u8 = 0x02;
/// A sequence: its parts, then a zero.
pub(super) const NESTED: u8 = 0x05;
/// A negative integer of 9 to 255 bytes: the complement of their number, then the complement of its
/// magnitude.
pub(super) const NEGATIVE_LONG: u8 = 0x0b;
/// The integer 0. Those of 1 to 8 bytes are this code plus the number of bytes, or minus it for
/// negative ones.
pub(super) const ZERO: u8 = 0x14;
/// An integer of 9 to 255 bytes: their number, then its magnitude, big endian.
pub(super) const POSITIVE_LONG: u8 = 0x1d;
/// A float of 32 bits.
pub(super) const FLOAT32: u8 = 0x20;
/// A float of 64 bits.
pub(super) const FLOAT: u8 = 0x21;
/// False.
pub(super) const FALSE: u8 = 0x26;
/// True.
pub(super) const TRUE: u8 = 0x27;
/// A UUID: 16 bytes.
pub(super) const UUID: u8 = 0x30;
/// A versionstamp of 96 bits: 12 bytes.
pub(super) const VERSIONSTAMP: u8 = 0x33;
/// Follows a zero byte that does not end its text, byte string or sequence. No part begins with it.
pub(super) const ESCAPE: u8 = 0xff;

/// Integers of up to this many bytes have their length in the code.
pub(super) const SHORT_BYTES_MAX: usize = 8;

/// Sequences nested deeper than this are not read: reading recurses once for each level, and a key
/// of 1 MiB could ask for as many levels.
pub(super) const NESTING_MAX: usize = 32;
