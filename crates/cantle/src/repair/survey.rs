//! The files of the damaged store, and the headers of these files.

use super::report::Findings;
use crate::files::parse_file_name;
use crate::format::header::{FileHeader, FileKind, HEADER_BYTES};
use crate::log::tail::write_buffer;
use crate::types::error::{Attempt, Error, Result};
use crate::vfs::{OpenMode, Vfs, VfsFile};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// A file of the store, recognised by its header, or else by its name.
#[derive(Debug, Clone)]
pub(super) struct FoundFile {
    pub path: PathBuf,
    pub bytes: u64,
    /// The first bytes; zeros where the file is shorter.
    head: [u8; HEADER_BYTES as usize],
    /// The header, if it is intact or could be healed.
    pub header: Option<FileHeader>,
    /// Damage of the header. Reported only for files that count, as a power loss may leave others
    /// incomplete.
    pub damage: Option<Error>,
}

/// Records that a dead process had buffered for its logs.
#[derive(Default)]
pub(super) struct LeftInBuffer {
    pub epoch: u64,
    /// The damaged parts of the buffer.
    pub damaged: Vec<Error>,
    /// Records that cannot be written to their log, because it is missing or ends before their
    /// place, by the log's number.
    pub fragments: HashMap<u64, LogFragment>,
}

/// Whole records, and their place in a log that does not reach it.
#[derive(Debug, Clone)]
pub(super) struct LogFragment {
    pub header: FileHeader,
    pub base: u64,
    pub bytes: Bytes,
}

/// All files of one store.
pub(super) struct Survey {
    pub store: u128,
    /// By kind and number. If two files claim the same kind and number, the one whose name agrees.
    files: BTreeMap<(u8, u64), FoundFile>,
}

impl Survey {
    /// Lists the directory and reads the headers only.
    pub fn of(vfs: &dyn Vfs, dir: &Path, findings: &mut Findings) -> Result<Self> {
        let names = vfs.list(dir).map_err(|e| Error::io(Attempt::List, dir, e))?;
        let mut named: Vec<(FileKind, u64)> = names.iter().filter_map(|name| parse_file_name(name)).collect();
        named.sort_unstable_by_key(|&(kind, id)| (kind as u8, id));
        let mut found = Vec::new();
        for (kind, id) in named {
            let path = dir.join(crate::files::file_name(kind, id));
            match look(vfs, &path) {
                Ok((head, bytes)) => {
                    let header = FileHeader::decode(&head, &path, kind);
                    found.push((
                        kind,
                        id,
                        FoundFile { path, bytes, head, header: None, damage: None },
                        header,
                    ));
                }
                Err(error) => findings.leave_out(&path, format!("it cannot be opened: {error}"), true),
            }
        }
        // The store is the one that most files name.
        let mut votes: HashMap<u128, u64> = HashMap::new();
        for (.., header) in &found {
            if let Ok(header) = header {
                *votes.entry(header.store).or_default() += 1;
            }
        }
        let store = votes.into_iter().max_by_key(|&(store, votes)| (votes, store)).map(|(store, _)| store);
        let Some(store) = store else {
            let what = "no file has a header that can be read: which store this was is lost";
            return Err(Error::corruption(dir, 0, what));
        };
        let mut survey = Self { store, files: BTreeMap::new() };
        for (kind, id, mut file, header) in found {
            let mut id = id;
            match header {
                Ok(header) if header.store != store => {
                    findings.damage(Error::corruption(
                        &file.path,
                        16,
                        format!("the file belongs to store {:032x}, not to {store:032x}", header.store),
                    ));
                    findings.leave_out(&file.path, "it belongs to another store", false);
                    continue;
                }
                Ok(header) => {
                    if header.file != id {
                        let what = format!("the file is number {}, not number {id}", header.file);
                        findings.damage(Error::corruption(&file.path, 32, what));
                    }
                    id = header.file;
                    file.header = Some(header);
                }
                Err(error @ Error::UnsupportedFormat { .. }) => {
                    findings.leave_out(&file.path, error.to_string(), true);
                    continue;
                }
                Err(error) => {
                    // A log that was only created has no header yet. A caller that expects a header
                    // there reports its absence.
                    if file.bytes >= HEADER_BYTES {
                        file.damage = Some(error);
                        file.header = FileHeader::heal(&file.head, kind, (store, id), None);
                    }
                }
            }
            let named = parse_file_name(&file.path.file_name().unwrap_or_default().to_string_lossy());
            let key = (kind as u8, id);
            if survey.files.contains_key(&key) && named != Some((kind, id)) {
                findings.leave_out(&file.path, "another file has its number, and the right name", true);
            } else if let Some(other) = survey.files.insert(key, file) {
                findings.leave_out(&other.path, "another file has its number, and the right name", true);
            }
        }
        Ok(survey)
    }

    /// Writes buffered records to the logs of `epoch`, which began with `first_version`.
    /// `described`: the keyspace of a log of that epoch, if it is known, as a replacement for a
    /// lost header.
    pub fn recover_write_buffer(
        &self,
        vfs: &dyn Vfs,
        dir: &Path,
        (epoch, first_version): (u64, u64),
        described: impl Fn(u64) -> Option<u32>,
    ) -> Result<LeftInBuffer> {
        let header_of = |(id, file): (u64, &FoundFile)| {
            let by_description =
                |keyspace| file.header_or(FileKind::Log, (self.store, id), (keyspace, epoch));
            file.header.or_else(|| described(id).map(by_description))
        };
        let of_path = |_: &dyn VfsFile, path: &Path| {
            let found = self.of_kind(FileKind::Log).find(|(_, file)| file.path == path);
            found.and_then(header_of).ok_or_else(|| Error::corruption(path, 0, "the header is lost"))
        };
        let mut buffered = LeftInBuffer { epoch, ..LeftInBuffer::default() };
        let LeftInBuffer { damaged, fragments, .. } = &mut buffered;
        let mut damaged = |error| damaged.push(error);
        write_buffer::read(vfs, dir, (self.store, epoch), &mut damaged, &mut |slot, damaged| {
            let found = self.get(FileKind::Log, slot.log);
            let header = match found {
                Some(file) if slot.base <= file.bytes => None,
                Some(file) => header_of((slot.log, file)).filter(|header| header.epoch == epoch),
                // The version from which the log's versions are counted is lost with its header.
                // With this one they are newer than everything before the epoch.
                None => described(slot.log).map(|keyspace| FileHeader {
                    kind: FileKind::Log,
                    keyspace,
                    store: self.store,
                    file: slot.log,
                    epoch,
                    base_version: first_version,
                }),
            };
            let Some(header) = header else { return slot.put(vfs, dir, &of_path, damaged).map(drop) };
            let bytes = slot.whole(&header, dir, damaged);
            if slot.base >= HEADER_BYTES && !bytes.is_empty() {
                let fragment = LogFragment { header, base: slot.base, bytes: Bytes::copy_from_slice(bytes) };
                fragments.insert(slot.log, fragment);
            }
            Ok(())
        })?;
        Ok(buffered)
    }

    pub fn get(&self, kind: FileKind, id: u64) -> Option<&FoundFile> {
        self.files.get(&(kind as u8, id))
    }

    /// The files of a kind, oldest first.
    pub fn of_kind(&self, kind: FileKind) -> impl DoubleEndedIterator<Item = (u64, &FoundFile)> {
        let range = self.files.range((kind as u8, 0)..=(kind as u8, u64::MAX));
        range.map(|(&(_, id), file)| (id, file))
    }
}

impl FoundFile {
    /// Reports the damage of the header.
    pub fn tell(&self, findings: &mut Findings) {
        if let Some(error) = &self.damage {
            findings.damage(error.clone());
        }
    }

    /// The header, completed with the facts known of the file. If the version from which its
    /// versions are counted is lost, it is taken as 0: the versions are still in order among
    /// themselves.
    pub fn header_or(&self, kind: FileKind, (store, file): (u128, u64), described: (u32, u64)) -> FileHeader {
        let (keyspace, epoch) = described;
        self.header
            .or_else(|| FileHeader::heal(&self.head, kind, (store, file), Some(described)))
            .unwrap_or(FileHeader { kind, keyspace, store, file, epoch, base_version: 0 })
    }
}

fn look(vfs: &dyn Vfs, path: &Path) -> std::io::Result<([u8; HEADER_BYTES as usize], u64)> {
    let file = vfs.open(path, OpenMode::Read)?;
    let mut head = [0; HEADER_BYTES as usize];
    file.read_at(&mut head, 0)?;
    Ok((head, file.len()?))
}
