//! Chooses the free place whose write ends first.

use super::angles::{Angles, Stretch, step};
use super::lead::{Leads, Order};
use super::spindle::Spindle;
use crate::Span;
use tonearm_base::Nanos;

/// Tracks that are looked at.
const TRACKS: usize = 4;

/// A read that moves the head goes to the first sectors of a track, this part of it.
pub const QUARTER: u64 = 4;

/// Where the head is, as far as requests show.
#[derive(Clone, Copy, Debug)]
pub struct Position {
    /// The sector after the last one.
    pub end: u64,
    /// The track of the last one.
    pub on: Stretch,
    /// It was read.
    pub read: bool,
}

impl Position {
    /// The drive has not gone on to the next track after a read of one of the first sectors of this one, unless it reads more than
    /// the rest of the track.
    pub fn is_certain(&self) -> bool {
        let (track, read) = (
            self.on.end - self.on.first,
            self.end - self.on.first.min(self.end),
        );
        !self.read || read <= track.div_ceil(QUARTER)
    }
}

/// A place with what is expected there.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// First sector.
    pub sector: u64,
    /// Nanoseconds from sending to end.
    pub response: f64,
    /// The same for the choice, reduced by the value of what the write may teach.
    score: f64,
}

/// The data on which a choice depends.
pub struct View<'a> {
    /// How the platter turns.
    pub spindle: &'a Spindle,
    /// The angles of sectors.
    pub angles: &'a Angles,
    /// The leads of the steps.
    pub leads: &'a Leads,
    /// Where the head is.
    pub position: &'a Position,
    /// The kinds of the next request and of the last one.
    pub order: Order,
}

impl View<'_> {
    /// The best place for `sectors` sectors that are sent at `now`.
    pub fn choose(&self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        let (mut tracks, mut last) = (0, None);
        let (mut rest, mut from) = (free, 0);
        while let Some(span) = rest.first() {
            let start = span.start.max(from);
            let on = match span.holds(start, sectors) {
                true => self.angles.find(start),
                false => None,
            };
            let Some(on) = on else {
                let known = self
                    .angles
                    .next_known(start)
                    .filter(|next| span.holds(*next, sectors));
                match known {
                    Some(next) => from = next,
                    None => (rest, from) = (&rest[1..], 0),
                }
                continue;
            };
            tracks += usize::from(last != Some(on.track));
            if tracks > TRACKS {
                break;
            }
            last = Some(on.track);
            let follows = |pair: &[Span]| pair[1].start >= pair[0].end && pair[1].start < on.end;
            let count = 1 + rest.windows(2).take_while(|pair| follows(pair)).count();
            let pieces = Pieces {
                on: &on,
                start,
                spans: &rest[..count],
                sectors,
            };
            self.on_track(now, &pieces, &mut best);
            // The last piece may go on after the track.
            match rest[count - 1].end > on.end {
                true => (rest, from) = (&rest[count - 1..], on.end),
                false => (rest, from) = (&rest[count..], 0),
            }
        }
        best
    }

    /// Tries the track of `pieces`.
    fn on_track(&self, now: Nanos, pieces: &Pieces<'_>, best: &mut Option<Choice>) {
        let (on, sectors) = (pieces.on, pieces.sectors);
        let period = self.spindle.period();
        let step = step((self.position.end, &self.position.on), (pieces.start, on));
        let (mut lead, hope) = self
            .leads
            .lead(step, self.order, f64::from(sectors), period);
        let doubt = self.spindle.doubt(now);
        if doubt < period / 16.0 {
            lead += 3.0 * doubt;
        }
        let mut target = lead;
        for _ in 0..3 {
            let Some((sector, wait)) = self.first_at(now, target, pieces) else {
                return;
            };
            // A slow bus may need a later start, by whole turns.
            let mut need = f64::MIN;
            let walked = self.angles.walk(on, sector, sectors, |sectors, turns| {
                let bus = self.leads.bus(sectors, period).unwrap_or(0.0);
                need = need.max(bus - turns * period);
            });
            let Some(walk) = walked else {
                return;
            };
            let turns = walk.turns;
            let late = ((need - wait) / period).ceil().max(0.0);
            let response = wait + (turns + late) * period;
            let score = response - hope;
            if best.is_none_or(|b| score + 1_000.0 < b.score) {
                *best = Some(Choice {
                    sector,
                    response,
                    score,
                });
            }
            if late == 0.0 {
                return;
            }
            // A place at which the bus is just in time is better.
            let slack = (need - wait).rem_euclid(period);
            if slack < 1_000.0 {
                return;
            }
            let shifted = lead + (wait + slack - lead).rem_euclid(period);
            if (shifted - target).abs() < 1_000.0 {
                return;
            }
            target = shifted;
        }
    }

    /// The sector of `pieces` that passes first `lead` after `now` or later, and when it passes.
    fn first_at(&self, now: Nanos, lead: f64, pieces: &Pieces<'_>) -> Option<(u64, f64)> {
        let (on, period) = (pieces.on, self.spindle.period());
        // Sectors from the first free one to the one that passes after `lead`.
        let wait = lead + self.spindle.until(on.angle_of(pieces.start), at(now, lead));
        let ahead = on.turn - (wait - lead) / period * on.turn;
        let skip = (ahead - 1e-6).ceil().max(0.0);
        let passes = |sectors: f64| wait + sectors / on.turn * period;
        let distance = |sector: u64| (sector - pieces.start) as f64;
        // A turn later the sectors before it pass too.
        let later = pieces.first_from(pieces.start);
        let later = later.map(|sector| (sector, passes(distance(sector))));
        // By rounding, the sector may pass too early.
        if skip >= on.turn || passes(skip - on.turn) < lead - 1.0 {
            return later;
        }
        let sooner = pieces.first_from(pieces.start + skip as u64);
        let sooner = sooner.map(|sector| (sector, passes(distance(sector) - on.turn)));
        let both = sooner.into_iter().chain(later);
        both.min_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// The free ranges of a track, in ascending order.
struct Pieces<'a> {
    on: &'a Stretch,
    /// The first free sector. The first span may begin before the track.
    start: u64,
    spans: &'a [Span],
    /// Sectors of the write. It begins on the track and ends within its span.
    sectors: u32,
}

impl Pieces<'_> {
    /// The first sector from `from` on at which the write can begin.
    fn first_from(&self, from: u64) -> Option<u64> {
        let ended = self.spans.partition_point(|span| span.end <= from);
        let start = |span: &Span| span.start.max(from);
        let mut starts = self.spans[ended..]
            .iter()
            .filter(|span| span.holds(start(span), self.sectors))
            .map(start);
        starts.next().filter(|start| *start < self.on.end)
    }
}

fn at(now: Nanos, lead: f64) -> Nanos {
    Nanos(now.0.saturating_add(lead as u64))
}
