//! A simulated world: drives with volatile write caches, in virtual time.
//!
//! Invariants:
//! 1. The same seed and the same requests give the same completions at the same times.
//! 2. Reads see completed writes.
//! 3. On a drive with its write cache on, a write is stable once a flush that was submitted after its completion has
//!    completed, or at its completion if it is a `WriteDurable`. With the cache off a completed write is stable.
//! 4. A power cut may keep, drop, tear or garble each 512-byte sector of unstable writes independently. Of several
//!    unstable writes to one sector, any may be the last that reached the medium. A stable write hides all earlier
//!    writes to its sectors.
//! 5. A failed write has reached the medium in a random part (not at all, for lack of space). From then on it is like
//!    any other write.

mod core;
mod crash;
mod disk;
mod driver;
mod events;
mod jitter;

pub use crash::Crash;
pub use driver::SimDriver;
pub use jitter::{Jitter, JitterTimes};

use self::core::World;
use crate::fault::{Fault, Struck};
use crate::image::DiskImage;
use crate::timing::Timing;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::{Driver, IoError, Request};

/// Settings of a simulated world.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Fixed part of the time of any operation, for drives without a model of their own; see [`JitterTimes`].
    pub latency: Nanos,
    /// Upper bound of the random part, which reorders completions.
    pub jitter: Nanos,
    /// Added for each page moved.
    pub per_page: Nanos,
    /// Fixed part of a flush.
    pub flush: Nanos,
    /// Processor time of the host for each request, by which the clock advances at the submission. 0 by default;
    /// [`HOST_PER_REQUEST`] is a measured value.
    pub cpu_per_request: Nanos,
    /// Processor time of the host for each byte moved, in picoseconds; see [`HOST_PS_PER_BYTE`].
    pub cpu_ps_per_byte: u64,
    /// Track what a power cut may take. Without it the world is faster, a crash leaves what reads see, and flushes only
    /// take time.
    pub power_cuts: bool,
    /// Include the bytes that are written and read in the trace hash.
    pub hash_content: bool,
}

/// Processor time of a host for one request: that of fio for a 4-KiB read with io_uring and direct I/O, less the time
/// for its bytes, on a virtual machine with 2 shared CPUs (docs/drives.md).
pub const HOST_PER_REQUEST: Nanos = Nanos(5_200);

/// Processor time of a host for a byte, in picoseconds, from 256-KiB reads on the same machine.
pub const HOST_PS_PER_BYTE: u64 = 68;

impl Default for SimOptions {
    fn default() -> Self {
        let times = JitterTimes::default();
        Self {
            seed: 0,
            latency: times.latency,
            jitter: times.jitter,
            per_page: times.per_page,
            flush: times.flush,
            cpu_per_request: Nanos(0),
            cpu_ps_per_byte: 0,
            power_cuts: true,
            hash_content: false,
        }
    }
}

/// How a drive zeroes or punches a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zeroing {
    /// As a command without data: the model gets a write of no sectors.
    Command,
    /// As a write of the whole range.
    Write,
}

/// One drive of a world.
pub struct SimDisk {
    /// Its content.
    pub image: DiskImage,
    /// Its times.
    pub timing: Box<dyn Timing>,
    /// True when its volatile write cache is on.
    pub write_cache: bool,
    /// The way of zeroing.
    pub zeroing: Zeroing,
}

/// Handle of a simulated world. A test keeps it while the engine runs in the world.
#[derive(Clone)]
pub struct SimWorld(Rc<RefCell<World>>);

impl SimWorld {
    /// A world of devices with these contents and with random latencies. Device ids are the indexes.
    pub fn new(options: SimOptions, images: Vec<DiskImage>) -> Self {
        let rng = Rc::new(RefCell::new(ChaCha8Rng::seed_from_u64(options.seed)));
        let times = JitterTimes {
            latency: options.latency,
            jitter: options.jitter,
            per_page: options.per_page,
            flush: options.flush,
        };
        let disks = images.into_iter().map(|image| SimDisk {
            image,
            timing: Box::new(Jitter::sharing(times, &rng)),
            write_cache: true,
            zeroing: Zeroing::Command,
        });
        let disks = disks.collect();
        Self::with_disks(options, disks)
    }

    /// A world of drives, each with its own timing model. Device ids are the indexes.
    pub fn with_disks(options: SimOptions, disks: Vec<SimDisk>) -> Self {
        Self(Rc::new(RefCell::new(World::new(options, disks))))
    }

    /// The driver for an executor.
    pub fn driver(&self) -> Box<dyn Driver> {
        Box::new(SimDriver::new(self.0.clone()))
    }

    /// Calls `hook` with a running number and the crash state after each submission and before each
    /// completion of a write, flush or punch.
    pub fn on_io(&self, hook: impl FnMut(u64, &Crash) + 'static) {
        self.0.borrow_mut().hook = Some(Box::new(hook));
    }

    /// Removes the hook.
    pub fn clear_hook(&self) {
        self.0.borrow_mut().hook = None;
    }

    /// Calls `fault` for each request, which fails with the error that `fault` returns, if any.
    pub fn set_fault(&self, fault: impl FnMut(&Request) -> Option<IoError> + 'static) {
        self.0.borrow_mut().rule = Some(Box::new(fault));
    }

    /// Removes the function of [`SimWorld::set_fault`].
    pub fn clear_fault(&self) {
        self.0.borrow_mut().rule = None;
    }

    /// Plans `faults`, each at its moment.
    pub fn plan(&self, faults: &[Fault]) {
        let mut world = self.0.borrow_mut();
        for fault in faults {
            world.disks[fault.drive as usize].faults.plan(*fault);
        }
    }

    /// Begins a fault now, without regard to its planned start.
    pub fn strike(&self, fault: Fault) {
        self.0.borrow_mut().strike(fault);
    }

    /// Ends all lasting states (stuck, slow, full, failed) and drops planned faults. Bad sectors stay bad.
    pub fn heal(&self) {
        for disk in &mut self.0.borrow_mut().disks {
            disk.faults.heal();
        }
    }

    /// The faults that have struck, in order.
    pub fn struck(&self) -> Vec<Struck> {
        self.0.borrow().struck.clone()
    }

    /// The state after a power cut now.
    pub fn crash(&self) -> Crash {
        self.0.borrow_mut().crash()
    }

    /// The devices as reads see them: the state after a flush and an orderly switch-off.
    pub fn images(&self) -> Vec<DiskImage> {
        let world = self.0.borrow();
        world.disks.iter().map(|disk| disk.image()).collect()
    }

    /// Hash of every operation and its time of completion, and of the bytes if the options say so.
    pub fn trace_hash(&self) -> u64 {
        self.0.borrow().hash
    }

    /// Number of requests submitted so far.
    pub fn ios(&self) -> u64 {
        self.0.borrow().ios
    }

    /// The clock.
    pub fn now(&self) -> Nanos {
        self.0.borrow().now
    }
}

#[cfg(test)]
mod fault_test;
