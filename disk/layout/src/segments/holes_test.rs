use crate::segments::holes::Holes;
use tonearm_format::SegmentLayout;

fn new() -> Holes {
    Holes::of(&SegmentLayout {
        block_size: 4096,
        segment_bytes: 100 * 4096,
        segments: 3,
    })
}

#[test]
fn holes_are_counted_by_segment_and_listed_in_order() {
    let mut holes = new();
    for place in [399, 150, 163, 164, 100, 199, 200] {
        holes.insert(place);
    }
    assert_eq!(
        holes.places(1).collect::<Vec<_>>(),
        [100, 150, 163, 164, 199]
    );
    assert_eq!((holes.count(1), holes.count(2), holes.count(3)), (5, 1, 1));
    holes.remove(163);
    assert_eq!(holes.count(1), 4);
    holes.clear(1);
    assert_eq!((holes.count(1), holes.count(2)), (0, 1));
}

#[test]
fn places_that_do_not_exist_are_no_holes() {
    let mut holes = new();
    for place in [400, 1000, u64::from(u32::MAX)] {
        holes.insert(place);
        holes.remove(place);
    }
    assert_eq!((1..=3).map(|segment| holes.count(segment)).sum::<u64>(), 0);
    let mut unknown = Holes::unknown();
    unknown.insert(150);
    unknown.clear(1);
    assert_eq!((unknown.count(1), unknown.places(1).count()), (0, 0));
}
