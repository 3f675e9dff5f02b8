//! Numbers and byte strings in files: little-endian fixed widths and LEB128 varints, read with bounds.

/// Bytes did not decode. The caller, which knows the file and the offset, turns this into an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Greatest number that a file may contain: 2^62 versions are 2^30 openings, and other numbers stay
/// far below.
pub const NUMBER_MAX: u64 = 1 << 62;
/// Greatest size in bytes that a file may contain: 16 TiB, the longest file of ext4.
pub const SIZE_MAX: u64 = 1 << 44;

/// The number, if it is at most `max`.
pub fn within(value: u64, max: u64) -> Result<u64, Malformed> {
    if value <= max { Ok(value) } else { Err(Malformed("has a number that is too great")) }
}

/// Appends a varint: seven bits a byte, lowest first, at most ten bytes.
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes that `put_varint` appends.
pub const fn varint_bytes(mut value: u64) -> usize {
    let mut bytes = 1;
    while value >= 0x80 {
        value >>= 7;
        bytes += 1;
    }
    bytes
}

/// Appends a length and the bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads a byte string from its start; every read checks its bounds.
#[derive(Debug, Clone, Copy)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// The bytes that have not been read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (head, tail) = self.bytes.split_at_checked(len).ok_or(Malformed("ends too early"))?;
        self.bytes = tail;
        Ok(head)
    }

    /// The next `N` bytes as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(Malformed("ends too early"))?;
        self.bytes = tail;
        Ok(*head)
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// Four bytes, little endian.
    pub fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little endian.
    pub fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A varint. Fails if it does not fit in 64 bits.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for (index, &byte) in self.bytes.iter().enumerate().take(10) {
            if index == 9 && byte > 1 {
                return Err(Malformed("a number exceeds 64 bits"));
            }
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                self.bytes = &self.bytes[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed("a number ends too early"))
    }

    /// A varint that numbers something: a version, an epoch, a file, a batch. Sums with it do not overflow.
    pub fn number(&mut self) -> Result<u64, Malformed> {
        self.varint().and_then(|value| within(value, NUMBER_MAX))
    }

    /// A varint that is a length within a file, a sum of such lengths, or a count of items in a
    /// file.
    pub fn size(&mut self) -> Result<u64, Malformed> {
        self.varint().and_then(|value| within(value, SIZE_MAX))
    }

    /// A varint that fits in `usize`.
    pub fn length(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.varint()?).map_err(|_| Malformed("a length exceeds the address space"))
    }

    /// A length and as many bytes.
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = self.length()?;
        self.take(len)
    }

    /// Fails if bytes are left.
    pub fn finish(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed("has trailing bytes")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_and_reject_overflow() {
        for value in [0, 1, 127, 128, 16_383, 16_384, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, value);
            let mut decoder = Decoder::new(&bytes);
            assert_eq!(decoder.varint(), Ok(value));
            assert!(decoder.rest().is_empty());
            assert!(Decoder::new(&bytes[..bytes.len() - 1]).varint().is_err());
        }
        assert!(Decoder::new(&[0xff; 10]).varint().is_err());
        assert!(Decoder::new(&[0xff; 11]).varint().is_err());
    }
}
