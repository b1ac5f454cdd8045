//! A predictor that is told the drive's geometry and a lead; until the real ones are there.

use base::Nanos;
use head::{Access, Head, Place, Span, TrackMap};

pub struct Known<'a> {
    map: &'a TrackMap,
    turn: Nanos,
    lead: [Nanos; 2],
    last: Option<(u64, Nanos, usize)>,
    moves: bool,
}

impl<'a> Known<'a> {
    pub fn new(map: &'a TrackMap, turn: Nanos, lead: [Nanos; 2], moves: bool) -> Self {
        Self {
            map,
            turn,
            lead,
            last: None,
            moves,
        }
    }

    fn ends(&self, access: &Access) -> (u64, Nanos) {
        (access.end() - 1, access.done)
    }

    fn angle_at(&self, time: Nanos) -> Option<(f64, usize)> {
        let (sector, at, kind) = self.last?;
        let track = self.map.find(sector)?;
        let start =
            f64::from(track.angle_of(sector)) / 4294967296.0 + 1.0 / f64::from(track.turn_sectors);
        Some((start + (time.0 - at.0) as f64 / self.turn.0 as f64, kind))
    }
}

impl Head for Known<'_> {
    fn name(&self) -> &'static str {
        "known"
    }
    fn written(&mut self, write: &Access) {
        let (sector, done) = self.ends(write);
        self.last = Some((sector, done, 0));
    }
    fn read(&mut self, read: &Access) {
        let (sector, done) = self.ends(read);
        self.last = Some((sector, done, 1));
    }
    fn place(&mut self, now: Nanos, sectors: u32, free: &[Span]) -> Option<Place> {
        let mut best: Option<(f64, u64)> = None;
        let angle = self.angle_at(now);
        for span in free {
            let track = self.map.find(span.start)?;
            let Some((angle, kind)) = angle else {
                return Some(Place {
                    sector: span.start,
                    response: None,
                });
            };
            let want = angle + self.lead[kind].0 as f64 / self.turn.0 as f64;
            for sector in span.start..span.end {
                if !span.holds(sector, sectors) {
                    break;
                }
                let here = f64::from(track.angle_of(sector)) / 4294967296.0;
                let wait = (here - want).rem_euclid(1.0);
                if best.is_none_or(|(least, _)| wait < least) {
                    best = Some((wait, sector));
                }
            }
            if best.is_some() {
                break;
            }
        }
        best.map(|(_, sector)| Place {
            sector,
            response: None,
        })
    }
    fn reposition(&mut self, now: Nanos, track: Span) -> Option<u64> {
        if !self.moves {
            return None;
        }
        let place = {
            let save = self.lead;
            self.lead = [Nanos(1_700_000); 2];
            let place = self.place(now, 1, &[track]);
            self.lead = save;
            place
        };
        place.map(|place| place.sector)
    }
    fn memory_bytes(&self) -> usize {
        size_of::<Self>()
    }
}
