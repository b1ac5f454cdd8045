use super::{Locks, WrongStep};
use crate::files::Level::{self, Exclusive, None, Pending, Reserved, Shared};

const FILE: u64 = 5;

fn holder(number: u64) -> (u64, u64) {
    (number / 10, number % 10)
}

fn lock(locks: &mut Locks, number: u64, level: Level) -> bool {
    locks.lock(FILE, holder(number), level).unwrap()
}

#[test]
fn readers_share_and_one_may_reserve() {
    let mut locks = Locks::default();
    assert!(lock(&mut locks, 1, Shared) && lock(&mut locks, 2, Shared));
    assert!(lock(&mut locks, 1, Reserved));
    assert!(!lock(&mut locks, 2, Reserved));
    assert!(lock(&mut locks, 3, Shared), "reserved lets readers in");
    assert!(locks.reserved(FILE) && !locks.reserved(FILE + 1));
}

#[test]
fn pending_keeps_new_readers_out_until_the_old_ones_have_gone() {
    let mut locks = Locks::default();
    assert!(lock(&mut locks, 1, Shared) && lock(&mut locks, 2, Shared));
    assert!(lock(&mut locks, 1, Reserved));
    assert!(!lock(&mut locks, 1, Exclusive));
    assert_eq!(locks.level(FILE, holder(1)), Pending);
    assert!(!lock(&mut locks, 3, Shared));
    assert!(!lock(&mut locks, 2, Exclusive));
    locks.unlock(FILE, holder(2), None).unwrap();
    assert!(lock(&mut locks, 1, Exclusive));
    assert!(!lock(&mut locks, 2, Shared));
    locks.unlock(FILE, holder(1), Shared).unwrap();
    assert!(lock(&mut locks, 2, Shared) && !locks.reserved(FILE));
}

#[test]
fn a_hot_journal_is_rolled_back_from_shared() {
    let mut locks = Locks::default();
    assert!(lock(&mut locks, 1, Shared));
    assert!(lock(&mut locks, 1, Exclusive));
    assert!(!lock(&mut locks, 2, Shared));
}

#[test]
fn the_end_of_a_session_takes_its_locks_alone() {
    let mut locks = Locks::default();
    assert!(lock(&mut locks, 11, Shared) && lock(&mut locks, 12, Shared));
    assert!(lock(&mut locks, 21, Shared) && lock(&mut locks, 11, Reserved));
    locks.release(1);
    assert!(!locks.reserved(FILE));
    assert_eq!(locks.level(FILE, holder(21)), Shared);
    assert!(lock(&mut locks, 21, Exclusive));
}

#[test]
fn steps_that_the_rules_do_not_have_are_refused() {
    let mut locks = Locks::default();
    for (to, from) in [(Reserved, None), (Exclusive, None), (Pending, None)] {
        assert_eq!(locks.lock(FILE, holder(1), to), Err(WrongStep { from, to }));
    }
    assert!(lock(&mut locks, 1, Shared));
    let step = locks.lock(FILE, holder(1), Pending);
    assert_eq!(
        step,
        Err(WrongStep {
            from: Shared,
            to: Pending
        })
    );
    assert!(locks.unlock(FILE, holder(1), Reserved).is_err());
    assert!(locks.unlock(FILE, holder(1), Shared).is_ok());
}

/// Random steps of five handles on two files: after each the rules of the levels hold.
#[test]
fn the_rules_hold_after_any_steps() {
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let mut locks = Locks::default();
    let levels = [None, Shared, Reserved, Exclusive];
    for _ in 0..100_000 {
        let (file, number) = (random.next_u64() % 2, random.next_u64() % 5);
        let level = levels[(random.next_u32() % 4) as usize];
        if random.next_u32() % 2 == 0 {
            let before = locks.level(file, holder(number));
            if let Ok(granted) = locks.lock(file, holder(number), level) {
                let now = locks.level(file, holder(number));
                assert!(now >= before && granted == (now >= level));
            }
        } else {
            let _ = locks.unlock(file, holder(number), level);
        }
        for file in 0..2 {
            let held: Vec<Level> = (0..5).map(|of| locks.level(file, holder(of))).collect();
            let count = |least| held.iter().filter(|level| **level >= least).count();
            assert!(count(Reserved) <= 1, "{held:?}");
            assert!(count(Exclusive) == 0 || count(Shared) == 1, "{held:?}");
        }
    }
}
