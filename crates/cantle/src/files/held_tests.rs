//! In a file of its own, because models of other modules include the tested file without its tests.

use super::Files;
use crate::format::header::FileKind;
use crate::sync::Arc;
use crate::vfs::{MemVfs, OpenMode, Vfs};
use std::path::Path;

#[test]
fn what_is_held_counts_until_it_goes_with_the_length_that_was_counted() {
    let files = Arc::new(Files::new(Arc::new(MemVfs::new()), "store".into(), 1, 1, 1));
    let held = |bytes| {
        let file = files.adopt(FileKind::Log, files.next_id(), 0, 1, bytes);
        file.retain();
        assert!(file.release(), "the only reference");
        file
    };
    // The length of a log of an earlier epoch is unknown until it is read.
    let unread = held(0);
    let first = files.take_held();
    let second = held(50);
    unread.set_bytes(100);
    files.mark_deletable(first);
    assert_eq!(files.held_bytes(), 50, "the other file is held still");
    second.set_bytes(10);
    files.mark_deletable(files.take_held());
    assert_eq!(files.held_bytes(), 0);
}

/// A closed store that kept its directory open would keep a file system from being unmounted.
#[test]
fn nothing_is_held_by_a_closed_store() {
    let files = Arc::new(Files::new(Arc::new(MemVfs::new()), "store".into(), 1, 1, 1));
    let released = |id| {
        let file = files.adopt(FileKind::Log, id, 0, 1, 1);
        file.retain();
        file.release()
    };
    assert!(released(1));
    let of_failed_checkpoint = files.take_held();
    assert!(released(2));
    files.end();
    assert!(released(3), "a late reader");
    files.hold_again(of_failed_checkpoint);
    let left = Arc::downgrade(&files);
    drop(files);
    assert!(left.upgrade().is_none());
}

#[test]
fn files_are_settled_when_the_removal_of_obsolete_ones_before_them_is_durable() {
    let vfs = MemVfs::new();
    vfs.create_dir_all("store".as_ref()).unwrap();
    let files = Arc::new(Files::new(Arc::new(vfs), "store".into(), 1, 1, 1));
    let create = || files.create(FileKind::Table, 0, 1).unwrap().0;
    let (old, _new) = (create(), create());
    assert_eq!(files.settled_below(), 0, "what was there before the opening is not known");
    files.sync_dir().unwrap();
    assert_eq!(files.settled_below(), 3);
    old.retain();
    assert!(old.release(), "the only reference");
    assert_eq!(files.settled_below(), 1, "it is held");
    let taken = files.take_held();
    assert_eq!(files.settled_below(), 1, "its checkpoint is not durable");
    files.mark_deletable(taken);
    assert_eq!(files.settled_below(), 1, "it is read");
    drop(old);
    assert_eq!(files.settled_below(), 1, "its removal is not durable");
    files.sync_dir().unwrap();
    assert_eq!(files.settled_below(), 3);
    files.note_orphans(true);
    create();
    files.sync_dir().unwrap();
    assert_eq!(files.settled_below(), 0, "orphans are left");
    files.note_orphans(false);
    create();
    files.sync_dir().unwrap();
    assert_eq!(files.settled_below(), 5);
}

#[test]
fn what_is_doomed_is_gone_when_the_store_is_closed_though_somebody_holds_it() {
    let vfs = MemVfs::new();
    vfs.create_dir_all("store".as_ref()).unwrap();
    let files = Arc::new(Files::new(Arc::new(vfs.clone()), "store".into(), 1, 1, 1));
    let exists = |path: &Path| vfs.open(path, OpenMode::Read).is_ok();
    let create = || files.create(FileKind::Log, 0, 1).unwrap().0;
    let (deletable, needed) = (create(), create());
    files.mark_deletable(vec![deletable.clone()]);
    assert!(exists(&deletable.path), "it may be read");
    files.end();
    assert!(!exists(&deletable.path) && exists(&needed.path));
    // Another store may have a file of this name by now.
    vfs.open(&deletable.path, OpenMode::CreateNew).unwrap();
    let path = deletable.path.clone();
    drop(deletable);
    assert!(exists(&path));
}
