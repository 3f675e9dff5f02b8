//! The file of an open table: held open, or looked up for each read.
//!
//! A process may open few files, and a merge or a scan has a table of each run in use, however many
//! runs there are. Up to a maximum, tables hold their files open. The others take the file's handle
//! for one read only, from the handles that all stores share (`files::handles`), which open it again if
//! they have closed it meanwhile.
//!
//! Thread safety: any number of threads may read at once.

use crate::files::StoreFile;
use crate::sync::Arc;
use crate::sync::atomic::{
    AtomicUsize,
    Ordering::{AcqRel, Relaxed},
};
use crate::types::error::Result;
use crate::vfs::VfsFile;

/// The number of tables that hold their files open.
#[derive(Debug, Clone, Default)]
pub(super) struct HeldFiles(Arc<AtomicUsize>);

/// A table that holds its file open, as long as it lives.
#[derive(Debug)]
pub(super) struct Held(Arc<AtomicUsize>);

impl HeldFiles {
    /// Counts one more, unless there are `most`.
    fn hold(&self, most: usize) -> Option<Held> {
        let more = |held| (held < most).then_some(held + 1);
        self.0.fetch_update(AcqRel, Relaxed, more).ok()?;
        Some(Held(self.0.clone()))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, AcqRel);
    }
}

#[derive(Debug)]
pub(super) enum OpenFile {
    /// Held open, and counted if others depend on that.
    Held { file: Arc<dyn VfsFile>, _count: Option<Held> },
    /// Looked up for each read.
    Named(Arc<StoreFile>),
}

impl OpenFile {
    /// Held open if fewer than `most` are.
    pub(super) fn of(file: &Arc<StoreFile>, held: &HeldFiles, most: usize) -> Result<Self> {
        match held.hold(most) {
            Some(count) => Ok(Self::Held { file: file.handle()?, _count: Some(count) }),
            None => Ok(Self::Named(file.clone())),
        }
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self, Self::Held { .. })
    }

    /// The file, for one read.
    pub(super) fn handle(&self) -> Result<Arc<dyn VfsFile>> {
        match self {
            Self::Held { file, .. } => Ok(file.clone()),
            Self::Named(file) => file.handle(),
        }
    }

    /// Calls `read` with the open file.
    pub(super) fn with<T>(&self, read: impl FnOnce(&dyn VfsFile) -> Result<T>) -> Result<T> {
        match self {
            Self::Held { file, .. } => read(&**file),
            Self::Named(file) => read(&*file.handle()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::Files;
    use crate::format::header::FileKind;
    use crate::vfs::{MemVfs, Vfs};
    use std::path::Path;

    #[test]
    fn tables_beyond_the_maximum_hold_no_file_and_are_read_all_the_same() {
        let vfs = Arc::new(MemVfs::new());
        vfs.create_dir_all(Path::new("store")).unwrap();
        let files = Arc::new(Files::new(vfs, "store".into(), 7, 1, 1));
        let (file, writer, _) = files.create(FileKind::Table, 3, 10).unwrap();
        writer.write_at(b"table", 0).unwrap();
        let held = HeldFiles::default();
        let read = |file: &OpenFile| {
            let mut bytes = [0; 5];
            file.with(|file| {
                file.read_exact_at(&mut bytes, 0).unwrap();
                Ok(())
            })
            .unwrap();
            assert_eq!(&bytes, b"table");
        };
        let first = OpenFile::of(&file, &held, 1).unwrap();
        let second = OpenFile::of(&file, &held, 1).unwrap();
        assert_eq!([first.is_held(), second.is_held()], [true, false]);
        read(&second);
        // Its handle may be closed between two reads.
        files.close_handles();
        read(&second);
        drop(first);
        assert!(OpenFile::of(&file, &held, 1).unwrap().is_held(), "the first holds it no more");
    }
}
