//! The number of device reads of a get when data are larger than memory, for any store: an estimate
//! of the effect of page and row caches before they are built.
//!
//! `cargo run --release -p cantle-workloads --example page_cache -- 1290000 200` simulates this
//! number of records of 832 bytes, sorted, with this number of MB of memory, beginning with an
//! empty cache; the second half of the gets counts.

use cantle_workloads::generator::{Chooser, Distribution, Random};
use std::collections::VecDeque;
use std::env::args;

const RECORD_BYTES: u64 = 832;
const PAGE_BYTES: u64 = 4096;
const GETS: usize = 1_000_000;

/// A cache that evicts the least recently used entry.
struct Lru {
    capacity: usize,
    count: usize,
    /// The time at which each entry was used last, 0 if it is not cached.
    used: Vec<u64>,
    queue: VecDeque<(u64, u64)>,
    clock: u64,
}

impl Lru {
    fn new(entries: u64, capacity: u64) -> Self {
        let used = vec![0; entries as usize + 1];
        Self { capacity: capacity as usize, count: 0, used, queue: VecDeque::new(), clock: 0 }
    }

    /// Uses an entry; true if it was cached.
    fn touch(&mut self, entry: u64) -> bool {
        self.clock += 1;
        let used = &mut self.used[entry as usize];
        let was_there = *used > 0;
        *used = self.clock;
        self.count += usize::from(!was_there);
        self.queue.push_back((entry, self.clock));
        while self.count > self.capacity
            && let Some((oldest, clock)) = self.queue.pop_front()
        {
            if self.used[oldest as usize] == clock {
                self.used[oldest as usize] = 0;
                self.count -= 1;
            }
        }
        was_there
    }
}

/// Rows first, then pages.
struct Cache {
    rows: Lru,
    pages: Lru,
    /// Number of pages that are read at once if another of them was read recently.
    unit: u64,
    lately: Lru,
}

impl Cache {
    fn new(records: u64, row_bytes: u64, page_bytes: u64, unit: u64) -> Self {
        let pages = records * RECORD_BYTES / PAGE_BYTES + unit;
        Self {
            rows: Lru::new(records, row_bytes / RECORD_BYTES),
            pages: Lru::new(pages + unit, page_bytes / PAGE_BYTES),
            unit,
            lately: Lru::new(pages / unit + 1, 2048),
        }
    }

    /// True if the device is read.
    fn reads(&mut self, record: u64) -> bool {
        if self.rows.capacity > 0 && self.rows.touch(record) {
            return false;
        }
        let page = record * RECORD_BYTES / PAGE_BYTES;
        let was_there = self.pages.touch(page);
        if !was_there && self.unit > 1 && self.lately.touch(page / self.unit) {
            let first = page / self.unit * self.unit;
            for beside in first..first + self.unit {
                self.pages.touch(beside);
            }
        }
        !was_there
    }
}

/// Reads per get if the most popular pages are always cached.
fn best(records: &[u64], page_bytes: u64) -> f64 {
    let most = records.iter().max().copied().unwrap_or_default();
    let mut gets = vec![0u64; (most * RECORD_BYTES / PAGE_BYTES) as usize + 1];
    records.iter().for_each(|record| gets[(record * RECORD_BYTES / PAGE_BYTES) as usize] += 1);
    gets.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
    let missed: u64 = gets.iter().skip((page_bytes / PAGE_BYTES) as usize).sum();
    missed as f64 / records.len() as f64
}

fn main() {
    let mut numbers = args().skip(1).map(|argument| argument.parse::<u64>().expect("a number"));
    let (records, mb) = (numbers.next().unwrap_or(1_290_000), numbers.next().unwrap_or(200));
    let bytes = mb * 1_000_000;
    println!("{records} records, {} MB, under {mb} MB; reads per get", records * RECORD_BYTES / 1_000_000);
    for distribution in [Distribution::ZipfComposite, Distribution::ZipfSimple] {
        let mut chooser = Chooser::new(distribution, records, 0.99, 1);
        let mut random = Random::new(1);
        let asked: Vec<u64> = (0..GETS).map(|_| chooser.next(&mut random, records)).collect();
        println!("{}", distribution.name());
        let simulate = |what: &str, row_bytes: u64, unit: u64| {
            let mut cache = Cache::new(records, row_bytes, bytes - row_bytes, unit);
            let reads: Vec<bool> = asked.iter().map(|&record| cache.reads(record)).collect();
            let late = reads.iter().skip(GETS / 2).filter(|read| **read).count();
            println!("  {what:<60}{:.3}", late as f64 / (GETS / 2) as f64);
        };
        simulate("pages of 4 KiB", 0, 1);
        simulate("half for rows, half for pages", bytes / 2, 1);
        simulate("pages, eight at once where another was read lately", 0, 8);
        println!("  {:<60}{:.3}", "the pages that are asked for most, known beforehand", best(&asked, bytes));
    }
}
