//! What threads make aside a shared ring: every call ends once, with its own result, for its own operation.

use crate::aside::What;
use crate::{Aside, Call, UringDriver};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request};

/// A limit that is longer than any operation here takes.
const LONG: Duration = Duration::from_secs(20);
/// Long enough for a thread that does what it must not do yet.
const SOON: Duration = Duration::from_millis(100);

const SIZE: u64 = 1 << 20;

struct World {
    driver: UringDriver,
    aside: Aside,
    pool: BufPool,
    file: File,
    device: DeviceId,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let (driver, aside) = UringDriver::shared().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(dir.path().join("file"))
            .unwrap();
        file.set_len(SIZE).unwrap();
        let device = driver.handle().add_file(file.try_clone().unwrap().into());
        Self {
            driver,
            aside,
            pool: BufPool::new(0),
            file,
            device,
            dir,
        }
    }

    fn submit(&mut self, token: u64, op: Op, offset: u64, data: Data) {
        let request = Request {
            device: self.device,
            op,
            offset,
            len: 0,
            data,
        };
        self.driver.submit(token, request);
    }

    /// A durable write of `len` bytes `byte`.
    fn write(&mut self, token: u64, offset: u64, byte: u8, len: usize) {
        let data = Data::whole(self.pool.copy_of(&vec![byte; len]));
        self.submit(token, Op::WriteDurable, offset, data);
    }

    fn take(&self) -> Call {
        self.aside.take().expect("there is a call to make")
    }

    /// What ends within `time`, up to `count` operations. It is asked for without waiting, as a leader of the store
    /// does: a driver that waits sees the ring alone.
    fn ended(&mut self, count: usize, time: Duration) -> Vec<(u64, Result<usize, IoError>)> {
        let mut ended: Vec<Completion> = Vec::new();
        let began = Instant::now();
        loop {
            self.driver.wait(Some(Nanos(0)), &mut ended);
            if ended.len() >= count || began.elapsed() > time {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        results(&ended)
    }

    fn holds(&self, offset: u64, byte: u8, len: usize) {
        let mut found = vec![0; len];
        self.file.read_exact_at(&mut found, offset).unwrap();
        assert!(found.iter().all(|one| *one == byte), "at {offset}");
    }
}

/// By token.
fn results(ended: &[Completion]) -> Vec<(u64, Result<usize, IoError>)> {
    let mut ended: Vec<_> = ended.iter().map(|one| (one.token, one.result)).collect();
    ended.sort_by_key(|(token, _)| *token);
    ended
}

#[test]
fn a_call_is_made_by_another_thread() {
    let mut world = World::new();
    world.write(1, 4096, 7, 8192);
    assert!(world.aside.has_calls() && !world.aside.is_calling());
    assert_eq!(world.aside.calls(), 1);
    let call = world.take();
    let flags = match call.ready.what {
        What::Write { flags, .. } => flags,
        What::Sync { .. } => panic!("a write"),
    };
    assert_eq!(flags, libc::RWF_DSYNC, "it is durable when it ends");
    assert!(world.aside.is_calling() && !world.aside.has_calls());
    assert!(world.aside.take().is_none(), "it is the taker's alone");
    std::thread::spawn(|| call.make()).join().unwrap();
    assert!(!world.aside.is_calling());
    assert_eq!(world.aside.calls(), 1, "the driver does not know yet");
    assert_eq!(world.ended(1, LONG), [(1, Ok(8192))]);
    assert_eq!(world.aside.calls(), 0);
    world.holds(4096, 7, 8192);
    world.holds(0, 0, 4096);
    world.holds(12288, 0, 4096);
}

#[test]
fn a_call_writes_all_slices_in_order() {
    let mut world = World::new();
    let whole = world.pool.copy_of(&[vec![1; 100], vec![2; 50]].concat());
    let whole = whole.share();
    let slices = vec![whole.slice(100..150), whole.slice(0..100)];
    world.submit(1, Op::WriteDurable, 10, Data::Slices(slices));
    world.take().make();
    assert_eq!(world.ended(1, LONG), [(1, Ok(150))]);
    world.holds(10, 2, 50);
    world.holds(60, 1, 100);
}

/// As for a file system that is nearly full, or a signal.
#[test]
fn the_rest_of_a_short_write_is_written() {
    for slices in [false, true] {
        let mut world = World::new();
        if slices {
            let whole = world.pool.copy_of(&[7; 8192]).share();
            let parts = vec![whole.slice(0..5000), whole.slice(5000..8192)];
            world.submit(1, Op::WriteDurable, 4096, Data::Slices(parts));
        } else {
            world.write(1, 4096, 7, 8192);
        }
        let mut call = world.take();
        world.file.write_all_at(&[7; 6000], 4096).unwrap();
        call.result = 6000;
        drop(call);
        assert_eq!(world.ended(1, LONG), [(1, Ok(8192))]);
        world.holds(4096, 7, 8192);
        world.holds(4096 + 8192, 0, 4096);
        assert_eq!(world.aside.calls(), 0);
    }
}

#[test]
fn a_write_of_nothing_is_an_error() {
    let mut world = World::new();
    world.write(1, 4096, 7, 8192);
    let mut call = world.take();
    call.result = 0;
    drop(call);
    assert_eq!(world.ended(1, LONG), [(1, Err(IoError::EIO))]);
}

#[test]
fn a_call_that_is_dropped_goes_through_the_ring() {
    let mut world = World::new();
    world.write(1, 0, 7, 4096);
    drop(world.take());
    assert!(!world.aside.is_calling());
    assert_eq!(world.ended(1, LONG), [(1, Ok(4096))]);
    world.holds(0, 7, 4096);
    // So does one whose maker panics.
    world.write(2, 4096, 8, 4096);
    let call = world.take();
    let maker = std::thread::spawn(move || {
        let _call = call;
        std::panic::resume_unwind(Box::new(()));
    });
    assert!(maker.join().is_err());
    assert_eq!(world.ended(1, LONG), [(2, Ok(4096))]);
    world.holds(4096, 8, 4096);
    assert_eq!(world.aside.calls(), 0);
}

#[test]
fn the_error_of_a_call_is_that_of_its_operation() {
    let mut world = World::new();
    let only_read = File::open(world.dir.path().join("file")).unwrap();
    let writable = world.device;
    world.write(1, 0, 1, 4096);
    world.device = world.driver.handle().add_file(only_read.into());
    world.write(2, 4096, 2, 4096);
    world.device = writable;
    world.write(3, 8192, 3, 4096);
    for _ in 0..3 {
        world.take().make();
    }
    let errno = libc::EBADF;
    assert_eq!(
        world.ended(3, LONG),
        [(1, Ok(4096)), (2, Err(IoError { errno })), (3, Ok(4096))]
    );
    world.holds(4096, 0, 4096);
}

#[test]
fn calls_may_end_in_any_order() {
    let mut world = World::new();
    let lens = [4096, 512, 8192, 1024];
    for (token, len) in lens.iter().enumerate() {
        let offset = token as u64 * 8192;
        world.write(token as u64, offset, token as u8 + 1, *len);
    }
    let mut calls: Vec<_> = (0..4).map(|_| world.take()).collect();
    calls.swap(0, 3);
    // Each is known as soon as it has ended, whatever the others do.
    for (made, call) in calls.into_iter().enumerate() {
        call.make();
        let token = [3, 1, 2, 0][made];
        assert_eq!(world.ended(1, LONG), [(token, Ok(lens[token as usize]))]);
        assert_eq!(world.aside.calls(), 3 - made);
    }
    for (token, len) in lens.iter().enumerate() {
        world.holds(token as u64 * 8192, token as u8 + 1, *len);
    }
}

#[test]
fn a_lone_flush_is_a_call_and_one_beside_others_is_not() {
    let mut world = World::new();
    world.submit(1, Op::Flush, 0, Data::None);
    assert!(world.aside.has_calls());
    world.take().make();
    assert_eq!(world.ended(1, LONG), [(1, Ok(0))]);
    world.write(2, 0, 1, 512);
    world.submit(3, Op::Flush, 0, Data::None);
    let call = world.take();
    assert!(!world.aside.has_calls());
    assert_eq!(world.ended(1, LONG), [(3, Ok(0))]);
    call.make();
    assert_eq!(world.ended(1, LONG), [(2, Ok(512))]);
    // A plain write is not a call.
    let data = Data::whole(world.pool.copy_of(&[1; 512]));
    world.submit(4, Op::Write, 0, data);
    assert!(!world.aside.has_calls());
    assert_eq!(world.ended(1, LONG), [(4, Ok(512))]);
}

#[test]
fn a_driver_that_waits_makes_the_calls_itself() {
    let mut world = World::new();
    for token in 0..5 {
        world.write(token, token * 4096, token as u8, 4096);
    }
    let (all, mut ended) = ((0..5).map(|token| (token, Ok(4096))), Vec::new());
    while ended.len() < 5 {
        world.driver.wait(None, &mut ended);
    }
    assert_eq!(results(&ended), all.collect::<Vec<_>>());
    for token in 0..5 {
        world.holds(token * 4096, token as u8, 4096);
    }
}

#[test]
fn a_dropped_driver_waits_for_a_call_that_a_thread_makes() {
    let mut world = World::new();
    world.write(1, 0, 7, 4096);
    world.write(2, 4096, 8, 4096);
    let call = world.take();
    let made = Arc::new(AtomicBool::new(false));
    let maker = std::thread::spawn({
        let made = made.clone();
        move || {
            std::thread::sleep(SOON);
            made.store(true, SeqCst);
            call.make();
        }
    });
    let World {
        driver, file, dir, ..
    } = world;
    drop(driver);
    assert!(made.load(SeqCst), "the memory is gone under the call");
    maker.join().unwrap();
    let mut found = [0; 4096];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found, [7; 4096]);
    drop(dir);
}

#[test]
fn the_bell_ends_one_watch_however_often_it_is_rung() {
    let world = World::new();
    let (aside, (ended, ends)) = (world.aside.clone(), mpsc::channel());
    aside.ring_bell();
    aside.ring_bell();
    let watcher = std::thread::spawn(move || {
        for _ in 0..2 {
            aside.watch(None);
            ended.send(()).unwrap();
        }
    });
    ends.recv_timeout(LONG).expect("it was rung before");
    assert!(ends.recv_timeout(SOON).is_err(), "nothing has happened");
    world.aside.ring_bell();
    ends.recv_timeout(LONG).expect("it is rung meanwhile");
    watcher.join().unwrap();
}

#[test]
fn a_watch_ends_when_the_ring_has_completed_something() {
    let mut world = World::new();
    let (event, sender) = world.driver.handle().add_event().unwrap();
    let request = Request {
        device: event,
        op: Op::Recv,
        offset: 0,
        len: 0,
        data: Data::whole(world.pool.alloc(8)),
    };
    world.driver.submit(1, request);
    assert_eq!(world.ended(1, Duration::ZERO), [], "it is in the ring");
    let (aside, (ended, ends)) = (world.aside.clone(), mpsc::channel());
    let watcher = std::thread::spawn(move || {
        aside.watch(None);
        ended.send(()).unwrap();
    });
    assert!(ends.recv_timeout(SOON).is_err(), "nothing has happened");
    sender.notify();
    ends.recv_timeout(LONG).expect("the ring has completed it");
    watcher.join().unwrap();
    assert_eq!(world.ended(1, LONG), [(1, Ok(8))]);
}
