//! The rate at which the device takes one file: a limit for every store on it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::Instant;

/// Bytes of one write: large enough that the system call does not show.
const PIECE_BYTES: usize = 1 << 20;

/// Writes a new file of `bytes` at `path`, syncs and removes it. Returns bytes per second, the sync
/// included.
pub fn sequential_rate(path: &Path, bytes: u64) -> io::Result<f64> {
    // Not zeros, which some devices and file systems store as holes.
    let piece: Vec<u8> =
        (0..PIECE_BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut file = File::create_new(path)?;
    let start = Instant::now();
    let mut left = bytes;
    while left > 0 {
        let length = left.min(PIECE_BYTES as u64);
        file.write_all(&piece[..length as usize])?;
        left -= length;
    }
    file.sync_all()?;
    let took = start.elapsed();
    drop(file);
    fs::remove_file(path)?;
    Ok(bytes as f64 / took.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_gone_afterwards_and_another_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("device");
        assert!(sequential_rate(&path, (1 << 20) + 5).unwrap() > 0.0);
        assert!(!path.exists());
        fs::write(&path, "mine").unwrap();
        assert!(sequential_rate(&path, 5).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"mine");
    }
}
