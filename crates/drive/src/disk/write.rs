//! Writes: straight to the medium, or into the volatile cache, which empties itself.

use super::{Dirty, Disk};
use crate::overhead::Previous;
use crate::spec::CacheTakes;
use base::Nanos;

impl Disk {
    /// What the drive has done by itself up to `now`.
    #[inline]
    pub(super) fn background(&mut self, now: Nanos) {
        while !self.dirty.is_empty() {
            let crowded = self.dirty_sectors * 2 > u64::from(self.cache.sectors);
            let idle_since = if self.idle.0 == 0 || crowded {
                0
            } else {
                self.last_end.0 + self.idle.0
            };
            let ready = self
                .dirty
                .iter()
                .map(|dirty| dirty.ready.0)
                .min()
                .unwrap_or(0);
            let start = self.free.0.max(ready).max(idle_since);
            if start >= now.0 {
                break;
            }
            self.write_back(Nanos(start));
        }
        self.read_on(now);
    }

    /// Writes one extent of the cache, which `start` finds ready: that which the heads reach first.
    fn write_back(&mut self, start: Nanos) -> Nanos {
        self.stop_stream(start);
        let mut best = (u64::MAX, 0);
        for index in 0..self.dirty.len() {
            let dirty = self.dirty[index];
            if dirty.ready <= start {
                let reached = if self.dirty.len() == 1 {
                    0
                } else {
                    self.reach(start, dirty.lba)
                };
                best = best.min((reached, index));
            }
        }
        let dirty = self.dirty.swap_remove(best.1);
        self.dirty_sectors -= u64::from(dirty.sectors);
        let start = Nanos(start.0.max(self.free.0));
        let end = self.write_medium(start, dirty.lba, dirty.sectors, dirty.data);
        self.free = end;
        end
    }

    /// Time from `start` until a write at `lba` could begin.
    fn reach(&mut self, start: Nanos, lba: u64) -> u64 {
        let extent = self.mechanism.geometry.extent(lba);
        let moved = self.mechanism.seek_time(&extent, true);
        let there = Nanos(start.0 + moved.0);
        moved.0 + self.mechanism.latency(there, extent.angle).0
    }

    pub(super) fn write(&mut self, now: Nanos, lba: u64, sectors: u32, fua: bool) -> Nanos {
        let end = lba + u64::from(sectors);
        if let Some(stream) = &mut self.stream {
            // What is written is not read ahead.
            if lba < stream.limit && stream.run.lba < end {
                let at = stream.run.lba + u64::from(stream.run.passed_at(now));
                stream.limit = stream.limit.min(at.max(lba));
            }
        }
        self.buffer.forget(lba, end);
        let cached = self.cache_on && !fua && sectors <= self.cache.sectors;
        let done = if cached {
            self.write_cached(now, lba, sectors)
        } else {
            self.write_through(now, lba, sectors)
        };
        if self.spec.keeps_writes && !self.buffer.is_none() {
            self.buffer.take(lba, end);
        }
        done
    }

    fn write_cached(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        let mut now = now;
        while !self.takes(lba, sectors) {
            // The host waits for room.
            let ready = self
                .dirty
                .iter()
                .map(|dirty| dirty.ready.0)
                .min()
                .unwrap_or(0);
            let start = Nanos(ready.max(self.free.0));
            now = now.max(self.write_back(start));
        }
        let ready = Nanos(now.0 + self.overheads.write_hit(self.previous).0);
        let crossed = ready.0 + u64::from(sectors) * self.write_sector.0;
        self.dirty.push(Dirty {
            lba,
            sectors,
            ready,
            data: ready,
        });
        self.dirty_sectors += u64::from(sectors);
        Nanos(crossed + self.overheads.write_done.0)
    }

    /// True when the cache has room for these sectors.
    fn takes(&self, lba: u64, sectors: u32) -> bool {
        if self.dirty.is_empty() {
            return true;
        }
        let follows = |dirty: &Dirty| dirty.lba + u64::from(dirty.sectors) == lba;
        let room = self.dirty_sectors + u64::from(sectors) <= u64::from(self.cache.sectors);
        match self.cache.takes {
            CacheTakes::All => room,
            CacheTakes::Sequential => room && self.dirty.last().is_some_and(follows),
        }
    }

    fn write_through(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        // An older version must not reach the medium later.
        let end = lba + u64::from(sectors);
        let mut kept = 0;
        self.dirty.retain(|dirty| {
            let covered = lba <= dirty.lba && dirty.lba + u64::from(dirty.sectors) <= end;
            kept += if covered { 0 } else { u64::from(dirty.sectors) };
            !covered
        });
        self.dirty_sectors = kept;
        // A command that waits behind a read finds the drive in no state for the detour.
        let at_once = self.previous == Previous::Write || now > self.last_end;
        let timing = self.overheads.write_miss(self.previous, now, at_once);
        self.stop_stream(now);
        let start = Nanos(self.free.0.max(timing.seek.0));
        let medium = self.write_medium(start, lba, sectors, timing.data);
        self.free = medium;
        let crossed = timing.data.0 + u64::from(sectors) * self.write_sector.0;
        let released = crossed + self.overheads.write_disconnect(timing.detour).0;
        let back = self.overheads.write_reconnect(timing.detour).0;
        Nanos(medium.0.max(released) + back + self.overheads.write_done.0)
    }

    /// Writes sectors that cross the bus from `data` on. The arm may move from `start` on.
    fn write_medium(&mut self, start: Nanos, lba: u64, sectors: u32, data: Nanos) -> Nanos {
        let end = lba + u64::from(sectors);
        let (mut at, mut clock) = (lba, start);
        let bus = self.write_sector.0;
        let period = self.mechanism.rotation.period();
        let mut least = self.overheads.seek_at_least;
        while at < end {
            let extent = self.mechanism.geometry.extent(at);
            let mut moved = self.mechanism.seek_time(&extent, true).max(least);
            // What follows the write before without a gap needs no settling.
            if at == lba && clock != self.free {
                moved = moved.max(self.mechanism.seek.same_track);
            }
            least = Nanos(0);
            clock.0 += moved.0;
            self.mechanism.move_to(&extent);
            let count = extent.sectors.min((end - at) as u32);
            // When the first of the sectors has crossed the bus.
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
                let mut run = run;
                let mut done = 0;
                // Where the bus is slower than the medium, the platter turns until the next is there.
                while done < count {
                    let late = |k: u32| there + u64::from(k) * bus > run.passed(k).0;
                    if run.sector_time >= bus << 8 {
                        if late(done) {
                            run.begins.0 += period.0;
                            self.mechanism.passed += u64::from(extent.track_sectors);
                            continue;
                        }
                        done = count;
                    } else {
                        let mut k = done;
                        while k < count && !late(k) {
                            k += 1;
                        }
                        done = k;
                        if k < count {
                            run.begins.0 += period.0;
                            self.mechanism.passed += u64::from(extent.track_sectors);
                        }
                    }
                }
                run.ends()
            };
            self.mechanism.passed += u64::from(count);
            at += u64::from(count);
        }
        clock
    }

    /// Empties the cache.
    pub(super) fn flush(&mut self, now: Nanos) -> Nanos {
        let mut end = now;
        while !self.dirty.is_empty() {
            let ready = self
                .dirty
                .iter()
                .map(|dirty| dirty.ready.0)
                .min()
                .unwrap_or(0);
            let start = Nanos(ready.max(self.free.0).max(now.0));
            end = self.write_back(start);
        }
        // What the mechanism is still at may be the last of what was cached.
        let end = end.max(self.free);
        Nanos(end.0 + self.overheads.flush.0)
    }
}
