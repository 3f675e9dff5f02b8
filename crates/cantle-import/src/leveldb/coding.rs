//! Numbers and strings as LevelDB writes them; nothing is read behind the end.

/// The rest of some bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub fn left(&self) -> usize {
        self.rest.len()
    }

    pub fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first)
    }

    pub fn fixed32(&mut self) -> Option<u32> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*taken))
    }

    pub fn fixed64(&mut self) -> Option<u64> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*taken))
    }

    /// Seven bits a byte, the lowest first. A number that does not fit 64 bits is refused.
    pub fn varint64(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub fn varint32(&mut self) -> Option<u32> {
        u32::try_from(self.varint64()?).ok()
    }

    /// A length, and as many bytes.
    pub fn prefixed(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint32()?).ok()?;
        self.bytes(length)
    }
}

/// LevelDB's checksum of `bytes`: CRC-32C, turned so that a checksum of bytes that hold checksums
/// is no special case.
pub(crate) fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
        while number >= 0x80 {
            bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }

    pub(crate) fn put_prefixed(bytes: &mut Vec<u8>, string: &[u8]) {
        put_varint(bytes, string.len() as u64);
        bytes.extend_from_slice(string);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(number: u64, string: Vec<u8>, rest: Vec<u8>) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            put_prefixed(&mut bytes, &string);
            let whole = bytes.len();
            bytes.extend_from_slice(&rest);
            let mut decoder = Decoder::new(&bytes);
            prop_assert_eq!(decoder.varint64(), Some(number));
            prop_assert_eq!(decoder.prefixed(), Some(&string[..]));
            prop_assert_eq!(decoder.left(), rest.len());
            let mut short = Decoder::new(&bytes[..whole - 1]);
            prop_assert!(short.varint64().and_then(|_| short.prefixed()).is_none());
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            let mut decoder = Decoder::new(&bytes);
            while decoder.prefixed().is_some() || decoder.varint64().is_some() {}
        }
    }

    #[test]
    fn numbers_of_more_than_64_bits_are_refused() {
        let most = [[0xff; 9].as_slice(), &[1]].concat();
        assert_eq!(Decoder::new(&most).varint64(), Some(u64::MAX));
        assert_eq!(Decoder::new(&[[0xff; 9].as_slice(), &[2]].concat()).varint64(), None);
        assert_eq!(Decoder::new(&[[0x80; 10].as_slice(), &[0]].concat()).varint64(), None);
        assert_eq!(Decoder::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).varint32(), None);
    }

    #[test]
    fn checksums_are_leveldbs() {
        // The first example of its crc32c_test: the checksum of "foo" is not itself once masked,
        // and 32 zeros have 8a9136aa.
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(masked_crc(&[0; 32]), 0x8a91_36aa_u32.rotate_right(15).wrapping_add(0xa282_ead8));
    }
}
