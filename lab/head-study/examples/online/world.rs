//! A simulated drive with one log, and the least response that it could have given.

use tonearm_base::Nanos;
use tonearm_drive::{Arm, ClosedLoop, Drift, Drive, DriveOptions, Mechanism, Rotation, Seek};
use tonearm_drive_file::{DriveSpec, Geometry, OverheadSpec};
use tonearm_head::{TrackMap, TrackRun};
use tonearm_world::{Done, DriveRequest, Kind, Timing};

/// A small generator (SplitMix64), so that the seed determines a run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Near enough normal: mean 0, variance 1.
    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

/// The time of a write to the medium at a given moment. These are the rules of the `drive` crate without side effects,
/// so that all places can be tried. [`World::write`] checks that both agree.
pub struct Model {
    mechanism: Mechanism,
    overhead: OverheadSpec,
    bus: u64,
    zero_latency: bool,
    free: u64,
    last_end: u64,
    after_write: bool,
}

impl Model {
    pub fn new(spec: &DriveSpec, options: &DriveOptions) -> Self {
        let disk = spec.disk.as_ref().expect("a mechanical drive");
        let geometry = Geometry::new(&disk.geometry);
        let rotation = &disk.rotation;
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
                seek: Seek::new(&disk.seek, geometry.cylinders()),
                geometry,
                rotation,
                arm: Arm::default(),
                passed: 0,
            },
            overhead: disk.overhead.clone(),
            bus: ns(disk.bus.write_sector_ms),
            zero_latency: disk.buffer.zero_latency_write,
            free: 0,
            last_end: 0,
            after_write: false,
        }
    }

    /// The response of a write, and the resulting place and time of the heads. Rules: `Disk::write_through`.
    fn write(&mut self, now: u64, lba: u64, sectors: u32) -> (u64, u64, Arm) {
        let o = &self.overhead;
        let (start, data, detour) = match o
            .write_detour
            .as_ref()
            .filter(|_| self.after_write || now > self.last_end)
        {
            None => {
                let miss = if self.after_write {
                    o.write_miss_ms.write
                } else {
                    o.write_miss_ms.read
                };
                let command = now + ns(miss);
                (command, command + ns(o.prepare_ms), None)
            }
            Some(d) => (
                now + ns(d.command_ms + d.seek_delay_ms),
                now + ns(d.command_ms + d.disconnect_ms + d.away_ms)
                    + ns(o.reconnect_ms + o.prepare_ms),
                Some(d),
            ),
        };
        let away = detour.map_or(o.write_disconnect_ms, |d| d.disconnect_again_ms);
        let back = match detour {
            Some(_) => ns(o.reconnect_again_ms),
            None => ns(o.reconnect_ms + o.prepare_ms) - ns(o.prepare_ms),
        };
        let (away, done_ms, mut least) =
            (ns(away), ns(o.write_done_ms), ns(o.write_seek_at_least_ms));
        let bus = self.bus;
        let kept = self.mechanism.arm;
        let end = lba + u64::from(sectors);
        let (mut at, mut clock) = (lba, self.free.max(start));
        while at < end {
            let extent = self.mechanism.geometry.extent(at);
            let mut moved = self.mechanism.seek_time(&extent, true).0.max(least);
            if at == lba && clock != self.free {
                moved = moved.max(self.mechanism.seek.same_track.0);
            }
            least = 0;
            clock += moved;
            self.mechanism.move_to(&extent);
            let count = extent.sectors.min((end - at) as u32);
            let there = data + (at - lba + 1) * bus;
            let mut first = 0;
            if self.zero_latency && there + u64::from(count - 1) * bus <= clock {
                first = self.mechanism.first_under(&extent, count, Nanos(clock));
            }
            let mut run = self.mechanism.run(&extent, at, 0, count, Nanos(clock));
            clock = if first > 0 {
                run.passed(first).0
            } else {
                let keeps_up = bus << 8 <= run.sector_time;
                let mut k = 0;
                while k < run.sectors {
                    if there + u64::from(k) * bus > run.passed(k).0 {
                        run.begins.0 += self.mechanism.rotation.period().0;
                    } else if keeps_up {
                        break;
                    } else {
                        k += 1;
                    }
                }
                run.ends().0
            };
            at += u64::from(count);
        }
        let arm = std::mem::replace(&mut self.mechanism.arm, kept);
        let released = data + u64::from(sectors) * bus + away;
        (clock.max(released) + back + done_ms - now, clock, arm)
    }

    pub fn response(&mut self, now: u64, lba: u64, sectors: u32) -> u64 {
        self.write(now, lba, sectors).0
    }

    /// Moves the head behind a write that ended before `lba` at about `at`. Returns when it was done.
    pub fn behind(&mut self, lba: u64, at: u64) -> u64 {
        let extent = self.mechanism.geometry.extent(lba - 1);
        self.mechanism.move_to(&extent);
        let angle = extent.angle.wrapping_add(extent.width);
        self.free = at + self.mechanism.latency(Nanos(at), angle).0;
        self.after_write = true;
        self.last_end = self.free + ns(self.overhead.write_done_ms);
        self.last_end
    }

    pub fn track_sectors(&self, lba: u64) -> u32 {
        self.mechanism.geometry.extent(lba).track_sectors
    }

    /// The least response of a write that begins at or behind `from`, within two tracks, and before `end`.
    pub fn least(&mut self, now: u64, from: u64, end: u64, sectors: u32) -> u64 {
        let spt = u64::from(self.track_sectors(from));
        let last = (from + 2 * spt).min(end - u64::from(sectors));
        let stride = (spt / 256).max(1);
        let kept = self.mechanism.rotation.clone();
        let mut best = (u64::MAX, from);
        let mut try_at = |model: &mut Self, lba: u64| {
            model.mechanism.rotation = kept.clone();
            best = best.min((model.response(now, lba, sectors), lba));
            best.1
        };
        let mut place = from;
        let mut lba = from;
        while lba <= last {
            place = try_at(self, lba);
            lba += stride;
        }
        for lba in place.saturating_sub(stride).max(from)..(place + stride).min(last + 1) {
            try_at(self, lba);
        }
        self.mechanism.rotation = kept;
        best.0
    }
}

/// The drive and its user.
pub struct World {
    drive: Drive,
    model: Model,
    pub now: u64,
    requests: u64,
    read_before: bool,
    done: Vec<Done>,
}

impl World {
    pub fn new(spec: &DriveSpec, seed: u64, drift: Option<Drift>) -> Self {
        let options = DriveOptions {
            seed,
            phase: Random(seed).unit(),
            drift,
            ..DriveOptions::default()
        };
        Self {
            drive: Drive::new(spec, &options),
            model: Model::new(spec, &options),
            now: 1_000_000,
            requests: 0,
            read_before: false,
            done: Vec::new(),
        }
    }

    pub fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    pub fn track_sectors(&self, lba: u64) -> u32 {
        self.model.track_sectors(lba)
    }

    fn serve(&mut self, kind: Kind, lba: u64, sectors: u32) -> u64 {
        self.requests += 1;
        let id = self.requests;
        let fua = kind == Kind::Write;
        let request = DriveRequest {
            id,
            kind,
            fua,
            lba,
            sectors,
        };
        self.drive.advance(Nanos(self.now), &mut self.done);
        self.done.clear();
        self.drive.submit(Nanos(self.now), request);
        let at = self.drive.next().expect("a request under way ends");
        self.drive.advance(at, &mut self.done);
        self.done.clear();
        let response = at.0 - self.now;
        self.now = at.0;
        response
    }

    /// The least response now; exact unless a read came right before.
    pub fn least(&mut self, from: u64, end: u64, sectors: u32) -> u64 {
        self.model.least(self.now, from, end, sectors)
    }

    /// Writes through the cache; returns the response.
    pub fn write(&mut self, lba: u64, sectors: u32) -> u64 {
        let (expected, free, arm) = self.model.write(self.now, lba, sectors);
        let response = self.serve(Kind::Write, lba, sectors);
        if !self.read_before {
            let off = response.abs_diff(expected);
            assert!(off < 200_000, "model {expected}, drive {response}");
        }
        self.model.mechanism.arm = arm;
        self.model.free = if self.read_before {
            self.now.min(free)
        } else {
            free
        };
        self.model.after_write = true;
        self.model.last_end = self.now;
        self.read_before = false;
        response
    }

    pub fn read(&mut self, lba: u64, sectors: u32) -> u64 {
        let response = self.serve(Kind::Read, lba, sectors);
        let disk = self.drive.disk().expect("a mechanical drive");
        self.model.mechanism.arm = disk.mechanism().arm;
        self.model.free = self.now;
        self.model.after_write = false;
        self.model.last_end = self.now;
        self.read_before = true;
        response
    }
}

/// The true map of the tracks of `[start, end)`, as a calibration would find it.
pub fn true_map(spec: &DriveSpec, start: u64, end: u64) -> TrackMap {
    struct Seen {
        first: u64,
        sectors: u32,
        turn: u32,
        angle: u32,
        cylinder: u32,
        at: u32,
    }
    let disk = spec.disk.as_ref().expect("a mechanical drive");
    let geometry = Geometry::new(&disk.geometry);
    let mut tracks: Vec<Seen> = Vec::new();
    let (mut lba, mut whole) = (start, false);
    while lba < end.min(geometry.sectors()) {
        let extent = geometry.extent(lba);
        let new = tracks.last().is_none_or(|t| {
            t.cylinder != extent.cylinder
                || t.first + u64::from(t.sectors) != lba
                || extent.sector == 0
        });
        let at = match tracks.last() {
            Some(t) if t.cylinder == extent.cylinder => t.at + u32::from(extent.sector == 0),
            _ => 0,
        };
        // A track that a slip divides is not in the map.
        whole = extent.sector == 0 || new && extent.sector < 8 && whole;
        if new && whole {
            tracks.push(Seen {
                first: lba,
                sectors: extent.sectors,
                turn: extent.track_sectors,
                angle: (extent.angle >> 32) as u32,
                cylinder: extent.cylinder,
                at,
            });
        } else if !new {
            tracks.pop();
            whole = false;
        }
        lba += u64::from(extent.sectors);
    }
    let heads = disk.geometry.heads;
    let mut runs: Vec<TrackRun> = Vec::new();
    let mut index = 0;
    while index < tracks.len() {
        let t = &tracks[index];
        let mut run = TrackRun {
            first: t.first,
            tracks: 1,
            sectors: t.sectors,
            turn_sectors: t.turn,
            angle: t.angle,
            group: heads,
            at: t.at.min(heads - 1),
            short: 0,
            track_skew: 0,
            cylinder_skew: 0,
        };
        let (mut track_skew, mut cylinder_skew, mut short) = (None, None, None);
        let mut next = index + 1;
        while let Some(n) = tracks.get(next) {
            let p = &tracks[next - 1];
            let change = n.cylinder != p.cylinder;
            let skew = n.angle.wrapping_sub(p.angle);
            let slot = if change {
                &mut cylinder_skew
            } else {
                &mut track_skew
            };
            let fits = slot.is_none_or(|s: u32| s.abs_diff(skew) < 64)
                && n.first == p.first + u64::from(p.sectors)
                && n.turn == p.turn
                && change == (p.at + 1 == heads)
                && n.at == if change { 0 } else { p.at + 1 };
            let length = if n.at + 1 == heads {
                let missing = run.sectors.checked_sub(n.sectors);
                missing.is_some_and(|m| short.is_none_or(|s| s == m))
            } else {
                n.sectors == run.sectors
            };
            if !fits || !length || (t.at + 1 == heads && heads > 1) {
                break;
            }
            *slot = Some(skew);
            if n.at + 1 == heads {
                short = Some(run.sectors - n.sectors);
            }
            run.tracks += 1;
            next += 1;
        }
        run.track_skew = track_skew.unwrap_or(0);
        run.cylinder_skew = cylinder_skew.unwrap_or(0);
        run.short = short.unwrap_or(0);
        if run.at + 1 == heads {
            run.short = 0;
        }
        runs.push(run);
        index = next;
    }
    TrackMap::new(runs).expect("tracks of a drive make a map")
}

/// The loop of the `drive` crate, for users without an oracle.
pub type Plain = ClosedLoop;
