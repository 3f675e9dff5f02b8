//! The bytes of the file `WRITE-BUFFER` (`docs/format/write-buffer.md`).

/// Length of the file's head, in bytes.
pub const HEAD_BYTES: u64 = 4096;
/// Length of a slot's head, in bytes.
pub const SLOT_HEAD_BYTES: usize = 16;
/// Offsets in a log must be below this to be buffered: 40 bits.
pub const BASE_MAX: u64 = 1 << 40;
const MAGIC: [u8; 8] = *b"CANTLEWB";
/// Maximum length of a slot that is read, in bytes: more than was ever written.
const SLOT_BYTES_MAX: u32 = 1 << 16;
const SLOTS_MAX: u32 = 1 << 16;
const FIELDS_BYTES: usize = 40;

/// The head of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    pub store: u128,
    pub epoch: u64,
    pub slot_bytes: u32,
    pub slots: u32,
}

impl Head {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES as usize);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.store.to_le_bytes());
        out.extend_from_slice(&self.epoch.to_le_bytes());
        out.extend_from_slice(&self.slot_bytes.to_le_bytes());
        out.extend_from_slice(&self.slots.to_le_bytes());
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out.resize(HEAD_BYTES as usize, 0);
        out
    }

    /// `None` if Cantle cannot have written this head.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (fields, rest) = bytes.split_at_checked(FIELDS_BYTES)?;
        let (crc, _) = rest.split_first_chunk::<4>()?;
        if *crc != crc32c::crc32c(fields).to_le_bytes() {
            return None;
        }
        let fields = fields.strip_prefix(&MAGIC)?;
        let (store, fields) = fields.split_first_chunk::<16>()?;
        let (epoch, fields) = fields.split_first_chunk::<8>()?;
        let (slot_bytes, slots) = fields.split_first_chunk::<4>()?;
        let head = Self {
            store: u128::from_le_bytes(*store),
            epoch: u64::from_le_bytes(*epoch),
            slot_bytes: u32::from_le_bytes(*slot_bytes),
            slots: u32::from_le_bytes(slots.try_into().ok()?),
        };
        let sound = (SLOT_HEAD_BYTES as u32..=SLOT_BYTES_MAX).contains(&head.slot_bytes);
        (sound && head.slots <= SLOTS_MAX).then_some(head)
    }
}

/// The content of a slot: `len` bytes that belong at `base` of the log.
///
/// As a word: the length in bits 0 to 15, the check in bits 16 to 23, the base in bits 24 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    pub base: u64,
    pub len: usize,
}

impl State {
    /// The word 0, which stands for no bytes, if the base is too large.
    pub fn encode(self, file: u64) -> u64 {
        if self.base >= BASE_MAX {
            return 0;
        }
        let word = self.base << 24 | self.len as u64;
        word | u64::from(check(file, word)) << 16
    }

    /// `None` if the check is wrong.
    pub fn decode(word: u64, file: u64) -> Option<Self> {
        let fields = word & !(0xff << 16);
        (u64::from(check(file, fields)) == word >> 16 & 0xff)
            .then_some(Self { base: word >> 24, len: (word & 0xffff) as usize })
    }
}

/// The exclusive or of all bytes, which any flipped bit changes. The word 0 for file 0 is never
/// written.
fn check(file: u64, fields: u64) -> u8 {
    (file ^ fields).to_le_bytes().into_iter().fold(0, |check, byte| check ^ byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::documented::{STORE, assert_documented};

    #[test]
    fn the_documented_write_buffer_is_what_is_written() {
        let page = include_str!("../../../../docs/format/write-buffer.md");
        let head = Head { store: STORE, epoch: 2, slot_bytes: 16 << 10, slots: 1024 };
        assert_documented(page, &head.encode()[..48], 0);
        assert_eq!(Head::decode(&head.encode()), Some(head));
        let record = [
            0xf2, 0xc8, 0x2a, 0x4b, 0x1c, 0x80, 0xad, 0x02, 0x07, 0x03, 0xcf, 0xea, 0xd4, 0x05, 0x61, 0x70,
            0x70, 0x2f, 0x31,
        ];
        assert_documented(include_str!("../../../../docs/format/log.md"), &record[3..], 0x130);
        let state = State { base: 0x12d, len: record.len() }.encode(8);
        let mut slot = [8u64.to_le_bytes(), state.to_le_bytes()].concat();
        slot.extend_from_slice(&record);
        assert_documented(page, &slot, HEAD_BYTES as usize);
    }

    #[test]
    fn any_flipped_bit_is_noticed() {
        let head = Head { store: 7, epoch: 2, slot_bytes: 16 << 10, slots: 4 }.encode();
        for bit in 0..(FIELDS_BYTES + 4) * 8 {
            let mut damaged = head.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&damaged), None, "bit {bit}");
        }
        let state = State { base: BASE_MAX - 1, len: 0x3ff0 };
        let word = state.encode(9);
        assert_eq!(State::decode(word, 9), Some(state));
        for bit in 0..64 {
            assert_eq!(State::decode(word ^ 1 << bit, 9), None, "bit {bit}");
            assert_eq!(State::decode(word, 9 ^ 1 << bit), None, "bit {bit} of the file");
        }
        assert_eq!(State { base: BASE_MAX, len: 1 }.encode(9), 0);
    }
}
