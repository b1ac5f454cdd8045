//! Writes: to the medium, or into the volatile cache, which is emptied in the background.

use super::Disk;
use crate::mechanism::Run;
use crate::overhead::Previous;
use crate::write_cache::Dirty;
use tonearm_base::Nanos;

/// Most sectors that a drive with a media cache writes to their places at once.
const PIECE: u32 = 4_096;

impl Disk {
    /// Computes the drive's own activity up to `now`.
    #[inline]
    pub(super) fn background(&mut self, now: Nanos) {
        while !self.cache.is_empty() {
            let mut start = self.free.max(self.known);
            if self.idle.0 > 0 && !self.cache.is_crowded() {
                start = start.max(Nanos(self.last_end.0 + self.idle.0));
            }
            if start >= now {
                break;
            }
            self.write_back(start, false);
        }
        while self.cache.is_empty() && self.media.as_ref().is_some_and(|media| !media.is_empty()) {
            let start = self.free.max(self.known);
            let start = start.max(Nanos(self.last_end.0 + self.media_idle.0));
            if start >= now {
                break;
            }
            self.stop_stream(start);
            self.clean(start.max(self.free));
        }
        self.known = now;
        self.read_on(now);
    }

    /// Writes one extent of the cache, from `start` on; at once, if the host waits for a flush. Returns when it is on the
    /// medium.
    fn write_back(&mut self, start: Nanos, flush: bool) -> Nanos {
        let most = match &self.media {
            // So that a sequence, which goes on meanwhile, does not fill the cache.
            Some(_) if !flush => PIECE,
            _ => u32::MAX,
        };
        let dirty = self.cache.pop(self.swept, most);
        let dirty = dirty.expect("the cache is not empty");
        self.swept = dirty.lba + u64::from(dirty.sectors);
        let start = start.max(dirty.ready);
        self.stop_stream(start);
        let start = start.max(self.free);
        let write = if flush {
            Self::write_durably
        } else {
            Self::write_in_place
        };
        self.free = write(self, start, dirty.lba, dirty.sectors, dirty.data);
        self.free
    }

    pub(super) fn write(&mut self, now: Nanos, lba: u64, sectors: u32, fua: bool) -> Nanos {
        let end = lba + u64::from(sectors);
        self.forget(now, lba, end);
        let cached = self.cache_on && !fua && self.cache.fits(sectors);
        let done = if cached {
            self.write_cached(now, lba, sectors)
        } else {
            // An older version must not reach the medium later.
            self.cache.forget(lba, end);
            self.write_through(now, lba, sectors)
        };
        if self.spec.keeps_writes && !self.buffer.is_none() {
            let segment = self.buffer.oldest();
            if self.stream.as_ref().is_some_and(|s| s.segment == segment) {
                self.stop_stream(now);
            }
            self.buffer.take(lba, end);
        }
        done
    }

    /// Removes the sectors of `[lba, end)`, which are being written, from the buffer and from reading ahead.
    fn forget(&mut self, now: Nanos, lba: u64, end: u64) {
        if let Some(stream) = &mut self.stream {
            let (start, held) = self.buffer.range(stream.segment);
            if held <= lba {
                stream.limit = stream.limit.min(lba.max(held));
            } else if start < end && end < held {
                // Reading ahead continues after it.
                self.buffer.drop_before(stream.segment, end);
            } else if start < end {
                self.stop_stream(now);
            }
        }
        self.buffer.forget(lba, end);
    }

    fn write_cached(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        let mut now = now;
        while !self.cache.takes(lba, sectors) {
            // The host waits for space in the cache.
            let start = self.free.max(self.known);
            now = now.max(self.write_back(start, false));
        }
        let ready = Nanos(now.0 + self.overheads.write_hit(self.previous).0);
        if sectors > 0 {
            self.cache.put(Dirty {
                lba,
                sectors,
                ready,
                data: ready,
            });
        }
        let crossed = ready.0 + u64::from(sectors) * self.write_sector.0;
        Nanos(crossed + self.overheads.write_done.0)
    }

    /// False for a write that waits for a read, for which the drive makes no detour.
    #[inline]
    pub(super) fn at_once(&self, now: Nanos) -> bool {
        self.previous == Previous::Write || now > self.last_end
    }

    fn write_through(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        let timing = self
            .overheads
            .write_miss(self.previous, now, self.at_once(now));
        self.stop_stream(now);
        let start = Nanos(self.free.0.max(timing.seek.0));
        let medium = self.write_durably(start, lba, sectors, timing.data);
        self.free = medium;
        let crossed = timing.data.0 + u64::from(sectors) * self.write_sector.0;
        let released = crossed + self.overheads.write_disconnect(timing.detour).0;
        let back = self.overheads.write_reconnect(timing.detour).0;
        Nanos(medium.0.max(released) + back + self.overheads.write_done.0)
    }

    /// Time that a write to the medium would take if it came at `now` as the next request of an idle drive. The best
    /// possible predictor could have known it. The drive advances to `now` and no further.
    pub fn write_time(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        debug_assert!(self.active.is_none(), "a request is under way");
        self.background(now);
        self.stop_stream(now);
        let (arm, passed, free) = (self.mechanism.arm, self.mechanism.passed, self.free);
        let media = self.media.clone();
        let done = self.write_through(now, lba, sectors);
        self.mechanism.arm = arm;
        self.mechanism.passed = passed;
        (self.free, self.media) = (free, media);
        Nanos(done.0 - now.0)
    }

    /// Writes sectors that cross the bus from `data` on. The arm may move from `start` on.
    pub(super) fn write_medium(
        &mut self,
        start: Nanos,
        lba: u64,
        sectors: u32,
        data: Nanos,
    ) -> Nanos {
        let end = lba + u64::from(sectors);
        let (mut at, mut clock) = (lba, start);
        let bus = self.write_sector.0;
        let mut least = self.overheads.seek_at_least;
        while at < end {
            let extent = self.mechanism.geometry.extent(at);
            let mut moved = self.mechanism.seek_time(&extent, true).max(least);
            // A write that continues the previous one without a gap needs no settling.
            if at == lba && clock != self.free {
                moved = moved.max(self.mechanism.seek.same_track);
            }
            least = Nanos(0);
            clock.0 += moved.0;
            self.mechanism.move_to(&extent);
            let count = extent.sectors.min((end - at) as u32);
            // The time at which the first of the sectors has crossed the bus.
            let there = data.0 + (at - lba + 1) * bus;
            let all = there + u64::from(count - 1) * bus;
            let mut first = 0;
            if self.spec.zero_latency_write && all <= clock.0 {
                first = self.mechanism.first_under(&extent, count, clock);
            }
            let run = self.mechanism.run(&extent, at, 0, count, clock);
            clock = if first > 0 {
                run.passed(first)
            } else {
                self.write_run(run, there, extent.track_sectors)
            };
            self.mechanism.passed += u64::from(count);
            at += u64::from(count);
        }
        clock
    }

    /// Writes the sectors of `run`, of which the first has crossed the bus at `there`. If the bus is slower than the
    /// medium, the platter turns until the next sector has crossed it. Returns when all are written.
    fn write_run(&mut self, mut run: Run, there: u64, track_sectors: u32) -> Nanos {
        let bus = self.write_sector.0;
        let period = self.mechanism.rotation.period();
        let mut written = 0;
        loop {
            let late = |k: u32| there + u64::from(k) * bus > run.passed(k).0;
            // A bus that is fast enough delays the next sector at most.
            let keeps_up = bus << Run::DIGITS <= run.sector_time;
            let last = if keeps_up { written + 1 } else { run.sectors };
            let stop = (written..last).find(|k| late(*k));
            let Some(stop) = stop else {
                return run.ends();
            };
            written = stop;
            run.begins.0 += period.0;
            self.mechanism.passed += u64::from(track_sectors);
        }
    }

    /// Empties the cache.
    pub(super) fn flush(&mut self, now: Nanos) -> Nanos {
        let mut end = now;
        while !self.cache.is_empty() {
            end = self.write_back(self.free.max(now), true);
        }
        // The mechanism may still be writing the last of the cached sectors.
        let end = end.max(self.free);
        Nanos(end.0 + self.overheads.flush().0)
    }
}
