//! The behaviour that every file system must have, wherever it stores its bytes.

use super::{LockError, LockMode, Metadata, OpenMode, ReadQueue, ReadRequest, Vfs, VfsFile};
use crate::sync::Arc;
use std::io::ErrorKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// Checks everything, in the existing directory `root`.
pub(super) fn check(vfs: &dyn Vfs, root: &Path) {
    let dir = root.join("store").join("files");
    assert_eq!(vfs.metadata(&dir).unwrap(), None);
    vfs.create_dir_all(&dir).unwrap();
    vfs.create_dir_all(&dir).unwrap();
    assert_eq!(vfs.metadata(&dir).unwrap(), Some(Metadata { len: 0, is_dir: true, is_socket: false }));
    assert_eq!(vfs.list(&root.join("store")).unwrap(), ["files"]);
    check_in(vfs, &dir);
    vfs.sync_dir(&root.join("store")).unwrap();
}

/// Checks the behaviour of files, in the existing, empty directory `dir`, whose parent is not the
/// root.
pub(super) fn check_in(vfs: &dyn Vfs, dir: &Path) {
    opening(vfs, dir);
    reading_and_writing(vfs, dir);
    lengths(vfs, dir);
    names(vfs, dir);
    handles_outlive_names(vfs, dir);
    missing_things(vfs, dir);
    locks(vfs, dir);
    mapping(vfs, dir);
    hints(vfs, dir);
    many_places(vfs, dir);
    reading_what_is_in_memory(vfs, dir);

    assert!(vfs.available_bytes(dir).unwrap() > 0);
    let identity = vfs.page_cache_identity(dir).unwrap();
    assert_eq!(vfs.page_cache_identity(dir).unwrap(), identity);
    vfs.sync_dir(dir).unwrap();
    for name in vfs.list(dir).unwrap() {
        vfs.remove(&dir.join(name)).unwrap();
    }
    assert!(vfs.list(dir).unwrap().is_empty());
}

fn create(vfs: &dyn Vfs, path: &Path, bytes: &[u8]) -> Arc<dyn VfsFile> {
    let file = vfs.open(path, OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file
}

fn content(vfs: &dyn Vfs, path: &Path) -> Vec<u8> {
    let file = vfs.open(path, OpenMode::Read).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

fn opening(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("opening");
    for mode in [OpenMode::Read, OpenMode::ReadWrite] {
        assert_eq!(vfs.open(&path, mode).unwrap_err().kind(), ErrorKind::NotFound);
    }
    assert!(create(vfs, &path, b"").is_empty().unwrap());
    assert_eq!(vfs.open(&path, OpenMode::CreateNew).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let reader = vfs.open(&path, OpenMode::Read).unwrap();
    assert!(reader.write_at(b"x", 0).is_err());
    assert!(reader.set_len(1).is_err());
    vfs.open(&path, OpenMode::ReadWrite).unwrap().write_at(b"x", 0).unwrap();
    assert_eq!(reader.len().unwrap(), 1, "all handles see one file");
    assert!(vfs.open(dir, OpenMode::ReadWrite).is_err(), "a directory is not a file");
}

fn reading_and_writing(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("bytes");
    let file = create(vfs, &path, b"0123456789");
    file.write_at(b"abc", 8).unwrap();
    file.write_at(b"", 1_000).unwrap();
    assert_eq!(content(vfs, &path), b"01234567abc");
    file.write_at(b"z", 9_000).unwrap();
    let bytes = content(vfs, &path);
    assert_eq!(bytes.len(), 9_001);
    assert!(bytes[11..9_000].iter().all(|&byte| byte == 0), "a gap reads as zeros");

    let mut buffer = [9; 4];
    assert_eq!(file.read_at(&mut buffer, 8_998).unwrap(), 3);
    assert_eq!(buffer, [0, 0, b'z', 9]);
    assert_eq!(file.read_at(&mut buffer, 9_001).unwrap(), 0);
    assert_eq!(file.read_at(&mut buffer, 1 << 40).unwrap(), 0);
    assert_eq!(file.read_exact_at(&mut buffer, 8_998).unwrap_err().kind(), ErrorKind::UnexpectedEof);
    assert!(file.write_at(b"xx", u64::MAX - 1).is_err());

    let large: Vec<u8> = (0..300_000u32).map(|number| (number % 251) as u8).collect();
    file.write_at(&large, 4_095).unwrap();
    let mut buffer = vec![0; large.len()];
    file.read_exact_at(&mut buffer, 4_095).unwrap();
    assert!(buffer == large);

    file.sync_data().unwrap();
    file.read_exact_at(&mut buffer, 4_095).unwrap();
    assert!(buffer == large);
}

fn lengths(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("lengths");
    let file = create(vfs, &path, &[7; 6_000]);
    file.set_len(5_000).unwrap();
    file.set_len(7_000).unwrap();
    let bytes = content(vfs, &path);
    assert_eq!(bytes[..5_000], [7; 5_000]);
    assert_eq!(bytes[5_000..], [0; 2_000], "what was cut does not come back");
    assert_eq!(vfs.metadata(&path).unwrap(), Some(Metadata { len: 7_000, is_dir: false, is_socket: false }));
    match file.allocate(20_000) {
        Ok(()) => {
            assert_eq!(file.len().unwrap(), 20_000);
            file.allocate(100).unwrap();
            file.allocate(0).unwrap();
            assert_eq!(file.len().unwrap(), 20_000, "allocating does not shorten");
            assert_eq!(content(vfs, &path)[..7_000], bytes[..]);
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported),
    }
}

fn names(vfs: &dyn Vfs, dir: &Path) {
    let (one, two, three) = (dir.join("one"), dir.join("two"), dir.join("three"));
    drop(create(vfs, &one, b"1"));
    drop(create(vfs, &two, b"2"));
    vfs.rename(&one, &two).unwrap();
    assert_eq!(content(vfs, &two), b"1");
    assert!(vfs.metadata(&one).unwrap().is_none());
    vfs.rename(&two, &two).unwrap();

    vfs.hard_link(&two, &three).unwrap();
    assert_eq!(vfs.hard_link(&two, &three).unwrap_err().kind(), ErrorKind::AlreadyExists);
    vfs.open(&three, OpenMode::ReadWrite).unwrap().write_at(b"both", 0).unwrap();
    assert_eq!(content(vfs, &two), b"both");
    vfs.rename(&two, &three).unwrap();
    assert!(vfs.metadata(&two).unwrap().is_some(), "renaming one name of a file to another leaves both");
    vfs.remove(&two).unwrap();
    assert_eq!(content(vfs, &three), b"both");

    let inner = dir.parent().unwrap().join("elsewhere");
    vfs.create_dir_all(&inner).unwrap();
    vfs.rename(&three, &inner.join("moved")).unwrap();
    assert_eq!(vfs.list(&inner).unwrap(), ["moved"]);
    assert_eq!(content(vfs, &inner.join("moved")), b"both");
    assert!(!vfs.list(dir).unwrap().contains(&"three".to_owned()));
    assert!(vfs.remove(&inner).is_err(), "remove is for files");
    assert!(vfs.create_dir_all(&inner.join("moved")).is_err(), "a file is in the way");
    assert!(vfs.list(&inner.join("moved")).is_err());
}

fn handles_outlive_names(vfs: &dyn Vfs, dir: &Path) {
    let (path, other) = (dir.join("outlived"), dir.join("replacement"));
    drop(create(vfs, &path, b"old"));
    let reader = vfs.open(&path, OpenMode::Read).unwrap();
    drop(create(vfs, &other, b"new"));
    vfs.rename(&other, &path).unwrap();
    let replaced = vfs.open(&path, OpenMode::ReadWrite).unwrap();
    vfs.remove(&path).unwrap();
    replaced.write_at(b"er", 3).unwrap();
    let mut bytes = [0; 3];
    reader.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old");
    let mut bytes = [0; 5];
    replaced.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"newer");
    replaced.sync_data().unwrap();
    if let Err(error) = vfs.sync_files(dir) {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    }
}

fn missing_things(vfs: &dyn Vfs, dir: &Path) {
    let (missing, below) = (dir.join("missing"), dir.join("missing").join("file"));
    let not_found = |kind| assert_eq!(kind, ErrorKind::NotFound);
    not_found(vfs.open(&below, OpenMode::CreateNew).unwrap_err().kind());
    not_found(vfs.list(&missing).unwrap_err().kind());
    not_found(vfs.remove(&missing).unwrap_err().kind());
    not_found(vfs.rename(&missing, &dir.join("target")).unwrap_err().kind());
    not_found(vfs.hard_link(&missing, &dir.join("target")).unwrap_err().kind());
    not_found(vfs.sync_dir(&missing).unwrap_err().kind());
    assert!(vfs.metadata(&below).unwrap().is_none());
    drop(create(vfs, &missing, b""));
    assert!(vfs.metadata(&below).unwrap().is_none(), "nothing is below a file");
    assert!(vfs.open(&below, OpenMode::CreateNew).is_err());
    assert!(vfs.rename(&missing, &dir.join("no such directory").join("file")).is_err());
    assert!(vfs.metadata(&missing).unwrap().is_some(), "a failed rename leaves the file");
}

fn mapping(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("mapped");
    let file = create(vfs, &path, b"head");
    if file.allocate(4096 + 2 * 8192).is_err() {
        return;
    }
    let mut pieces = match file.map(4096, 8192, 2) {
        Ok(pieces) => pieces,
        Err(error) => return assert_eq!(error.kind(), ErrorKind::Unsupported),
    };
    assert_eq!(pieces.len(), 2);
    pieces[0].write(8190, b"ab");
    pieces[1].write(9, b"cde");
    pieces[1].set_word(16, 0x0102_0304_0506_0708);
    let bytes = content(vfs, &path);
    assert_eq!(bytes.len(), 4096 + 2 * 8192);
    assert_eq!((&bytes[..4], &bytes[12_286..12_288]), (&b"head"[..], &b"ab"[..]));
    assert_eq!(bytes[12_288..12_312], *b"\0\0\0\0\0\0\0\0\0cde\0\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01");
    assert_eq!((&*pieces[1].read(9, 3), &*pieces[0].read(8192, 0)), (&b"cde"[..], &b""[..]));
    drop(file);
    vfs.remove(&path).unwrap();
    pieces[0].write(0, b"the mapping outlives handle and name");
    assert_eq!(&*pieces[0].read(4, 7), b"mapping");
    // Each piece has its own owner, and shares no byte with another.
    std::thread::scope(|scope| {
        for (piece, byte) in pieces.iter_mut().zip(*b"12") {
            scope.spawn(move || {
                (0..8192).step_by(64).for_each(|at| piece.write(at, &[byte; 64]));
                piece.set_word(8184, 0);
            });
        }
    });
    for (piece, byte) in pieces.iter().zip(*b"12") {
        let bytes = piece.read(0, 8192);
        assert!(bytes[..8184].iter().all(|&other| other == byte) && bytes[8184..] == [0; 8]);
    }
    // Accesses beyond a piece panic.
    for (at, len) in [(0, 8193), (8191, 2), (8192, 1), (8193, 0), (usize::MAX, 1)] {
        let bytes = vec![7; len];
        assert!(catch_unwind(AssertUnwindSafe(|| pieces[0].read(at, len).len())).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| pieces[0].write(at, &bytes))).is_err());
    }
    for at in [4, 8188, 8192, usize::MAX - 7] {
        assert!(catch_unwind(AssertUnwindSafe(|| pieces[0].set_word(at, 7))).is_err());
    }
    let last = pieces.pop().unwrap();
    drop(pieces);
    assert_eq!(&*last.read(8183, 2), b"2\0");
}

/// Hints change no bytes, and no extreme arguments are an error.
fn hints(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("hints");
    let bytes: Vec<u8> = (0..300_000u32).map(|number| (number % 241) as u8).collect();
    let file = create(vfs, &path, &bytes);
    let reader = vfs.open(&path, OpenMode::Read).unwrap();
    for (offset, len) in [(0, 300_000), (4_095, 1), (299_999, 4_096), (1 << 40, 1), (7, 0), (0, 0)] {
        file.start_writeback(offset, len).unwrap();
        for file in [&file, &reader] {
            file.prefetch(offset, len);
        }
    }
    reader.prefetch(u64::MAX, u64::MAX);
    reader.prefetch(u64::MAX - 1, 1);
    assert!(content(vfs, &path) == bytes);
    // Bytes whose write-back has begun can be overwritten and synced.
    file.write_at(b"again", 4_093).unwrap();
    file.start_writeback(0, 8_192).unwrap();
    file.set_len(5_000).unwrap();
    file.sync_data().unwrap();
    let left = content(vfs, &path);
    assert_eq!((left.len(), &left[..4_093], &left[4_093..4_098]), (5_000, &bytes[..4_093], &b"again"[..]));
}

fn reading_what_is_in_memory(vfs: &dyn Vfs, dir: &Path) {
    let file = create(vfs, &dir.join("in memory"), &[7; 100]);
    let mut buffer = [0; 100];
    // A file system need not know that it is.
    for (offset, len) in [(0, 100), (40, 60), (100, 0), (1 << 40, 0)] {
        if let Some(read) = file.read_now_at(&mut buffer, offset).unwrap() {
            assert!(read <= len && buffer[..read].iter().all(|byte| *byte == 7), "{read} at {offset}");
        }
    }
    assert!(file.read_now_at(&mut buffer, u64::MAX).unwrap().is_none_or(|read| read == 0));
    assert_eq!(file.read_at(&mut buffer, 0).unwrap(), 100);
}

/// Each place has its own outcome, in the order of the places, in one file or in many.
fn many_places(vfs: &dyn Vfs, dir: &Path) {
    let files: Vec<Arc<dyn VfsFile>> = (0..3u8)
        .map(|number| create(vfs, &dir.join(format!("places-{number}")), &vec![number; 100_000]))
        .collect();
    for queue in [ReadQueue::default(), ReadQueue::of_hints()] {
        read_places(&files, &queue);
    }
}

fn read_places(files: &[Arc<dyn VfsFile>], queue: &ReadQueue) {
    let mut buffers = vec![[9; 1_000]; 90];
    let mut places: Vec<ReadRequest<'_>> = buffers
        .iter_mut()
        .enumerate()
        .map(|(at, buffer)| ReadRequest {
            file: &*files[at % 3],
            offset: (99_500 + at) as u64 * (at as u64 % 5),
            buffer,
        })
        .collect();
    let outcomes = queue.read_all(&mut places);
    for (at, (outcome, buffer)) in outcomes.into_iter().zip(buffers).enumerate() {
        let offset = (99_500 + at) * (at % 5);
        let read = outcome.unwrap();
        assert_eq!(read, 100_000_usize.saturating_sub(offset).min(1_000), "at {offset}");
        assert!(
            buffer[..read].iter().all(|byte| *byte == (at % 3) as u8)
                && buffer[read..].iter().all(|byte| *byte == 9)
        );
    }
}

fn locks(vfs: &dyn Vfs, dir: &Path) {
    let path = dir.join("LOCK");
    let exclusive = vfs.lock(&path, LockMode::Exclusive).unwrap();
    assert_eq!(content(vfs, &path), format!("{}\n", std::process::id()).as_bytes());
    for mode in [LockMode::Exclusive, LockMode::Shared] {
        let denied = vfs.lock(&path, mode);
        assert!(
            matches!(denied, Err(LockError::Held(Some(pid))) if pid == std::process::id()),
            "this process holds it already: {denied:?}"
        );
    }
    drop(exclusive);
    let readers = [LockMode::Shared; 2].map(|mode| vfs.lock(&path, mode).unwrap());
    let denied = vfs.lock(&path, LockMode::Exclusive);
    assert!(matches!(denied, Err(LockError::Held(None))), "shared holders leave no name: {denied:?}");
    let [first, second] = readers;
    drop(first);
    assert!(matches!(vfs.lock(&path, LockMode::Exclusive), Err(LockError::Held(None))));
    drop(second);
    drop(vfs.lock(&path, LockMode::Exclusive).unwrap());
    drop(vfs.lock(&dir.join("OTHER"), LockMode::Shared).unwrap());
    let nowhere = vfs.lock(&dir.join("nowhere").join("LOCK"), LockMode::Exclusive);
    assert!(matches!(nowhere, Err(LockError::Io(_))));
}
