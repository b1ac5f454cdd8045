use super::*;

/// The state of all locks, by what a third handle could take.
fn free(shm: &mut Shm) -> Vec<(bool, bool)> {
    (0..SHM_LOCKS)
        .map(|index| {
            let mut other = ShmHandle::default();
            let mut takes = |shared| {
                let taken = shm.lock(&mut other, index, 1, shared).is_ok();
                shm.unlock(&mut other, index, 1);
                taken
            };
            (takes(true), takes(false))
        })
        .collect()
}

/// Each kind of request for a range of which one lock is held by another handle in a way that refuses it: the first, a middle or
/// the last one.
#[test]
fn a_refused_range_of_locks_leaves_none_of_them_taken() {
    for held in 1..4 {
        for (held_shared, shared) in [(false, true), (false, false), (true, false)] {
            let mut shm = Shm::default();
            let (mut one, mut other) = (shm.attach(), shm.attach());
            shm.lock(&mut other, held, 1, held_shared).unwrap();
            let before = free(&mut shm);
            assert!(shm.lock(&mut one, 1, 3, shared).is_err());
            assert_eq!(free(&mut shm), before, "lock {held} is held");
            // What the refused handle had before, it still has.
            shm.lock(&mut one, 5, 2, true).unwrap();
            assert!(shm.lock(&mut one, 1, 3, shared).is_err());
            shm.unlock(&mut other, held, 1);
            assert_eq!(free(&mut shm)[5..7], [(true, false); 2]);
            shm.lock(&mut one, 1, 3, shared).unwrap();
            assert_eq!(free(&mut shm)[1..4], [(shared, false); 3]);
        }
    }
}

#[test]
fn detached_handle_releases_exactly_its_locks() {
    let mut shm = Shm::default();
    let (mut one, mut other) = (shm.attach(), shm.attach());
    shm.lock(&mut one, 0, 3, true).unwrap();
    // A second time counts once.
    shm.lock(&mut one, 1, 1, true).unwrap();
    shm.lock(&mut one, 5, 2, false).unwrap();
    shm.lock(&mut other, 2, 2, true).unwrap();
    shm.detach(&mut one);
    let mut expected = [(true, true); SHM_LOCKS];
    expected[2..4].fill((true, false));
    assert_eq!(free(&mut shm), expected);
    // An index that another handle still has mapped keeps its content.
    assert!(!shm.map(0, 8, true).unwrap().is_null());
    let mut third = shm.attach();
    shm.detach(&mut third);
    assert!(!shm.map(0, 8, false).unwrap().is_null());
    shm.detach(&mut other);
    assert!(shm.map(0, 8, false).unwrap().is_null());
}
