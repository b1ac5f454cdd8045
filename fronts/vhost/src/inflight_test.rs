//! What a ring finds of the process before it, for each moment of a death.

use crate::inflight::{Inflight, Region, RegionError};

const SIZE: u16 = 8;

/// The ring of a process that begins with what another one has left in the same memory.
fn next(region: &Region) -> Inflight {
    region.ring(0, SIZE).unwrap().unwrap()
}

#[test]
fn requests_that_are_not_used_are_left_in_their_order() {
    let (region, _file, bytes) = Region::create(2, SIZE).unwrap();
    assert_eq!(bytes, 2 * 192);
    let ring = next(&region);
    assert!(ring.left(0).is_empty());
    for head in [5, 0, 7] {
        ring.begin(head);
    }
    ring.ending(0);
    ring.ended(0, 1);
    let after = next(&region);
    assert_eq!(after.left(1), [5, 7]);
    // The order goes on after the ones that were left.
    after.begin(1);
    assert_eq!(next(&region).left(1), [5, 7, 1]);
    assert!(region.ring(1, SIZE).unwrap().unwrap().left(0).is_empty());
}

#[test]
fn a_request_in_the_used_ring_is_not_left() {
    let (region, ..) = Region::create(1, SIZE).unwrap();
    let ring = next(&region);
    ring.begin(3);
    ring.begin(4);
    // The process dies after the used ring, before its mark goes.
    ring.ending(3);
    assert_eq!(next(&region).left(1), [4]);
    // The same once more, without a death between: the answer that was noted last is not forgotten twice.
    assert_eq!(next(&region).left(1), [4]);
}

#[test]
fn a_death_before_the_used_ring_repeats_the_request() {
    let (region, ..) = Region::create(1, SIZE).unwrap();
    let ring = next(&region);
    ring.begin(3);
    ring.ending(3);
    assert_eq!(next(&region).left(0), [3]);
}

#[test]
fn a_region_of_another_shape_is_refused() {
    for (queues, size) in [(0, SIZE), (17, SIZE), (1, 0), (1, 2048)] {
        let made = Region::create(queues, size);
        assert!(matches!(made, Err(RegionError::Shape { .. })));
    }
    let (region, file, bytes) = Region::create(1, SIZE).unwrap();
    next(&region);
    let other = region.ring(0, SIZE / 2);
    assert!(matches!(other, Err(RegionError::Version { .. })));
    assert!(region.ring(1, SIZE).unwrap().is_none());
    let short = Region::map(file.try_clone().unwrap(), 0, bytes - 64, 1, SIZE);
    assert!(matches!(short, Err(RegionError::Shape { .. })));
    let skew = Region::map(file, 24, bytes, 1, SIZE);
    assert!(matches!(skew, Err(RegionError::System(_))));
}
