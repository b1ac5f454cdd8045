use crate::space::{Space, State};

#[test]
fn packed_data_leave_the_end_free() {
    let space = Space::new(250, 40, 8, true);
    space.check();
    // 31 full segments, and two pages in the next one.
    assert_eq!(
        (space.free(), space.holes(true), space.holes(false)),
        (8, 6, 0)
    );
    assert_eq!(space.slot(249), Some(249));
}

#[test]
fn a_segment_without_pages_is_free_again() {
    let mut space = Space::new(64, 20, 8, false);
    let segment = space.take_free(false, 0, 0).unwrap();
    assert_eq!(segment, 8);
    for page in 0..8 {
        space.remove(page);
        space.put(page, segment * 8 + page);
    }
    assert!(space.in_memory(3) && !space.in_memory(9));
    space.seal(segment);
    space.check();
    assert_eq!(space.segments[0].state, State::Free);
    assert_eq!(space.free(), 12);
    // The one that became free last is taken last.
    let taken: Vec<_> = (0..12)
        .filter_map(|_| space.take_free(true, 0, 0))
        .collect();
    assert_eq!(taken, [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 0]);
    assert_eq!(space.take_free(true, 0, 0), None);
}

#[test]
fn holes_of_the_cold_partition_are_found_and_counted() {
    let mut space = Space::new(64, 20, 8, true);
    for page in [13, 14, 50] {
        space.remove(page);
    }
    assert_eq!(space.holes(true), 3);
    for _ in 0..3 {
        let hole = space.cold_hole().unwrap();
        assert!([13, 14, 50].contains(&hole));
        space.put(hole, hole);
    }
    assert_eq!(space.cold_hole(), None);
    space.check();
    // A segment that is being emptied takes no page.
    space.remove(20);
    space.segments[2].draining = true;
    assert_eq!(space.cold_hole(), None);
}

/// A segment is a chunk on each of four disks. If its holes were taken in the order of their slots, one disk would have all
/// the writes of pages that cool, and the others would be idle.
#[test]
fn holes_that_are_taken_together_are_of_all_disks() {
    const CHUNK: u32 = 16;
    let mut space = Space::new(512, 12, 4 * CHUNK, true);
    let mut taken = [0_u32; 4];
    for page in (0..512).step_by(2) {
        space.remove(page);
    }
    for page in (0..128).step_by(2) {
        let hole = space.cold_hole().unwrap();
        space.put(page, hole);
        taken[(hole % (4 * CHUNK) / CHUNK) as usize] += 1;
    }
    space.check();
    assert!(
        taken.iter().all(|count| (14..=18).contains(count)),
        "{taken:?}"
    );
}
