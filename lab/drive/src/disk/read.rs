//! Reads: from the buffer, from the medium, and reading ahead.

use super::{Disk, Stream};
use crate::bus::Transfer;
use crate::mechanism::{Mechanism, Run};
use tonearm_base::Nanos;
use tonearm_drive_file::Extent;
use tonearm_drive_file::ReadAhead;

impl Disk {
    /// Continues reading ahead until `now`.
    #[inline]
    pub(super) fn read_on(&mut self, now: Nanos) {
        let Some(stream) = &mut self.stream else {
            return;
        };
        loop {
            let left = stream.limit.saturating_sub(stream.run.lba);
            let wanted = u64::from(stream.run.sectors).min(left) as u32;
            let passed = stream.run.passed_at(now).min(wanted);
            let end = stream.run.lba + u64::from(passed);
            self.mechanism.passed += u64::from(passed.saturating_sub(stream.counted));
            stream.counted = stream.counted.max(passed);
            self.buffer.extend(stream.segment, end);
            if passed < wanted {
                return;
            }
            let over = stream.run.passed(wanted);
            if end >= stream.limit {
                self.free = self.free.max(over);
                self.stream = None;
                return;
            }
            (stream.run, stream.arrives) = next_run(&mut self.mechanism, end, stream.limit, over);
            stream.counted = 0;
        }
    }

    /// Breaks reading ahead off for a request at `now`. The mechanism may finish its present step first.
    pub(super) fn stop_stream(&mut self, now: Nanos) {
        self.read_on(now);
        let Some(stream) = self.stream.take() else {
            return;
        };
        let boundary = if self.spec.stop_in_sector {
            stream.arrives
        } else if now < stream.run.begins {
            stream.run.begins
        } else {
            stream.run.passed(stream.run.passed_at(now) + 1)
        };
        self.free = self.free.max(boundary);
    }

    pub(super) fn read(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        let end = lba + u64::from(sectors);
        self.sequential = lba == self.read_to;
        self.read_to = end;
        if self.cache.holds(lba, end) {
            let from = now.0 + self.overheads.read_hit(self.previous).0;
            let mut transfer = Transfer::new(Nanos(from), self.read_sector);
            transfer.ready(now, sectors);
            return Nanos(transfer.done + self.overheads.read_done.0);
        }
        if let Some(segment) = self.buffer.find(lba) {
            let (_, held) = self.buffer.range(segment);
            let streams = |stream: &Stream| stream.segment == segment && stream.limit > lba;
            let streaming = self.stream.as_ref().is_some_and(streams);
            if streaming || held > lba {
                return self.read_hit(now, lba, end, segment, streaming);
            }
        }
        let media = self.media.as_ref();
        if let Some(place) = media.and_then(|media| media.place(lba, end)) {
            return self.read_band(now, place, sectors);
        }
        self.read_miss(now, lba, sectors)
    }

    /// A read whose first sectors are in the buffer, or soon will be.
    fn read_hit(
        &mut self,
        now: Nanos,
        lba: u64,
        end: u64,
        segment: usize,
        streaming: bool,
    ) -> Nanos {
        self.buffer.touch(segment);
        let from = Nanos(now.0 + self.overheads.read_hit(self.previous).0);
        let mut transfer = Transfer::new(from, self.read_sector);
        let (start, held) = self.buffer.range(segment);
        let mut at = held.min(end).max(lba);
        transfer.ready(now, (at - lba) as u32);
        let limit = self.limit(start, lba, end);
        match &mut self.stream {
            Some(stream) if streaming => stream.limit = stream.limit.max(limit),
            _ if at < end => {
                // The rest must be read from the medium; the command's overhead passes meanwhile.
                let ready = Nanos(now.0 + self.overheads.read_miss(self.previous).0);
                self.stop_stream(now);
                self.start_stream(segment, at, limit, ready);
            }
            None if self.spec.reads_on_after_hit && held < limit && self.cache.is_empty() => {
                self.start_stream(segment, held, limit, now);
            }
            _ => {}
        }
        while at < end {
            let stream = self.stream.as_mut().expect("what is missing is being read");
            if at >= stream.run.lba + u64::from(stream.run.sectors) {
                let ends = stream.run.ends();
                let uncounted = stream.run.sectors.saturating_sub(stream.counted);
                self.mechanism.passed += u64::from(uncounted);
                (stream.run, stream.arrives) =
                    next_run(&mut self.mechanism, at, stream.limit, ends);
                stream.counted = 0;
                continue;
            }
            let skip = (at - stream.run.lba) as u32;
            let count = (stream.run.sectors - skip).min((end - at) as u32);
            transfer.stream(&stream.run, skip, count);
            at += u64::from(count);
            self.buffer.extend(segment, at);
        }
        if self.spec.drops_sent {
            self.buffer.drop_before(segment, end);
        }
        Nanos(transfer.done + self.overheads.read_done.0)
    }

    /// Reads ahead from `at` to `limit` as soon as the mechanism is free.
    fn start_stream(&mut self, segment: usize, at: u64, limit: u64, ready: Nanos) {
        let ready = Nanos(self.free.0.max(ready.0));
        let (run, arrives) = next_run(&mut self.mechanism, at, limit, ready);
        self.stream = Some(Stream {
            segment,
            run,
            arrives,
            counted: 0,
            limit,
        });
    }

    fn read_miss(&mut self, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        let ready = Nanos(now.0 + self.overheads.read_miss(self.previous).0);
        self.stop_stream(now);
        let end = lba + u64::from(sectors);
        let (mut at, mut clock) = (lba, Nanos(self.free.0.max(ready.0)));
        let mut from = lba;
        let mut pieces = std::mem::take(&mut self.pieces);
        while at < end {
            let extent = self.mechanism.geometry.extent(at);
            let mut moved = self.mechanism.seek_time(&extent, false);
            if at == lba {
                moved = moved.max(self.mechanism.seek.same_track);
            }
            clock.0 += moved.0;
            self.mechanism.move_to(&extent);
            let count = extent.sectors.min((end - at) as u32);
            let mut first = 0;
            if self.spec.zero_latency_read {
                first = self.mechanism.first_under(&extent, count, clock);
            }
            let run = self.mechanism.run(&extent, at, 0, count, clock);
            if at == lba && self.spec.reads_on_arrival && self.reads_more() {
                from = self.arrival(&extent, lba, clock);
            }
            // The tail of the sectors may have passed before their front comes under the heads.
            let in_order = if first > 0 { first } else { count };
            clock = run.passed(in_order);
            self.mechanism.passed += u64::from(count);
            pieces.push((run, in_order));
            at += u64::from(count);
        }
        let bus = Nanos(now.0 + self.overheads.read_bus_free(self.previous).0);
        let crossed = self.cross(&pieces, sectors, bus);
        pieces.clear();
        self.pieces = pieces;
        self.free = clock;
        if !self.buffer.is_none() {
            let from = if self.spec.drops_sent { end } else { from };
            let segment = self.buffer.take(from, end);
            let limit = self.limit(from, lba, end);
            if limit > end {
                self.start_stream(segment, end, limit, clock);
            }
        }
        Nanos(crossed.0 + self.overheads.read_done.0)
    }

    /// When the sectors of `pieces` have crossed the bus, which is free from `bus` on. Of each piece, so many sectors
    /// pass in order, and the others are in the buffer with the last of these.
    fn cross(&self, pieces: &[(Run, u32)], sectors: u32, bus: Nanos) -> Nanos {
        let mut mark = self.mark(sectors);
        let mut there = bus;
        for (run, in_order) in pieces {
            there = there.max(run.passed(mark.min(*in_order)));
            if mark <= run.sectors {
                break;
            }
            mark -= run.sectors;
        }
        let start = Nanos(there.0 + self.overheads.reconnect.0);
        let mut transfer = Transfer::new(start, self.read_sector);
        for (run, in_order) in pieces {
            transfer.stream(run, 0, *in_order);
            transfer.ready(run.passed(*in_order), run.sectors - in_order);
        }
        Nanos(transfer.done)
    }

    /// True if the drive reads ahead after this read.
    fn reads_more(&self) -> bool {
        self.sequential || !self.spec.read_ahead_if_sequential
    }

    /// Sectors of a read that must be in the buffer before the drive takes the bus.
    fn mark(&self, sectors: u32) -> u32 {
        let share = self.spec.read_watermark * f64::from(sectors.min(self.spec.segment_sectors));
        (share as u32).max(1)
    }

    /// The first sector that the buffer gets. A drive that reads from the moment at which its heads are on the track
    /// also has sectors before `lba`.
    fn arrival(&mut self, extent: &Extent, lba: u64, clock: Nanos) -> u64 {
        let latency = self.mechanism.latency(clock, extent.angle);
        let before = (latency.0 << Run::DIGITS) / self.mechanism.sector_time(extent.track_sectors);
        lba - before.min(u64::from(extent.sector)).min(lba)
    }

    /// Where reading ahead after a read of `[lba, end)` stops, in a segment that begins at `start`.
    fn limit(&self, start: u64, lba: u64, end: u64) -> u64 {
        let sectors = self.sectors();
        if end >= sectors {
            return end;
        }
        let ahead = u64::from(self.spec.read_ahead_sectors);
        let kept = if self.spec.drops_sent { end } else { lba };
        let room = kept + u64::from(self.spec.segment_sectors);
        let limit = match self.spec.read_ahead {
            ReadAhead::None => end,
            _ if !self.reads_more() => end,
            ReadAhead::Segment => end + ahead,
            ReadAhead::Track | ReadAhead::NextTrack => {
                let extent = self.mechanism.geometry.extent(end);
                let track = end - u64::from(extent.sector).min(end);
                let follows = self.spec.read_ahead == ReadAhead::NextTrack && start < track;
                let next = if follows { extent.track_sectors } else { 0 };
                end + u64::from(extent.sectors) + u64::from(next)
            }
        };
        // Sectors that may still have to be sent are not overwritten. A single track is in the buffer before that.
        let limit = match self.spec.read_ahead {
            ReadAhead::Track => limit,
            _ => limit.min(room.max(end)),
        };
        limit.min(sectors)
    }
}

/// The sectors from `at` on that lie on one track, read as they pass after `ready`, and the time at which the heads are
/// on that track.
fn next_run(mechanism: &mut Mechanism, at: u64, limit: u64, ready: Nanos) -> (Run, Nanos) {
    let extent = mechanism.geometry.extent(at);
    let ready = Nanos(ready.0 + mechanism.seek_time(&extent, false).0);
    mechanism.move_to(&extent);
    let count = u64::from(extent.sectors).min(limit - at) as u32;
    (mechanism.run(&extent, at, 0, count, ready), ready)
}
