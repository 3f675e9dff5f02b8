//! Tables that are closed and opened again, over a file system that counts calls.

use super::{Pinned, TableHandle, Tables};
use crate::cache::BlockCache;
use crate::fetch::Directly;
use crate::files::Files;
use crate::format::header::FileKind;
use crate::memory::account::Account;
use crate::sync::Arc;
use crate::table::{TableBuilder, TableGet, TableOptions};
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;
use crate::vfs::{FaultVfs, MemVfs, Operation, Vfs};
use std::path::Path;

const KEYS: u32 = 2_000;

struct World {
    vfs: FaultVfs,
    files: Arc<Files>,
    descriptions: Account,
    tables: Tables,
    cache: BlockCache,
    handle: TableHandle,
}

impl World {
    /// A table whose keys have this length.
    fn new(key_bytes: usize) -> Self {
        let vfs = FaultVfs::new(Arc::new(MemVfs::new()));
        vfs.create_dir_all(Path::new("store")).unwrap();
        let files = Arc::new(Files::new(Arc::new(vfs.clone()), "store".into(), 7, 1, 1));
        let (file, writer, header) = files.create(FileKind::Table, 3, 10).unwrap();
        let options = TableOptions::default();
        let mut builder = TableBuilder::new(writer, file.path.clone(), header, options).unwrap();
        for number in 0..KEYS {
            builder.add(&key(number, key_bytes), 10, Kind::Put, &number.to_be_bytes()).unwrap();
        }
        let meta = builder.finish(true).unwrap();
        let descriptions = Account::default();
        let handle = TableHandle {
            file,
            user_bytes: meta.user_bytes,
            stale_bytes: 0,
            large_bytes: 0,
            referred: Box::default(),
            entries: meta.entries,
            pinned_below: 0,
            base_version: 10,
            has_deleted: false,
            newest_version: 10,
            description: Pinned::default(),
        };
        let tables = Tables::new(&files, descriptions.clone());
        Self { vfs, files, descriptions, tables, cache: BlockCache::new(1 << 20), handle }
    }

    fn get(&self, key: &[u8]) -> TableGet {
        let table = self.handle.open(&self.tables, &self.files, &KeyOrder::Bytewise, &self.cache).unwrap();
        table.get(key, crate::filter::bloom::hash(key), u64::MAX, &|_| true, &Directly).unwrap()
    }

    /// Closes all open tables and handles.
    fn close(&self) {
        self.tables.clear();
        self.files.close_handles();
    }

    /// Calls that opening made, without those that open the file.
    fn calls(&self) -> u64 {
        self.vfs.calls() - self.vfs.count(Operation::Open)
    }
}

fn key(number: u32, bytes: usize) -> Vec<u8> {
    let mut key = number.to_be_bytes().to_vec();
    key.resize(bytes, b'k');
    key
}

#[test]
fn a_table_that_is_opened_again_reads_nothing_of_its_ends() {
    let world = World::new(8);
    let found = world.get(&key(5, 8));
    assert!(matches!(found, TableGet::Found { .. }));
    for _ in 0..3 {
        world.close();
        let (opened, calls) = (world.vfs.count(Operation::Open), world.calls());
        assert_eq!(world.get(&key(5, 8)), found);
        assert_eq!(world.vfs.count(Operation::Open), opened + 1, "its descriptor was closed");
        assert_eq!(world.calls(), calls, "filter, index and block are cached, and the rest is pinned");
    }
    // A block that is not cached is read as usual.
    let calls = world.calls();
    assert!(matches!(world.get(&key(KEYS - 1, 8)), TableGet::Found { .. }));
    assert_eq!(world.calls(), calls + 1, "one block");
}

#[test]
fn what_is_pinned_is_charged_for_as_long_as_the_table_is_there() {
    let world = World::new(8);
    assert_eq!(world.descriptions.used_bytes(), 0);
    world.get(&key(0, 8));
    let charged = world.descriptions.used_bytes();
    assert!((150..300).contains(&charged), "{charged} bytes");
    world.close();
    assert_eq!(world.descriptions.used_bytes(), charged);
    let other = world.handle.description.clone();
    drop(world.handle);
    assert_eq!(world.descriptions.used_bytes(), charged, "a handle of the same file has it, too");
    drop(other);
    assert_eq!(world.descriptions.used_bytes(), 0);
}

#[test]
fn bounds_that_are_long_are_read_again() {
    let world = World::new(2_000);
    world.get(&key(0, 2_000));
    assert!(world.descriptions.used_bytes() > 4_000, "charged while it is open");
    world.close();
    assert_eq!(world.descriptions.used_bytes(), 0);
    let reads = world.vfs.count(Operation::ReadAt);
    world.get(&key(0, 2_000));
    assert!(world.vfs.count(Operation::ReadAt) >= reads + 2);
}

#[test]
fn what_a_cached_filter_excludes_is_known_without_opening_the_table() {
    let world = World::new(8);
    let hash = |number: u32| crate::filter::bloom::hash(&key(number, 8));
    let lacks = |number| world.handle.is_known_to_lack(&world.cache, hash(number));
    assert!((0..2 * KEYS).all(|number| !lacks(number)), "nothing is known");
    (0..KEYS).for_each(|number| drop(world.get(&key(number, 8))));
    world.close();
    let (calls, misses) = (world.vfs.calls(), world.cache.misses());
    assert!((0..KEYS).all(|number| !lacks(number)));
    let known = (KEYS..2 * KEYS).filter(|number| lacks(*number)).count();
    assert!(known > KEYS as usize * 9 / 10, "{known} of {KEYS}");
    assert_eq!((world.vfs.calls(), world.cache.misses()), (calls, misses));
    world.cache.forget(&[world.handle.file.id]);
    assert!(!lacks(KEYS) && world.cache.misses() == misses, "the get that follows counts the miss");
}
