//! One file of a store has arbitrary bytes with valid checksums: reads of the store return data or
//! errors.

use crate::doors::damage::shapes::{Shape, all, opened_often};
use crate::files::{Kind, names, put, read};
use crate::sealed;
use crate::setup::{STORE, has_layout};
use crate::workload::key;
use cantle::vfs::MemVfs;
use cantle::{Db, LayoutKind};
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

/// The stores in which files are replaced, one of each shape.
pub fn shapes(layout: LayoutKind) -> &'static [Shape] {
    static SHAPES: Made<LayoutKind, [Shape]> = Made::new(None);
    let shapes = || {
        let often = (layout == LayoutKind::Flsm).then(|| opened_often(1));
        all(layout, 1).into_iter().chain(often).collect::<Vec<_>>()
    };
    made(&SHAPES, layout, || shapes().leak())
}

/// Values that are made once for each layout and never dropped, as targets are plain functions.
type Made<K, T> = Mutex<Option<HashMap<K, &'static T>>>;

fn made<K: Eq + Hash, T: ?Sized>(made: &Made<K, T>, of: K, make: impl FnOnce() -> &'static T) -> &'static T {
    made.lock().unwrap().get_or_insert_default().entry(of).or_insert_with(make)
}

/// A store, the name of a file in it, and its bytes.
type File = (&'static Shape, String, Vec<u8>);

/// The files of a kind.
fn of_kind(layout: LayoutKind, kind: Kind) -> Vec<File> {
    let files = |shape: &'static Shape| {
        names(&shape.vfs)
            .into_iter()
            .map(move |name| (shape, name.clone(), used(read(&shape.vfs, &name), kind)))
    };
    shapes(layout).iter().flat_map(files).filter(|(_, name, _)| Kind::of(name) == kind).collect()
}

/// Removes most of the zeros that reserve space.
fn used(mut bytes: Vec<u8>, kind: Kind) -> Vec<u8> {
    if matches!(kind, Kind::Journal | Kind::WriteBuffer) {
        let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
        bytes.truncate(used + 32);
    }
    bytes
}

fn seeds(layout: LayoutKind, kind: Kind) -> Vec<Vec<u8>> {
    let seed =
        |(index, (_, _, bytes)): (usize, (&Shape, String, Vec<u8>))| [&[index as u8], &bytes[..]].concat();
    of_kind(layout, kind).into_iter().enumerate().map(seed).collect()
}

/// The files of a kind, read once: reading them takes longer than most inputs.
fn files_of_kind(layout: LayoutKind, kind: Kind) -> &'static [File] {
    static FILES: Made<(LayoutKind, Kind), [File]> = Made::new(None);
    made(&FILES, (layout, kind), || of_kind(layout, kind).leak())
}

/// The first byte chooses the file that the others replace.
fn run(layout: LayoutKind, kind: Kind, input: &[u8], seal: impl Fn(&mut [u8], &[u8])) {
    let files = files_of_kind(layout, kind);
    let Some((&index, bytes)) = input.split_first() else { return };
    let (shape, name, original) = &files[usize::from(index) % files.len()];
    let mut bytes = bytes.to_vec();
    seal(&mut bytes, original);
    let vfs = shape.vfs.kill();
    put(&vfs, name, &bytes);
    read_all(shape, &vfs, index < 0xe0);
}

/// Opens a store and reads everything in it. Errors are correct; panics and hangs are findings.
pub fn read_all(shape: &Shape, vfs: &MemVfs, read_only: bool) {
    let options = shape.options(vfs).read_only(read_only).create_if_missing(false);
    let Ok(db) = options.open(STORE) else { return };
    assert!(has_layout(&db, shape.layout), "the store has another layout");
    let _ = db.verify();
    for name in db.keyspaces().unwrap_or_default() {
        if let Ok(space) = db.keyspace(&name) {
            let forward = space.range(..).map_while(Result::ok).count();
            let back = space.range(..).rev().map_while(Result::ok).count();
            let _ = (forward, back, space.regions(), space.approximate_bytes(..));
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

pub fn table(layout: LayoutKind, input: &[u8]) {
    run(layout, Kind::Table, input, |bytes, original| {
        sealed::seal_table(bytes, &sealed::table_blocks(original))
    });
}

pub fn log(layout: LayoutKind, input: &[u8]) {
    run(layout, Kind::Log, input, |bytes, _| sealed::seal_records(bytes));
}

pub fn manifest(layout: LayoutKind, input: &[u8]) {
    run(layout, Kind::Manifest, input, |bytes, _| sealed::seal_records(bytes));
}

pub fn journal(layout: LayoutKind, input: &[u8]) {
    run(layout, Kind::Journal, input, |bytes, _| sealed::seal_records(bytes));
}

pub fn write_buffer(layout: LayoutKind, input: &[u8]) {
    run(layout, Kind::WriteBuffer, input, |bytes, _| sealed::seal_write_buffer(bytes));
}

pub fn page_cache(layout: LayoutKind, input: &[u8]) {
    run(layout, Kind::PageCache, input, |bytes, _| sealed::seal_page_cache(bytes));
}

/// The bytes are a header; the rest of the file is unchanged.
pub fn header(layout: LayoutKind, input: &[u8]) {
    for kind in [Kind::Table, Kind::Log, Kind::Manifest, Kind::Journal] {
        run(layout, kind, input, |bytes, original| {
            let len = bytes.len().min(sealed::HEADER_BYTES).min(original.len());
            let header = bytes[..len].to_vec();
            let all = bytes.len().min(original.len());
            bytes[..all].copy_from_slice(&original[..all]);
            bytes[..len].copy_from_slice(&header);
            sealed::seal_header(bytes);
        });
    }
}

pub fn header_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    [Kind::Table, Kind::Log, Kind::Manifest, Kind::Journal]
        .into_iter()
        .flat_map(|kind| seeds(layout, kind))
        .collect()
}

pub fn table_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    seeds(layout, Kind::Table)
}

pub fn log_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    seeds(layout, Kind::Log)
}

pub fn manifest_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    seeds(layout, Kind::Manifest)
}

pub fn journal_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    seeds(layout, Kind::Journal)
}

pub fn write_buffer_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    seeds(layout, Kind::WriteBuffer)
}

pub fn page_cache_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    seeds(layout, Kind::PageCache)
}

/// Numbers at which arithmetic overflows.
const EXTREMES: [u64; 8] = [0, 1, 1 << 31, 1 << 32, 1 << 44, 1 << 62, 1 << 63, u64::MAX];

/// One number of a manifest is an extreme. The first three bytes choose the manifest and the
/// number, the fourth the extreme. Opening, reading, verifying and repairing the store return data
/// or errors.
pub fn numbers(layout: LayoutKind, input: &[u8]) {
    let &[index, low, high, which, ..] = input else { return };
    let files = files_of_kind(layout, Kind::Manifest);
    let (shape, name, original) = &files[usize::from(index) % files.len()];
    let mut payloads = payloads(original);
    let mut at = usize::from(u16::from_le_bytes([low, high])) % payloads.iter().map(Vec::len).sum::<usize>();
    for payload in &mut payloads {
        if at < payload.len() {
            *payload = sealed::with_number(payload, at, EXTREMES[usize::from(which) % EXTREMES.len()]);
            break;
        }
        at -= payload.len();
    }
    let vfs = shape.vfs.kill();
    put(&vfs, name, &sealed::file_of(original, &payloads));
    read_all(shape, &vfs, which & 0x80 != 0);
    // In any state after that.
    let _ = Db::repair(STORE, "/saved", shape.options(&vfs));
}

fn payloads(bytes: &[u8]) -> Vec<Vec<u8>> {
    sealed::whole_records(bytes).iter().map(|record| bytes[record.payload..record.end].to_vec()).collect()
}

/// Every number with every extreme, read-only and writable in turn.
pub fn number_seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for (index, (_, _, bytes)) in files_of_kind(layout, Kind::Manifest).iter().enumerate() {
        let places = payloads(bytes).iter().map(Vec::len).sum::<usize>().min(1 << 16);
        for place in 0..places {
            let [low, high] = (place as u16).to_le_bytes();
            for which in 0..EXTREMES.len() {
                let reads = if (place + which).is_multiple_of(2) { 0x80 } else { 0 };
                seeds.push(vec![index as u8, low, high, which as u8 | reads]);
            }
        }
    }
    seeds
}
