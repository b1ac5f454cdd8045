//! The disks of the array in virtual time.

use crate::counts::{Counts, Work};
use crate::raid::Spot;
use crate::recent::Recent;
use crate::scan::{Io, Scan};
use crate::setup::Setup;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tonearm_base::Nanos;
use tonearm_drive::{ClosedLoop, Drive, DriveOptions};
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// Nothing happens.
const NEVER: u64 = u64::MAX;
/// I/Os of each size from which the first service times come.
const PRIOR_IOS: u64 = 200;

struct Disk {
    drive: Drive,
    waiting: Scan,
    /// I/Os under way, and when they began.
    active: Vec<(Io, u64)>,
    /// When the last one ended.
    ended: u64,
}

pub(crate) struct Array {
    disks: Vec<Disk>,
    /// When the next I/O of each disk ends.
    next: Vec<u64>,
    /// I/Os that a disk serves at a time.
    depth: usize,
    page_sectors: u32,
    done: Vec<Done>,
    /// Service times of pages and of chunks of segments.
    pub page: Recent,
    pub chunk: Recent,
}

/// A drive of `setup`. Its write cache is off, as in the paper.
fn drive(setup: &Setup, number: u64) -> Drive {
    let mut random = ChaCha8Rng::seed_from_u64(setup.seed);
    random.set_stream(number);
    let options = DriveOptions {
        seed: random.next_u64(),
        phase: (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64,
        write_cache: Some(false),
        ..DriveOptions::default()
    };
    Drive::new(&setup.drive, &options)
}

/// Bytes of a disk.
pub(crate) fn disk_bytes(setup: &Setup) -> u64 {
    drive(setup, 0).sectors() * 512
}

impl Array {
    pub fn new(setup: &Setup, segments: u32) -> Self {
        let disks: Vec<Disk> = (0..setup.disks)
            .map(|number| Disk {
                drive: drive(setup, u64::from(number)),
                waiting: Scan::default(),
                active: Vec::new(),
                ended: 0,
            })
            .collect();
        let (page, chunk) = priors(setup, segments);
        Self {
            next: vec![NEVER; disks.len()],
            depth: setup
                .drive
                .flash
                .as_ref()
                .map_or(1, |flash| flash.channels as usize),
            disks,
            page_sectors: setup.page_bytes / 512,
            done: Vec::new(),
            page: Recent::new(page),
            chunk: Recent::new(chunk),
        }
    }

    #[inline]
    pub fn push(&mut self, now: u64, spot: Spot, pages: u32, write: bool, work: Work, op: u32) {
        let io = Io {
            page: spot.page,
            pages,
            write,
            work,
            op,
        };
        self.disks[spot.disk as usize].waiting.push(io);
        self.start(now, spot.disk as usize);
    }

    fn start(&mut self, now: u64, disk: usize) {
        let own = &mut self.disks[disk];
        while own.active.len() < self.depth
            && let Some(io) = own.waiting.pop()
        {
            let request = DriveRequest {
                id: u64::from(io.op),
                kind: if io.write { Kind::Write } else { Kind::Read },
                fua: false,
                lba: u64::from(io.page) * u64::from(self.page_sectors),
                sectors: io.pages * self.page_sectors,
            };
            own.active.push((io, now));
            own.drive.submit(Nanos(now), request);
        }
        self.next[disk] = own.drive.next().map_or(NEVER, |at| at.0);
    }

    /// The next end of an I/O, and the disk.
    #[inline]
    pub fn next(&self) -> Option<(u64, usize)> {
        let (disk, at) = self.next.iter().enumerate().min_by_key(|(_, at)| **at)?;
        (*at != NEVER).then_some((*at, disk))
    }

    /// Ends the I/Os of `disk` that are done at `now`, and begins the next ones. Adds their operations to `ended`.
    pub fn end(&mut self, now: u64, disk: usize, counts: &mut Counts, ended: &mut Vec<u32>) {
        self.done.clear();
        let own = &mut self.disks[disk];
        own.drive.advance(Nanos(now), &mut self.done);
        for done in &self.done {
            let is_it = |(io, _): &(Io, u64)| u64::from(io.op) == done.id;
            let Some(at) = own.active.iter().position(is_it) else {
                continue;
            };
            let (io, begun) = own.active.swap_remove(at);
            // With several I/Os under way, each counts from the end of the one before it.
            let busy = now - begun.max(own.ended);
            own.ended = now;
            counts.busy[io.work as usize] += busy;
            counts.ios[io.work as usize] += 1;
            match io.work {
                Work::PageRead | Work::PageWrite | Work::Plug => self.page.note(busy),
                Work::Append | Work::CleanRead | Work::CleanWrite => self.chunk.note(busy),
            }
            ended.push(io.op);
        }
        self.start(now, disk);
    }
}

/// Mean times of a random page and of a random chunk within `segments` chunks of a drive, in nanoseconds.
fn priors(setup: &Setup, segments: u32) -> (f64, f64) {
    let mut random = ChaCha8Rng::seed_from_u64(setup.seed);
    let chunk = u64::from(setup.chunk_bytes / 512);
    let page = setup.page_bytes / 512;
    let mut user = ClosedLoop::new(drive(setup, 0));
    let mut mean = |sectors: u32| {
        let times = (0..PRIOR_IOS).map(|_| {
            let place = random.next_u64() % u64::from(segments);
            user.write_cached(place * chunk, sectors).0
        });
        times.sum::<u64>() as f64 / PRIOR_IOS as f64
    };
    (mean(page), mean(chunk as u32))
}
