//! Buffers that count in an account.

use super::account::Charge;
use super::pages::Buffer;

/// Mapped memory that counts in an account, if it was charged to one, for as long as anybody holds some of it.
pub struct ChargedBuffer {
    pub buffer: Buffer,
    _charge: Option<Charge>,
}

impl ChargedBuffer {
    /// `None` for no bytes.
    pub fn new(bytes: usize, charge: Option<Charge>) -> Option<Self> {
        Some(Self { buffer: Buffer::mapped(bytes)?, _charge: charge })
    }
}

impl AsRef<[u8]> for ChargedBuffer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref()
    }
}
