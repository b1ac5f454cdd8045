//! Chooses the free place whose write ends first.

use super::angles::{Angles, Stretch, step};
use super::lead::Leads;
use super::spindle::Spindle;
use crate::Span;
use tonearm_base::Nanos;

/// Tracks that are looked at.
const TRACKS: usize = 4;
/// Free ranges that are examined, over all tracks.
const PIECES: usize = 64;

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
}

impl View<'_> {
    /// The best place for `sectors` sectors that are sent at `now`.
    pub fn choose(&self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Choice> {
        let mut best: Option<Choice> = None;
        let (mut tracks, mut pieces, mut last) = (0, 0, None);
        for span in free {
            let mut at = span.start;
            while tracks <= TRACKS && pieces < PIECES && span.holds(at, sectors) {
                let Some(on) = self.angles.find(at) else {
                    let Some(next) = self.angles.next_known(at) else {
                        break;
                    };
                    at = next;
                    continue;
                };
                tracks += usize::from(last != Some(on.track));
                if tracks > TRACKS {
                    break;
                }
                (pieces, last) = (pieces + 1, Some(on.track));
                let piece = Span {
                    start: at,
                    end: span.end,
                };
                self.on_track(now, sectors, &on, piece, &mut best);
                at = on.end;
            }
        }
        best
    }

    /// Tries the track `on`, from the start of `piece` on. The write must end within `piece`.
    fn on_track(
        &self,
        now: Nanos,
        sectors: u32,
        on: &Stretch,
        piece: Span,
        best: &mut Option<Choice>,
    ) {
        let period = self.spindle.period();
        let step = step((self.position.end, &self.position.on), (piece.start, on));
        let (mut lead, hope) = self.leads.lead(step, self.position.read, period);
        let doubt = self.spindle.doubt(now);
        if doubt < period / 16.0 {
            lead += 3.0 * doubt;
        }
        let mut target = lead;
        for _ in 0..3 {
            let Some((sector, wait)) = self.first_at(now, target, on, piece, sectors) else {
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

    /// The first sector of `on` that passes `lead` after `now` or later and is free, and when it passes.
    fn first_at(
        &self,
        now: Nanos,
        lead: f64,
        on: &Stretch,
        piece: Span,
        sectors: u32,
    ) -> Option<(u64, f64)> {
        let period = self.spindle.period();
        let last = on
            .end
            .min((piece.end + 1).saturating_sub(u64::from(sectors)));
        if piece.start >= last {
            return None;
        }
        // Sectors from the first free one to the one that passes after `lead`.
        let wait = lead + self.spindle.until(on.angle_of(piece.start), at(now, lead));
        let ahead = on.turn - (wait - lead) / period * on.turn;
        let skip = (ahead - 1e-6).ceil().max(0.0);
        let sector = piece.start + skip as u64;
        if sector < last {
            let passes = wait - period + skip / on.turn * period;
            // Instead of a whole turn ahead, the first sector itself.
            if passes >= lead - 1.0 && skip < on.turn {
                return Some((sector, passes));
            }
        }
        Some((piece.start, wait))
    }
}

fn at(now: Nanos, lead: f64) -> Nanos {
    Nanos(now.0.saturating_add(lead as u64))
}
