//! Writing a table to the device: in large pieces, and with every failure reported.

use super::*;
use crate::types::entry::Kind;
use crate::vfs::{Failure, FaultVfs, MemVfs, OpenMode, Operation, Verdict, Vfs};
use std::path::Path;

const PATH: &str = "7.table";

/// Writes a table of about 3 MiB through `vfs`.
fn write(vfs: &FaultVfs) -> Result<TableMeta> {
    let file = vfs.open(Path::new(PATH), OpenMode::CreateNew).unwrap();
    let mut builder = TableBuilder::new(file, PathBuf::from(PATH), header(), TableOptions::default())?;
    for number in 0..3_000_u32 {
        builder.add(&number.to_be_bytes(), BASE_VERSION, Kind::Put, &[number as u8; 1_000])?;
    }
    builder.finish(true)
}

#[test]
fn full_pages_are_written_back_before_the_sync_and_each_once() {
    let vfs = FaultVfs::over_memory(MemVfs::new());
    let begun = Arc::new(Mutex::new((0, 0)));
    let seen = begun.clone();
    vfs.set_rule(move |call| {
        let (end, written) = &mut *seen.lock();
        match call.operation {
            Operation::WriteAt => *written = call.offset + call.len,
            Operation::StartWriteback => {
                assert_eq!(call.offset, *end, "from where the last one ended");
                assert!(call.len >= 1 << 20 && call.len.is_multiple_of(4096), "{} bytes", call.len);
                *end += call.len;
                assert!(*end <= *written, "nothing is begun that is not written");
            }
            _ => {}
        }
        Verdict::Pass
    });
    let meta = write(&vfs).unwrap();
    let (end, written) = *begun.lock();
    assert_eq!(written, meta.file_bytes);
    assert!(meta.file_bytes - end < (1 << 20) + 4096, "{} bytes are left to the sync", meta.file_bytes - end);
    assert_eq!(vfs.count(Operation::SyncData), 1);
}

#[test]
fn a_write_back_that_cannot_begin_is_a_failed_sync() {
    for (failure, is_full) in [(Failure::EIO, false), (Failure::ENOSPC, true)] {
        let vfs = FaultVfs::over_memory(MemVfs::new());
        vfs.fail_once(Operation::StartWriteback, 1, Verdict::FailLost(failure));
        let error = write(&vfs).unwrap_err();
        assert_eq!((error.is_sync(), error.is_no_space()), (!is_full, is_full), "{error}");
        assert_eq!(vfs.count(Operation::SyncData), 0, "no sync that might succeed for pages that are lost");
    }
}
