//! A plain file that is made from an archive.

use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use tonearm_archive::Content;

/// Bytes of zeroes that are written at once where a file can have no holes.
const ZEROES: usize = 64 << 10;

/// A plain file, with holes where it has zeroes.
pub(super) struct Plain(pub File);

impl Content for Plain {
    fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(bytes, at)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, at)
    }

    fn zero(&mut self, at: u64, count: u64) -> io::Result<()> {
        self.zero_at(at, count)
    }
}

impl Plain {
    /// Makes bytes zeroes.
    pub(super) fn zero_at(&self, at: u64, count: u64) -> io::Result<()> {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&self.0, hole, at, count) {
            Err(Errno::OPNOTSUPP) => {}
            other => return Ok(other?),
        }
        let (zeroes, end) = (vec![0; ZEROES], at + count);
        let mut next = at;
        while next < end {
            let part = (end - next).min(ZEROES as u64);
            self.0.write_all_at(&zeroes[..part as usize], next)?;
            next += part;
        }
        Ok(())
    }
}
