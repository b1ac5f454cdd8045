//! Writes on a drive with a media cache: into its band, and from there to their places.
//!
//! The band has no sectors with numbers. Its tracks are taken to be as far from others as those of the first sectors of
//! the drive are, at the outer edge.

use super::Disk;
use tonearm_base::Nanos;

impl Disk {
    /// Writes sectors that cross the bus from `data` on so that they need no power, from `start` on: into the band if there is
    /// one. Returns when they are there.
    pub(super) fn write_durably(
        &mut self,
        start: Nanos,
        lba: u64,
        sectors: u32,
        data: Nanos,
    ) -> Nanos {
        let (end, length) = (lba + u64::from(sectors), u64::from(sectors));
        let Some(media) = self.media.as_mut().filter(|_| sectors > 0) else {
            return self.write_medium(start, lba, sectors, data);
        };
        if !media.fits(length) {
            media.forget(lba, end);
            return self.write_medium(start, lba, sectors, data);
        }
        let mut start = start;
        while self
            .media
            .as_ref()
            .is_some_and(|media| media.is_full(length))
        {
            start = self.clean(start);
        }
        let Some(media) = self.media.as_mut() else {
            return start;
        };
        let (place, maps) = (media.put(lba, end), media.must_map());
        let done = self.write_medium(start, place, sectors, data);
        Nanos(done.0 + if maps { self.map.0 } else { 0 })
    }

    /// Writes what leaves the volatile cache by itself to its place, without the band; on a drive with zones, only the part
    /// that continues the last such write or begins with a zone.
    pub(super) fn write_in_place(
        &mut self,
        start: Nanos,
        lba: u64,
        sectors: u32,
        data: Nanos,
    ) -> Nanos {
        let end = lba + u64::from(sectors);
        let Some(media) = self.media.as_mut() else {
            return self.write_medium(start, lba, sectors, data);
        };
        let follows = lba == self.run_end;
        let direct = if follows { lba } else { media.zone_after(lba) };
        if !follows && direct < end {
            media.damage(self.run_end);
        }
        let direct = direct.min(end);
        media.forget(direct, end);
        let mut done = start;
        if lba < direct {
            done = self.write_durably(done, lba, (direct - lba) as u32, data);
        }
        if direct < end {
            done = self.write_medium(done, direct, (end - direct) as u32, data);
            self.run_end = end;
        }
        done
    }

    /// Moves what the band holds of one zone, or one write, to its place. Returns when it is there.
    pub(super) fn clean(&mut self, start: Nanos) -> Nanos {
        let Some(unit) = self.media.as_mut().and_then(|media| media.take()) else {
            return start;
        };
        let home = (unit.home.start, unit.home.end - unit.home.start);
        let mut at = start;
        for (place, sectors) in unit.parts {
            at = self.pass(at, place, sectors, false);
        }
        if unit.is_partial {
            at = self.pass(at, home.0, home.1, false);
        }
        self.free = self.pass(at, home.0, home.1, true);
        self.free
    }

    /// Reads sectors that all lie in the band, from `place` on. Returns when they have crossed the bus.
    pub(super) fn read_band(&mut self, now: Nanos, place: u64, sectors: u32) -> Nanos {
        let ready = Nanos(now.0 + self.overheads.read_miss(self.previous).0);
        self.stop_stream(now);
        let start = self.free.max(ready);
        self.free = self.pass(start, place, u64::from(sectors), false);
        let last = self.read_sector.0;
        Nanos(self.free.0 + self.overheads.reconnect.0 + last + self.overheads.read_done.0)
    }

    /// The heads pass over sectors that do not cross the bus.
    fn pass(&mut self, start: Nanos, lba: u64, sectors: u64, write: bool) -> Nanos {
        let (mut at, end, mut clock) = (lba, lba + sectors, start);
        while at < end {
            let extent = self.mechanism.geometry.extent(at);
            clock.0 += self.mechanism.seek_time(&extent, write).0;
            self.mechanism.move_to(&extent);
            let count = u64::from(extent.sectors).min(end - at) as u32;
            clock = self.mechanism.run(&extent, at, 0, count, clock).ends();
            self.mechanism.passed += u64::from(count);
            at += u64::from(count);
        }
        clock
    }
}
