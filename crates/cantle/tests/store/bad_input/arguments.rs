//! Arguments and options that the store does not accept.

use super::{open, options};
use cantle::vfs::MemVfs;
use cantle::{ChunkOptions, Compression, Error, KeyspaceOptions, WriteBatch};

fn is_invalid<T>(result: cantle::Result<T>) -> bool {
    matches!(result, Err(Error::InvalidArgument(_)))
}

#[test]
fn keys_of_more_than_1_mib_are_refused_and_those_of_1_mib_are_not() {
    let db = open(&MemVfs::new());
    let (fits, too_long) = (vec![b'k'; 1 << 20], vec![b'k'; (1 << 20) + 1]);
    db.put(&fits, "v").unwrap();
    assert!(is_invalid(db.put(&too_long, "v")));
    assert!(is_invalid(db.delete(&too_long)));
    assert!(is_invalid(db.update(&too_long, |_| Some(Vec::new()))));
    let mut batch = WriteBatch::new();
    batch.put("in the same batch", "").put(&too_long, "v");
    assert!(is_invalid(db.write(batch)));
    assert_eq!(db.get("in the same batch").unwrap(), None, "nothing of a refused batch is written");
    assert_eq!(db.get(&too_long).unwrap(), None);
    assert_eq!(db.range(..).count(), 1);
}

#[test]
fn a_value_of_more_than_1_gib_is_refused() {
    let db = open(&MemVfs::new());
    let too_long = vec![0; (1 << 30) + 1];
    assert!(is_invalid(db.put("k", &too_long)));
    drop(too_long);
    assert_eq!(db.get("k").unwrap(), None);
}

#[test]
fn options_out_of_range_are_refused_before_anything_is_created() {
    let refused = [
        KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes((64 << 10) - 1)),
        KeyspaceOptions::new().layout(ChunkOptions::new().chunk_bytes((1 << 30) + 1)),
        KeyspaceOptions::new().space_amplification(1.05),
        KeyspaceOptions::new().space_amplification(f64::NAN),
        KeyspaceOptions::new().space_amplification(f64::INFINITY),
        KeyspaceOptions::new().layout(ChunkOptions::new().filter_partitions(0)),
        KeyspaceOptions::new().layout(ChunkOptions::new().filter_partitions(65)),
        KeyspaceOptions::new().layout(ChunkOptions::new().log_bytes(4095)),
        KeyspaceOptions::new().compression(Compression::Zstd(0)),
        KeyspaceOptions::new().compression(Compression::Zstd(23)),
    ];
    let vfs = MemVfs::new();
    for keyspace in &refused {
        assert!(is_invalid(options(&vfs).default_keyspace(keyspace.clone()).open("store")), "{keyspace:?}");
    }
    assert!(is_invalid(options(&vfs).memory_budget((1 << 20) - 1).open("store")));
    let nothing = options(&vfs).create_if_missing(false).open("store");
    assert!(matches!(nothing, Err(Error::NotFound { .. })));
    let db = open(&vfs);
    for keyspace in refused {
        assert!(is_invalid(db.keyspace_with("other", keyspace)));
    }
    assert!(is_invalid(db.keyspace("")));
    assert!(is_invalid(db.keyspace(&"n".repeat(256))));
    assert_eq!(db.keyspaces().unwrap(), ["default"]);
}
