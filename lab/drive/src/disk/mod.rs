//! A mechanical drive: commands, buffer, write cache and mechanism in time.
//!
//! One request is served at a time; its duration is computed when its service begins. The drive's own activity (reading
//! ahead, emptying the write cache) is computed when the mechanism is needed next.
//!
//! Model: Ruemmler and Wilkes, "An Introduction to Disk Drive Modeling" (1994). Its parameters are those of Worthington
//! and others, "On-Line Extraction of SCSI Disk Drive Parameters" (1995).

use crate::buffer::Buffer;
use crate::drive::DriveOptions;
use crate::mechanism::{Arm, Mechanism, Run};
use crate::media_cache::MediaCache;
use crate::overhead::{Overheads, Previous};
use crate::queue::{Queue, Starts};
use crate::rotation::Rotation;
use crate::seek::Seek;
use crate::timing::nanos;
use crate::write_cache::WriteCache;
use tonearm_base::Nanos;
use tonearm_drive_file::Geometry;
use tonearm_drive_file::{BufferSpec, DiskSpec, WriteCacheSpec};
use tonearm_world::{Done, DriveRequest, Kind, Timing};

mod media;
mod read;
mod write;

/// Reading ahead after a request.
struct Stream {
    segment: usize,
    /// The sectors under the heads, or those that come under them next.
    run: Run,
    /// When the heads are on their track.
    arrives: Nanos,
    /// How many of them have been counted as passed.
    counted: u32,
    /// After the last sector to be read.
    limit: u64,
}

/// A mechanical drive.
pub struct Disk {
    mechanism: Mechanism,
    overheads: Overheads,
    read_sector: Nanos,
    write_sector: Nanos,
    buffer: Buffer,
    spec: BufferSpec,
    cache: WriteCache,
    cache_on: bool,
    idle: Nanos,
    media: Option<Box<MediaCache>>,
    /// Idle time after which the media cache is emptied.
    media_idle: Nanos,
    /// Time of its map.
    map: Nanos,
    /// After the last sector that went to its place without the media cache.
    run_end: u64,
    queue: Queue,
    active: Option<Done>,
    previous: Previous,
    /// When the mechanism has finished what it cannot break off.
    free: Nanos,
    /// Up to this time the drive's own activity has been computed.
    known: Nanos,
    stream: Option<Stream>,
    /// Tracks of the present read; kept to reuse the memory.
    pieces: Vec<(Run, u32)>,
    /// When the last request was done.
    last_end: Nanos,
    /// The sector after the last one that the cache wrote to the medium.
    swept: u64,
    /// After the last sector that was read.
    read_to: u64,
    /// The present read continues the previous one.
    sequential: bool,
}

impl Disk {
    /// The drive of `spec`, which has been checked, switched on at time 0 with the arm at cylinder 0.
    pub fn new(spec: &DiskSpec, cache: &WriteCacheSpec, options: &DriveOptions) -> Self {
        let geometry = Geometry::new(&spec.geometry);
        let seek = Seek::new(&spec.seek, geometry.cylinders());
        let media = spec.media_cache.as_ref();
        let times = media.map_or((0.0, 0.0), |media| (media.idle_ms, media.map_ms));
        let media = media.map(|media| Box::new(MediaCache::new(media, geometry.sectors())));
        let rotation = &spec.rotation;
        let rotation = Rotation::new(
            rotation.rpm,
            options.phase,
            rotation.jitter_ns,
            options.seed,
        );
        let rotation = match &options.drift {
            Some(drift) => rotation.with_drift(drift),
            None => rotation,
        };
        Self {
            mechanism: Mechanism {
                geometry,
                rotation,
                seek,
                arm: Arm::default(),
                passed: 0,
            },
            overheads: Overheads::new(&spec.overhead, options.seed),
            read_sector: nanos(spec.bus.read_sector_ms),
            write_sector: nanos(spec.bus.write_sector_ms),
            buffer: Buffer::new(spec.buffer.segments, spec.buffer.segment_sectors),
            spec: spec.buffer.clone(),
            cache: WriteCache::new(cache, nanos(spec.bus.write_sector_ms)),
            cache_on: options.write_cache.unwrap_or(cache.enabled) && cache.sectors > 0,
            idle: nanos(cache.idle_ms),
            media,
            media_idle: nanos(times.0),
            map: nanos(times.1),
            run_end: 0,
            queue: Queue::new(
                options.scheduler.unwrap_or(spec.scheduler),
                spec.queue_depth,
            ),
            active: None,
            previous: Previous::Read,
            free: Nanos(0),
            known: Nanos(0),
            stream: None,
            pieces: Vec::new(),
            last_end: Nanos(0),
            swept: 0,
            read_to: u64::MAX,
            sequential: false,
        }
    }

    /// Sectors that it reports.
    pub fn sectors(&self) -> u64 {
        self.mechanism.geometry.sectors()
    }

    /// The moving parts.
    pub fn mechanism(&self) -> &Mechanism {
        &self.mechanism
    }

    /// Turns the platter by `revolutions`, to follow a real drive's clock.
    pub fn turn(&mut self, revolutions: f64) {
        self.mechanism.rotation.turn(revolutions);
    }

    /// When the arm could move for a request that is started at `now`.
    #[inline]
    fn starts(&self, now: Nanos) -> Starts {
        let read = now.0 + self.overheads.read_miss(self.previous).0;
        let write = self
            .overheads
            .write_miss(self.previous, now, self.at_once(now));
        Starts {
            read: self.free.max(Nanos(read)),
            write: self.free.max(write.seek),
        }
    }

    fn begin(&mut self, now: Nanos) {
        if self.queue.is_empty() {
            return;
        }
        // The choice depends on where the heads have moved meanwhile.
        self.background(now);
        let starts = self.starts(now);
        let arm = self.mechanism.arm;
        let Some(next) = self.queue.pop(starts, arm, &mut self.mechanism) else {
            return;
        };
        let request = next.request;
        let at = match request.kind {
            Kind::Read => self.read(now, request.lba, request.sectors),
            Kind::Write => self.write(now, request.lba, request.sectors, request.fua),
            Kind::Flush => self.flush(now),
        };
        self.overheads.next_command();
        if request.kind != Kind::Flush {
            self.previous = match request.kind {
                Kind::Write => Previous::Write,
                _ => Previous::Read,
            };
        }
        self.last_end = at;
        let id = request.id;
        self.active = Some(Done { id, at });
    }
}

impl Timing for Disk {
    #[inline]
    fn submit(&mut self, now: Nanos, request: DriveRequest) {
        self.queue.push(request, &self.mechanism);
        if self.active.is_none() {
            self.begin(now);
        }
    }

    #[inline]
    fn next(&self) -> Option<Nanos> {
        self.active.map(|done| done.at)
    }

    #[inline]
    fn advance(&mut self, now: Nanos, done: &mut Vec<Done>) {
        while let Some(active) = self.active.filter(|active| active.at <= now) {
            done.push(active);
            self.active = None;
            self.begin(active.at);
        }
    }
}
