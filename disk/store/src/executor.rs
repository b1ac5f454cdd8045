//! An executor over io_uring.

use crate::loads::Loads;
use crate::monitor::Monitor;
use tonearm_base::BufPool;
use tonearm_rt::Rt;
use tonearm_uring::{Calls, RingWatch, UringDriver, UringError, UringHandle};

/// Free buffers that are kept for reuse, in bytes.
const POOL_BYTES: usize = 64 << 20;

/// The executor with its ring and buffers, for one thread.
#[derive(Clone)]
pub struct Executor {
    /// Tasks and I/O.
    pub rt: Rt,
    /// Adds descriptors.
    pub handle: UringHandle,
    /// Buffers.
    pub pool: BufPool,
    /// What the members that were opened with it are asked for.
    pub loads: Loads,
}

impl Executor {
    /// An executor of this thread.
    ///
    /// # Errors
    /// When io_uring cannot be had.
    pub fn new() -> Result<Self, UringError> {
        Ok(Self::over(UringDriver::new()?))
    }

    /// An executor of this thread, and the monitor by which other threads may run its tasks while it waits.
    ///
    /// # Errors
    /// When io_uring or a descriptor cannot be had.
    pub fn with_monitor() -> Result<(Self, Monitor), UringError> {
        let (driver, watch) = UringDriver::watched()?;
        Ok((Self::over(driver), Monitor::new(watch)))
    }

    /// Bytes that the members which are open take in their file systems. `None` when one is a block device. Waits for no file
    /// system.
    pub fn used_bytes(&self) -> Option<u64> {
        let ids = self.loads.ids().into_iter();
        ids.map(|id| self.handle.file_bytes(id)).sum()
    }

    /// An executor whose ring threads may use in turn. Also returns its calls, and a watch with which threads wait for
    /// completions.
    ///
    /// # Errors
    /// When io_uring cannot be had.
    pub(crate) fn shared() -> Result<(Self, Calls, RingWatch), UringError> {
        let (driver, calls, watch) = UringDriver::shared()?;
        Ok((Self::over(driver), calls, watch))
    }

    fn over(driver: UringDriver) -> Self {
        let handle = driver.handle();
        Self {
            rt: Rt::new(Box::new(driver)),
            handle,
            pool: BufPool::new(POOL_BYTES),
            loads: Loads::default(),
        }
    }
}
