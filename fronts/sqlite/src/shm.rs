//! The index of a write-ahead log: memory that the connections of this process share, and eight locks on it. It lives
//! as long as a connection has it mapped. The next connection finds zeroes and rebuilds the index from the log.

use crate::failure::{Failure, Result};
use crate::ffi::{self, SHM_LOCKS};
use std::ffi::c_void;
use std::sync::atomic::AtomicU64;

/// Memory and locks.
#[derive(Default)]
pub struct Shm {
    /// The regions. SQLite reads and writes them through pointers, so their content may change at any time.
    regions: Vec<Box<[AtomicU64]>>,
    /// Handles that have it mapped.
    handles: usize,
    /// For each lock the number of handles that share it.
    shared: [usize; SHM_LOCKS],
    /// For each lock whether a handle has it alone.
    exclusive: [bool; SHM_LOCKS],
}

/// The locks of one handle.
#[derive(Default)]
pub struct ShmHandle {
    shared: [bool; SHM_LOCKS],
    exclusive: [bool; SHM_LOCKS],
}

impl Shm {
    /// Maps the memory for another handle.
    pub fn attach(&mut self) -> ShmHandle {
        self.handles += 1;
        ShmHandle::default()
    }

    /// Unmaps the memory for a handle, and releases its locks.
    pub fn detach(&mut self, handle: &mut ShmHandle) {
        self.unlock(handle, 0, SHM_LOCKS);
        self.handles -= 1;
        if self.handles == 0 {
            self.regions.clear();
        }
    }

    /// Address of region `index` of `bytes` bytes; null when there is none and `extend` does not ask for it.
    ///
    /// # Errors
    /// For a size that is not SQLite's.
    pub fn map(&mut self, index: usize, bytes: usize, extend: bool) -> Result<*mut c_void> {
        let words = bytes / 8;
        if self.regions.iter().any(|region| region.len() != words) || words == 0 {
            let text = format!("a region of {bytes} bytes in the index of a write-ahead log");
            return Err(Failure::new(ffi::IOERR_SHMMAP, text));
        }
        while extend && self.regions.len() <= index {
            let region = std::iter::repeat_with(|| AtomicU64::new(0));
            self.regions.push(region.take(words).collect());
        }
        let region = self.regions.get(index);
        Ok(region.map_or(std::ptr::null_mut(), |region| {
            region.as_ptr().cast_mut().cast()
        }))
    }

    /// Takes `count` locks from `first` on, shared or alone. All or none.
    ///
    /// # Errors
    /// `BUSY`.
    pub fn lock(
        &mut self,
        handle: &mut ShmHandle,
        first: usize,
        count: usize,
        shared: bool,
    ) -> Result<()> {
        let range = first..(first + count).min(SHM_LOCKS);
        for index in range.clone() {
            let others_share = self.shared[index] > usize::from(handle.shared[index]);
            let other_alone = self.exclusive[index] && !handle.exclusive[index];
            if other_alone || (!shared && (others_share || handle.shared[index])) {
                return Err(Failure::silent(ffi::BUSY));
            }
        }
        for index in range {
            if shared && !handle.shared[index] {
                handle.shared[index] = true;
                self.shared[index] += 1;
            } else if !shared {
                handle.exclusive[index] = true;
                self.exclusive[index] = true;
            }
        }
        Ok(())
    }

    /// Releases the handle's locks among the `count` locks from `first` on.
    pub fn unlock(&mut self, handle: &mut ShmHandle, first: usize, count: usize) {
        for index in first..(first + count).min(SHM_LOCKS) {
            if std::mem::take(&mut handle.shared[index]) {
                self.shared[index] -= 1;
            }
            if std::mem::take(&mut handle.exclusive[index]) {
                self.exclusive[index] = false;
            }
        }
    }
}

#[cfg(test)]
#[path = "shm_test.rs"]
mod shm_test;
