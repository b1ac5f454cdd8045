//! Copies at the front and at the end of a device that are of different moments, sizes or members.

use super::{Copies, Replicated};

/// Where the trailer area of the device is.
const TRAILER: u64 = 7;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Copy {
    generation: u64,
    trailer: u64,
    member: u64,
}

impl Replicated for Copy {
    fn generation(&self) -> u64 {
        self.generation
    }

    fn trailer_offset(&self) -> u64 {
        self.trailer
    }

    fn is_of_member(&self, other: &Self) -> bool {
        self.member == other.member
    }
}

const fn copy(generation: u64) -> Copy {
    Copy {
        generation,
        trailer: TRAILER,
        member: 0,
    }
}

fn copies(found: [Option<Copy>; 4]) -> Copies<Copy> {
    let mut copies = Copies(found);
    copies.drop_foreign(TRAILER);
    copies
}

fn newest(found: [Option<Copy>; 4]) -> Option<(u64, u64)> {
    let newest = copies(found).into_newest();
    newest.map(|(copy, slot)| (copy.generation, slot))
}

fn all(front: Option<Copy>, end: Option<Copy>) -> [Option<Copy>; 4] {
    [front, front, end, end]
}

#[test]
fn the_highest_generation_counts_at_either_end() {
    let (old, new) = (Some(copy(8)), Some(copy(9)));
    assert_eq!(newest(all(old, new)), Some((9, 2)));
    assert_eq!(newest(all(new, old)), Some((9, 0)));
    assert_eq!(newest([None, old, None, new]), Some((9, 3)));
    assert_eq!(newest(all(None, new)), Some((9, 2)));
    assert_eq!(newest(all(new, None)), Some((9, 0)));
    assert_eq!(newest(all(None, None)), None);
}

#[test]
fn copies_left_at_the_end_of_another_use_do_not_count() {
    let front = Some(copy(3));
    let foreign = Some(Copy {
        member: 1,
        ..copy(50)
    });
    assert_eq!(newest(all(front, foreign)), Some((3, 0)));
    // The front was written on a device of another size: an image of it was copied to this one.
    let moved = Some(Copy {
        trailer: TRAILER - 1,
        ..copy(3)
    });
    assert_eq!(newest(all(moved, Some(copy(50)))), Some((3, 0)));
    assert_eq!(copies(all(moved, Some(copy(50)))).missing(), [2, 3]);
}

#[test]
fn copies_that_name_another_place_do_not_count() {
    let of_partition = Some(Copy {
        trailer: TRAILER - 1,
        ..copy(3)
    });
    assert_eq!(newest(all(None, of_partition)), None);
}

#[test]
fn a_copy_of_another_size_at_the_front_is_superseded_by_a_newer_one_beside_it() {
    let moved = Copy {
        trailer: TRAILER - 1,
        ..copy(3)
    };
    let found = [Some(moved), Some(copy(4)), Some(copy(4)), Some(copy(4))];
    assert_eq!(newest(found), Some((4, 1)));
    assert_eq!(copies(found).missing(), []);
}

#[test]
fn an_update_goes_to_the_pair_without_the_newest_copy_first() {
    let (old, new) = (Some(copy(8)), Some(copy(9)));
    for generation in [10, 11] {
        assert_eq!(copies(all(old, new)).first_pair(generation), 0);
        assert_eq!(copies(all(new, old)).first_pair(generation), 2);
        assert_eq!(copies(all(new, None)).first_pair(generation), 2);
        assert_eq!(copies(all(None, old)).first_pair(generation), 0);
        assert_eq!(copies([None, new, old, None]).first_pair(generation), 2);
    }
    assert_eq!(copies(all(new, new)).first_pair(10), 0);
    assert_eq!(copies(all(new, new)).first_pair(11), 2);
    let foreign = Some(Copy {
        member: 1,
        ..copy(50)
    });
    assert_eq!(copies(all(new, foreign)).first_pair(10), 2);
}
