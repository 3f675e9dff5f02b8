//! RocksDB, with its defaults and tuned for the run's memory.

use super::{Durability, Engine, Figures, Opened, Pair, Settings, Spec, grid};
use crate::failure::{Failure, Result};
use rocksdb::{
    BlockBasedOptions, Cache, DB, DBCompactionStyle, DBCompressionType, Options, ReadOptions,
    WaitForCompactOptions, WriteBatch, WriteOptions,
};
use std::time::Duration;

struct RocksDb {
    db: DB,
    write_options: WriteOptions,
}

/// Opens RocksDB with its defaults, without compression.
pub fn open_default(_: &Spec, settings: &Settings) -> Result<Opened> {
    open(options(), "defaults; compression none".into(), settings)
}

/// Bits of the Bloom filter per key.
const BLOOM_BITS: f64 = 10.0;

/// Minimum number of jobs: RocksDB counts flushes among them and needs a thread for flushes besides
/// the one that compacts.
const JOBS_MIN: usize = 2;

/// Opens RocksDB with filters, caches and buffers that follow the budget, and as many background
/// jobs as Cantle. Settings of the spec replace the usual ones.
pub fn open_tuned(spec: &Spec, settings: &Settings) -> Result<Opened> {
    let budget = settings.budget_bytes;
    // Two memtables of an eighth of the budget each, or of the default's 64 MB: smaller ones are
    // compacted more often. A third one at times, so that writers need not wait for a flush. Half
    // of the budget is for blocks, slightly more than the third of the memory that RocksDB's guide
    // recommends. RocksDB uses the rest for filters, indexes and memory that the allocator leaves
    // empty. With all of the rest for blocks, it was killed because it reached a limit of four
    // thirds of the budget.
    let mut write_buffer = (budget / 8).clamp(1 << 20, 64 << 20);
    let mut cache_bytes = (budget / 2).max(1 << 20);
    let mut bits = BLOOM_BITS;
    let jobs = settings.background_threads.max(JOBS_MIN);

    let mut table = BlockBasedOptions::default();
    let mut options = options();
    let mut others = String::new();
    for (name, value) in &spec.settings {
        match (name.as_str(), value.as_str()) {
            ("write_buffer", _) => write_buffer = grid::bytes(value, budget)?.max(1 << 16),
            ("cache", _) => cache_bytes = grid::bytes(value, budget)?.max(1 << 16),
            ("filter", _) => bits = value.parse()?,
            ("filter_in", "tables") => {}
            ("filter_in", "cache") => {
                table.set_cache_index_and_filter_blocks(true);
                table.set_pin_l0_filter_and_index_blocks_in_cache(true);
            }
            ("level0_trigger", _) => options.set_level_zero_file_num_compaction_trigger(value.parse()?),
            ("level_multiplier", times) => options.set_max_bytes_for_level_multiplier(times.parse()?),
            ("compaction", "leveled") => options.set_compaction_style(DBCompactionStyle::Level),
            ("compaction", "universal") => options.set_compaction_style(DBCompactionStyle::Universal),
            _ => return Err(Failure(format!("{name}={value} is no setting of RocksDB here"))),
        }
        others += &format!("; {name} {value}");
    }
    if bits > 0.0 {
        table.set_bloom_filter(bits, false);
    }
    table.set_block_cache(&Cache::new_hyper_clock_cache(usize::try_from(cache_bytes)?, 0));
    options.set_block_based_table_factory(&table);
    options.set_write_buffer_size(usize::try_from(write_buffer)?);
    options.set_max_write_buffer_number(3);
    options.set_max_background_jobs(i32::try_from(jobs)?);
    options.set_bytes_per_sync(1 << 20);
    let configuration = format!(
        "Bloom filters of {bits} bits; block cache {cache_bytes} (hyper clock); write_buffer_size \
         {write_buffer}, max_write_buffer_number 3; max_background_jobs {jobs}; bytes_per_sync 1 MiB; compression \
         none{others}"
    );
    open(options, configuration, settings)
}

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::None);
    options
}

fn open(options: Options, configuration: String, settings: &Settings) -> Result<Opened> {
    let db = DB::open(&options, &settings.dir)?;
    let mut write_options = WriteOptions::default();
    write_options.set_sync(settings.durability == Durability::Sync);
    let version = super::locked_version("librocksdb-sys");
    Ok(Opened {
        engine: Box::new(RocksDb { db, write_options }),
        configuration,
        caveats: Vec::new(),
        version: format!(
            "RocksDB {} (crate rocksdb {})",
            version.split_once('+').map_or(version.as_str(), |(_, version)| version),
            super::locked_version("rocksdb")
        ),
    })
}

impl Engine for RocksDb {
    fn put(&self, key: &[u8], value: &[u8]) -> Result {
        Ok(self.db.put_opt(key, value, &self.write_options)?)
    }

    fn delete(&self, key: &[u8]) -> Result {
        Ok(self.db.delete_opt(key, &self.write_options)?)
    }

    fn put_all(&self, pairs: &[Pair]) -> Result {
        let mut batch = WriteBatch::default();
        pairs.iter().for_each(|(key, value)| batch.put(key, value));
        Ok(self.db.write_opt(batch, &self.write_options)?)
    }

    fn get(&self, key: &[u8], read: &mut dyn FnMut(&[u8])) -> Result<bool> {
        // Pinned: the value is not copied if it is in the block cache.
        Ok(self.db.get_pinned(key)?.map(|value| read(&value)).is_some())
    }

    fn scan(&self, from: &[u8], to: Option<&[u8]>, rows: u64, read: &mut dyn FnMut(&[u8], &[u8])) -> Result {
        let mut options = ReadOptions::default();
        if let Some(to) = to {
            options.set_iterate_upper_bound(to);
        }
        let mut iterator = self.db.raw_iterator_opt(options);
        iterator.seek(from);
        for left in (0..rows).rev() {
            let Some((key, value)) = iterator.item() else { break };
            read(key, value);
            // A seek alone reads no further pair.
            if left > 0 {
                iterator.next();
            }
        }
        Ok(iterator.status()?)
    }

    fn sync(&self) -> Result {
        Ok(self.db.flush_wal(true)?)
    }

    fn wait_for_background(&self, longest: Duration) -> Result {
        let mut options = WaitForCompactOptions::default();
        options.set_timeout(u64::try_from(longest.as_micros())?.max(1));
        // The only error of a healthy store is the end of the time, which `is_idle` shows, too.
        let _ = self.db.wait_for_compact(&options);
        Ok(())
    }

    fn is_idle(&self) -> bool {
        // A pending compaction does not count: tiers can ask for one that is never picked.
        // `wait_for_background` has waited for the others.
        let names = ["rocksdb.num-running-compactions", "rocksdb.num-running-flushes"];
        names.iter().all(|name| self.db.property_int_value(*name).ok().flatten().unwrap_or(0) == 0)
    }

    fn figures(&self) -> Figures {
        let names = [
            "rocksdb.estimate-pending-compaction-bytes",
            "rocksdb.cur-size-all-mem-tables",
            "rocksdb.estimate-table-readers-mem",
            "rocksdb.block-cache-usage",
            "rocksdb.total-sst-files-size",
            "rocksdb.is-write-stopped",
        ];
        let value = |name: &&str| self.db.property_int_value(*name).ok().flatten();
        names.iter().filter_map(|name| Some((name.to_string(), value(name)? as f64))).collect()
    }

    fn close(self: Box<Self>) -> Result {
        self.db.cancel_all_background_work(true);
        Ok(())
    }
}
