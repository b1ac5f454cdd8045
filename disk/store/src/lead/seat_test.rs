//! Who is called: one who can come.

use super::{Seat, next};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

fn is(found: Option<&Arc<Seat>>, expected: &Arc<Seat>) -> bool {
    found.is_some_and(|found| Arc::ptr_eq(found, expected))
}

#[test]
fn who_rests_is_called_before_who_is_busy_or_new_and_nobody_calls_itself() {
    let seats: Vec<Arc<Seat>> = (0..5).map(|_| Arc::default()).collect();
    let [own, done, busy, new, rests] = &seats[..] else {
        unreachable!("five seats")
    };
    for seat in [own, done, busy, rests] {
        seat.begin();
    }
    done.end();
    assert!(next(&seats[..2], Some(own)).is_none());
    assert!(is(next(&seats[..2], None).as_ref(), own));
    assert!(
        is(next(&seats, Some(own)).as_ref(), busy),
        "nobody rests yet"
    );
    let sleepers: Vec<_> = [new, rests]
        .map(|seat| {
            let seat = seat.clone();
            thread::spawn(move || seat.wait())
        })
        .into();
    while !(new.rests() && rests.rests()) {
        thread::sleep(Duration::from_millis(1));
    }
    assert!(is(next(&seats, Some(own)).as_ref(), rests));
    assert!(is(next(&seats[..4], Some(own)).as_ref(), busy));
    new.call();
    rests.call();
    sleepers
        .into_iter()
        .for_each(|sleeper| sleeper.join().unwrap());
    assert!(!new.rests() && !rests.rests());
}
