//! Measurement of the device: random reads of blocks of a store's files before its turn.
//!
//! A virtual disk may have some recently read data in memory elsewhere, and read one store's files
//! faster than another's. Then the costs of their gets and scans cannot be compared, which the
//! report says.

use crate::failure::{Failure, Result, on};
use cantle_workloads::generator::Random;
use rustix::fs::{Advice, fadvise};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK_BYTES: usize = 4096;
/// The unit of `st_blocks`.
const SECTOR_BYTES: u64 = 512;
/// Minimum number of blocks: with fewer, most would be read again, from the page cache.
const BLOCKS_MIN: u64 = 16 << 10;
const TIME: Duration = Duration::from_millis(300);

/// Blocks per second that this number of threads read from the files below `dir`. The files must
/// not be cached before, and should be dropped from the cache afterwards. `None` if there are too
/// few blocks.
pub fn reads_per_second(dir: &Path, threads: u64, seed: u64) -> Result<Option<f64>> {
    let mut files = Vec::new();
    open(dir, &mut files)?;
    let blocks = files.iter().map(|(_, blocks)| blocks).sum::<u64>();
    if blocks < BLOCKS_MIN {
        return Ok(None);
    }
    let begun = Instant::now();
    let read = |thread: u64| -> Result<u64> {
        let mut random = Random::stream(seed, thread);
        let (mut block, mut reads) = ([0; BLOCK_BYTES], 0);
        while begun.elapsed() < TIME {
            let mut at = random.below(blocks);
            for (file, blocks) in &files {
                if at < *blocks {
                    file.read_exact_at(&mut block, at * BLOCK_BYTES as u64)?;
                    break;
                }
                at -= blocks;
            }
            reads += 1;
        }
        Ok(reads)
    };
    let reads = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|thread| scope.spawn(move || read(thread))).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<u64>>| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("a thread that reads the device panicked")))
        };
        threads.into_iter().map(join).sum::<Result<u64>>()
    })?;
    Ok(Some(reads as f64 / begun.elapsed().as_secs_f64()))
}

/// Files and their numbers of blocks, without files with holes, as holes are not on the device.
fn open(dir: &Path, files: &mut Vec<(File, u64)>) -> Result {
    for entry in fs::read_dir(dir).map_err(on("list", dir))? {
        let path = entry?.path();
        if path.is_dir() {
            open(&path, files)?;
            continue;
        }
        let file = File::open(&path).map_err(on("open", &path))?;
        let metadata = file.metadata().map_err(on("look at", &path))?;
        if metadata.blocks() * SECTOR_BYTES >= metadata.len() {
            fadvise(&file, 0, None, Advice::Random)?;
            files.push((file, metadata.len() / BLOCK_BYTES as u64));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_files_without_holes_are_read() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("inner")).unwrap();
        let len = BLOCKS_MIN as usize * BLOCK_BYTES;
        File::create(dir.path().join("sparse")).unwrap().set_len(len as u64).unwrap();
        assert_eq!(reads_per_second(dir.path(), 2, 1).unwrap(), None);
        fs::write(dir.path().join("inner/1.table"), vec![7; len]).unwrap();
        assert!(reads_per_second(dir.path(), 2, 1).unwrap() > Some(0.0));
    }
}
