//! An append that fails before anything is written.

use crate::chunk::test_support::chunks_of;
use crate::sync::Arc;
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict};
use crate::{ChunkOptions, KeyspaceOptions, Options};

/// Otherwise the store would conclude that its disk cannot shorten files, and turn read-only after
/// a temporary error.
#[test]
fn an_append_that_cannot_open_its_log_leaves_nothing_to_take_back() {
    for write_buffer in [false, true] {
        let disk = MemVfs::new();
        let vfs = FaultVfs::over_memory(disk.clone());
        let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false));
        let options = |vfs: FaultVfs| {
            let options = Options::new().write_buffer(write_buffer).vfs(Arc::new(vfs));
            options.default_keyspace(keyspace.clone())
        };
        let db = options(vfs.clone()).open("store").unwrap();
        let chunks = chunks_of(&db);
        for round in 0..3u8 {
            db.put([round], [round]).unwrap();
            vfs.set_rule(|call| {
                let is_log = call.path.extension().is_some_and(|kind| kind == "log");
                let fails = is_log && call.operation == Operation::Open;
                if fails { Verdict::Fail(Failure::EMFILE) } else { Verdict::Pass }
            });
            chunks.context.files.close_handles();
            // Longer than the write buffer accepts.
            assert!(db.put([round, 1], vec![round; 2 << 20]).is_err());
            assert!(chunks.index_part(&mut chunks.first().writer.lock()).is_err());
            vfs.clear_rule();
            db.put([round, 2], [round]).unwrap();
            assert_eq!(db.stats().read_only, None);
        }
        let killed = FaultVfs::over_memory(disk.kill());
        drop(db);
        let db = options(killed).open("store").unwrap();
        let found: Vec<_> = db.range(..).map(|pair| pair.unwrap().0.to_vec()).collect();
        assert_eq!(found, (0..3).flat_map(|round| [vec![round], vec![round, 2]]).collect::<Vec<_>>());
        assert!(db.verify().unwrap().is_ok());
    }
}
