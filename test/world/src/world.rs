//! A simulated world: drives with volatile write caches, in virtual time.
//!
//! Invariants:
//! 1. The same seed and the same requests give the same completions at the same times.
//! 2. Reads see completed writes.
//! 3. On a drive with its write cache on, only what a flush (submitted after the write's completion) or a
//!    `WriteDurable` covered is stable. With the cache off a completed write is stable.
//! 4. A power cut may keep, drop, tear or garble every 512-byte sector of what is not stable, each on its
//!    own; of several unstable writes to one sector any may be the last that reached the medium. What is
//!    stable lies over all that was written there before.
//! 5. A write that fails has reached the medium in a part that chance chooses (not at all, for lack of
//!    space); from then on it is like any other write.

mod core;
mod crash;
mod disk;
mod driver;
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
    /// Seed of all chance.
    pub seed: u64,
    /// Fixed part of any operation, of drives without a model of their own; see [`JitterTimes`].
    pub latency: Nanos,
    /// Upper bound of the random part, by which completions change places.
    pub jitter: Nanos,
    /// Added for each page moved.
    pub per_page: Nanos,
    /// Fixed part of a flush.
    pub flush: Nanos,
    /// Processor time of the host for each request; the clock moves on by it at the submission. 0 by default;
    /// [`HOST_PER_REQUEST`] is what was measured.
    pub cpu_per_request: Nanos,
    /// Processor time of the host for each byte moved, in picoseconds; see [`HOST_PS_PER_BYTE`].
    pub cpu_ps_per_byte: u64,
    /// Keep account of what a power cut may take. Without it the world is faster, a crash leaves what reads
    /// see, and flushes are a matter of time alone.
    pub power_cuts: bool,
    /// Let the bytes that are written and read count for the trace hash.
    pub hash_content: bool,
}

/// Processor time of a host for one request: fio's of a 4-KiB read with io_uring and direct I/O, less that of
/// its bytes, on a virtual machine with 2 shared CPUs (docs/drives.md).
pub const HOST_PER_REQUEST: Nanos = Nanos(5_200);

/// Processor time of a host for a byte, in picoseconds: what a 256-KiB read takes more, there.
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

/// How a drive carries out a request to zero or to give back a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Zeroing {
    /// As a command without data: the model is given a write of no sectors.
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
    /// Its volatile write cache is on.
    pub write_cache: bool,
    /// How it zeroes.
    pub zeroing: Zeroing,
}

/// Handle on a simulated world, for the test that holds it while the engine runs in it.
#[derive(Clone)]
pub struct SimWorld(Rc<RefCell<World>>);

impl SimWorld {
    /// A world of the given switched-off devices with random latencies; the device ids are their indexes.
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

    /// A world of drives, each with a timing of its own; the device ids are their indexes.
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

    /// Takes the hook away.
    pub fn clear_hook(&self) {
        self.0.borrow_mut().hook = None;
    }

    /// Lets `fault` fail requests: it sees each and names the error, if any.
    pub fn set_fault(&self, fault: impl FnMut(&Request) -> Option<IoError> + 'static) {
        self.0.borrow_mut().rule = Some(Box::new(fault));
    }

    /// Takes the fault away.
    pub fn clear_fault(&self) {
        self.0.borrow_mut().rule = None;
    }

    /// Lets `faults` come, each at its moment.
    pub fn plan(&self, faults: &[Fault]) {
        let mut world = self.0.borrow_mut();
        for fault in faults {
            world.disks[fault.drive as usize].faults.plan(*fault);
        }
    }

    /// Lets a fault come now, whatever it says of its moment.
    pub fn strike(&self, fault: Fault) {
        self.0.borrow_mut().strike(fault);
    }

    /// Ends all states that last (stuck, slow, full, failed) and takes back what has not come yet. Bad
    /// sectors stay bad.
    pub fn heal(&self) {
        for disk in &mut self.0.borrow_mut().disks {
            disk.faults.heal();
        }
    }

    /// The faults that have struck, in order.
    pub fn struck(&self) -> Vec<Struck> {
        self.0.borrow().struck.clone()
    }

    /// What a power cut now would leave.
    pub fn crash(&self) -> Crash {
        self.0.borrow_mut().crash()
    }

    /// The devices as reads see them: what a clean switch-off after a flush leaves.
    pub fn images(&self) -> Vec<DiskImage> {
        let world = self.0.borrow();
        world.disks.iter().map(|disk| disk.image()).collect()
    }

    /// Hash over every operation and its time of completion; over the bytes too if the options say so.
    pub fn trace_hash(&self) -> u64 {
        self.0.borrow().hash
    }

    /// Requests submitted so far.
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
