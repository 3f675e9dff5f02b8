//! Checksums as `docs/format` defines them, written a second time: code that finds the records of
//! changed files, and updates their checksums.

/// Offset of the first record or block of a file.
pub const HEADER_BYTES: usize = 64;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// The salt of checksums at an offset of a file with this header.
fn salt(header: &[u8], offset: u64) -> Option<[u8; 16]> {
    let store = u64::from_le_bytes(number(header, 16)?);
    let file = u64::from_le_bytes(number(header, 32)?);
    let mut salt = [0; 16];
    salt[..8].copy_from_slice(&(store ^ file).to_le_bytes());
    salt[8..].copy_from_slice(&offset.to_le_bytes());
    Some(salt)
}

/// A varint and its length.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
        if byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// A record, if it is within the file.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    pub start: usize,
    /// Offset of its payload. `head_end` is the end of the bytes that the first checksum covers.
    pub payload: usize,
    pub head_end: usize,
    pub end: usize,
    /// Offset of the checksum of its body, if it has one.
    body_crc: Option<usize>,
}

fn record(bytes: &[u8], start: usize) -> Option<Record> {
    let (len, taken) = varint(bytes.get(start + 4..)?)?;
    let mut at = start + 4 + taken;
    let payload_bytes = usize::try_from(len >> 1).ok()?;
    let (mut head, mut body_crc) = (payload_bytes, None);
    if len & 1 == 1 {
        let (head_bytes, taken) = varint(bytes.get(at..)?)?;
        at += taken;
        head = usize::try_from(head_bytes).ok()?.min(payload_bytes);
        body_crc = Some(at);
        at = at.checked_add(4)?;
    }
    let end = at.checked_add(payload_bytes)?;
    (len > 1 && end <= bytes.len()).then_some(Record {
        start,
        payload: at,
        head_end: at + head,
        end,
        body_crc,
    })
}

impl Record {
    fn body_checksum(&self, bytes: &[u8]) -> Option<u32> {
        self.body_crc.map(|_| crc32c::crc32c(&bytes[self.head_end..self.end]))
    }

    fn head_checksum(&self, bytes: &[u8]) -> Option<u32> {
        let salt = salt(bytes, self.start as u64)?;
        Some(crc32c::crc32c_append(crc32c::crc32c(&salt), &bytes[self.start + 4..self.head_end]))
    }

    fn is_intact(&self, bytes: &[u8]) -> bool {
        let body = self.body_crc.and_then(|at| number(bytes, at)).map(u32::from_le_bytes);
        self.body_checksum(bytes) == body
            && self.head_checksum(bytes).map(u32::to_le_bytes) == number(bytes, self.start)
    }

    fn seal(&self, bytes: &mut [u8]) {
        if let (Some(at), Some(crc)) = (self.body_crc, self.body_checksum(bytes)) {
            bytes[at..at + 4].copy_from_slice(&crc.to_le_bytes());
        }
        if let Some(crc) = self.head_checksum(bytes) {
            bytes[self.start..self.start + 4].copy_from_slice(&crc.to_le_bytes());
        }
    }
}

/// The records of a log, journal or manifest, up to the first that is not intact.
pub fn whole_records(bytes: &[u8]) -> Vec<Record> {
    let mut at = HEADER_BYTES;
    let next = || {
        let record = record(bytes, at).filter(|record| record.is_intact(bytes))?;
        at = record.end;
        Some(record)
    };
    std::iter::from_fn(next).collect()
}

/// The key of the operation in a log's record; `None` for other records and range deletes.
pub fn operation(payload: &[u8]) -> Option<&[u8]> {
    let (&tag, mut rest) = payload.split_first()?;
    if !matches!(tag & 0x0f, 0 | 1) {
        return None;
    }
    let number = |rest: &mut &[u8]| {
        let (number, taken) = varint(rest)?;
        *rest = &rest[taken..];
        Some(number)
    };
    // Version, batch, ordinal, digest.
    number(&mut rest)?;
    if tag & 0x80 != 0 {
        number(&mut rest)?;
    }
    number(&mut rest)?;
    rest = rest.get(3..)?;
    let len = usize::try_from(number(&mut rest)?).ok()?;
    rest.get(..len)
}

/// The offsets at which records begin and end.
pub fn records(bytes: &[u8]) -> Vec<usize> {
    std::iter::once(HEADER_BYTES).chain(whole_records(bytes).iter().map(|record| record.end)).collect()
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The payload with another number in place of the one at `at`.
pub fn with_number(payload: &[u8], at: usize, number: u64) -> Vec<u8> {
    let taken = varint(&payload[at..]).map_or(payload.len() - at, |(_, taken)| taken);
    let mut out = payload[..at].to_vec();
    put_varint(&mut out, number);
    out.extend_from_slice(&payload[at + taken..]);
    out
}

/// A file with this header, and records with these payloads, none of which needs a body.
pub fn file_of(header: &[u8], payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = header[..HEADER_BYTES].to_vec();
    for payload in payloads {
        bytes.extend_from_slice(&[0; 4]);
        put_varint(&mut bytes, (payload.len() as u64) << 1);
        bytes.extend_from_slice(payload);
    }
    seal_records(&mut bytes);
    bytes
}

/// Updates the checksum of the header.
pub fn seal_header(bytes: &mut [u8]) {
    if let Some((fields, rest)) = bytes.split_at_mut_checked(60)
        && let Some(crc) = rest.first_chunk_mut()
    {
        *crc = crc32c::crc32c(fields).to_le_bytes();
    }
}

/// Updates the checksum of every record, as far as lengths lead from one to the next.
pub fn seal_records(bytes: &mut [u8]) {
    seal_header(bytes);
    let mut at = HEADER_BYTES;
    while let Some(record) = record(bytes, at) {
        record.seal(bytes);
        at = record.end;
    }
}

/// Updates the checksum of one block, with its payload from `start` and its trailer up to `end`.
fn seal_block(bytes: &mut [u8], start: usize, end: usize) {
    if start < HEADER_BYTES || end > bytes.len() || start + 5 > end {
        return;
    }
    let Some(salt) = salt(bytes, start as u64) else { return };
    let crc = crc32c::crc32c_append(crc32c::crc32c(&salt), &bytes[start..end - 4]);
    bytes[end - 4..end].copy_from_slice(&crc.to_le_bytes());
}

/// Updates the checksums of a table's footer, and of the blocks that it and the index name.
/// `blocks` are those that the index named before anything was changed: the index may be
/// compressed, or not decode any more.
pub fn seal_table(bytes: &mut [u8], blocks: &[(usize, usize)]) {
    seal_header(bytes);
    let footer_bytes = footer_bytes(bytes);
    let Some(footer) = bytes.len().checked_sub(footer_bytes).filter(|&at| at >= HEADER_BYTES) else { return };
    if let Some(salt) = salt(bytes, footer as u64) {
        let end = bytes.len() - 4;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&salt), &bytes[footer..end]);
        bytes[end..].copy_from_slice(&crc.to_le_bytes());
    }
    for &(start, end) in blocks {
        seal_block(bytes, start, end);
    }
    let place = |bytes: &[u8], at: usize| {
        number(bytes, at).map(|n| u64::from_le_bytes(n).min(u64::from(u32::MAX)) as usize)
    };
    let offsets = (0..footer_bytes - 8).step_by(8);
    let starts: Vec<usize> =
        offsets.map(|at| place(bytes, footer + at).unwrap_or(0)).chain([footer]).collect();
    for ends in starts.windows(2) {
        seal_block(bytes, ends[0], ends[1]);
    }
}

/// The length of a table's footer, which is longer if the table has range deletes.
pub fn footer_bytes(bytes: &[u8]) -> usize {
    let is_long = bytes.len().checked_sub(8).is_some_and(|at| &bytes[at..at + 4] == b"TENR");
    if is_long { 48 } else { 32 }
}

/// The ranges of the blocks of an intact table, including trailers: consecutive ranges of bytes
/// with valid checksums.
pub fn table_blocks(bytes: &[u8]) -> Vec<(usize, usize)> {
    let mut blocks = Vec::new();
    let mut start = HEADER_BYTES;
    let end = bytes.len().saturating_sub(footer_bytes(bytes));
    while start < end {
        let Some(salt) = salt(bytes, start as u64) else { break };
        let mut crc = crc32c::crc32c(&salt);
        let found = (start + 1..=end.saturating_sub(4)).find(|&at| {
            crc = crc32c::crc32c_append(crc, &bytes[at - 1..at]);
            number(bytes, at) == Some(crc.to_le_bytes())
        });
        let Some(at) = found else { break };
        blocks.push((start, at + 4));
        start = at + 4;
    }
    blocks
}

/// Updates the checksum of `PAGECACHE`.
pub fn seal_page_cache(bytes: &mut [u8]) {
    if bytes.len() == 4096 {
        let crc = crc32c::crc32c(&bytes[..4092]);
        bytes[4092..].copy_from_slice(&crc.to_le_bytes());
    }
}

/// Updates the checksum of the head of `WRITE-BUFFER`, and the check of each slot.
pub fn seal_write_buffer(bytes: &mut [u8]) {
    if bytes.len() < 4096 {
        return;
    }
    let crc = crc32c::crc32c(&bytes[..40]);
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    let slot_bytes = number(bytes, 32).map_or(0, u32::from_le_bytes) as usize;
    if slot_bytes < 16 {
        return;
    }
    for slot in bytes[4096..].chunks_mut(slot_bytes).filter(|slot| slot.len() >= 16) {
        slot[10] = 0;
        slot[10] = slot[..16].iter().fold(0, |check, byte| check ^ byte);
    }
}
