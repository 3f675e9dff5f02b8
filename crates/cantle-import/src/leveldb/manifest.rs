//! CURRENT names the manifest; the manifest is a log of edits, which together say what belongs to
//! the store.
//!
//! ```text
//!   edit     tag (varint), what belongs to it; and so on
//!   tags     1 comparator's name │ 2 oldest log that counts │ 3 next file │ 4 last sequence │ 5 where a compaction goes on: level, key
//!            6 table removed: level, number │ 7 table added: level, number, bytes, first key, last key │ 9 one more log that counts
//! ```

use super::coding::Decoder;
use super::entry::split_key;
use super::file::SourceFile;
use super::log::{LogReader, Step};
use super::reading::{Progress, Reading};
use crate::error::{Damage, Error, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The comparator of a manifest that names none, too.
const BYTEWISE: &str = "leveldb.BytewiseComparator";
/// LevelDB has seven.
const LEVELS: u32 = 7;

/// A table as the manifest knows it; its keys without sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableFile {
    pub number: u64,
    pub bytes: u64,
    pub smallest: Vec<u8>,
    pub largest: Vec<u8>,
}

/// The files that belong to the store.
#[derive(Debug, Default)]
pub(crate) struct Version {
    comparator: Option<String>,
    tables: BTreeMap<(u32, u64), TableFile>,
    /// Logs of this number and above count.
    pub log_number: u64,
    /// This log counts as well.
    pub previous_log: u64,
}

impl Version {
    pub fn into_tables(self) -> Vec<TableFile> {
        self.tables.into_values().collect()
    }

    fn apply(&mut self, edit: &[u8]) -> Result<(), String> {
        let mut edit = Decoder::new(edit);
        while !edit.is_empty() {
            let cut = || "an edit ends too early".to_owned();
            let tag = edit.varint32().ok_or_else(cut)?;
            let mut number = || edit.varint64().ok_or_else(cut);
            match tag {
                1 => {
                    let name = edit.prefixed().ok_or_else(cut)?;
                    self.comparator = Some(String::from_utf8_lossy(name).into_owned());
                }
                2 => self.log_number = number()?,
                9 => self.previous_log = number()?,
                3 | 4 => drop(number()?),
                5 => {
                    level(&mut edit)?;
                    edit.prefixed().ok_or_else(cut)?;
                }
                6 => {
                    let key = (level(&mut edit)?, edit.varint64().ok_or_else(cut)?);
                    self.tables.remove(&key);
                }
                7 => {
                    let level = level(&mut edit)?;
                    let number = edit.varint64().ok_or_else(cut)?;
                    let bytes = edit.varint64().ok_or_else(cut)?;
                    let mut key = || -> Result<Vec<u8>, String> {
                        Ok(split_key(edit.prefixed().ok_or_else(cut)?)?.0.to_vec())
                    };
                    let (smallest, largest) = (key()?, key()?);
                    if smallest > largest {
                        return Err(format!("table {number} ends before it begins"));
                    }
                    self.tables.insert((level, number), TableFile { number, bytes, smallest, largest });
                }
                other => {
                    return Err(format!(
                        "an edit has the tag {other}, which LevelDB does not know: RocksDB wrote it?"
                    ));
                }
            }
        }
        Ok(())
    }
}

fn level(edit: &mut Decoder<'_>) -> Result<u32, String> {
    match edit.varint32() {
        Some(level) if level < LEVELS => Ok(level),
        Some(level) => Err(format!("an edit is of level {level}, and LevelDB has {LEVELS}")),
        None => Err("an edit ends too early".into()),
    }
}

fn unreadable(path: &Path, offset: u64, what: impl Into<String>) -> Error {
    Error::Unreadable(Box::new(Damage::new(path, offset, what)))
}

/// The manifest that CURRENT names.
pub(crate) fn current(dir: &Path) -> Result<PathBuf> {
    const NAME_BYTES_MAX: usize = 64;
    let path = dir.join("CURRENT");
    let Some(file) = SourceFile::open(&path)? else { return Err(unreadable(&path, 0, "it is missing")) };
    let mut text = [0; NAME_BYTES_MAX];
    let read = file.read_at(&mut text, 0)?;
    let name = text[..read].strip_suffix(b"\n").and_then(|name| std::str::from_utf8(name).ok());
    let digits = name.and_then(|name| name.strip_prefix("MANIFEST-"));
    match (name, digits) {
        (Some(name), Some(digits))
            if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) =>
        {
            Ok(dir.join(name))
        }
        _ => {
            let found = text[..read].escape_ascii();
            Err(unreadable(&path, 0, format!("it does not name a manifest but \"{found}\"")))
        }
    }
}

/// Bytes of a manifest that are read from one report of progress to the next.
const PROGRESS_BYTES: u64 = 32 << 20;

/// Reads a manifest: all of it, as damage would make another store of this one. Its torn end was
/// never part of the store.
pub(crate) fn read_manifest(
    dir: &Path,
    file: SourceFile,
    reading: &mut Reading,
    progress: &mut Progress<'_>,
) -> Result<Version> {
    let path = file.path.clone();
    let mut log = LogReader::new(file);
    let mut strict = Reading::new(false);
    let mut version = Version::default();
    let mut edits = 0;
    let mut told_bytes = 0;
    loop {
        // Most manifests are read before anybody would look.
        if strict.bytes >= told_bytes + PROGRESS_BYTES {
            told_bytes = strict.bytes;
            progress(&strict)?;
        }
        let record = match log.step(&mut strict) {
            Ok(Step::Record(record)) => record,
            Ok(Step::More) => continue,
            Ok(Step::End) => break,
            Err(Error::Damaged(damage)) => return Err(Error::Unreadable(damage)),
            Err(error) => return Err(error),
        };
        version.apply(&record.bytes).map_err(|what| unreadable(&path, record.offset, what))?;
        edits += 1;
    }
    if edits == 0 {
        return Err(unreadable(&path, 0, "it has no edit"));
    }
    match version.comparator.as_deref() {
        None | Some(BYTEWISE) => {}
        Some(name) => return Err(Error::Comparator { path: dir.to_path_buf(), name: name.to_owned() }),
    }
    if let Some(offset) = log.torn() {
        reading.torn.push(log.damage(offset, "the last edit was not written to its end"));
    }
    reading.bytes += strict.bytes;
    Ok(version)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::leveldb::coding::tests::{put_prefixed, put_varint};
    use crate::leveldb::log::tests::write_log;
    use proptest::prelude::*;

    /// Tag, numbers, strings.
    type Part<'a> = (u64, &'a [u64], &'a [&'a [u8]]);

    fn edit(parts: &[Part<'_>]) -> Vec<u8> {
        let mut edit = Vec::new();
        for (tag, numbers, strings) in parts {
            put_varint(&mut edit, *tag);
            numbers.iter().for_each(|number| put_varint(&mut edit, *number));
            strings.iter().for_each(|string| put_prefixed(&mut edit, string));
        }
        edit
    }

    fn read(edits: &[Vec<u8>]) -> Result<(Version, Reading)> {
        let mut reading = Reading::new(true);
        let file = SourceFile::in_memory("MANIFEST-000002", write_log(edits));
        read_manifest(Path::new("store"), file, &mut reading, &mut |_| Ok(()))
            .map(|version| (version, reading))
    }

    const FIRST_KEY: &[u8] = b"a\x01\x02\0\0\0\0\0\0";
    const LAST_KEY: &[u8] = b"k\x01\x01\0\0\0\0\0\0";

    #[test]
    fn edits_add_up() {
        let name = BYTEWISE.as_bytes();
        let first =
            edit(&[(1, &[], &[name]), (2, &[3], &[]), (9, &[0], &[]), (3, &[4], &[]), (4, &[0], &[])]);
        let added =
            [(7, &[0, 5, 700][..], &[FIRST_KEY, LAST_KEY][..]), (7, &[2, 6, 800], &[FIRST_KEY, LAST_KEY])];
        let second = edit(&[(2, &[7], &[]), added[0], added[1], (5, &[1], &[LAST_KEY])]);
        let third = edit(&[(6, &[0, 5], &[]), (6, &[2, 77], &[]), (9, &[6], &[])]);
        let (version, reading) = read(&[first, second, third]).unwrap();
        assert_eq!((version.log_number, version.previous_log), (7, 6));
        let (smallest, largest) = (b"a".to_vec(), b"k".to_vec());
        assert_eq!(version.into_tables(), [TableFile { number: 6, bytes: 800, smallest, largest }]);
        assert!(reading.torn.is_empty());
    }

    #[test]
    fn another_comparator_is_refused_by_its_name() {
        let error = read(&[edit(&[(1, &[], &[b"idb_cmp1"])])]).unwrap_err();
        assert!(matches!(&error, Error::Comparator { name, .. } if name == "idb_cmp1"), "{error}");
    }

    #[test]
    fn what_makes_no_sense_is_refused_even_where_damage_is_skipped() {
        let wrong: [(&[u8], &str); 6] = [
            (&edit(&[(200, &[3], &[])]), "tag 200"),
            (&edit(&[(6, &[7, 1], &[])]), "level 7"),
            (&edit(&[(7, &[0, 5, 700], &[LAST_KEY, FIRST_KEY])]), "ends before it begins"),
            (&edit(&[(7, &[0, 5, 700], &[b"short", LAST_KEY])]), "no sequence"),
            (&[2], "too early"),
            (&[1, 20, b'a'], "too early"),
        ];
        for (edit, says) in wrong {
            let error = read(&[edit.to_vec()]).unwrap_err();
            assert!(matches!(error, Error::Unreadable(_)), "{error}");
            assert!(error.to_string().contains(says), "{error}");
        }
        assert!(read(&[]).unwrap_err().to_string().contains("no edit"));
        let mut log = write_log(&[edit(&[(2, &[3], &[])])]);
        log[8] ^= 1;
        let file = SourceFile::in_memory("MANIFEST-000002", log);
        let error =
            read_manifest(Path::new("store"), file, &mut Reading::new(true), &mut |_| Ok(())).unwrap_err();
        assert!(matches!(error, Error::Unreadable(_)), "{error}");
    }

    proptest! {
        #[test]
        fn any_edit_is_applied_or_refused(edits: Vec<Vec<u8>>) {
            let _ = read(&edits);
        }
    }
}
