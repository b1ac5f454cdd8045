//! An executor over io_uring for the thread that makes it.

use anyhow::Context;
use base::BufPool;
use rt::Rt;
use uring::{UringDriver, UringHandle};

/// Free buffers that are kept for reuse, in bytes.
const POOL_BYTES: usize = 64 << 20;

/// The executor and what goes with it; of one thread.
#[derive(Clone)]
pub struct Executor {
    /// Tasks and I/O.
    pub rt: Rt,
    /// Adds descriptors.
    pub handle: UringHandle,
    /// Buffers.
    pub pool: BufPool,
}

impl Executor {
    /// An executor of this thread.
    ///
    /// # Errors
    /// When io_uring cannot be had.
    pub fn new() -> anyhow::Result<Self> {
        let driver = UringDriver::new().context("cannot start")?;
        let handle = driver.handle();
        let rt = Rt::new(Box::new(driver));
        Ok(Self {
            rt,
            handle,
            pool: BufPool::new(POOL_BYTES),
        })
    }
}
