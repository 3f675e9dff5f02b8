//! Input files: `-` for standard input, `.gz` and `.zst` read directly, whatever their names.

use crate::failure::{Failure, Outcome};
use std::fs::File;
use std::io::{self, Read};
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

/// Opens `path`, or standard input for `-`.
pub(crate) fn open(path: &str) -> Outcome<Input> {
    let (reader, bytes, name): (Box<dyn Read>, _, _) = if path == "-" {
        (Box::new(io::stdin()), None, "standard input".to_owned())
    } else {
        let failed = |error| Failure::Failed(format!("cannot read {path}: {error}"));
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        (Box::new(file), metadata.is_file().then_some(metadata.len()), path.to_owned())
    };
    let consumed = Arc::new(AtomicU64::new(0));
    let counting = Counting { inner: reader, consumed: Arc::clone(&consumed) };
    let reader =
        decompressed(counting).map_err(|error| Failure::Failed(format!("cannot read {name}: {error}")))?;
    Ok(Input { reader, consumed, bytes, name })
}

/// Tells compressed input by its first bytes.
fn decompressed(mut reader: impl Read + 'static) -> io::Result<Box<dyn Read>> {
    let mut magic = Vec::with_capacity(4);
    reader.by_ref().take(4).read_to_end(&mut magic)?;
    let gzip = magic.starts_with(&[0x1f, 0x8b]);
    let zstd = magic == [0x28, 0xb5, 0x2f, 0xfd];
    let whole = io::Cursor::new(magic).chain(reader);
    if gzip {
        Ok(Box::new(flate2::read::MultiGzDecoder::new(io::BufReader::with_capacity(1 << 16, whole))))
    } else if zstd {
        unzstd(whole)
    } else {
        Ok(Box::new(whole))
    }
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
