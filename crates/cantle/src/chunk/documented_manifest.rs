//! Builds the example of `docs/format/manifest.md` again: a new store, then its first log and the
//! checkpoint that makes it durable.

use super::edit::{ChunkEdit, ChunkRecord};
use super::factory::Chunk;
use crate::format::documented::{assert_documented, example_header};
use crate::format::header::FileKind;
use crate::layout::factory::LayoutFactory;
use crate::manifest::{CheckpointEdit, Edit, KeyspaceEdit, SegmentEdit, StartEdit};
use crate::mvcc::{DeadBatches, EpochBatches, RecoveryTable};
use crate::records::encode_record;
use crate::run::record::FileRecord;
use crate::types::span::Span;

fn append(file: &mut Vec<u8>, edit: &Edit) {
    let header = example_header(FileKind::Manifest, 0, 1, 0);
    let payload = edit.encode();
    let lengths = (Edit::head_bytes(&payload), payload.len());
    encode_record(&header, file.len() as u64, lengths, file, |out| out.extend_from_slice(&payload));
}

#[test]
fn the_documented_manifest_is_what_is_written() {
    let mut recovery_table = RecoveryTable::default();
    recovery_table.push(1, 40, 1000).unwrap();
    let mut dead_batches = DeadBatches::default();
    dead_batches.push(EpochBatches::from_committed(1, 3, [3, 6])).unwrap();
    let table = FileRecord {
        kind: FileKind::Table,
        file: 7,
        epoch: 2,
        bytes: 252,
        user_bytes: 16,
        stale_bytes: 3,
        large_bytes: 0,
        entries: 3,
        has_deleted: false,
        span: Some(Span { start: None, end: Some("app/9".into()) }),
        share_bytes: Some(126),
        dropped: None,
        dropped_ranges: None,
        referred: Vec::new(),
    };
    let split = ChunkEdit::Replace {
        removed: vec![1],
        added: vec![
            ChunkRecord { id: 2, start: None, files: Vec::new() },
            ChunkRecord { id: 3, start: Some("app/2".into()), files: vec![table] },
        ],
    };
    let layout = |edit: ChunkEdit| Edit::Layout { keyspace: 1, payload: edit.encode() };
    let checkpoint = CheckpointEdit {
        version: 1300,
        ceiling: 1300 + (1 << 32),
        next_file: 9,
        next_keyspace: 2,
        next_batch: 7,
        first_journal: 9,
        durable_bytes: 173,
        parts: Vec::new(),
        segments: vec![SegmentEdit { file: 8, len: 133, user_bytes: 20, puts: 2, ..SegmentEdit::default() }],
    };
    let edits = [
        Edit::Start(StartEdit { epoch: 2, first_version: 1000, recovery_table, dead_batches }),
        Edit::Keyspace(KeyspaceEdit {
            keyspace: 1,
            name: "default".into(),
            layout: 1,
            comparator: "cantle.bytewise".into(),
            metadata: Vec::new(),
        }),
        Edit::Layout { keyspace: 1, payload: Chunk.first_edits().remove(0) },
        layout(split),
        layout(ChunkEdit::Log { chunk: 3, file: 8, epoch: 2 }),
        layout(ChunkEdit::Drop { chunks: vec![2], version: 1200, batch: 0 }),
        Edit::Checkpoint(checkpoint),
        Edit::DropKeyspace { keyspace: 5, version: 1301 },
        Edit::ForgetKeyspace { keyspace: 5 },
        Edit::Segment(SegmentEdit {
            file: 8,
            len: 200,
            part: (150, 50),
            garbage_bytes: 40,
            user_bytes: 50,
            puts: 5,
            large_bytes: 0,
            uncounted_from: 133,
        }),
    ];
    let mut file = example_header(FileKind::Manifest, 0, 1, 0).encode().to_vec();
    edits.iter().for_each(|edit| append(&mut file, edit));
    assert_documented(include_str!("../../docs/format/manifest.md"), &file, 0);
}
