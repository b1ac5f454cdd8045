//! A simulated drive with its host, and the time that both are busy.
//!
//! The host's times are a model. A request takes the measured time of [`HOST_PER_REQUEST`] and [`HOST_PS_PER_BYTE`]. An operation of a
//! file system takes a random time around [`HOST_PER_OPERATION`]. So two runs with different seeds differ as two runs on one
//! machine do.

use crate::experiment::Random;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_device::{Device, DeviceIo, Filter, RawDevice, span};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_rt::{Data, DeviceId, Op, Rt, Semaphore};
use tonearm_world::{
    DiskImage, HOST_PER_REQUEST, HOST_PS_PER_BYTE, SimDisk, SimOptions, SimWorld, Zeroing,
};

/// The stream of random numbers that gives the angle of the platter at time 0.
const PHASE: u64 = 0x9a5e;
/// The stream of random numbers that gives the times of operations.
const OPERATIONS: u64 = 0x09e7;

/// Processor time of an operation of a file system on average: the server of a mount takes 148 us for the six requests of a small
/// file, with the changes of threads (docs/results/mount.md, `small-files`). Times have an exponential distribution.
const HOST_PER_OPERATION: Nanos = Nanos(24_700);

/// A request is near the one before if it begins within so many bytes after its end: a small drive reads as far ahead.
const NEAR_BYTES: u64 = 64 << 10;

/// A drive and the executor of its world.
pub struct Machine {
    /// Its executor, whose clock is the drive's.
    pub rt: Rt,
    /// The drive.
    pub drive: Rc<Gauge>,
    /// The host.
    pub host: Rc<Host>,
}

/// A processor.
pub struct Host {
    rt: Rt,
    turn: Semaphore,
    random: RefCell<Random>,
    busy: Cell<Nanos>,
}

impl Host {
    /// Takes the time of an operation, after those that are under way.
    pub async fn compute(&self) {
        let _turn = self.turn.acquire(1).await;
        let mean = HOST_PER_OPERATION.0 as f64;
        let time = Nanos(self.random.borrow_mut().exponential(mean) as u64);
        self.rt.sleep(time).await;
        self.busy.set(Nanos(self.busy.get().0 + time.0));
    }
}

impl Machine {
    /// A drive of which `bytes` are used. The seed gives the angle of the platter at time 0, and the times of operations.
    pub fn new(file: &DriveFile, bytes: u64, seed: u64) -> Self {
        let options = DriveOptions {
            seed,
            phase: Random::new(seed, PHASE).unit(),
            ..DriveOptions::default()
        };
        let disk = SimDisk {
            image: DiskImage::new(bytes),
            timing: Box::new(Drive::new(&file.spec, &options)),
            write_cache: file.spec.write_cache.enabled,
            zeroing: Zeroing::Command,
        };
        let options = SimOptions {
            seed,
            power_cuts: false,
            cpu_per_request: HOST_PER_REQUEST,
            cpu_ps_per_byte: HOST_PS_PER_BYTE,
            ..SimOptions::default()
        };
        let rt = Rt::new(SimWorld::with_disks(options, vec![disk]).driver());
        let raw = RawDevice::new(&rt, DeviceId(0), bytes, 512, &file.name);
        let drive = Rc::new(Gauge {
            inner: Rc::new(raw),
            state: Rc::new(State {
                rt: rt.clone(),
                under_way: Cell::new(0),
                since: Cell::new(Nanos(0)),
                spent: RefCell::default(),
                end: Cell::new(0),
            }),
        });
        let host = Rc::new(Host {
            rt: rt.clone(),
            turn: Semaphore::new(&rt, 1),
            random: RefCell::new(Random::new(seed, OPERATIONS)),
            busy: Cell::new(Nanos(0)),
        });
        Self { rt, drive, host }
    }

    /// Measures from now on.
    pub fn meter(&self) -> Meter {
        Meter {
            rt: self.rt.clone(),
            drive: self.drive.clone(),
            host: self.host.clone(),
            began: self.rt.now(),
            before: self.drive.spent(),
            host_before: self.host.busy.get(),
        }
    }
}

/// What happened in a span of time.
#[derive(Clone, Copy, Default, Debug)]
pub struct Spent {
    /// The span.
    pub time: Nanos,
    /// The time in which the drive had at least one request.
    pub busy: Nanos,
    /// The requests that were sent to it.
    pub requests: u64,
    /// Those that do not begin within [`NEAR_BYTES`] after the one before.
    pub jumps: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// The host's time for operations.
    pub operations: Nanos,
}

impl Spent {
    /// The share of the time in which the drive had requests.
    pub fn busy_share(&self) -> f64 {
        self.busy.0 as f64 / self.time.0 as f64
    }

    /// The share of requests that are not near the one before.
    pub fn jump_share(&self) -> f64 {
        self.jumps as f64 / self.requests as f64
    }

    /// The share of the time in which the host's processor works on operations and requests.
    pub fn host_share(&self) -> f64 {
        let bytes_ns = self.bytes as f64 * HOST_PS_PER_BYTE as f64 / 1e3;
        let requests_ns = self.requests as f64 * HOST_PER_REQUEST.0 as f64 + bytes_ns;
        (self.operations.0 as f64 + requests_ns) / self.time.0 as f64
    }
}

/// Measures what happens from its creation on.
pub struct Meter {
    rt: Rt,
    drive: Rc<Gauge>,
    host: Rc<Host>,
    began: Nanos,
    before: Spent,
    host_before: Nanos,
}

impl Meter {
    /// What has happened.
    pub fn end(self) -> Spent {
        let after = self.drive.spent();
        Spent {
            time: Nanos(self.rt.now().0 - self.began.0),
            busy: Nanos(after.busy.0 - self.before.busy.0),
            requests: after.requests - self.before.requests,
            jumps: after.jumps - self.before.jumps,
            bytes: after.bytes - self.before.bytes,
            operations: Nanos(self.host.busy.get().0 - self.host_before.0),
        }
    }
}

/// A device that measures how long it has requests.
pub struct Gauge {
    inner: Rc<dyn Device>,
    state: Rc<State>,
}

struct State {
    rt: Rt,
    under_way: Cell<u64>,
    /// When the first request came of those under way.
    since: Cell<Nanos>,
    spent: RefCell<Spent>,
    /// End of the last request.
    end: Cell<u64>,
}

impl Gauge {
    /// All since the drive was switched on.
    fn spent(&self) -> Spent {
        let (state, mut spent) = (&self.state, *self.state.spent.borrow());
        if state.under_way.get() > 0 {
            spent.busy.0 += state.rt.now().0 - state.since.get().0;
        }
        spent
    }
}

impl Filter for Gauge {
    fn inner(&self) -> &dyn Device {
        &*self.inner
    }

    fn filter_io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let state = self.state.clone();
        if state.under_way.replace(state.under_way.get() + 1) == 0 {
            state.since.set(state.rt.now());
        }
        {
            let mut spent = state.spent.borrow_mut();
            spent.requests += 1;
            if matches!(op, Op::Read | Op::Write | Op::WriteDurable) {
                let (end, bytes) = (state.end.get(), span(op, len, &data));
                spent.jumps += u64::from(!(end..=end + NEAR_BYTES).contains(&offset));
                spent.bytes += bytes;
                state.end.set(offset + bytes);
            }
        }
        let io = self.inner.io(op, offset, len, data);
        Box::pin(async move {
            let done = io.await;
            state.under_way.set(state.under_way.get() - 1);
            if state.under_way.get() == 0 {
                state.spent.borrow_mut().busy.0 += state.rt.now().0 - state.since.get().0;
            }
            done
        })
    }
}
