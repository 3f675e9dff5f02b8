//! `cantle bench --record FILE`: the operations of a run as a trace, to be run again against any store.

use super::records::VALUE_BYTES;
use super::workload::Operation;
use crate::failure::Outcome;
use crate::measure::failed;
use cantle_workloads::trace::{Entry, Writer};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Writes operations in the order in which threads come to it, which is not quite that in which the store sees them.
pub(crate) struct Recorder {
    path: PathBuf,
    writer: Mutex<Writer<BufWriter<File>>>,
}

impl Recorder {
    /// Begins a new file.
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let file = File::create_new(path).map_err(failed("create", path))?;
        let writer = Writer::new(BufWriter::new(file)).map_err(failed("write", path))?;
        Ok(Self { path: path.into(), writer: Mutex::new(writer) })
    }

    /// Adds an operation on `key`.
    pub(crate) fn add(&self, operation: Operation, key: &[u8]) -> Outcome {
        let (key, value_bytes) = (key.to_vec(), VALUE_BYTES as u64);
        match operation {
            Operation::Put | Operation::Insert => self.write(&[Entry::Put { key, value_bytes }]),
            Operation::Get => self.write(&[Entry::Get { key }]),
            Operation::Scan(rows) => self.write(&[Entry::Scan { from: key, to: None, rows: Some(rows) }]),
            Operation::ReadModifyWrite => {
                self.write(&[Entry::Get { key: key.clone() }, Entry::Put { key, value_bytes }])
            }
        }
    }

    fn write(&self, entries: &[Entry]) -> Outcome {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let mut written = entries.iter().map(|entry| writer.write(entry));
        written.try_for_each(|result| result).map_err(failed("write", &self.path))
    }

    /// Ends the file.
    pub(crate) fn finish(&self) -> Outcome {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.flush().map_err(failed("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cantle_workloads::trace::Reader;
    use std::io::BufReader;

    #[test]
    fn what_is_recorded_is_a_trace() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace");
        let recorder = Recorder::create(&path).unwrap();
        for operation in [Operation::Insert, Operation::Get, Operation::Scan(7), Operation::ReadModifyWrite] {
            recorder.add(operation, b"key").unwrap();
        }
        recorder.finish().unwrap();
        let reader = Reader::new(BufReader::new(File::open(&path).unwrap())).unwrap();
        let entries: Vec<Entry> = reader.map(|entry| entry.unwrap()).collect();
        assert_eq!(entries.len(), 5);
        assert_eq!(entries[2], Entry::Scan { from: b"key".to_vec(), to: None, rows: Some(7) });
        assert_eq!((entries[3].clone(), &entries[4]), (Entry::Get { key: b"key".to_vec() }, &entries[0]));
        assert!(Recorder::create(&path).is_err(), "another trace is left alone");
    }
}
