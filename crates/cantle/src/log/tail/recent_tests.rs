//! The last writes, compared with the files.

use super::recent::{MAPPED_BYTES_MIN, RUN_OVERHEAD_BYTES, Recent, RecentEnd};
use crate::sync::Arc;
use proptest::prelude::*;

const RUN: u64 = 100 + RUN_OVERHEAD_BYTES;

#[test]
fn runs_of_any_length_are_read_as_they_were_written_and_counted_by_their_memory() {
    let (recent, end) = (Recent::default(), Arc::new(RecentEnd::new()));
    let lens = [1, MAPPED_BYTES_MIN - 1, MAPPED_BYTES_MIN, MAPPED_BYTES_MIN + 1, 70_001];
    let mut at = 0;
    for len in lens {
        let bytes: Vec<u8> = (0..len).map(|place| (place % 251) as u8).collect();
        let before = recent.bytes();
        recent.keep(&end, at, &bytes, u64::MAX);
        let taken = recent.bytes() - before - RUN_OVERHEAD_BYTES;
        assert!(taken >= len as u64 && taken < (len + len / 4 + MAPPED_BYTES_MIN) as u64, "{len}: {taken}");
        assert_eq!(recent.read(&end, at, len), Some(bytes));
        at += len as u64;
    }
}

#[test]
fn the_oldest_of_all_logs_go_first() {
    let recent = Recent::default();
    let (one, two) = (Arc::new(RecentEnd::new()), Arc::new(RecentEnd::new()));
    let limit = 10 * RUN;
    for run in 0..5 {
        recent.keep(&one, run * 100, &[1; 100], limit);
        recent.keep(&two, run * 100, &[2; 100], limit);
    }
    assert_eq!(recent.bytes(), limit);
    assert_eq!(recent.read(&one, 10, 90), Some(vec![1; 90]));
    recent.keep(&two, 500, &[2; 100], limit);
    assert!(recent.read(&one, 10, 90).is_none() && recent.read(&two, 10, 90).is_some());
    assert_eq!(recent.bytes(), limit);
    // The runs of a log that was dropped leave in the same order as all others.
    drop(one);
    (6..20).for_each(|run| recent.keep(&two, run * 100, &[2; 100], limit));
    assert_eq!(recent.bytes(), limit);
    assert!(recent.read(&two, 999, 1).is_none() && recent.read(&two, 1000, 100).is_some());
    assert_eq!(recent.reads(), 3);
}

#[test]
fn a_long_one_drives_nothing_out_and_a_lower_limit_does() {
    let recent = Recent::default();
    let end = Arc::new(RecentEnd::new());
    recent.keep(&end, 0, &[1; 100], 10 * RUN);
    recent.keep(&end, 100, &[1; 1000], 10 * RUN);
    assert!(recent.read(&end, 0, 100).is_some() && recent.read(&end, 100, 1).is_none());
    recent.keep(&end, 1100, &[1; 100], 0);
    assert!(recent.read(&end, 0, 1).is_none());
    assert_eq!(recent.bytes(), 0);
}

proptest! {
    /// Appends, truncations and other logs' appends: a read returns the bytes of the file, or
    /// nothing.
    #[test]
    fn runs_equal_the_file(steps in proptest::collection::vec((0..8u8, 1..200usize, any::<u8>()), 1..100)) {
        let recent = Recent::default();
        let ends = [Arc::new(RecentEnd::new()), Arc::new(RecentEnd::new())];
        let mut files = [Vec::new(), Vec::new()];
        for (what, len, byte) in steps {
            let which = usize::from(byte & 1);
            let (file, end): (&mut Vec<u8>, _) = (&mut files[which], &ends[which]);
            match what {
                0..=5 => {
                    let bytes = vec![byte; len];
                    recent.keep(end, file.len() as u64, &bytes, 2000);
                    file.extend(bytes);
                }
                6 => file.extend(vec![byte; len]),
                _ => {
                    let kept = file.len().saturating_sub(len);
                    end.truncate(kept as u64);
                    file.truncate(kept);
                }
            }
            prop_assert!(recent.bytes() <= 2000);
            for at in 0..file.len() {
                for len in [1, 30] {
                    if let Some(read) = recent.read(end, at as u64, len) {
                        prop_assert_eq!(&read[..], &file[at..at + len]);
                    }
                }
            }
            // Nothing is found after the end.
            prop_assert!(recent.read(end, file.len() as u64, 1).is_none());
        }
    }
}
