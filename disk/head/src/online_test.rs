use super::*;
use crate::testing::{Platter, TURN};

/// A predictor that has learned the drive from writes on its tracks, the last of which is on `track`.
fn learned(platter: &mut Platter, track: u64) -> Online {
    let mut online = Online::with_map(platter.map.clone());
    for number in 0..400 {
        let on = platter.track((track + number / 10) % 40);
        write(&mut online, platter, on.first, on.end());
    }
    assert_eq!(
        platter.map.find(online.last.unwrap().0 - 1).unwrap().index,
        (track + 39) % 40
    );
    online
}

/// Writes a sector where the predictor wishes, within these ones. Returns the time that it takes.
fn write(online: &mut Online, platter: &mut Platter, start: u64, end: u64) -> Nanos {
    platter.think(3_456_789);
    let place = online.place(platter.now, 1, &[Span { start, end }]);
    let access = platter.write(place.unwrap().sector, 1);
    online.written(&access);
    access.done.since(access.sent)
}

#[test]
fn head_is_moved_once_writes_have_shown_what_that_gains() {
    let mut platter = Platter::new();
    let mut online = Online::with_map(platter.map.clone());
    let (here, next) = (platter.track(3), platter.track(4));
    let span = Span {
        start: next.first,
        end: next.end(),
    };
    for _ in 0..200 {
        write(&mut online, &mut platter, here.first, here.end());
    }
    assert_eq!(
        online.reposition(platter.now, span),
        None,
        "a write has never changed the track"
    );
    let mut online = learned(&mut platter, 4);
    let sector = online.reposition(platter.now, span).expect("a read");
    assert!(
        (span.start..span.start + 25).contains(&sector),
        "one of the first sectors"
    );
}

#[test]
fn read_that_the_buffer_answers_is_ignored() {
    let mut platter = Platter::new();
    let mut online = learned(&mut platter, 0);
    // Reads from the medium show by how much later they end.
    for _ in 0..4 {
        let track = platter.track(1);
        let read = platter.read(track.first + 7, 1);
        assert!(online.read(&read));
        for _ in 0..8 {
            write(&mut online, &mut platter, track.first, track.end());
        }
    }
    assert!(online.read_lag.is_known());
    let track = platter.track(1);
    let before = online.position.unwrap().end;
    for part in [3, 5, 7] {
        platter.think(TURN.0 / part);
        let sent = platter.now;
        let done = Nanos(sent.0 + 150_000);
        let from_buffer = Access {
            first: platter.track(9).first,
            sectors: 1,
            sent,
            done,
        };
        assert!(!online.read(&from_buffer));
        platter.now = done;
    }
    assert_eq!(
        online.position.unwrap().end,
        before,
        "the head has not moved"
    );
    let took = write(&mut online, &mut platter, track.first, track.end());
    assert!(took < Nanos(TURN.0 / 8), "{took:?}");
}

#[test]
fn sizes_have_leads_of_their_own() {
    let period = 10e6;
    let mut leads = Leads::new(true);
    let outcome = |sectors: f64, lead: f64, turns: f64| Outcome {
        step: Step::Same,
        order: Order::WriteAfterWrite,
        end: (sectors, sectors * 1e5),
        held: (sectors, sectors * 1e5),
        skew: 0.0,
        lead,
        turns,
        off: 0.0,
    };
    // One sector needs 0.3 ms, a block 1.2 ms.
    for _ in 0..60 {
        for (sectors, needed) in [(1.0, 3e5), (9.0, 12e5)] {
            let (lead, _) = leads.lead(Step::Same, Order::WriteAfterWrite, sectors, period);
            let turns = f64::from(u8::from(lead < needed));
            leads.learn(&outcome(sectors, lead, turns), period);
        }
    }
    let lead = |sectors| {
        leads
            .lead(Step::Same, Order::WriteAfterWrite, sectors, period)
            .0
    };
    assert!((3e5..3.3e5).contains(&lead(1.0)), "{}", lead(1.0));
    assert!((12e5..12.4e5).contains(&lead(9.0)), "{}", lead(9.0));
}

#[test]
fn predictor_with_a_map_is_refreshed_from_the_opening_on() {
    let platter = Platter::new();
    assert!(
        Online::with_map(platter.map.clone())
            .stale_after()
            .is_some()
    );
    assert_eq!(Online::new().stale_after(), None);
}
