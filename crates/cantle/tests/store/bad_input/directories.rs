//! Paths without a store, with a store of another kind, or of another version.

use super::{files, open, options, read_file, write_file};
use cantle::vfs::{MemVfs, OpenMode, Vfs};
use cantle::{Comparator, Error, KeyspaceOptions, Options};
use std::cmp::Ordering;
use std::path::Path;
use std::sync::Arc;

#[test]
fn a_file_is_not_a_store() {
    let vfs = MemVfs::new();
    write_file(&vfs, "store", b"text");
    assert!(matches!(options(&vfs).open("store"), Err(Error::NotAStore { .. })));
    assert_eq!(read_file(&vfs, "store"), b"text");
}

#[test]
fn the_stores_of_others_stay_as_they_are() {
    let others: [(&str, &[&str]); 5] = [
        ("LevelDB", &["CURRENT", "MANIFEST-000002", "000003.log", "LOCK", "LOG"]),
        ("RocksDB", &["CURRENT", "MANIFEST-000005", "OPTIONS-000007", "IDENTITY", "000004.sst", "LOCK"]),
        ("LMDB", &["data.mdb", "lock.mdb"]),
        ("import", &["IMPORTING", "store"]),
        ("other files", &["photo.jpg"]),
    ];
    for (kind, names) in others {
        let vfs = MemVfs::new();
        vfs.create_dir_all(Path::new("store")).unwrap();
        for name in names {
            write_file(&vfs, Path::new("store").join(name), format!("{kind} {name}").as_bytes());
        }
        let before = files(&vfs, "store");
        for read_only in [false, true] {
            let error = options(&vfs).read_only(read_only).open("store").unwrap_err();
            assert!(matches!(error, Error::NotAStore { .. }), "{kind}: {error}");
            assert!(error.to_string().contains(kind), "{kind}: {error}");
        }
        assert_eq!(files(&vfs, "store"), before, "{kind}");
        for name in names {
            let bytes = read_file(&vfs, Path::new("store").join(name));
            assert_eq!(bytes, format!("{kind} {name}").as_bytes());
        }
    }
}

#[test]
fn a_store_is_created_only_where_that_was_asked_for() {
    let vfs = MemVfs::new();
    assert!(matches!(options(&vfs).create_if_missing(false).open("store"), Err(Error::NotFound { .. })));
    assert!(matches!(options(&vfs).read_only(true).open("store"), Err(Error::NotFound { .. })));
    assert!(vfs.metadata(Path::new("store")).unwrap().is_none());
    drop(open(&vfs));
    assert!(matches!(options(&vfs).error_if_exists(true).open("store"), Err(Error::AlreadyExists { .. })));
    options(&vfs).create_if_missing(false).open("store").unwrap();
}

struct Other;

impl Comparator for Other {
    fn name(&self) -> &str {
        "other"
    }

    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        b.cmp(a)
    }
}

#[test]
fn a_keyspace_opens_with_its_own_comparator_only() {
    let vfs = MemVfs::new();
    let other = || KeyspaceOptions::new().comparator(Arc::new(Other));
    let mismatch = |result: Option<Error>| matches!(result, Some(Error::OptionMismatch { .. }));
    {
        let db = open(&vfs);
        assert!(mismatch(db.keyspace_with("default", other()).err()));
        db.keyspace_with("reverse", other()).unwrap().put("a", "1").unwrap();
    }
    assert!(mismatch(
        options(&vfs).comparator(Arc::new(Other)).default_keyspace(other()).open("store").err()
    ));
    assert!(mismatch(options(&vfs).open("store").err()), "its comparator is not registered");
    let db = options(&vfs).comparator(Arc::new(Other)).open("store").unwrap();
    let reverse = db.keyspace("reverse").unwrap();
    assert_eq!(reverse.get("a").unwrap().as_deref(), Some(&b"1"[..]));
    let default = db.keyspace("default").unwrap();
    assert_eq!((reverse.comparator_name(), default.comparator_name()), ("other", "cantle.bytewise"));
}

/// With this name its keyspace would open without the comparator, in another order than that of its
/// keys.
#[test]
fn no_comparator_has_the_name_of_the_bytewise_order() {
    struct Bytewise;
    impl Comparator for Bytewise {
        fn name(&self) -> &str {
            "cantle.bytewise"
        }
        fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
            b.cmp(a)
        }
    }
    let vfs = MemVfs::new();
    let given = || KeyspaceOptions::new().comparator(Arc::new(Bytewise));
    let refused = |result: Option<Error>| matches!(result, Some(Error::InvalidArgument(why)) if why.contains("\"cantle.bytewise\""));
    assert!(refused(options(&vfs).default_keyspace(given()).open("store").err()));
    assert!(refused(options(&vfs).comparator(Arc::new(Bytewise)).open("store").err()));
    let db = open(&vfs);
    assert!(refused(db.keyspace_with("odd", given()).err()));
    assert_eq!(db.keyspaces().unwrap(), ["default"]);
}

/// A store that needs each of its files: logs, tables and, because of a batch over two keyspaces, a
/// journal.
pub fn killed_store() -> MemVfs {
    let vfs = MemVfs::new();
    let db = options(&vfs).durability(cantle::Durability::Sync).open("store").unwrap();
    db.put("in a table", "1").unwrap();
    db.compact_range(..).unwrap();
    db.put("in a log", "2").unwrap();
    vfs.kill()
}

#[test]
fn files_of_a_newer_format_are_told_from_damage() {
    let vfs = killed_store();
    let mut kinds = Vec::new();
    for path in files(&vfs, "store") {
        let bytes = read_file(&vfs, &path);
        if !bytes.starts_with(b"CANTLE\0") {
            continue;
        }
        kinds.push(bytes[7]);
        let newer = vfs.kill();
        let mut header = bytes[..64].to_vec();
        header[8..12].copy_from_slice(&9u32.to_le_bytes());
        let crc = crc32c::crc32c(&header[..60]);
        header[60..].copy_from_slice(&crc.to_le_bytes());
        newer.open(&path, OpenMode::ReadWrite).unwrap().write_at(&header, 0).unwrap();
        let outcome = Options::new().vfs(Arc::new(newer)).open("store").and_then(|db| {
            db.get("in a table")?;
            db.get("in a log")
        });
        match outcome {
            Err(Error::UnsupportedFormat { path: found, found: 9, supported: 3, .. }) => {
                assert_eq!(found, path)
            }
            other => panic!("{}: {other:?}", path.display()),
        }
    }
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds, b"JLMT", "a file of every kind was there");
}
