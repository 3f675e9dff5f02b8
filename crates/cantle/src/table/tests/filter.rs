//! Filters of several pages.

use super::*;
use crate::block::model::put;
use crate::fetch::Directly;
use crate::filter::bloom;
use crate::table::TableGet;
use crate::table::filter::FilterPages;
use crate::table::frame::{Handle, TRAILER_BYTES};
use crate::types::error::Error;

/// A table whose filter has some seven pages.
fn table() -> (Arc<MemFile>, Vec<Vec<u8>>) {
    let entries: Vec<Entry> =
        (0..20_000).map(|number| put(format!("user/{number:06}"), BASE_VERSION, [7; 8])).collect();
    let keys = entries.iter().map(|entry| entry.key.to_vec()).collect();
    (build(&entries, TableOptions::default()).0, keys)
}

fn open(file: &Arc<MemFile>) -> Arc<Table> {
    let (path, cache) = (PathBuf::from("7.table"), BlockCache::new(8 << 20));
    Arc::new(Table::open(file.clone(), path, (STORE, FILE), KeyOrder::Bytewise, cache).unwrap())
}

fn get(table: &Table, key: &[u8]) -> Result<TableGet> {
    table.get(key, bloom::hash(key), u64::MAX, &|_| true, &Directly)
}

fn pages(table: &Table) -> Vec<Handle> {
    table.filter.unwrap().pages().collect()
}

/// The page in which this key would be.
fn page_of(table: &Table, key: &[u8]) -> Handle {
    table.filter.unwrap().place_of(bloom::hash(key)).page
}

#[test]
fn pages_follow_one_another_and_fill_their_part_of_the_file() {
    let (file, _) = table();
    let table = open(&file);
    let (pages, part) = (pages(&table), table.footer.filter);
    assert_eq!(pages.len(), (20_000 * 10_usize).div_ceil(512).div_ceil(64));
    assert_eq!((pages[0].offset, pages.last().unwrap().end()), (part.offset, part.end()));
    assert!(pages.windows(2).all(|pair| pair[0].end() == pair[1].offset));
    assert!(pages[..pages.len() - 1].iter().all(|page| page.payload_bytes == 4097));
    // This holds for every part whose length may be that of pages.
    for lines in 1..400_u64 {
        let payload_bytes = 64 * lines + lines.div_ceil(64) * (1 + TRAILER_BYTES) - TRAILER_BYTES;
        let part = Handle { offset: 100, payload_bytes };
        let pages: Vec<Handle> = FilterPages::of(part).unwrap().pages().collect();
        assert!(pages.windows(2).all(|pair| pair[0].end() == pair[1].offset));
        assert_eq!((pages[0].offset, pages.last().unwrap().end()), (100, part.end()));
    }
}

#[test]
fn a_probe_reads_one_page_and_hot_pages_stay_in_the_cache() {
    let (file, keys) = table();
    let table = open(&file);
    let absent = |number: usize| format!("other/{number}").into_bytes();
    let mut reads = file.reads();
    let mut touched = std::collections::HashSet::new();
    for number in 0..1_000 {
        let key = absent(number);
        if get(&table, &key).unwrap() == TableGet::FilteredOut {
            let is_new = touched.insert(page_of(&table, &key).offset);
            assert_eq!(file.reads() - reads, u64::from(is_new), "one page, if it is not cached");
        }
        touched.insert(page_of(&table, &key).offset);
        reads = file.reads();
    }
    assert_eq!(touched.len(), pages(&table).len());
    let largest = pages(&table).iter().map(|page| page.framed_bytes()).max().unwrap();
    assert_eq!(largest, 4102);
    assert!(keys.iter().all(|key| matches!(get(&table, key), Ok(TableGet::Found { .. }))));
}

#[test]
fn damage_in_one_page_concerns_no_other() {
    let (file, keys) = table();
    let intact = file.bytes();
    for page in pages(&open(&file)) {
        // A byte in a line, and one in the checksum.
        for at in [page.offset + page.payload_bytes / 2, page.end() - 1] {
            let mut bytes = intact.clone();
            bytes[at as usize] ^= 0x20;
            let table = open(&MemFile::new(bytes));
            for key in keys.iter().step_by(37) {
                match get(&table, key) {
                    Ok(found) => {
                        assert_ne!(page_of(&table, key), page);
                        assert!(matches!(found, TableGet::Found { .. }));
                    }
                    Err(error) => {
                        assert_eq!(page_of(&table, key), page);
                        assert!(is_at(&error, page.offset), "{error}");
                    }
                }
            }
            let mut damage = Vec::new();
            assert_eq!(table.verify(&mut |error| damage.push(error)).unwrap(), keys.len() as u64);
            assert!(matches!(&damage[..], [error] if is_at(error, page.offset)), "{damage:?}");
        }
    }
}

fn is_at(error: &Error, place: u64) -> bool {
    matches!(error, Error::Corruption { path, offset, .. } if path.ends_with("7.table") && *offset == place)
}

#[test]
fn an_intact_page_in_the_place_of_another_is_recognised() {
    let (file, keys) = table();
    let pages = pages(&open(&file));
    let [one, other] = [pages[1], pages[2]].map(|page| page.offset as usize..page.end() as usize);
    let mut bytes = file.bytes();
    bytes.copy_within(other, one.start);
    let table = open(&MemFile::new(bytes));
    let concerned = keys.iter().filter(|key| page_of(&table, key) == pages[1]);
    assert!(concerned.clone().count() > 1_000);
    for key in concerned {
        assert!(is_at(&get(&table, key).unwrap_err(), pages[1].offset));
    }
}

#[test]
fn verify_notices_a_page_that_denies_its_keys() {
    let (file, _) = table();
    let page = pages(&open(&file))[3];
    let mut bytes = file.bytes();
    let payload = page.offset as usize..(page.offset + page.payload_bytes) as usize;
    bytes[payload.start..payload.end - 1].fill(0);
    let trailer = crate::table::frame::trailer(&header(), page.offset, &bytes[payload.clone()], 0);
    bytes[payload.end..page.end() as usize].copy_from_slice(&trailer);
    let mut damage = Vec::new();
    open(&MemFile::new(bytes)).verify(&mut |error| damage.push(error.to_string())).unwrap();
    assert!(!damage.is_empty() && damage.iter().all(|what| what.contains("filter denies")), "{damage:?}");
}
