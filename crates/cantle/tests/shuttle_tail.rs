//! The tail of a log (`log/tail/tail.rs`, `waiting.rs`, `recent.rs`) in random interleavings of a
//! writer, which undoes some appends, a checkpoint, which drains, and a reader; sequentially
//! consistent, as shuttle is. A reader finds each published append, in the tail or else in the
//! file, as it was written.
//!
//! Files and the write buffer are models; a write of a file takes place in two steps.
#![expect(dead_code, unreachable_pub, reason = "the modules under test serve a library, not this crate")]

use shuttle::sync::atomic::{AtomicU64, Ordering::SeqCst};
use shuttle::thread;
use std::sync::Arc;

/// The end of a log, and its dependencies.
#[path = "../src/log"]
mod log {
    pub mod tail {
        mod recent;
        #[expect(clippy::module_inception, reason = "as in the library")]
        mod tail;
        mod waiting;
        pub mod write_buffer {
            //! Slots of memory, of which there is always one.

            use crate::sync::Arc;

            const SLOT_BYTES: usize = 3 * crate::APPEND_BYTES;

            #[derive(Default)]
            pub struct WriteBuffer(());

            pub struct Lease {
                base: u64,
                bytes: Vec<u8>,
            }

            impl WriteBuffer {
                pub fn is_sound(&self) -> bool {
                    true
                }

                pub fn append_bytes_max(&self) -> usize {
                    SLOT_BYTES
                }

                pub fn lease(self: &Arc<Self>, _: u64, base: u64) -> Option<Lease> {
                    Some(Lease { base, bytes: Vec::new() })
                }
            }

            impl Lease {
                pub fn base(&self) -> u64 {
                    self.base
                }

                pub fn end(&self) -> u64 {
                    self.base + self.bytes.len() as u64
                }

                pub fn push(&mut self, bytes: &[u8], _: u64) -> bool {
                    let fits = self.bytes.len() + bytes.len() <= SLOT_BYTES;
                    if fits {
                        self.bytes.extend(bytes);
                    }
                    fits
                }

                pub fn buffered(&self) -> Option<Vec<u8>> {
                    Some(self.bytes.clone())
                }

                pub fn read(&self, at: u64, len: usize) -> Option<Vec<u8>> {
                    let start = at.checked_sub(self.base)? as usize;
                    Some(self.bytes.get(start..start + len)?.to_vec())
                }

                pub fn set_drained(&mut self) {
                    self.set_base(self.end());
                }

                pub fn set_base(&mut self, base: u64) {
                    (self.base, self.bytes) = (base, Vec::new());
                }

                pub fn truncate(&mut self, end: u64) -> bool {
                    self.bytes.truncate(end.saturating_sub(self.base) as usize);
                    true
                }
            }
        }

        pub(crate) use recent::Recent;
        pub use tail::{Tail, TailMemory};
    }

    #[derive(Default)]
    pub struct LogMemory {
        pub recent: tail::Recent,
    }

    impl LogMemory {
        /// Room for some appends, of which the oldest are removed.
        pub fn recent_limit_bytes(&self) -> u64 {
            1400
        }
    }
}

mod files {
    use crate::sync::{Arc, Mutex};
    use crate::types::error::Result;
    use std::io;
    use std::path::PathBuf;

    pub struct StoreFile {
        pub id: u64,
        pub path: PathBuf,
        pub bytes: Mutex<Vec<u8>>,
    }

    impl StoreFile {
        pub fn handle(self: &Arc<Self>) -> Result<Arc<Self>> {
            Ok(self.clone())
        }

        pub fn len(&self) -> io::Result<u64> {
            Ok(self.bytes.lock().len() as u64)
        }

        pub fn set_len(&self, len: u64) -> io::Result<()> {
            self.bytes.lock().resize(len as usize, 0);
            Ok(())
        }

        pub fn write_at(&self, bytes: &[u8], at: u64) -> Result<()> {
            let (first, rest) = bytes.split_at(bytes.len() / 2);
            for (part, at) in [(first, at as usize), (rest, at as usize + first.len())] {
                let mut all = self.bytes.lock();
                let end = all.len().max(at + part.len());
                all.resize(end, 0);
                all[at..at + part.len()].copy_from_slice(part);
            }
            Ok(())
        }
    }

    pub struct Promise;

    impl Promise {
        pub fn hand_over(&self, _: u64, _: &Self) {}

        pub fn redeem(&self, _: u64) {}
    }
}

mod format {
    pub mod header {
        pub const HEADER_BYTES: u64 = 56;
    }
}

mod memory {
    pub mod pages {
        /// No append of a model is so long that it is mapped.
        pub struct Buffer(Vec<u8>);

        impl Buffer {
            pub fn mapped(bytes: usize) -> Option<Self> {
                (bytes > 0).then(|| Self(vec![0; bytes]))
            }

            pub fn memory_bytes(&self) -> u64 {
                self.0.len() as u64
            }
        }

        impl AsRef<[u8]> for Buffer {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }

        impl AsMut<[u8]> for Buffer {
            fn as_mut(&mut self) -> &mut [u8] {
                &mut self.0
            }
        }
    }
}

mod types {
    pub mod error {
        use std::path::Path;

        #[derive(Debug, Clone, Copy)]
        pub enum Attempt {
            Append,
            Truncate,
            Measure,
        }

        #[derive(Debug)]
        pub struct Error(Attempt);

        impl Error {
            pub fn io(attempt: Attempt, _: &Path, _: std::io::Error) -> Self {
                Self(attempt)
            }
        }

        pub type Result<T> = std::result::Result<T, Error>;
    }
}

#[path = "models/schedules.rs"]
mod schedules;
#[path = "models/shuttle_sync.rs"]
mod shuttle_sync;

/// Shuttle's version of the items of `cantle::sync` that the modules under test use.
mod sync {
    pub use crate::shuttle_sync::{Mutex, RwLock, atomic, waits};
    pub use std::sync::Arc;

    pub mod counter {
        /// The counts are not used.
        #[derive(Debug, Default)]
        pub struct Counter(());

        impl Counter {
            pub fn add(&self, _: u64) {}

            pub fn get(&self) -> u64 {
                0
            }
        }
    }
}

use files::{Promise, StoreFile};
use format::header::HEADER_BYTES;
use log::LogMemory;
use log::tail::write_buffer::WriteBuffer;
use log::tail::{Tail, TailMemory};
use schedules::{few_switches, random};

const SCHEDULES: usize = 10_000;
const APPEND_BYTES: usize = 20;
const APPENDS: u64 = 6;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    Nowhere,
    Slot,
    Memory,
}

fn place_of(append: u64) -> u64 {
    HEADER_BYTES + append * APPEND_BYTES as u64
}

fn a_writer_a_checkpoint_and_a_reader(waits: Waits) {
    let bytes = sync::Mutex::new(vec![0; HEADER_BYTES as usize]);
    let file = Arc::new(StoreFile { id: 1, path: "log".into(), bytes });
    let memory = Arc::new(LogMemory::default());
    let tail = Arc::new(match waits {
        Waits::Memory => Tail::in_memory(file.clone(), memory, Promise),
        Waits::Nowhere | Waits::Slot => Tail::new(file.clone(), memory),
    });
    // Number of published appends.
    let published = Arc::new(AtomicU64::new(0));
    let checkpoint = {
        let (tail, published) = (tail.clone(), published.clone());
        move || {
            for _ in 0..2 {
                tail.release(place_of(published.load(SeqCst))).expect("files do not fail");
                tail.drain(place_of(published.load(SeqCst))).expect("files do not fail");
            }
        }
    };
    let reader = {
        let (tail, published, file) = (tail.clone(), published.clone(), file.clone());
        move || {
            for back in [1, 2, 1, 3] {
                let Some(append) = published.load(SeqCst).checked_sub(back) else { continue };
                let place = place_of(append);
                let found = tail.read(place, APPEND_BYTES).unwrap_or_else(|| {
                    file.bytes.lock()[place as usize..place as usize + APPEND_BYTES].to_vec()
                });
                assert_eq!(found, [append as u8 + 1; APPEND_BYTES], "another append is found");
            }
        }
    };
    let threads = [thread::spawn(checkpoint), thread::spawn(reader)];
    let write_buffer = (waits == Waits::Slot).then(|| Arc::new(WriteBuffer::default()));
    for append in 0..APPENDS {
        let places = TailMemory { write_buffer: write_buffer.as_ref(), stays: append % 3 > 0 };
        if append % 2 == 1 {
            tail.append(places, (&[255; APPEND_BYTES], 1), place_of(append)).expect("files do not fail");
            tail.truncate(place_of(append)).expect("files do not fail");
        }
        tail.append(places, (&[append as u8 + 1; APPEND_BYTES], 1), place_of(append))
            .expect("files do not fail");
        published.store(append + 1, SeqCst);
    }
    threads.into_iter().for_each(|thread| thread.join().expect("a thread panicked"));
    tail.release(place_of(APPENDS)).expect("files do not fail");
    let written = file.bytes.lock()[HEADER_BYTES as usize..].to_vec();
    let wanted: Vec<u8> = (1..=APPENDS as u8).flat_map(|byte| [byte; APPEND_BYTES]).collect();
    assert_eq!(written, wanted, "the file has another log");
}

#[test]
fn a_reader_finds_what_was_published_wherever_it_waits() {
    for waits in [Waits::Nowhere, Waits::Slot, Waits::Memory] {
        random(SCHEDULES, move || a_writer_a_checkpoint_and_a_reader(waits));
    }
}

#[test]
fn a_reader_finds_what_was_published_with_few_switches_in_the_worst_places() {
    for waits in [Waits::Nowhere, Waits::Slot, Waits::Memory] {
        few_switches(3, SCHEDULES, move || a_writer_a_checkpoint_and_a_reader(waits));
    }
}
