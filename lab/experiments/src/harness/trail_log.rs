//! A track-based log at the level of sectors (Trail 3 and 4.2): records are written at the position of the head.
//!
//! A record is a header sector and its data. Physical tracks are used in turn. When a share of a track is used, the
//! head is moved to the next one. Waiting writes share one record, as far as the track has space.
//!
//! It is not the product's log (`disk/trail`), because the paper's figures need what that log does not do: records of one
//! data sector of a new block (its blocks have 4 KiB), a move of the head after each write also when the next write waits
//! already, and the least time of the drive at the moment of each single
//! write. Each experiment that uses it says which of these it needs. The experiments `trail-drives`, `aru` and `sqlite`
//! measure the product's log.

use super::load::{Load, Processes};
use super::rig::Rig;
use super::times::{Times, ms};
use crate::experiment::Random;
use tonearm_base::Nanos;
use tonearm_head::{Access, Head, Span, Track, TrackMap, refresh_place};

/// When the head is moved to the next track.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Moves {
    /// When this share of the track is used (Trail 4.2: 0.3), if the predictor expects a gain.
    Used(f64),
    /// After each write, by a read of the next track's sector that is nearest (Trail 5.1, Table 1).
    EachWrite,
}

/// The log.
pub struct TrailLog<'a> {
    /// The drive.
    pub rig: Rig,
    head: Box<dyn Head + 'a>,
    map: &'a TrackMap,
    moves: Moves,
    track: Track,
    free: Vec<Span>,
    used: u32,
    /// The head has been moved, or need not be moved.
    is_positioned: bool,
    last: Option<Access>,
    read: Option<Access>,
    refreshes: u64,
    /// Physical writes and moves.
    pub totals: Totals,
}

/// Totals of a log.
#[derive(Clone, Copy, Default, Debug)]
pub struct Totals {
    /// Writes to the drive.
    pub writes: u64,
    /// Reads to move the head, and their time.
    pub moves: u64,
    /// Time of those.
    pub move_time: Nanos,
}

impl<'a> TrailLog<'a> {
    /// A log on the tracks of `map`, from the first on.
    pub fn new(rig: Rig, map: &'a TrackMap, head: Box<dyn Head + 'a>, moves: Moves) -> Self {
        let track = map.track(0);
        Self {
            rig,
            head,
            map,
            moves,
            track,
            free: vec![span(&track)],
            used: 0,
            is_positioned: true,
            last: None,
            read: None,
            refreshes: 0,
            totals: Totals::default(),
        }
    }

    /// The last write.
    ///
    /// # Panics
    /// When there is none.
    pub fn last(&self) -> Access {
        self.last.expect("something has been written")
    }

    /// The read after the last write, if there was one.
    pub fn last_read(&self) -> Option<Access> {
        self.read
    }

    /// Lets `time` pass.
    pub fn think(&mut self, time: Nanos) {
        self.idle_until(Nanos(self.rig.now().0 + time.0));
    }

    /// Sectors that the next physical write can take at most: the largest hole of the track, or all of the
    /// next track if the head must move anyway.
    pub fn room(&self) -> u32 {
        let largest = self.free.iter().map(Span::len).max().unwrap_or(0);
        largest as u32
    }

    /// Writes one record of `data` sectors, or several if it needs more than a track.
    pub fn append(&mut self, data: u32) -> Nanos {
        let mut left = data;
        loop {
            let next = self.map.track((self.track.index + 1) % self.map.tracks());
            let most = self.track.sectors.min(next.sectors) - 1;
            let part = left.min(most);
            let done = self.write(1 + part).done;
            left -= part;
            if left == 0 {
                return done;
            }
            self.after_write();
        }
    }

    /// The least time that a physical write of `sectors` sectors could take now, at the best of the free places, by the
    /// model of the drive. The predictor does not see it.
    pub fn least_write(&mut self, sectors: u32) -> Nanos {
        let next = self.map.track((self.track.index + 1) % self.map.tracks());
        let spans = self.free.iter().copied().chain([span(&next)]);
        let fit = spans.filter(|free| free.len() >= u64::from(sectors));
        let times = fit.map(|free| self.rig.least_write(free, sectors));
        times.min().expect("an empty track has room")
    }

    /// One physical write.
    ///
    /// # Panics
    /// When the predictor gives a place that is not free.
    pub fn write(&mut self, sectors: u32) -> Access {
        let next = self.map.track((self.track.index + 1) % self.map.tracks());
        let mut free = self.free.clone();
        free.push(span(&next));
        let place = self.head.place(self.rig.now(), sectors, &free);
        let place = place.expect("an empty track has room").sector;
        if span(&next).holds(place, sectors) {
            self.enter(next);
        }
        let at = self.free.iter().position(|free| free.holds(place, sectors));
        let hole = self.free.remove(at.expect("the place is free"));
        let end = place + u64::from(sectors);
        let pieces = [
            Span {
                start: end,
                end: hole.end,
            },
            Span {
                start: hole.start,
                end: place,
            },
        ];
        self.free
            .extend(pieces.iter().filter(|piece| !piece.is_empty()));
        self.free.sort_unstable_by_key(|free| free.start);
        self.used += sectors;
        self.totals.writes += 1;
        self.is_positioned = false;
        let access = self.rig.write(place, sectors);
        self.head.written(&access);
        self.last = Some(access);
        self.read = None;
        access
    }

    /// After a write, moves the head to the next track when that is due.
    pub fn after_write(&mut self) {
        if self.is_positioned {
            return;
        }
        self.is_positioned = true;
        let due = match self.moves {
            Moves::Used(share) => f64::from(self.used) > share * f64::from(self.track.sectors),
            Moves::EachWrite => true,
        };
        if !due {
            return;
        }
        let next = self.map.track((self.track.index + 1) % self.map.tracks());
        self.enter(next);
        if let Some(sector) = self.head.reposition(self.rig.now(), span(&next)) {
            self.look(sector);
        }
    }

    /// Lets time pass until `time`. Reads refresh a predictor that becomes stale, as in the product (Trail 3.1, end).
    pub fn idle_until(&mut self, time: Nanos) {
        let mut worked = true;
        while let Some(stale) = self.head.stale_after() {
            let pause = if worked { stale } else { Nanos(stale.0 / 4) };
            if self.rig.now().0 + pause.0 >= time.0 {
                break;
            }
            self.rig.think(pause);
            let (ahead, sector) = refresh_place(self.refreshes);
            self.refreshes += 1;
            let index = (self.track.index + 1 + ahead) % self.map.tracks();
            worked = self.look(self.map.track(index).first + sector);
        }
        self.rig.wait_until(time);
    }

    /// The mean time in ms of a write of `sectors` sectors and of what follows it, after `warm_up` writes.
    pub fn mean_with_move(&mut self, sectors: u32, warm_up: u64, writes: u64) -> f64 {
        let mut begin = self.rig.now();
        for number in 0..warm_up + writes {
            if number == warm_up {
                begin = self.rig.now();
            }
            self.write(sectors);
            self.after_write();
        }
        ms(self.rig.now().since(begin)) / writes as f64
    }

    /// Serves `load`.
    pub fn serve(&mut self, load: &Load, seed: u64) -> Times {
        let mut random = Random::new(seed, 5);
        let mut processes = Processes::new(load.processes, self.rig.now());
        let mut times = Times::default();
        let mut written = 0;
        while written < load.warm_up + load.writes {
            self.idle_until(processes.next());
            let mut waiting = processes.waiting(self.rig.now());
            // A batch takes the writes that fit into the rest of the track, but at least one.
            let fit = self.room().saturating_sub(1) / load.sectors;
            waiting.truncate(fit.max(1) as usize);
            let done = self.append(waiting.len() as u32 * load.sectors);
            for (arrival, process) in waiting {
                if written >= load.warm_up {
                    times.push(Nanos(done.0 - arrival.0));
                }
                written += 1;
                processes.again(process, load.arrivals.after(done, &mut random));
            }
            self.after_write();
        }
        times
    }

    fn enter(&mut self, track: Track) {
        self.free = vec![span(&track)];
        self.used = 0;
        self.track = track;
    }

    fn look(&mut self, sector: u64) -> bool {
        let access = self.rig.read(sector, 1);
        self.totals.moves += 1;
        self.totals.move_time.0 += access.done.0 - access.sent.0;
        self.read = Some(access);
        self.head.read(&access)
    }
}

impl Totals {
    /// Mean time of a move in milliseconds.
    pub fn move_ms(&self) -> f64 {
        self.move_time.0 as f64 / 1e6 / self.moves.max(1) as f64
    }
}

fn span(track: &Track) -> Span {
    Span {
        start: track.first,
        end: track.end(),
    }
}
