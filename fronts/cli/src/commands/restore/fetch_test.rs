use super::*;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

#[test]
fn memory_of_payloads_is_bounded_and_given_in_their_order() {
    let budget = Arc::new(Budget::new(100));
    let first = budget.take(0, 60).expect("nobody has any");
    let (sender, taken) = channel();
    for (turn, bytes) in [(2, 10), (1, 1 << 40)] {
        let (budget, sender) = (budget.clone(), sender.clone());
        std::thread::spawn(move || {
            let share = budget.take(turn, bytes);
            sender.send((turn, share)).expect("the test waits");
        });
    }
    // A small one after does not pass the large one, which waits until it is alone.
    let none = taken.recv_timeout(Duration::from_millis(50));
    assert_eq!(none.err(), Some(RecvTimeoutError::Timeout));
    drop(first);
    let (turn, large) = taken.recv().expect("the first one is over");
    assert_eq!(turn, 1);
    assert_eq!(taken.try_recv().map(|(turn, _)| turn).ok(), None);
    drop(large);
    assert_eq!(taken.recv().map(|(turn, _)| turn), Ok(2));
}

#[test]
fn end_of_a_restore_ends_those_that_wait_for_memory() {
    let budget = Arc::new(Budget::new(100));
    let first = budget.take(0, 100);
    let own = budget.clone();
    let waiting = std::thread::spawn(move || own.take(1, 1).is_none());
    drop(AtEnd(budget));
    assert!(waiting.join().expect("no panic"));
    drop(first);
}
