//! A blocked Bloom filter: all bits of a key lie in one 64-byte line, so a probe costs one cache miss.
//!
//! ```text
//!   0         64        128              64·n   64·n+1
//!   ├─────────┼─────────┼── … ──┼─────────┼──────┤
//!   │ line 0  │ line 1  │       │ line n-1│probes│
//! ```
//!
//! A long filter may be stored in *pieces*, each with [`PIECE_LINES`] lines and its own probe
//! count. A probe needs one piece: a reader that asks a filter of megabytes about few keys need not
//! read and check all of it.
//!
//! A table's filter is stored in *pages* of [`PAGE_LINES`] lines; the last page may be shorter.
//! Each has its own probe count and, in the file, its own checksum: a probe reads and checks one
//! page. Pages are cut from the lines of the whole filter, so they give the same answers.
//!
//! A key's hash chooses a line (multiply-shift over its high bits) and, remixed, `probes` positions of nine
//! bits each within the line. Blocking costs some accuracy: 10 bits a key give about 1.1 % of false
//! positives where an unblocked filter would give 0.9 %.

use xxhash_rust::xxh3::xxh3_64;

const LINE_BYTES: usize = 64;
/// Binary logarithm of the bits in a line: positions are numbers of this many bits.
const LINE_BITS_LOG2: u32 = 9;
/// Lines of a piece: 16 KiB, so that reading one costs little more than reading a block, and many
/// fit in a cache.
pub(crate) const PIECE_LINES: usize = 256;
/// Lines of a page: 4 KiB, the least that a device reads, and the usual length of a block of
/// entries.
pub(crate) const PAGE_LINES: usize = 64;
/// Length in bytes of a full page.
pub(crate) const PAGE_BYTES: usize = PAGE_LINES * LINE_BYTES + 1;
/// Length in bytes of a piece.
pub(crate) const PIECE_BYTES: usize = PIECE_LINES * LINE_BYTES + 1;
/// Maximum number of probes: seven positions of nine bits fit in the one 64-bit word that a probe
/// computes.
const PROBES_MAX: u8 = 7;
/// Maximum of bits per key: with seven probes, more memory gains nothing.
const BITS_PER_KEY_MAX: u32 = 32;

const _: () = assert!(1 << LINE_BITS_LOG2 == LINE_BYTES * 8 && PROBES_MAX as u32 * LINE_BITS_LOG2 <= 64);

/// The hash of a key that filters use. Part of the file format.
#[inline]
pub(crate) fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// Collects the hashes of the keys of one filter.
#[derive(Debug)]
pub(crate) struct BloomBuilder {
    bits_per_key: u32,
    hashes: Vec<u64>,
}

impl BloomBuilder {
    /// 10 bits per key exclude 99 % of the absent keys; each 5 more reduce the rest to about a
    /// tenth, up to 32 bits.
    pub(crate) fn new(bits_per_key: u32) -> Self {
        Self { bits_per_key: bits_per_key.clamp(1, BITS_PER_KEY_MAX), hashes: Vec::new() }
    }

    /// Adds a key. The same key several times in a row counts once.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        if self.hashes.last() != Some(&hash) {
            self.hashes.push(hash);
        }
    }

    /// Length of the filter in pages if it were finished now.
    pub(crate) fn size_bytes(&self) -> usize {
        self.lines() * LINE_BYTES + self.lines().div_ceil(PAGE_LINES)
    }

    /// The filter as a whole; empty if no key was added.
    #[cfg(test)]
    pub(crate) fn finish(self) -> Vec<u8> {
        let lines = self.lines();
        self.finish_with(lines)
    }

    /// The filter in pages; none if no key was added.
    pub(crate) fn finish_in_pages(self) -> Vec<Vec<u8>> {
        let lines = self.lines();
        let filter = self.finish_with(lines);
        let Some((&probes, lines)) = filter.split_last() else { return Vec::new() };
        lines.chunks(PAGE_LINES * LINE_BYTES).map(|page| [page, &[probes]].concat()).collect()
    }

    /// The filter as one piece, which may be shorter than others, or as several full ones.
    pub(crate) fn finish_in_pieces(self) -> Vec<Vec<u8>> {
        let lines = self.lines();
        if lines <= PIECE_LINES {
            return vec![self.finish_with(lines)];
        }
        let filter = self.finish_with(lines.next_multiple_of(PIECE_LINES));
        let Some((&probes, lines)) = filter.split_last() else { return Vec::new() };
        lines.chunks(PIECE_LINES * LINE_BYTES).map(|piece| [piece, &[probes]].concat()).collect()
    }

    fn finish_with(self, lines: usize) -> Vec<u8> {
        if self.hashes.is_empty() {
            return Vec::new();
        }
        // A plain Bloom filter is best at bits · ln 2 probes. Lines vary in load, so one probe
        // fewer is best here.
        let probes = (self.bits_per_key * 6 / 10).clamp(1, u32::from(PROBES_MAX)) as u8;
        let mut filter = vec![0; lines * LINE_BYTES + 1];
        filter[lines * LINE_BYTES] = probes;
        for &hash in &self.hashes {
            let line = line_of(hash, lines) * LINE_BYTES;
            let line = &mut filter[line..line + LINE_BYTES];
            for (byte, bit) in positions(hash, probes) {
                line[byte] |= bit;
            }
        }
        filter
    }

    fn lines(&self) -> usize {
        (self.hashes.len() * self.bits_per_key as usize).div_ceil(LINE_BYTES * 8)
    }
}

/// True if a key with this hash may be in the filter's set. `false` is certain. Bytes that are no
/// filter give `true`.
#[inline]
pub(crate) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let Some((&probes, bits)) = filter.split_last() else { return true };
    let lines = bits.len() / LINE_BYTES;
    if lines == 0 || bits.len() % LINE_BYTES != 0 || probes == 0 || probes > PROBES_MAX {
        return true;
    }
    let start = line_of(hash, lines) * LINE_BYTES;
    let Some(line) = bits.get(start..start + LINE_BYTES) else { return true };
    positions(hash, probes).all(|(byte, bit)| line[byte] & bit != 0)
}

/// The number of the piece, out of `pieces`, for a key with this hash. Ascending hashes have
/// ascending pieces.
#[inline]
pub(crate) fn piece_of(hash: u64, pieces: usize) -> usize {
    line_of(hash, pieces * PIECE_LINES) / PIECE_LINES
}

/// As [`may_contain`], for the piece that [`piece_of`] returns.
#[inline]
pub(crate) fn may_contain_in_piece(piece: &[u8], hash: u64, pieces: usize) -> bool {
    if pieces <= 1 {
        return may_contain(piece, hash);
    }
    may_contain_in_line(piece, line_of(hash, pieces * PIECE_LINES) % PIECE_LINES, hash)
}

/// Number of lines of a filter whose pages, each with a frame of `frame_bytes`, have this total
/// length; `None` if there is no such filter.
pub(crate) fn lines_in_pages(bytes: u64, frame_bytes: u64) -> Option<u64> {
    let (lines, page_bytes) = (PAGE_LINES as u64, PAGE_BYTES as u64 + frame_bytes);
    let whole = bytes / page_bytes * lines;
    let rest = match bytes % page_bytes {
        0 => 0,
        // The probe count and the frame. A page has at least one line.
        rest => {
            let line_bytes = rest.checked_sub(1 + frame_bytes)?;
            let is_whole = line_bytes > 0 && line_bytes.is_multiple_of(LINE_BYTES as u64);
            is_whole.then_some(line_bytes / LINE_BYTES as u64)?
        }
    };
    Some(whole + rest).filter(|lines| *lines > 0)
}

/// The page, in a filter of `lines` lines, for a key with this hash, and its line in that page.
/// Ascending hashes have ascending pages.
#[inline]
pub(crate) fn page_of(hash: u64, lines: u64) -> (u64, usize) {
    let line = ((u128::from(hash) * u128::from(lines)) >> 64) as u64;
    (line / PAGE_LINES as u64, (line % PAGE_LINES as u64) as usize)
}

/// As [`may_contain`], for the page and the line that [`page_of`] returns.
#[inline]
pub(crate) fn may_contain_in_line(page: &[u8], line: usize, hash: u64) -> bool {
    let Some((&probes, bits)) = page.split_last() else { return true };
    if probes == 0 || probes > PROBES_MAX {
        return true;
    }
    let start = line * LINE_BYTES;
    let Some(line) = bits.get(start..start + LINE_BYTES) else { return true };
    positions(hash, probes).all(|(byte, bit)| line[byte] & bit != 0)
}

/// The line of a hash, out of `lines`: the high half of a product, which is uniform without a
/// division.
#[inline]
fn line_of(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The bits of a key within its line, as (byte, mask). Remixed, because the line was chosen by the same hash.
#[inline]
fn positions(hash: u64, probes: u8) -> impl Iterator<Item = (usize, u8)> {
    let mut mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^= mixed >> 29;
    (0..probes).map(move |_| {
        let position = mixed as usize & ((1 << LINE_BITS_LOG2) - 1);
        mixed >>= LINE_BITS_LOG2;
        (position / 8, 1 << (position % 8))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(bits_per_key: u32, keys: impl Iterator<Item = u64>) -> Vec<u8> {
        let mut builder = BloomBuilder::new(bits_per_key);
        keys.for_each(|key| builder.add(hash(&key.to_be_bytes())));
        builder.finish()
    }

    fn false_positives(filter: &[u8], probes: u64) -> f64 {
        let hits =
            (0..probes).filter(|key| may_contain(filter, hash(&(key + (1 << 40)).to_be_bytes()))).count();
        hits as f64 / probes as f64
    }

    #[test]
    fn ten_bits_a_key_let_about_one_percent_pass() {
        for keys in [100, 1_000, 100_000] {
            let filter = filter(10, 0..keys);
            assert!((0..keys).all(|key| may_contain(&filter, hash(&key.to_be_bytes()))));
            let rate = false_positives(&filter, 200_000);
            assert!(rate < 0.015, "{rate} of absent keys pass the filter of {keys} keys");
        }
    }

    #[test]
    fn more_bits_let_fewer_pass() {
        let rates = [2, 5, 10, 15, 20].map(|bits| false_positives(&filter(bits, 0..20_000), 200_000));
        assert!(rates.windows(2).all(|pair| pair[1] < pair[0]), "{rates:?}");
        assert!(rates[3] < 0.002, "{rates:?}");
    }

    #[test]
    fn what_is_no_filter_says_maybe() {
        for bytes in [&[][..], &[6], &[0; 64], &[0; 65], &[8; 65], &[0xff; 65], &[1; 66], &[1; 100]] {
            assert!(may_contain(bytes, hash(b"key")), "{} bytes", bytes.len());
        }
        assert!(filter(10, 0..0).is_empty());
    }

    #[test]
    fn the_hash_is_the_one_of_the_format() {
        assert_eq!(hash(b""), 0x2d06_8005_38d3_94c2);
    }

    proptest! {
        #[test]
        fn any_bytes_are_probed_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), hash: u64) {
            may_contain(&bytes, hash);
        }

        #[test]
        fn every_added_key_may_be_contained(hashes in proptest::collection::vec(any::<u64>(), 1..200), bits in 0u32..70) {
            let mut builder = BloomBuilder::new(bits);
            hashes.iter().for_each(|&hash| builder.add(hash));
            let filter = builder.finish();
            prop_assert!(hashes.iter().all(|&hash| may_contain(&filter, hash)));
        }
    }

    proptest! {
        #[test]
        fn pages_say_what_the_whole_filter_does(
            hashes in proptest::collection::vec(any::<u64>(), 1..4000),
            others in proptest::collection::vec(any::<u64>(), 200),
            bits in 1u32..32,
        ) {
            let builder = || {
                let mut builder = BloomBuilder::new(bits);
                hashes.iter().for_each(|&hash| builder.add(hash));
                builder
            };
            let (whole, pages) = (builder().finish(), builder().finish_in_pages());
            prop_assert_eq!(builder().size_bytes(), pages.iter().map(Vec::len).sum::<usize>());
            let bytes: u64 = pages.iter().map(|page| page.len() as u64 + 5).sum();
            let lines = lines_in_pages(bytes, 5).unwrap();
            prop_assert_eq!(lines, (whole.len() / LINE_BYTES) as u64);
            prop_assert_eq!(pages.len() as u64, lines.div_ceil(PAGE_LINES as u64));
            for &hash in hashes.iter().chain(&others).chain(&[0, u64::MAX]) {
                let (page, line) = page_of(hash, lines);
                prop_assert_eq!(may_contain_in_line(&pages[page as usize], line, hash), may_contain(&whole, hash));
            }
        }
    }

    #[test]
    fn lengths_that_no_pages_have_are_recognised() {
        let page = PAGE_BYTES as u64 + 5;
        for (bytes, lines) in [(70, 1), (64 * 63 + 6, 63), (page, 64), (page + 70, 65), (3 * page, 192)] {
            assert_eq!(lines_in_pages(bytes, 5), Some(lines), "{bytes}");
        }
        for bytes in [0, 1, 5, 6, 69, 71, page - 1, page + 1, page + 5, page + 6, page + 69, 3 * page - 1] {
            assert_eq!(lines_in_pages(bytes, 5), None, "{bytes}");
        }
        assert!(lines_in_pages(u64::MAX, 5).is_none_or(|lines| lines > 1 << 50));
        assert!(BloomBuilder::new(10).finish_in_pages().is_empty());
    }

    #[test]
    fn a_filter_in_pieces_excludes_what_the_whole_one_does() {
        for keys in [0_u64, 1, 1000, 13_000, 14_000, 100_000] {
            let mut builder = BloomBuilder::new(10);
            (0..keys).for_each(|key| builder.add(hash(&key.to_be_bytes())));
            let pieces = builder.finish_in_pieces();
            assert!(pieces.len() == 1 || pieces.iter().all(|piece| piece.len() == PIECE_BYTES));
            let has = |key: u64| {
                let hash = hash(&key.to_be_bytes());
                may_contain_in_piece(&pieces[piece_of(hash, pieces.len())], hash, pieces.len())
            };
            let one = |key: u64| match pieces.len() {
                1 => may_contain(&pieces[0], hash(&key.to_be_bytes())),
                _ => has(key),
            };
            assert!((0..keys).all(one), "{keys}");
            let wrong = (keys..keys + 10_000).filter(|&key| one(key)).count();
            assert!(keys == 0 || wrong < 300, "{wrong} of {keys}");
        }
    }
}
