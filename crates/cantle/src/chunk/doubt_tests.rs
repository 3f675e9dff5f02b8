//! A batch whose commit record may or may not be in the journal.

use crate::chunk::test_support::{chunks_in, chunks_of};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering::Relaxed};
use crate::vfs::{Failure, FaultVfs, MemVfs, Operation, Verdict};
use crate::{ChunkOptions, Durability, KeyspaceOptions, Options, WriteBatch};

/// The batch's records are after the ends of their logs, where the next index would be written.
/// Half of the batch would be lost.
#[test]
fn nothing_is_written_over_a_batch_of_which_nobody_knows_whether_it_is_committed() {
    for (durability, write_buffer) in
        [(Durability::Process, false), (Durability::Process, true), (Durability::Buffered, false)]
    {
        let disk = MemVfs::new();
        let vfs = FaultVfs::over_memory(disk.clone());
        let keyspace = KeyspaceOptions::new().layout(ChunkOptions::new().munks(false));
        let options = |vfs: FaultVfs| {
            let options = Options::new().durability(durability).write_buffer(write_buffer).vfs(Arc::new(vfs));
            options.default_keyspace(keyspace.clone())
        };
        let db = options(vfs.clone()).open("store").unwrap();
        let other = db.keyspace_with("other", keyspace.clone()).unwrap();
        let mut before = WriteBatch::new();
        before.put("before", "1").keyspace(&other).put("before", "1");
        db.write(before).unwrap();
        let written = AtomicBool::new(false);
        vfs.set_rule(move |call| {
            // By its final name, or its temporary one.
            let is_journal = call.path.to_string_lossy().contains("journal");
            if !is_journal || call.operation != Operation::WriteAt {
                return Verdict::Pass;
            }
            // The record is in the file, and cannot be erased.
            let bytes = if written.swap(true, Relaxed) { 0 } else { 1 << 20 };
            Verdict::ShortWrite { bytes, failure: Failure::EIO }
        });
        let mut batch = WriteBatch::new();
        batch.put("key", vec![7; 3000]).keyspace(&other).put("key", vec![7; 3000]);
        assert!(db.write(batch).is_err());
        assert!(db.stats().read_only.is_some(), "nobody knows whether it is committed");
        vfs.clear_rule();
        for chunks in [chunks_of(&db), chunks_in(&other)] {
            assert!(chunks.index_part(&mut chunks.first().writer.lock()).is_err());
            chunks.first().writer.lock().end_log(&chunks.context.substrate);
        }
        let killed = FaultVfs::over_memory(disk.kill());
        drop((db, other));
        let db = options(killed).open("store").unwrap();
        let other = db.keyspace_with("other", keyspace.clone()).unwrap();
        let found = [db.get("key").unwrap(), other.get("key").unwrap()].map(|value| value.is_some());
        assert_eq!(found[0], found[1], "half of a batch");
        assert_eq!(found[0], durability == Durability::Process, "the record is in the journal");
        assert!(db.verify().unwrap().is_ok());
    }
}
