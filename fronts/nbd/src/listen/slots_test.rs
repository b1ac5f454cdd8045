use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::gate::Gate;
use super::slots::{GRACE, Slots};

fn socket() -> (OwnedFd, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("pair");
    (ours.into(), theirs)
}

#[test]
fn a_released_socket_is_handed_over() {
    let slots = Slots::new(1);
    let mut slot = slots.reserve().expect("a slot");
    let socket = slot.occupy(socket().0);
    assert_eq!(slots.taken(), 1);
    assert!(slot.release(socket).is_some());
    assert_eq!(slots.taken(), 0);
}

#[test]
fn a_young_handshake_keeps_its_slot() {
    let slots = Slots::new(1);
    let mut slot = slots.reserve().expect("a slot");
    let kept = slot.occupy(socket().0);
    let start = Instant::now();
    let waiter = thread::spawn({
        let slots = slots.clone();
        move || slots.reserve().is_some()
    });
    thread::sleep(GRACE / 4);
    assert!(slot.release(kept).is_some(), "not cut");
    assert!(waiter.join().expect("waiter"));
    assert!(start.elapsed() < GRACE, "a free slot is taken at once");
}

#[test]
fn a_cut_handshake_is_not_handed_over() {
    let slots = Slots::new(1);
    let mut slot = slots.reserve().expect("a slot");
    let socket = slot.occupy(socket().0);
    let waiter = thread::spawn({
        let slots = slots.clone();
        move || slots.reserve().is_some()
    });
    thread::sleep(GRACE + Duration::from_millis(300));
    assert!(slot.release(socket).is_none());
    assert!(waiter.join().expect("waiter"));
}

#[test]
fn a_stopped_set_gives_no_slots() {
    let slots = Slots::new(1);
    slots.stop();
    assert!(slots.reserve().is_none());
}

#[test]
fn a_shared_guard_counts_once() {
    let gate = Gate::new(1);
    let guard = gate.enter().expect("room");
    assert!(gate.enter().is_none());
    let shared = guard.share();
    drop(guard);
    assert_eq!(gate.open(), 1);
    assert!(!gate.wait_empty(Duration::ZERO));
    drop(shared);
    assert_eq!(gate.open(), 0);
    assert!(gate.wait_empty(Duration::ZERO));
}
