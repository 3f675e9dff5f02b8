//! Pairs as lines of text, in the form that `ldb --hex dump` of RocksDB prints and `ldb --hex load`
//! reads.
//!
//! ```text
//! 0x00FF ==> 0x
//! 0x6B6579 ==> 0x76616C7565
//! Keys in range: 2
//! ```
//!
//! A line for each pair: `0x` and the key's bytes in hexadecimal digits of either case, ` ==> `,
//! and the same of the value, which may be empty. The last line counts them, so that a dump which
//! was cut is told from a whole one; it may be missing where another program wrote the dump. Lines
//! that begin with `Created bg thread 0x`, which old versions of `ldb` print, and empty lines are
//! passed over, as `ldb load` does. Everything else is an error: keys and values that are no
//! hexadecimal digits (a dump without `--hex`), several columns or timestamps of a pair, which a
//! store here does not have, and what `ldb scan` and `idump` print.

use crate::error::{Error, Result};
use cantle::{KEY_BYTES_MAX, VALUE_BYTES_MAX};
use std::io::{BufRead, Read};

const ARROW: &[u8] = b" ==> ";
const COUNT: &[u8] = b"Keys in range: ";
const NOISE: &[u8] = b"Created bg thread 0x";
/// The longest line: the longest key and value in hex, and what is around them.
const LINE_BYTES_MAX: u64 = 2 * (KEY_BYTES_MAX + VALUE_BYTES_MAX) as u64 + 16;

/// The line of a pair, without a line end.
pub fn line(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(2 * (key.len() + value.len()) + 9);
    push_hex(&mut line, key);
    line.extend_from_slice(ARROW);
    push_hex(&mut line, value);
    line
}

/// The last line, without a line end.
pub fn last_line(pairs: u64) -> Vec<u8> {
    [COUNT, pairs.to_string().as_bytes()].concat()
}

fn push_hex(line: &mut Vec<u8>, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    line.extend_from_slice(b"0x");
    line.extend(
        bytes.iter().flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]),
    );
}

fn from_hex(text: &[u8]) -> Result<Vec<u8>, String> {
    let shown = || {
        let start = &text[..text.len().min(40)];
        let more = if start.len() < text.len() { "…" } else { "" };
        format!("\"{}\"{more}", start.escape_ascii())
    };
    let digits = text
        .strip_prefix(b"0x")
        .ok_or_else(|| format!("{} does not begin with 0x: dump with --hex", shown()))?;
    let (pairs, []) = digits.as_chunks::<2>() else {
        return Err(format!("{} has an odd number of hexadecimal digits", shown()));
    };
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|nibble| nibble as u8);
    let bytes =
        pairs.iter().map(|&[high, low]| Some(nibble(high)? << 4 | nibble(low)?)).collect::<Option<_>>();
    bytes.ok_or_else(|| {
        format!(
            "{} is not hexadecimal; pairs of several columns or with timestamps cannot be imported",
            shown()
        )
    })
}

/// The pair of a line.
pub fn parse_line(line: &[u8]) -> Result<(Vec<u8>, Vec<u8>), String> {
    let Some(arrow) = line.windows(ARROW.len()).position(|part| part == ARROW) else {
        return Err("it is not of the form 0xKEY ==> 0xVALUE, as `ldb --hex dump` prints".into());
    };
    Ok((from_hex(&line[..arrow])?, from_hex(&line[arrow + ARROW.len()..])?))
}

/// Reads a dump.
pub(crate) struct Dump<R> {
    reader: R,
    name: String,
    line: u64,
    bytes: u64,
    pairs: u64,
    counted: bool,
    buffer: Vec<u8>,
}

impl<R: BufRead> Dump<R> {
    pub fn new(reader: R, name: &str) -> Self {
        Self {
            reader,
            name: name.to_owned(),
            line: 0,
            bytes: 0,
            pairs: 0,
            counted: false,
            buffer: Vec::new(),
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn counted(&self) -> bool {
        self.counted
    }

    /// An error of the line that was read last.
    pub fn wrong(&self, what: String) -> Error {
        Error::Line { name: self.name.clone(), line: self.line, what }
    }

    pub fn next(&mut self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        while self.read_line()? {
            let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(NOISE) {
                continue;
            }
            if self.counted {
                return Err(self.wrong("something follows the count of keys, which ends a dump".into()));
            }
            if let Some(count) = line.strip_prefix(COUNT) {
                let count = std::str::from_utf8(count).ok().and_then(|count| count.parse::<u64>().ok());
                if count != Some(self.pairs) {
                    let what = format!(
                        "the dump says it has other than the {} pairs before this line: part of it is missing",
                        self.pairs
                    );
                    return Err(self.wrong(what));
                }
                self.counted = true;
                continue;
            }
            let pair = parse_line(line).map_err(|what| self.wrong(what))?;
            self.pairs += 1;
            return Ok(Some(pair));
        }
        Ok(None)
    }

    fn read_line(&mut self) -> Result<bool> {
        self.buffer.clear();
        let mut limited = self.reader.by_ref().take(LINE_BYTES_MAX);
        let read = limited
            .read_until(b'\n', &mut self.buffer)
            .map_err(|error| Error::io("read", &self.name, error))? as u64;
        self.line += 1;
        self.bytes += read;
        if read == LINE_BYTES_MAX && !self.buffer.ends_with(b"\n") {
            return Err(self.wrong("the line is longer than any pair that a store takes".into()));
        }
        Ok(read > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

    fn read(text: &[u8]) -> Result<(Pairs, bool)> {
        let mut dump = Dump::new(text, "dump");
        let mut pairs = Vec::new();
        while let Some(pair) = dump.next()? {
            pairs.push(pair);
        }
        Ok((pairs, dump.counted()))
    }

    proptest! {
        #[test]
        fn pairs_come_back(pairs: Pairs, counted: bool) {
            let mut text = Vec::new();
            for (key, value) in &pairs {
                text.extend(line(key, value));
                text.push(b'\n');
            }
            if counted {
                text.extend(last_line(pairs.len() as u64));
            }
            prop_assert_eq!(read(&text).unwrap(), (pairs, counted));
        }

        #[test]
        fn any_text_is_read_or_refused(text: Vec<u8>, lines in prop::collection::vec("(0x[0-9a-fA-F]{0,4}| ==> |\n|K){0,6}", 0..5)) {
            let _ = read(&text);
            let _ = read(lines.concat().as_bytes());
        }
    }

    #[test]
    fn what_ldb_prints_is_read() {
        let text =
            b"Created bg thread 0x7f3a\n0x00FF ==> 0x\n\n0x6b6579 ==> 0x76616C7565\r\nKeys in range: 2\n";
        let pairs = vec![(vec![0, 255], vec![]), (b"key".to_vec(), b"value".to_vec())];
        assert_eq!(read(text).unwrap(), (pairs, true));
        assert_eq!(read(b"").unwrap(), (vec![], false));
        assert_eq!(line(b"\0\xff", b""), b"0x00FF ==> 0x");
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let wrong = [
            ("0x61 ==> 0x62\nkey ==> value\n", 2, "does not begin with 0x: dump with --hex"),
            ("0x61 : 0x62\n", 1, "not of the form"),
            ("0x6 ==> 0x62\n", 1, "odd number"),
            ("0x61 ==> 0x6g\n", 1, "not hexadecimal"),
            ("0x61|timestamp:0x00 ==> 0x62\n", 1, "hexadecimal"),
            ("0x61 ==> :0x62 attr:0x63\n", 1, "does not begin with 0x"),
            ("0x61 ==> 0x62 attr:0x63\n", 1, "hexadecimal"),
            ("0x61 ==> 0x62\nKeys in range: 2\n", 2, "part of it is missing"),
            ("0x61 ==> 0x62\nKeys in range: x\n", 2, "part of it is missing"),
            ("Keys in range: 0\n0x61 ==> 0x62\n", 2, "something follows"),
            ("'6B31' seq:1, type:1 => 7631\n", 1, "not of the form"),
        ];
        for (text, at, says) in wrong {
            match read(text.as_bytes()) {
                Err(Error::Line { line, what, .. }) => {
                    assert!(line == at && what.contains(says), "{text}: {line}: {what}")
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
