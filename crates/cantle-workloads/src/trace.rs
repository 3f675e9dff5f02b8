//! Traces as text: one operation per line, so that they can be read, cut and written by any tool.
//!
//! ```text
//! # cantle-trace 1
//! put user0000000042 800
//! get user0000000042
//! scan %00%00%01%7F - 100
//! scan a b -
//! delete user0000000042
//! ```
//!
//! The first line names the format and its version; other lines that begin with `#` are comments.
//! Words are separated by one blank. `put` has the key and the length of the value, whose bytes are
//! not kept. `scan` has the first key, the key before which it ends or `-`, and the maximum number
//! of rows or `-`. In keys, printable ASCII characters stand for themselves, except `%`. Every
//! other byte is `%` and two hexadecimal digits. A lone `%` is the empty key, and the key `-` is
//! written `%2D`.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};

/// The first line.
pub const HEADING: &str = "# cantle-trace 1";

/// One operation of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// Writes a pair.
    Put {
        /// Its key.
        key: Vec<u8>,
        /// Number of bytes of its value.
        value_bytes: u64,
    },
    /// Reads a pair.
    Get {
        /// Its key.
        key: Vec<u8>,
    },
    /// Removes a pair.
    Delete {
        /// Its key.
        key: Vec<u8>,
    },
    /// Reads pairs in key order.
    Scan {
        /// The first key.
        from: Vec<u8>,
        /// The key before which the scan ends.
        to: Option<Vec<u8>>,
        /// Maximum number of rows.
        rows: Option<u64>,
    },
}

impl Entry {
    /// The key that determines which thread runs the operation, so that operations on one key keep
    /// their order.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Get { key } | Self::Delete { key } => key,
            Self::Scan { from, .. } => from,
        }
    }

    /// The operation as a line, without the line end.
    pub fn line(&self) -> String {
        let optional = |rows: &Option<u64>| rows.map_or("-".to_string(), |rows| rows.to_string());
        match self {
            Self::Put { key, value_bytes } => format!("put {} {value_bytes}", escape(key)),
            Self::Get { key } => format!("get {}", escape(key)),
            Self::Delete { key } => format!("delete {}", escape(key)),
            Self::Scan { from, to, rows } => {
                let to = to.as_ref().map_or("-".to_string(), |to| escape(to));
                format!("scan {} {to} {}", escape(from), optional(rows))
            }
        }
    }

    /// Parses a line; `None` for a comment or an empty line.
    pub fn parse(line: &str) -> Result<Option<Self>, String> {
        let line = line.trim_end_matches(['\r', '\n']);
        if line.is_empty() || line.starts_with('#') {
            return Ok(None);
        }
        let number = |word: &str| word.parse::<u64>().map_err(|_| format!("{word:?} is no number"));
        let words: Vec<&str> = line.split(' ').collect();
        Ok(Some(match words[..] {
            ["put", key, bytes] => Self::Put { key: unescape(key)?, value_bytes: number(bytes)? },
            ["get", key] => Self::Get { key: unescape(key)? },
            ["delete", key] => Self::Delete { key: unescape(key)? },
            ["scan", from, to, rows] => Self::Scan {
                from: unescape(from)?,
                to: if to == "-" { None } else { Some(unescape(to)?) },
                rows: if rows == "-" { None } else { Some(number(rows)?) },
            },
            _ => {
                return Err(format!(
                    "{line:?} is no operation: put KEY BYTES, get KEY, delete KEY or scan KEY KEY ROWS"
                ));
            }
        }))
    }
}

fn escape(key: &[u8]) -> String {
    match key {
        [] => return "%".into(),
        [b'-'] => return "%2D".into(),
        _ => {}
    }
    let mut text = String::with_capacity(key.len());
    for &byte in key {
        match byte {
            b'!'..=b'~' if byte != b'%' => text.push(byte as char),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}

fn unescape(text: &str) -> Result<Vec<u8>, String> {
    if text == "%" {
        return Ok(Vec::new());
    }
    let wrong = || format!("{text:?} is no key: `%` stands before two hexadecimal digits");
    let mut key = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            key.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|digit| (digit as char).to_digit(16)).ok_or_else(wrong);
        key.push((digit()? * 16 + digit()?) as u8);
    }
    if key.is_empty() { Err(wrong()) } else { Ok(key) }
}

/// Writes a trace.
pub struct Writer<W>(W);

impl<W: Write> Writer<W> {
    /// Begins a trace: writes the heading.
    pub fn new(mut output: W) -> io::Result<Self> {
        writeln!(output, "{HEADING}")?;
        Ok(Self(output))
    }

    /// Adds an operation.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        writeln!(self.0, "{}", entry.line())
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads a trace; an error contains the number of the line.
pub struct Reader<R> {
    input: R,
    line: String,
    number: u64,
}

impl<R: BufRead> Reader<R> {
    /// Checks the heading.
    pub fn new(mut input: R) -> io::Result<Self> {
        let mut line = String::new();
        input.read_line(&mut line)?;
        if line.trim_end() != HEADING {
            let what = format!("not a trace: the first line is not {HEADING:?}");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(Self { input, line, number: 1 })
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            self.line.clear();
            self.number += 1;
            match self.input.read_line(&mut self.line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
            match Entry::parse(&self.line) {
                Ok(Some(entry)) => return Some(Ok(entry)),
                Ok(None) => {}
                Err(what) => {
                    let what = format!("line {}: {what}", self.number);
                    return Some(Err(io::Error::new(io::ErrorKind::InvalidData, what)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::Random;

    #[test]
    fn what_is_written_is_read_back_whatever_the_keys() {
        let mut random = Random::new(1);
        let key = |random: &mut Random| {
            let mut key = vec![0; random.below(20) as usize];
            random.fill(&mut key);
            key
        };
        let mut entries = vec![
            Entry::Get { key: vec![] },
            Entry::Get { key: b"-".to_vec() },
            Entry::Scan { from: b"#a b".to_vec(), to: Some(b"-".to_vec()), rows: None },
            Entry::Scan { from: b"%".to_vec(), to: None, rows: Some(7) },
        ];
        for number in 0..1_000 {
            entries.push(Entry::Put { key: key(&mut random), value_bytes: number });
            entries.push(Entry::Delete { key: key(&mut random) });
            entries.push(Entry::Scan {
                from: key(&mut random),
                to: Some(key(&mut random)),
                rows: Some(number),
            });
        }
        let mut text = Vec::new();
        let mut writer = Writer::new(&mut text).unwrap();
        entries.iter().for_each(|entry| writer.write(entry).unwrap());
        writer.flush().unwrap();
        assert!(text.is_ascii());
        let read: Vec<Entry> = Reader::new(&text[..]).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(read, entries);
    }

    #[test]
    fn the_documented_example_is_a_trace() {
        let text = "# cantle-trace 1\nput user0000000042 800\n\n# a comment\nscan %00%00%01%7F - 100\n";
        let read: Vec<Entry> = Reader::new(text.as_bytes()).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(read[0], Entry::Put { key: b"user0000000042".to_vec(), value_bytes: 800 });
        assert_eq!(read[1], Entry::Scan { from: vec![0, 0, 1, 127], to: None, rows: Some(100) });
        assert_eq!(read.len(), 2);
    }

    #[test]
    fn a_broken_line_is_named() {
        assert!(Reader::new(&b"put a 1\n"[..]).is_err());
        for line in ["put a", "put a b", "get %4", "get %zz", "get ", "scan a b", "frobnicate a", "get a b"] {
            let text = format!("{HEADING}\n\n{line}\n");
            let error = Reader::new(text.as_bytes()).unwrap().next().unwrap().unwrap_err();
            assert!(error.to_string().starts_with("line 3: "), "{line}: {error}");
        }
    }
}
