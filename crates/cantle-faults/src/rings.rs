//! Rings of the kernel (io_uring), which some machines refuse.

use crate::visit::Visit;
use cantle::vfs::{OpenMode, ReadQueue, ReadRequest, StdVfs, Vfs};

/// True if the kernel gives this process a ring; reports it if not.
pub fn are_possible(visit: &Visit) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let file = StdVfs.open(&dir.path().join("file"), OpenMode::CreateNew).unwrap();
    let (mut one, mut other) = ([0; 8], [0; 8]);
    let buffers = [&mut one[..], &mut other[..]];
    let mut places = buffers.map(|buffer| ReadRequest { file: &*file, offset: 0, buffer });
    let queue = ReadQueue::default();
    queue.read_all(&mut places);
    let (by_ring, _) = queue.counts();
    if by_ring == 0 {
        visit.skip("io_uring", "the kernel or the environment refuses rings");
    }
    by_ring > 0
}
