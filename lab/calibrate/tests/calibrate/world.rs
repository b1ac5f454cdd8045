//! Simulated drives, and devices around them that disturb the measurement.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_calibrate::{Error, Findings, Hooks, Journal, Options, calibrate};
use tonearm_device::{Device, DeviceIo, RawDevice};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, DriveSpec};
use tonearm_rt::{Data, DeviceId, Op, Rt};
use tonearm_world::{SimDisk, SimOptions, SimWorld, Zeroing};

/// A drive of the project.
pub fn spec(name: &str) -> DriveSpec {
    DriveFile::of_library(name).spec
}

/// Disturbances between the drive and the calibration.
#[derive(Clone, Debug, Default)]
pub struct Troubles {
    /// Every end is reported late by up to this time; one in a hundred by ten times as much.
    pub late: Nanos,
    /// Seed of the late reports.
    pub seed: u64,
    /// Every end is reported at a multiple of this time, unless it is zero.
    pub tick: Nanos,
    /// FUA is ignored.
    pub no_fua: bool,
    /// A flush ends at once and does nothing.
    pub no_flush: bool,
    /// Stop after so many requests.
    pub stop_after: Option<u64>,
    /// How far the platter is ahead.
    pub phase: f64,
}

/// A run and what came of it.
pub struct Run {
    pub found: Result<Findings, Error>,
    pub journal: Journal,
    pub requests: u64,
    pub took: Nanos,
}

/// Calibrates a drive of `spec`.
pub fn run(
    spec: &DriveSpec,
    troubles: &Troubles,
    options: impl FnOnce(u64) -> Options,
    journal: Journal,
) -> Run {
    let switched = DriveOptions {
        seed: 7,
        phase: 0.3711 + troubles.phase,
        ..DriveOptions::default()
    };
    let drive = Drive::new(spec, &switched);
    let sectors = drive.sectors();
    let disk = SimDisk {
        image: tonearm_world::DiskImage::new(sectors * 512),
        timing: Box::new(drive),
        write_cache: true,
        zeroing: Zeroing::Command,
    };
    let sim = SimOptions {
        power_cuts: false,
        ..SimOptions::default()
    };
    let world = SimWorld::with_disks(sim, vec![disk]);
    let rt = Rt::new(world.driver());
    let raw: Rc<dyn Device> = Rc::new(RawDevice::new(
        &rt,
        DeviceId(0),
        sectors * 512,
        512,
        "drive",
    ));
    let options = options(sectors);
    let fence = Rc::new(Fence {
        below: raw,
        rt: rt.clone(),
        troubles: troubles.clone(),
        region: options.region.start * 512..options.region.end * 512,
        may_write: options.may_write,
        random: Cell::new(troubles.seed),
        wrong: RefCell::default(),
    });
    let (watched, device) = (fence.clone(), fence as Rc<dyn Device>);
    let (counted, stop_after) = (world.clone(), troubles.stop_after);
    let hooks = Hooks {
        stop: Box::new(move || stop_after.is_some_and(|most| counted.ios() >= most)),
        ..Hooks::default()
    };
    let inner = rt.clone();
    let (found, journal) =
        rt.block_on(async move { calibrate(&inner, device, options, journal, hooks).await });
    assert_eq!(*watched.wrong.borrow(), None::<String>);
    Run {
        found,
        journal,
        requests: world.ios(),
        took: world.now(),
    }
}

/// All of a drive, to be written.
pub fn all(sectors: u64) -> Options {
    Options {
        region: 0..sectors,
        may_write: true,
    }
}

/// Refuses what the calibration must not do, and adds the disturbances.
struct Fence {
    below: Rc<dyn Device>,
    rt: Rt,
    troubles: Troubles,
    region: Range<u64>,
    may_write: bool,
    random: Cell<u64>,
    wrong: RefCell<Option<String>>,
}

impl Device for Fence {
    fn name(&self) -> &str {
        self.below.name()
    }

    fn size_bytes(&self) -> u64 {
        self.below.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.below.block_size()
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let end = offset + data.len() as u64;
        let inside = self.region.start <= offset && end <= self.region.end;
        let allowed = match op {
            Op::Read => inside,
            Op::Write | Op::WriteDurable => inside && self.may_write,
            Op::Flush => true,
            _ => false,
        };
        if !allowed {
            *self.wrong.borrow_mut() = Some(format!("{op:?} of {offset}..{end}"));
        }
        let op = match op {
            Op::WriteDurable if self.troubles.no_fua => Op::Write,
            op => op,
        };
        let io = match op {
            Op::Flush if self.troubles.no_flush => {
                let rt = self.rt.clone();
                let ended: DeviceIo = Box::pin(async move {
                    rt.sleep(Nanos(50_000)).await;
                    (Ok(0), data)
                });
                ended
            }
            op => self.below.io(op, offset, len, data),
        };
        let (late, tick) = (self.lateness(), self.troubles.tick.0);
        if late == 0 && tick == 0 {
            return io;
        }
        let rt = self.rt.clone();
        Box::pin(async move {
            let ended = io.await;
            rt.sleep(Nanos(late)).await;
            if tick > 0 {
                let reported = rt.now().0.next_multiple_of(tick);
                rt.sleep_until(Nanos(reported)).await;
            }
            ended
        })
    }
}

impl Fence {
    /// Nanoseconds by which the next end is reported late.
    fn lateness(&self) -> u64 {
        if self.troubles.late.0 == 0 {
            return 0;
        }
        let next = || {
            let random = self.random.get().wrapping_mul(6_364_136_223_846_793_005);
            self.random
                .set(random.wrapping_add(1_442_695_040_888_963_407));
            self.random.get() >> 33
        };
        let late = next() % self.troubles.late.0;
        match next().is_multiple_of(100) {
            true => 10 * late,
            false => late,
        }
    }
}
