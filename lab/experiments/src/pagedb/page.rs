//! What a page of the database contains: the number of its last change, and a value that depends on all of its changes.
//!
//! A page is zero but for these 16 bytes, which lie in its first sector. So a write of a page is there as a whole or not
//! at all, as ARIES assumes. Two pages agree exactly if the same changes were made to them in the same order.

/// Bytes that a page's state takes at its start.
pub const STATE_BYTES: usize = 16;

/// The content of a page. A page that was never changed is zero.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PageState {
    /// Number of the last log record that changed it; the paper's page LSN.
    pub lsn: u64,
    /// Depends on all changes.
    pub check: u64,
}

impl PageState {
    /// The state after record `lsn` has changed page `page`.
    pub fn changed(self, page: u32, lsn: u64) -> Self {
        let mixed = self.check.rotate_left(17) ^ lsn ^ (u64::from(page) << 40);
        let check = (mixed ^ (mixed >> 29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { lsn, check }
    }

    /// As at the start of a page.
    pub fn encode(self) -> [u8; STATE_BYTES] {
        (u128::from(self.lsn) | u128::from(self.check) << 64).to_le_bytes()
    }

    /// From the start of a page.
    ///
    /// # Panics
    /// When `bytes` is shorter.
    pub fn decode(bytes: &[u8]) -> Self {
        let number =
            |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        Self {
            lsn: number(0),
            check: number(8),
        }
    }
}
