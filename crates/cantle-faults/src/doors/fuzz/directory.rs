//! A whole directory is changed: bytes overwritten anywhere, files truncated, removed, copied over
//! others, renamed; with or without valid checksums.

use super::files::{read_all, shapes};
use crate::files::{Kind, names, path, put, read};
use crate::sealed;
use cantle::LayoutKind;
use cantle::vfs::{OpenMode, Vfs};

/// Changes of seven bytes each: the kind, the file, the offset (three bytes), the data (two).
const CHANGE_BYTES: usize = 7;

pub fn run(layout: LayoutKind, input: &[u8]) {
    let Some((&shape, changes)) = input.split_first() else { return };
    let shapes = shapes(layout);
    let shape = &shapes[usize::from(shape) % shapes.len()];
    let vfs = shape.vfs.kill();
    let mut names = names(&vfs);
    names.push("000000000098.log".into());
    names.push("MANIFEST-000000000097".into());
    let is_there = |name: &str| vfs.metadata(&path(name)).is_ok_and(|metadata| metadata.is_some());
    for change in changes.chunks_exact(CHANGE_BYTES).take(64) {
        let &[what, file, a, b, c, with, more] = change else { return };
        let name = &names[usize::from(file) % names.len()];
        let other = &names[usize::from(with) % names.len()];
        if !is_there(name) && what % 8 != 4 {
            continue;
        }
        let at = u64::from_le_bytes([a, b, c, 0, 0, 0, 0, 0]);
        let open = || vfs.open(&path(name), OpenMode::ReadWrite).unwrap();
        let within = |at: u64| at % (open().len().unwrap() + 1);
        match what % 8 {
            0 | 1 => open().write_at(&[with, more], within(at)).unwrap(),
            2 => open().set_len(within(at)).unwrap(),
            3 if more > 200 => vfs.remove(&path(name)).unwrap(),
            4 if is_there(other) => put(&vfs, name, &read(&vfs, other)),
            5 if is_there(other) => vfs.rename(&path(name), &path(other)).unwrap(),
            _ if is_there(name) => {
                let mut bytes = read(&vfs, name);
                match Kind::of(name) {
                    Kind::Table => {
                        let blocks = sealed::table_blocks(&bytes);
                        sealed::seal_table(&mut bytes, &blocks);
                    }
                    Kind::WriteBuffer => sealed::seal_write_buffer(&mut bytes),
                    Kind::PageCache => sealed::seal_page_cache(&mut bytes),
                    _ => sealed::seal_records(&mut bytes),
                }
                put(&vfs, name, &bytes);
            }
            _ => {}
        }
    }
    read_all(shape, &vfs, changes.len() % 2 == 0);
}

pub fn seeds(layout: LayoutKind) -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for shape in 0..shapes(layout).len() as u8 {
        for file in 0..10u8 {
            let change = [0, file, 90, 0, 0, 7, 1];
            let seal = [6, file, 0, 0, 0, 0, 0];
            let cut = [2, file, 120, 1, 0, 0, 0];
            seeds.push([&[shape][..], &change, &seal].concat());
            seeds.push([&[shape][..], &cut, &seal, &change].concat());
            seeds.push(
                [&[shape][..], &[4, file, 0, 0, 0, file + 1, 0], &[3, file + 1, 0, 0, 0, 0, 255]].concat(),
            );
        }
    }
    seeds
}
