use crate::ring::Ring;

/// Takes `sectors` sectors in a row, on the next track if need be; where they begin.
fn take_next(ring: &mut Ring, sectors: u64, marker: bool) -> Option<(u64, u64)> {
    if ring.first_fit(sectors, marker).is_none() {
        if !ring.is_next_free(marker) {
            return None;
        }
        ring.open(4);
    }
    let range = ring.first_fit(sectors, marker)?;
    ring.take(range.start..range.start + sectors);
    Some((ring.current_index(), range.start))
}

#[test]
fn tracks_are_used_in_turn_and_never_beyond_the_log_start() {
    let mut ring = Ring::new(8, 3, 3);
    let mut places = Vec::new();
    while let Some(place) = take_next(&mut ring, 3, false) {
        places.push(place);
    }
    // Six of eight tracks: two stay free, whatever is still needed of the first track.
    assert_eq!(places, [(3, 0), (4, 0), (5, 0), (6, 0), (7, 0), (0, 0)]);
    assert_eq!(ring.used(), 6);
    assert_eq!(
        take_next(&mut ring, 1, true),
        Some((0, 3)),
        "the last sector is kept for a marker"
    );
    assert_eq!(
        take_next(&mut ring, 1, true),
        Some((1, 0)),
        "a marker may take one of the two free tracks"
    );
    assert_eq!((ring.used(), ring.openable()), (7, 0));
    ring.set_log_start(ring.log_start() + 2);
    assert_eq!(ring.openable(), 1);
    assert_eq!(take_next(&mut ring, 2, false), Some((1, 1)));
}

#[test]
fn ring_counts_used_tracks_across_the_wrap() {
    let ring = Ring::new(8, 1, 6);
    assert_eq!(ring.used(), 3, "tracks 6, 7 and 0");
    assert_eq!(ring.count_of(6), ring.log_start());
}

#[test]
fn records_occupy_any_sectors_of_a_track() {
    let mut ring = Ring::new(8, 0, 0);
    assert_eq!(ring.free(true).count(), 0, "no track is open yet");
    ring.open(20);
    ring.take(8..12);
    ring.take(2..4);
    ring.take(12..19);
    assert_eq!(ring.free(true).collect::<Vec<_>>(), [0..2, 4..8, 19..20]);
    assert_eq!(ring.free(false).collect::<Vec<_>>(), [0..2, 4..8]);
    assert_eq!((ring.used_sectors(), ring.length()), (13, 20));
    assert_eq!(ring.first_fit(3, false), Some(4..8));
    assert_eq!(ring.first_fit(5, true), None);
}

#[test]
#[should_panic(expected = "not free")]
fn no_sector_is_taken_twice() {
    let mut ring = Ring::new(8, 0, 0);
    ring.open(20);
    ring.take(8..12);
    ring.take(11..13);
}
