use crate::Ring;

#[test]
fn tracks_are_used_in_turn_and_never_over_the_head() {
    let mut ring = Ring::new(8, 4, 3, 3);
    let mut sectors = Vec::new();
    while let Some((sector, room)) = ring.place(2, false) {
        assert!((2..=3).contains(&room));
        sectors.push(sector);
        ring.take(3);
    }
    // Six of eight tracks: two stay free, whatever is still needed of the head's track.
    assert_eq!(sectors, [12, 16, 20, 24, 28, 0]);
    assert_eq!(ring.used(), 6);
    let marker = ring.place(1, true);
    assert_eq!(marker, Some((3, 1)), "the last sector is kept for a marker");
    ring.take(1);
    assert_eq!(
        ring.place(1, true),
        Some((4, 4)),
        "a marker may take one of the two free tracks"
    );
    assert_eq!((ring.used(), ring.openable()), (7, 0));
    ring.take(1);
    ring.set_head(ring.head() + 2);
    assert_eq!(ring.openable(), 1);
    assert_eq!(ring.place(2, false), Some((5, 2)));
}

#[test]
fn a_head_behind_the_start_keeps_its_tracks() {
    let ring = Ring::new(8, 4, 1, 6);
    assert_eq!(ring.used(), 3, "tracks 6, 7 and 0");
    assert_eq!(ring.count_of(6), ring.head());
}
