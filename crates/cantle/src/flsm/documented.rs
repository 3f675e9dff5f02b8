//! Builds the second example of `docs/format/manifest.md` again: a new keyspace, its first logs, two
//! merges, and a flush.

use super::factory::Flsm;
use crate::format::documented::{assert_documented, example_header};
use crate::format::header::FileKind;
use crate::layout::factory::LayoutFactory;
use crate::lsm::state::{Edit as Own, GroupRecord, State};
use crate::manifest::{Edit, KeyspaceEdit, LayoutState};
use crate::records::encode_record;
use crate::run::dropped_ranges::{DroppedRange, DroppedRanges};
use crate::run::record::{FileRecord, ReferredRecord};
use crate::types::span::Span;

fn append(file: &mut Vec<u8>, edit: &Edit) {
    let header = example_header(FileKind::Manifest, 0, 1, 0);
    let payload = edit.encode();
    let lengths = (Edit::head_bytes(&payload), payload.len());
    encode_record(&header, file.len() as u64, lengths, file, |out| out.extend_from_slice(&payload));
}

fn table(file: u64, bytes: u64, user_bytes: u64, entries: u64) -> FileRecord {
    FileRecord { kind: FileKind::Table, bytes, user_bytes, entries, ..FileRecord::log(file, 2) }
}

fn group(id: u64, level: u32, start: Option<&'static str>, files: Vec<FileRecord>) -> GroupRecord {
    GroupRecord { id, level, start: start.map(Into::into), files, ..GroupRecord::default() }
}

#[test]
fn the_documented_edits_are_those_that_are_written() {
    let half = || FileRecord { share_bytes: Some(170), ..table(6, 340, 40, 4) };
    let narrow = Span { start: Some("c".into()), end: Some("m".into()) };
    let span = Span { start: Some("p".into()), end: Some("t".into()) };
    let referred = vec![ReferredRecord { file: 5, epoch: 2, file_bytes: 200, bytes: 140 }];
    let deleted = DroppedRange { span, version: 1250, batch: 0, bytes: 90 };
    let edits = [
        Own::Log { file: 4, epoch: 2 },
        Own::Log { file: 5, epoch: 2 },
        Own::Merge {
            logs: vec![4],
            removed: vec![1],
            added: vec![group(1, 1, None, vec![table(6, 340, 40, 4)])],
        },
        Own::Merge {
            logs: vec![],
            removed: vec![1],
            added: vec![
                group(2, 1, None, vec![]),
                group(3, 2, None, vec![table(7, 252, 16, 2), FileRecord { span: Some(narrow), ..half() }]),
                group(4, 2, Some("m"), vec![half()]),
            ],
        },
        Own::Flush { log: Some(5), tables: vec![FileRecord { referred, ..table(8, 190, 150, 2) }] },
        Own::Merge {
            logs: vec![8],
            removed: vec![2, 4],
            added: vec![
                group(2, 1, None, vec![FileRecord { has_deleted: true, ..table(9, 200, 0, 0) }]),
                group(
                    4,
                    2,
                    Some("m"),
                    vec![FileRecord { dropped_ranges: DroppedRanges::new(vec![deleted]), ..half() }],
                ),
            ],
        },
    ];
    let mut state = State::default();
    let mut file = example_header(FileKind::Manifest, 0, 1, 0).encode().to_vec();
    append(
        &mut file,
        &Edit::Keyspace(KeyspaceEdit {
            keyspace: 1,
            name: "default".into(),
            layout: LayoutFactory::kind(&Flsm).code(),
            comparator: "cantle.bytewise".into(),
            metadata: Vec::new(),
        }),
    );
    for payload in Flsm.first_edits().into_iter().chain(edits.iter().map(Own::encode)) {
        state.apply(&payload).unwrap();
        append(&mut file, &Edit::Layout { keyspace: 1, payload });
    }
    assert_eq!((&state.level0[..], state.groups.len()), (&[][..], 3));
    // Without the header, which the first example has.
    assert_documented(include_str!("../../docs/format/manifest.md"), &file[0x40..], 0x40);
}
