//! Builds the example of `docs/format/log.md` again.

use crate::format::bounds::encode_bounds;
use crate::format::documented::{assert_documented, example_header};
use crate::format::header::{FileKind, HEADER_BYTES};
use crate::format::limits::RECORD_BYTES_MAX;
use crate::log::LogMemory;
use crate::log::index::indexed_part::LogSearch;
use crate::log::index::indexed_part::{IndexRequest, build_index};
use crate::log::index::memory_part::{MemoryPart, RecordPtr};
use crate::log::op::range_delete::RangeTombstone;
use crate::log::op::record::{Link, LogOp};
use crate::records::encode_record;
use crate::types::bounds::Bounds;
use crate::types::entry::Kind;
use crate::types::order::KeyOrder;

/// Appends the record of an operation, and inserts the operation into `part`.
fn append(file: &mut Vec<u8>, part: Option<&MemoryPart>, op: &LogOp<'_>, bounds: Option<&Bounds>) {
    let header = example_header(FileKind::Log, 3, 8, 1000);
    let offset = file.len() as u64;
    encode_record(&header, offset, op.payload_bytes(1000), file, |out| op.encode(1000, out));
    let Some(part) = part else { return };
    let place = RecordPtr { offset, len: (file.len() as u64 - offset) as u32 };
    match bounds {
        Some(bounds) => part.insert_tombstone(RangeTombstone {
            bounds: bounds.clone(),
            version: op.version,
            offset,
            cell: None,
        }),
        None => part.insert(op.key, op.version, op.kind, place, None),
    }
}

#[test]
fn the_documented_log_is_what_is_written() {
    let header = example_header(FileKind::Log, 3, 8, 1000);
    let part = MemoryPart::new(KeyOrder::Bytewise, Default::default());
    let mut file = header.encode().to_vec();
    let mut link = Link::default();
    let mut op = |kind, version, key: &'static [u8], value| {
        let op = LogOp { kind, version, batch: 0, more: false, link, key, value };
        link = link.next(kind, key);
        op
    };

    append(&mut file, Some(&part), &op(Kind::Put, 1001, b"app/1", b"one"), None);
    // One batch of this chunk alone: a range delete and a put.
    let bounds = Bounds::of(&("app/5".."app/9"));
    let value = encode_bounds(&bounds);
    let range_delete = LogOp { more: true, ..op(Kind::DeleteRange, 1300, b"", &value) };
    append(&mut file, Some(&part), &range_delete, Some(&bounds));
    append(&mut file, Some(&part), &op(Kind::Put, 1300, b"app/2", b"two"), None);
    let end = file.len() as u64;
    let request = IndexRequest {
        header: &header,
        order: &KeyOrder::Bytewise,
        memory: &LogMemory::new(1 << 20),
        start: HEADER_BYTES,
        end,
        operations: 3,
        previous: RecordPtr { offset: 0, len: 0 },
        voids: Vec::new(),
        search: LogSearch::Indexed,
        filter_bits_per_key: 10,
        record_bytes_max: RECORD_BYTES_MAX,
    };
    let (index, _) = build_index(&request, &part).unwrap();
    file.extend_from_slice(&index);
    // A part of the spanning batch 7.
    append(&mut file, None, &LogOp { batch: 7, ..op(Kind::Delete, 1301, b"app/1", b"") }, None);
    assert_documented(include_str!("../../docs/format/log.md"), &file, 0);
}
