//! Directories that are not stores, and stores that are in use.

use super::stores::{End, plain};
use super::{bytes_of, options, write_file};
use cantle::Error;
use cantle::vfs::{MemVfs, Vfs};
use std::path::Path;

#[test]
fn each_mistake_has_its_own_error_and_nothing_is_touched() {
    let (vfs, _) = plain(50, End::Closed);
    let before = bytes_of(&vfs);
    let fails = |from: &str, to: &str| cantle::Db::repair(from, to, options(&vfs)).unwrap_err();
    assert!(matches!(fails("nowhere", "new"), Error::NotFound { .. }));
    write_file(&vfs, Path::new("file"), b"text");
    assert!(matches!(fails("file", "new"), Error::NotAStore { .. }));
    vfs.create_dir_all(Path::new("level")).unwrap();
    for name in ["CURRENT", "MANIFEST-000002"] {
        write_file(&vfs, &Path::new("level").join(name), b"text");
    }
    let level = fails("level", "new");
    assert!(matches!(&level, Error::NotAStore { what, .. } if what.contains("LevelDB")), "{level}");
    assert!(matches!(fails("store", "store"), Error::InvalidArgument(_)));
    assert!(matches!(fails("store", "store/new"), Error::InvalidArgument(_)));
    assert!(matches!(fails("store", "level"), Error::NotAStore { .. }));
    assert!(matches!(fails("store", "file"), Error::NotAStore { .. }));
    drop(options(&vfs).open("another").unwrap());
    assert!(matches!(fails("store", "another"), Error::AlreadyExists { .. }));
    let db = options(&vfs).open("another").unwrap();
    assert!(matches!(fails("another", "new"), Error::Locked { .. }));
    drop(db);
    assert!(bytes_of(&vfs) == before);
    assert!(vfs.metadata(Path::new("new")).unwrap().is_none());
}

#[test]
fn readers_may_have_it_open() {
    let (vfs, _) = plain(50, End::Closed);
    let reader = options(&vfs).read_only(true).open("store").unwrap();
    assert!(cantle::Db::repair("store", "new", options(&vfs)).unwrap().is_ok());
    drop(reader);
}

#[test]
fn a_directory_of_garbage_is_an_error() {
    let vfs = MemVfs::new();
    vfs.create_dir_all(Path::new("store")).unwrap();
    write_file(&vfs, Path::new("store/000000000003.table"), &[0xa5; 5000]);
    let error = cantle::Db::repair("store", "new", options(&vfs)).unwrap_err();
    assert!(error.is_corruption(), "{error}");
}
