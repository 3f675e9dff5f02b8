//! Apart from what they test: models of other modules take that in without them.

use super::Files;
use crate::format::header::FileKind;
use crate::sync::Arc;
use crate::vfs::MemVfs;

#[test]
fn what_is_held_counts_until_it_goes_with_the_length_that_was_counted() {
    let files = Arc::new(Files::new(Arc::new(MemVfs::new()), "store".into(), 1, 1, 1));
    let held = |bytes| {
        let file = files.adopt(FileKind::Log, files.next_id(), 0, 1, bytes);
        file.retain();
        assert!(file.release(), "the only reference");
        file
    };
    // The length of a log of an earlier epoch is not known before somebody reads it.
    let unread = held(0);
    let first = files.take_held();
    let second = held(50);
    unread.set_bytes(100);
    files.doom(first);
    assert_eq!(files.held_bytes(), 50, "the other file is held still");
    second.set_bytes(10);
    files.doom(files.take_held());
    assert_eq!(files.held_bytes(), 0);
}
