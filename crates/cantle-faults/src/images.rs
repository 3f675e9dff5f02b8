//! Images of a file system, taken while a store works on it.

use crate::history::{Marks, Progress};
use cantle::vfs::{Call, FaultVfs, MemVfs, Operation, Verdict};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// The contents of the file system when a call was about to change something.
pub struct Image {
    pub vfs: MemVfs,
    pub marks: Marks,
    /// The call, if there was one, and a readable description.
    pub call: Option<(Operation, PathBuf)>,
    pub at: String,
}

/// Takes an image before every `step`th call that changes something, at most `limit` images.
pub fn record(
    fault: &FaultVfs,
    memory: &MemVfs,
    progress: &Arc<Progress>,
    step: u64,
    limit: usize,
) -> Images {
    let images: Images = Arc::default();
    let (taken, memory, progress, count) =
        (images.clone(), memory.clone(), progress.clone(), AtomicU64::new(step / 2));
    // Nothing changes while an image is taken, except by calls that had already passed: at most one
    // per thread.
    let still = Mutex::new(());
    fault.set_rule(move |call: &Call<'_>| {
        if !call.operation.changes() {
            return Verdict::Pass;
        }
        let _still = still.lock().unwrap();
        if count.fetch_add(1, SeqCst) % step == 0 {
            let before = progress.now();
            let vfs = memory.kill();
            let marks = Marks { begun: progress.now().begun, ..before };
            let mut images = taken.lock().unwrap();
            if images.len() < limit {
                let at = format!("{:?} {} at {}", call.operation, call.path.display(), call.offset);
                let call = Some((call.operation, call.path.to_owned()));
                images.push(Image { vfs, marks, call, at });
            }
        }
        Verdict::Pass
    });
    images
}

pub type Images = Arc<Mutex<Vec<Image>>>;
