//! Input files: `-` for standard input. Files compressed with gzip or zstd are read directly,
//! whatever their names.

mod archive;

use crate::failure::{Failure, Outcome};
use crate::interrupt::{Interrupt, Interruptible};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// An opened input.
pub(crate) struct Input {
    /// Its bytes, decompressed.
    pub(crate) reader: Box<dyn Read>,
    /// Bytes taken from the file so far, as they lie in it.
    pub(crate) consumed: Arc<AtomicU64>,
    /// The file's size, if it has one.
    pub(crate) bytes: Option<u64>,
    /// Its name in messages.
    pub(crate) name: String,
}

/// Opens `path`, or standard input for `-`. Reads end with an error once `interrupt` has a signal.
pub(crate) fn open(path: &str, interrupt: Option<&Arc<Interrupt>>) -> Outcome<Input> {
    let interrupt = interrupt.cloned();
    let (reader, bytes, name): (Box<dyn Read>, _, _) = if path == "-" {
        // Not by way of the library's buffer: bytes in it would not wake who waits for the file.
        let file = io::stdin()
            .as_fd()
            .try_clone_to_owned()
            .map_err(|error| Failure::Failed(format!("cannot read standard input: {error}")))?;
        let file = File::from(file);
        (Box::new(Interruptible { file, interrupt }), None, "standard input".to_owned())
    } else {
        let failed = |error| Failure::Failed(format!("cannot read {path}: {error}"));
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let bytes = metadata.is_file().then_some(metadata.len());
        (Box::new(Interruptible { file, interrupt }), bytes, path.to_owned())
    };
    let consumed = Arc::new(AtomicU64::new(0));
    let counting = Counting { inner: reader, consumed: Arc::clone(&consumed) };
    let reader = decompressed(counting, path)
        .map_err(|error| Failure::Failed(format!("cannot read {name}: {error}")))?;
    Ok(Input { reader, consumed, bytes, name })
}

/// Recognizes compressed input by its first bytes; an archive of another kind is an error.
fn decompressed(reader: impl Read + 'static, path: &str) -> io::Result<Box<dyn Read>> {
    let (head, whole) = peek(reader)?;
    let unpacked = if head.starts_with(&[0x1f, 0x8b]) {
        let gzip = flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, whole));
        ("z", peek(gzip)?)
    } else if head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        ("--zstd -", peek(unzstd(whole)?)?)
    } else {
        archive::refuse(&head, path, "")?;
        return Ok(whole);
    };
    let (how, (head, whole)) = unpacked;
    archive::refuse(&head, path, how)?;
    Ok(whole)
}

/// The first bytes, and a reader of all.
fn peek(mut reader: impl Read + 'static) -> io::Result<(Vec<u8>, Box<dyn Read>)> {
    let mut head = Vec::with_capacity(archive::HEAD_BYTES);
    reader.by_ref().take(archive::HEAD_BYTES as u64).read_to_end(&mut head)?;
    Ok((head.clone(), Box::new(io::Cursor::new(head).chain(reader))))
}

#[cfg(feature = "zstd")]
fn unzstd(reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    Ok(Box::new(zstd::stream::read::Decoder::new(reader)?))
}

#[cfg(not(feature = "zstd"))]
fn unzstd(_reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    Err(io::Error::other("it is compressed with zstd, which this build of cantle lacks: unpack it first"))
}

struct Counting<R> {
    inner: R,
    consumed: Arc<AtomicU64>,
}

impl<R: Read> Read for Counting<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        // Only the progress display reads the count; it orders nothing.
        self.consumed.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
