//! Buffers that are charged to an account.

use super::account::Charge;
use super::pages::Buffer;

/// Mapped memory. Its charge, if there is one, is held until the last reference to the buffer is
/// dropped.
pub struct ChargedBuffer {
    pub buffer: Buffer,
    _charge: Option<Charge>,
}

impl ChargedBuffer {
    /// `None` if `bytes` is 0.
    pub fn new(bytes: usize, charge: Option<Charge>) -> Option<Self> {
        Some(Self { buffer: Buffer::mapped(bytes)?, _charge: charge })
    }
}

impl AsRef<[u8]> for ChargedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref()
    }
}
