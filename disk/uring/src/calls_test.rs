//! Calls of a shared ring: each ends once, with its own result, for its own operation.

use crate::calls::What;
use crate::{Call, Calls, MadeCall, RingWatch, UringDriver};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request};

/// A limit that is longer than any operation here takes.
const LONG: Duration = Duration::from_secs(20);
/// Long enough for a thread to do what it must not do yet.
const SOON: Duration = Duration::from_millis(100);

const SIZE: u64 = 1 << 20;

struct World {
    driver: UringDriver,
    calls: Calls,
    watch: RingWatch,
    pool: BufPool,
    file: File,
    device: DeviceId,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let (driver, calls, watch) = UringDriver::shared().unwrap();
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
            calls,
            watch,
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
        self.calls.take().expect("there is a call to make")
    }

    fn make(&self) {
        self.calls.end(self.take().make());
    }

    /// Ends `call` with `result`, without making it.
    fn pretend(&self, call: Call, result: i32) {
        let slot = call.operation.slot;
        self.calls.end(MadeCall { slot, result });
    }

    /// Returns what ends within `time`, up to `count` operations. It does not wait in the driver, as a leader of the
    /// store does not: a driver that waits sees only the ring.
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
    assert_eq!(world.calls.under_way(), 1);
    let call = world.take();
    let flags = match call.operation.what {
        What::Write { flags, .. } => flags,
        What::Sync { .. } => panic!("a write"),
    };
    assert_eq!(flags, libc::RWF_DSYNC, "it is durable when it ends");
    assert!(world.calls.take().is_none(), "it is the taker's alone");
    let made = std::thread::spawn(|| call.make()).join().unwrap();
    assert_eq!(world.ended(1, Duration::ZERO), []);
    world.calls.end(made);
    assert_eq!(world.calls.under_way(), 1, "the driver does not know yet");
    assert_eq!(world.ended(1, LONG), [(1, Ok(8192))]);
    assert_eq!(world.calls.under_way(), 0);
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
    world.make();
    assert_eq!(world.ended(1, LONG), [(1, Ok(150))]);
    world.holds(10, 2, 50);
    world.holds(60, 1, 100);
}

/// Writes are short when a file system is nearly full, or after a signal.
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
        let call = world.take();
        world.file.write_all_at(&[7; 6000], 4096).unwrap();
        world.pretend(call, 6000);
        assert_eq!(world.ended(1, LONG), [(1, Ok(8192))]);
        world.holds(4096, 7, 8192);
        world.holds(4096 + 8192, 0, 4096);
        assert_eq!(world.calls.under_way(), 0);
    }
}

#[test]
fn a_write_that_moves_no_bytes_is_an_error() {
    let mut world = World::new();
    world.write(1, 4096, 7, 8192);
    let call = world.take();
    world.pretend(call, 0);
    assert_eq!(world.ended(1, LONG), [(1, Err(IoError::EIO))]);
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
        world.make();
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
    // The result of each call is known as soon as the call has ended.
    for (made, call) in calls.into_iter().enumerate() {
        world.calls.end(call.make());
        let token = [3, 1, 2, 0][made];
        assert_eq!(world.ended(1, LONG), [(token, Ok(lens[token as usize]))]);
        assert_eq!(world.calls.under_way(), 3 - made);
    }
    for (token, len) in lens.iter().enumerate() {
        world.holds(token as u64 * 8192, token as u8 + 1, *len);
    }
}

#[test]
fn only_a_lone_flush_is_a_call() {
    let mut world = World::new();
    world.submit(1, Op::Flush, 0, Data::None);
    world.make();
    assert_eq!(world.ended(1, LONG), [(1, Ok(0))]);
    world.write(2, 0, 1, 512);
    world.submit(3, Op::Flush, 0, Data::None);
    let call = world.take();
    assert!(world.calls.take().is_none());
    assert_eq!(world.ended(1, LONG), [(3, Ok(0))]);
    world.calls.end(call.make());
    assert_eq!(world.ended(1, LONG), [(2, Ok(512))]);
    // A plain write is not a call.
    let data = Data::whole(world.pool.copy_of(&[1; 512]));
    world.submit(4, Op::Write, 0, data);
    assert!(world.calls.take().is_none());
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
fn a_dropped_driver_leaves_a_call_its_descriptor() {
    let mut world = World::new();
    world.write(1, 0, 7, 4096);
    world.write(2, 4096, 8, 4096);
    let call = world.take();
    let World {
        driver,
        calls,
        file,
        dir,
        ..
    } = world;
    drop((driver, calls));
    let made = call.make();
    assert_eq!(
        made.result, 4096,
        "the descriptor was closed under the call"
    );
    let mut found = [0; 8192];
    file.read_exact_at(&mut found, 0).unwrap();
    assert_eq!(found[..4096], [7; 4096]);
    assert_eq!(found[4096..], [0; 4096], "the other call was not made");
    drop(dir);
}

#[test]
fn a_dropped_driver_cancels_the_calls_that_were_not_made() {
    let mut world = World::new();
    world.write(1, 0, 7, 4096);
    world.write(2, 4096, 8, 4096);
    world.write(3, 8192, 9, 4096);
    drop(world.take());
    let _told_too_late = world.take().make();
    let World { driver, file, .. } = world;
    drop(driver);
    let mut found = [0; 4096];
    file.read_exact_at(&mut found, 8192).unwrap();
    assert_eq!(found, [0; 4096]);
}

#[test]
fn several_interrupts_end_one_wait() {
    let world = World::new();
    let (watch, (ended, ends)) = (world.watch.clone(), mpsc::channel());
    watch.interrupt();
    watch.interrupt();
    let watcher = std::thread::spawn(move || {
        for _ in 0..2 {
            watch.wait(None);
            ended.send(()).unwrap();
        }
    });
    ends.recv_timeout(LONG).expect("it was interrupted before");
    assert!(ends.recv_timeout(SOON).is_err(), "nothing has happened");
    world.watch.interrupt();
    ends.recv_timeout(LONG).expect("it is interrupted");
    watcher.join().unwrap();
}

#[test]
fn a_wait_ends_when_the_ring_has_completed_something() {
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
    let (watch, (ended, ends)) = (world.watch.clone(), mpsc::channel());
    let watcher = std::thread::spawn(move || {
        watch.wait(None);
        ended.send(()).unwrap();
    });
    assert!(ends.recv_timeout(SOON).is_err(), "nothing has happened");
    sender.notify();
    ends.recv_timeout(LONG).expect("the ring has completed it");
    watcher.join().unwrap();
    assert_eq!(world.ended(1, LONG), [(1, Ok(8))]);
}

#[test]
fn watching_thread_submits_all_ring_entries() {
    let mut world = World::new();
    // A file in memory cannot zero a range, so the driver writes zeroes, one entry after the other.
    let memory = rustix::fs::memfd_create("zeroes", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    let file = File::from(memory);
    file.set_len(3 * SIZE).unwrap();
    world.device = world.driver.handle().add_file(file.into());
    let request = Request {
        device: world.device,
        op: Op::Zero,
        offset: 0,
        len: 3 * SIZE,
        data: Data::None,
    };
    world.driver.submit(1, request);
    let mut ended = Vec::new();
    loop {
        world.driver.wait(Some(Nanos(0)), &mut ended);
        if !ended.is_empty() {
            break;
        }
        let began = Instant::now();
        world.watch.wait(Some(LONG));
        assert!(began.elapsed() < LONG, "the kernel has the next entry");
    }
    assert_eq!(results(&ended), [(1, Ok(0))]);
}
