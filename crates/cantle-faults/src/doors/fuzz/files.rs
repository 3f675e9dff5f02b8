//! One file of a store is any bytes, sealed: whoever reads the store gets data or errors.

use crate::doors::damage::shapes::{Shape, all};
use crate::files::{Kind, names, put, read};
use crate::sealed;
use crate::setup::STORE;
use crate::workload::key;
use cantle::vfs::MemVfs;
use cantle::{Db, KeyspaceOptions};
use std::sync::OnceLock;

/// The stores that files are replaced in, one of each shape.
pub fn shapes() -> &'static [Shape] {
    static SHAPES: OnceLock<Vec<Shape>> = OnceLock::new();
    SHAPES.get_or_init(|| all(1))
}

/// A store, the name of a file in it, and its bytes.
type File = (&'static Shape, String, Vec<u8>);

/// The files of a kind.
fn of_kind(kind: Kind) -> Vec<File> {
    let files = |shape: &'static Shape| {
        names(&shape.vfs)
            .into_iter()
            .map(move |name| (shape, name.clone(), used(read(&shape.vfs, &name), kind)))
    };
    shapes().iter().flat_map(files).filter(|(_, name, _)| Kind::of(name) == kind).collect()
}

/// Without most of the zeros that reserve space.
fn used(mut bytes: Vec<u8>, kind: Kind) -> Vec<u8> {
    if matches!(kind, Kind::Journal | Kind::Stage) {
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used + 32);
    }
    bytes
}

fn seeds(kind: Kind) -> Vec<Vec<u8>> {
    let seed =
        |(index, (_, _, bytes)): (usize, (&Shape, String, Vec<u8>))| [&[index as u8], &bytes[..]].concat();
    of_kind(kind).into_iter().enumerate().map(seed).collect()
}

/// The first byte says whose place the others take.
fn run(kind: Kind, input: &[u8], seal: impl Fn(&mut [u8], &[u8])) {
    static KINDS: OnceLock<Vec<(Kind, Vec<File>)>> = OnceLock::new();
    const ALL: [Kind; 6] =
        [Kind::Table, Kind::Log, Kind::Manifest, Kind::Journal, Kind::Stage, Kind::PageCache];
    let kinds = KINDS.get_or_init(|| ALL.map(|kind| (kind, of_kind(kind))).into());
    let Some((_, files)) = kinds.iter().find(|(other, _)| *other == kind) else { return };
    let Some((&index, bytes)) = input.split_first() else { return };
    let (shape, name, original) = &files[usize::from(index) % files.len()];
    let mut bytes = bytes.to_vec();
    seal(&mut bytes, original);
    let vfs = shape.vfs.kill();
    put(&vfs, name, &bytes);
    read_all(&vfs, index < 0xe0);
}

/// Opens a store and reads everything in it. Errors are right; only what else comes of it is not.
pub fn read_all(vfs: &MemVfs, read_only: bool) {
    let options = Shape::options(vfs).read_only(read_only).create_if_missing(false);
    let Ok(db) = options.open(STORE) else { return };
    let _ = db.verify();
    for name in db.keyspaces().unwrap_or_default() {
        if let Ok(space) = db.keyspace(&name, KeyspaceOptions::new()) {
            let forward = space.range(..).map_while(Result::ok).count();
            let back = space.range(..).rev().map_while(Result::ok).count();
            let _ = (forward, back, space.chunks(), space.approximate_bytes(..));
            for n in (0..48).step_by(5) {
                let _ = space.get(key(n));
            }
        }
    }
    if !read_only {
        write_on(&db);
    }
}

fn write_on(db: &Db) {
    let _ = db.put("after", "damage");
    let _ = db.delete_range(key(3)..key(9));
    let _ = db.compact_range(..);
    let _ = db.close();
}

pub fn table(input: &[u8]) {
    run(Kind::Table, input, |bytes, original| sealed::seal_table(bytes, &sealed::table_blocks(original)));
}

pub fn log(input: &[u8]) {
    run(Kind::Log, input, |bytes, _| sealed::seal_records(bytes));
}

pub fn manifest(input: &[u8]) {
    run(Kind::Manifest, input, |bytes, _| sealed::seal_records(bytes));
}

pub fn journal(input: &[u8]) {
    run(Kind::Journal, input, |bytes, _| sealed::seal_records(bytes));
}

pub fn stage(input: &[u8]) {
    run(Kind::Stage, input, |bytes, _| sealed::seal_stage(bytes));
}

pub fn page_cache(input: &[u8]) {
    run(Kind::PageCache, input, |bytes, _| sealed::seal_page_cache(bytes));
}

/// The bytes are a header; the rest of the file is as it was.
pub fn header(input: &[u8]) {
    for kind in [Kind::Table, Kind::Log, Kind::Manifest, Kind::Journal] {
        run(kind, input, |bytes, original| {
            let len = bytes.len().min(sealed::HEADER_BYTES).min(original.len());
            let header = bytes[..len].to_vec();
            let all = bytes.len().min(original.len());
            bytes[..all].copy_from_slice(&original[..all]);
            bytes[..len].copy_from_slice(&header);
            sealed::seal_header(bytes);
        });
    }
}

pub fn header_seeds() -> Vec<Vec<u8>> {
    [Kind::Table, Kind::Log, Kind::Manifest, Kind::Journal].into_iter().flat_map(seeds).collect()
}

pub fn table_seeds() -> Vec<Vec<u8>> {
    seeds(Kind::Table)
}

pub fn log_seeds() -> Vec<Vec<u8>> {
    seeds(Kind::Log)
}

pub fn manifest_seeds() -> Vec<Vec<u8>> {
    seeds(Kind::Manifest)
}

pub fn journal_seeds() -> Vec<Vec<u8>> {
    seeds(Kind::Journal)
}

pub fn stage_seeds() -> Vec<Vec<u8>> {
    seeds(Kind::Stage)
}

pub fn page_cache_seeds() -> Vec<Vec<u8>> {
    seeds(Kind::PageCache)
}
