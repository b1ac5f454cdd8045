use crate::{UringDriver, UringHandle};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use tonearm_base::{Buf, BufPool, Nanos};
use tonearm_rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request, Rt, SLICES_MAX};

struct World {
    rt: Rt,
    handle: UringHandle,
    pool: BufPool,
    file: DeviceId,
    _dir: tempfile::TempDir,
}

const SIZE: u64 = 8 << 20;

/// An executor over a ring, with one file of `SIZE` zero bytes.
fn world() -> World {
    let driver = UringDriver::new().unwrap();
    let handle = driver.handle();
    let dir = tempfile::tempdir().unwrap();
    let file = handle.add_file(zero_file(&dir).into());
    World {
        rt: Rt::new(Box::new(driver)),
        handle,
        pool: BufPool::new(1 << 20),
        file,
        _dir: dir,
    }
}

fn zero_file(dir: &tempfile::TempDir) -> File {
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(dir.path().join("file"))
        .unwrap();
    file.set_len(SIZE).unwrap();
    file
}

fn request(device: DeviceId, op: Op, offset: u64, len: u64, data: Data) -> Request {
    Request {
        device,
        op,
        offset,
        len,
        data,
    }
}

impl World {
    fn run<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> T {
        self.rt.block_on(future)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> (Result<usize, IoError>, Data) {
        self.run(self.rt.io(request(self.file, op, offset, len, data)))
    }

    fn write(&self, offset: u64, bytes: &[u8]) {
        let data = Data::whole(self.pool.copy_of(bytes));
        assert_eq!(self.io(Op::Write, offset, 0, data).0, Ok(bytes.len()));
    }

    fn read(&self, offset: u64, len: usize) -> Buf {
        let (result, data) = self.io(Op::Read, offset, 0, Data::whole(self.pool.alloc(len)));
        assert_eq!(result, Ok(len));
        data.into_buf()
    }

    fn stream(&self) -> (DeviceId, UnixStream) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        (self.handle.add_stream(OwnedFd::from(near)), far)
    }
}

#[test]
fn refused_ring_of_a_new_kernel_is_forbidden_and_not_too_old() {
    use crate::driver::{UringError, refusal};
    let refused = |errno, release| refusal(std::io::Error::from_raw_os_error(errno), release);
    for release in ["6.8.0-45-generic", "5.11.0", "5.15-rc1"] {
        assert!(
            matches!(refused(libc::ENOSYS, release), UringError::Forbidden),
            "{release}"
        );
        assert!(
            matches!(refused(libc::EINVAL, release), UringError::Setup(_)),
            "{release}"
        );
    }
    for release in ["5.10.0-30-amd64", "4.19.0", "odd"] {
        assert!(
            matches!(refused(libc::ENOSYS, release), UringError::TooOld),
            "{release}"
        );
        assert!(
            matches!(refused(libc::EINVAL, release), UringError::TooOld),
            "{release}"
        );
    }
    assert!(matches!(
        refused(libc::EPERM, "4.19.0"),
        UringError::Forbidden
    ));
    assert!(matches!(
        refused(libc::ENOMEM, "6.8.0"),
        UringError::Setup(_)
    ));
}

#[test]
fn a_read_returns_the_written_bytes() {
    let world = world();
    let bytes: Vec<u8> = (0..100_000u32).map(|i| (i % 251) as u8).collect();
    world.write(4096, &bytes);
    assert_eq!(&world.read(4096, bytes.len())[..], &bytes[..]);
    let data = Data::Buf(world.pool.copy_of(&bytes), 10..20);
    assert_eq!(world.io(Op::WriteDurable, 0, 0, data).0, Ok(10));
    assert_eq!(&world.read(0, 10)[..], &bytes[10..20]);
    assert_eq!(world.io(Op::Flush, 0, 0, Data::None).0, Ok(0));
}

#[test]
fn slices_are_written_in_order_as_one_operation() {
    let world = world();
    let bytes: Vec<u8> = (0..SLICES_MAX as u32 * 100)
        .map(|i| (i % 249) as u8)
        .collect();
    let whole = world.pool.copy_of(&bytes).share();
    let parts: Vec<_> = (0..SLICES_MAX)
        .map(|i| whole.slice(i * 100..(i + 1) * 100))
        .collect();
    let mut too_many = parts.clone();
    too_many.push(whole.slice(0..1));
    let (result, _) = world.io(Op::Write, 0, 0, Data::Slices(parts));
    assert_eq!(result, Ok(bytes.len()));
    assert_eq!(&world.read(0, bytes.len())[..], &bytes[..]);
    let (result, _) = world.io(Op::Write, 0, 0, Data::Slices(too_many));
    assert_eq!(result, Err(IoError::EINVAL));
    let one = Data::Slices(vec![whole.slice(7..9)]);
    assert_eq!(world.io(Op::WriteDurable, 500, 0, one).0, Ok(2));
    assert_eq!(&world.read(500, 2)[..], &bytes[7..9]);
}

#[test]
fn a_read_beyond_the_end_of_the_file_fails() {
    let world = world();
    for offset in [SIZE - 100, SIZE, SIZE + 4096] {
        let data = Data::whole(world.pool.alloc(4096));
        assert_eq!(world.io(Op::Read, offset, 0, data).0, Err(IoError::EIO));
    }
}

#[test]
fn punch_and_zero_read_as_zeroes_on_disk_and_in_ram() {
    let world = world();
    let mut files = vec![world.file];
    // A memfd, like tmpfs, can punch but not zero a range, so the driver writes zeroes.
    let memory = rustix::fs::memfd_create("zeroes", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
    rustix::fs::ftruncate(&memory, SIZE).unwrap();
    files.push(world.handle.add_file(memory));
    for file in files {
        for op in [Op::Punch, Op::Zero, Op::Zero] {
            let ones = world.pool.copy_of(&vec![1; SIZE as usize]);
            let write = world
                .rt
                .io(request(file, Op::Write, 0, 0, Data::whole(ones)));
            world.run(write.done()).unwrap();
            let len = SIZE - 8192;
            let zeroed = world.rt.io(request(file, op, 4096, len, Data::None));
            assert_eq!(world.run(zeroed).0, Ok(0), "{op:?}");
            let all = Data::whole(world.pool.alloc(SIZE as usize));
            let all = world.rt.io(request(file, Op::Read, 0, 0, all));
            let (result, all) = world.run(all);
            assert_eq!(result, Ok(SIZE as usize));
            let all = all.into_buf();
            let (from, to) = (4096, SIZE as usize - 4096);
            assert!(all[..from].iter().chain(&all[to..]).all(|byte| *byte == 1));
            assert!(all[from..to].iter().all(|byte| *byte == 0));
        }
    }
}

#[test]
fn operations_of_no_bytes_end_at_once() {
    let world = world();
    let empty = || Data::whole(world.pool.alloc(0));
    assert_eq!(world.io(Op::Read, SIZE, 0, empty()).0, Ok(0));
    assert_eq!(world.io(Op::Write, 0, 0, empty()).0, Ok(0));
    assert_eq!(world.io(Op::Punch, 0, 0, Data::None).0, Ok(0));
}

#[test]
fn an_operation_that_the_descriptor_lacks_is_refused() {
    let world = world();
    let (stream, _far) = world.stream();
    let buf = || Data::whole(world.pool.alloc(1));
    assert_eq!(world.io(Op::Recv, 0, 0, buf()).0, Err(IoError::EINVAL));
    let read = world.rt.io(request(stream, Op::Read, 0, 0, buf()));
    assert_eq!(world.run(read).0, Err(IoError::EINVAL));
    let nobody = request(DeviceId(99), Op::Flush, 0, 0, Data::None);
    let errno = libc::EBADF;
    assert_eq!(world.run(world.rt.io(nobody)).0, Err(IoError { errno }));
}

#[test]
fn far_more_operations_than_ring_entries_all_end() {
    let world = world();
    let writes: Vec<_> = (0..20_000u64)
        .map(|i| {
            let data = Data::whole(world.pool.copy_of(&i.to_le_bytes()));
            let offset = i % (SIZE / 8) * 8;
            world.rt.io(request(world.file, Op::Write, offset, 0, data))
        })
        .collect();
    world.run(async {
        for write in writes {
            assert_eq!(write.await.0, Ok(8));
        }
    });
    let all = world.read(0, 160_000);
    for (i, word) in all.chunks(8).enumerate() {
        assert_eq!(word, (i as u64).to_le_bytes());
    }
}

#[test]
fn a_stream_carries_more_than_its_buffers_hold() {
    let world = world();
    let (stream, mut far) = world.stream();
    let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i % 253) as u8).collect();
    let whole = world.pool.copy_of(&bytes).share();
    let echo = std::thread::spawn(move || {
        let mut received = vec![0; 10_000_000];
        far.read_exact(&mut received).unwrap();
        far.write_all(&received[5_000_000..]).unwrap();
        received
    });
    let parts = (0..50)
        .map(|i| whole.slice(i * 100_000..(i + 1) * 100_000))
        .collect();
    let send = world.rt.stream(stream, Op::Send, Data::Slices(parts));
    assert_eq!(world.run(send).0, Ok(5_000_000));
    let one = Data::Slices(vec![whole.clone()]);
    let send = world.rt.stream(stream, Op::Send, one);
    let all = Data::whole(world.pool.alloc(5_000_000));
    let receive = world.rt.stream(stream, Op::RecvAll, all);
    assert_eq!(world.run(send).0, Ok(5_000_000));
    let (result, data) = world.run(receive);
    assert_eq!(result, Ok(5_000_000));
    assert_eq!(&data.into_buf()[..], &bytes[..]);
    assert!(
        echo.join()
            .unwrap()
            .chunks(5_000_000)
            .all(|part| part == bytes)
    );
}

#[test]
fn end_of_stream_is_a_short_then_an_empty_receive() {
    let world = world();
    let (stream, mut far) = world.stream();
    far.write_all(b"seven b").unwrap();
    drop(far);
    let buf = || Data::whole(world.pool.alloc(100));
    let all = world.rt.stream(stream, Op::RecvAll, buf());
    assert_eq!(world.run(all).0, Ok(7));
    let more = world.rt.stream(stream, Op::Recv, buf());
    assert_eq!(world.run(more).0, Ok(0));
    let send = world.rt.stream(stream, Op::Send, buf());
    let errno = libc::EPIPE;
    assert_eq!(world.run(send).0, Err(IoError { errno }));
}

#[test]
fn close_ends_pending_operations_and_then_itself() {
    let world = world();
    let (stream, mut far) = world.stream();
    let (event, _sender) = world.handle.add_event().unwrap();
    let buf = || Data::whole(world.pool.alloc(8));
    let receive = world.rt.stream(stream, Op::Recv, buf());
    let wait = world.rt.stream(event, Op::Recv, buf());
    let rt = world.rt.clone();
    world.run(async move { rt.sleep(Nanos::from_millis(5)).await });
    let closes = [stream, event].map(|id| world.rt.stream(id, Op::Close, Data::None));
    let after = world.rt.stream(stream, Op::Recv, buf());
    assert_eq!(world.run(receive).0, Ok(0));
    let cancelled = libc::ECANCELED;
    assert_eq!(world.run(wait).0, Err(IoError { errno: cancelled }));
    for close in closes {
        assert_eq!(world.run(close).0, Ok(0));
    }
    let bad = libc::EBADF;
    assert_eq!(world.run(after).0, Err(IoError { errno: bad }));
    assert_eq!(far.read(&mut [0; 8]).unwrap(), 0, "the peer sees the end");
    let close = world.rt.stream(stream, Op::Close, Data::None);
    assert_eq!(world.run(close).0, Err(IoError { errno: bad }));
}

#[test]
fn an_event_raised_on_another_thread_ends_a_receive() {
    let world = world();
    let (event, sender) = world.handle.add_event().unwrap();
    for _ in 0..100 {
        let data = Data::whole(world.pool.alloc(8));
        let receive = world.rt.stream(event, Op::Recv, data);
        let raiser = sender.clone();
        let other = std::thread::spawn(move || {
            raiser.notify();
            raiser.notify();
        });
        assert_eq!(world.run(receive).0, Ok(8));
        other.join().unwrap();
        // The second raise may have come after the receive.
        sender.notify();
        let data = Data::whole(world.pool.alloc(8));
        let receive = world.rt.stream(event, Op::Recv, data);
        assert_eq!(world.run(receive).0, Ok(8));
    }
}

/// An event that another process has made, which does not block.
fn foreign() -> (OwnedFd, File) {
    let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
    let event = rustix::event::eventfd(0, flags).unwrap();
    let raiser = File::from(event.try_clone().unwrap());
    (event, raiser)
}

#[test]
fn an_event_of_another_process_ends_a_receive() {
    let world = world();
    let (event, mut raiser) = foreign();
    let mut thief = raiser.try_clone().unwrap();
    let event = world.handle.add_foreign_event(event);
    for round in 0..100u64 {
        let data = Data::whole(world.pool.alloc(8));
        let receive = world.rt.stream(event, Op::Recv, data);
        if round % 3 == 0 {
            // The raise comes while the receive waits.
            let rt = world.rt.clone();
            world.run(async move { rt.sleep(Nanos::from_millis(1)).await });
        }
        raiser.write_all(&[1; 8]).unwrap();
        if round % 4 == 0 && thief.read(&mut [0; 8]).is_ok() {
            raiser.write_all(&[1; 8]).unwrap();
        }
        assert_eq!(world.run(receive).0, Ok(8));
    }
    let data = || Data::whole(world.pool.alloc(8));
    let wait = world.rt.stream(event, Op::Recv, data());
    let rt = world.rt.clone();
    world.run(async move { rt.sleep(Nanos::from_millis(5)).await });
    let close = world.rt.stream(event, Op::Close, Data::None);
    let errno = libc::ECANCELED;
    assert_eq!(world.run(wait).0, Err(IoError { errno }));
    assert_eq!(world.run(close).0, Ok(0));
    // The end of the ring ends a receive that waits.
    let event = world.handle.add_foreign_event(foreign().0);
    let waiting = world.rt.stream(event, Op::Recv, data());
    let rt = world.rt.clone();
    world.run(async move { rt.sleep(Nanos::from_millis(5)).await });
    drop((waiting, world));
}

#[test]
fn wait_returns_at_its_deadline() {
    let mut driver = UringDriver::new().unwrap();
    let mut completions: Vec<Completion> = Vec::new();
    driver.wait(None, &mut completions);
    for pending in [false, true] {
        let (event, _sender) = driver.handle().add_event().unwrap();
        if pending {
            let data = Data::whole(BufPool::new(0).alloc(8));
            driver.submit(1, request(event, Op::Recv, 0, 0, data));
        }
        let start = driver.now();
        driver.wait(Some(start + 20_000_000), &mut completions);
        let waited = driver.now().since(start);
        assert!(waited >= Nanos::from_millis(20), "{waited:?}");
        assert!(waited < Nanos::from_millis(2000), "{waited:?}");
        driver.wait(Some(start), &mut completions);
    }
    assert!(completions.is_empty());
}

/// Only the kernel knows that a pipe cannot be flushed.
#[test]
fn a_flush_that_the_kernel_refuses_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = UringDriver::new().unwrap();
    let file = driver.handle().add_file(zero_file(&dir).into());
    let (end, _other) = std::io::pipe().unwrap();
    let pipe = driver.handle().add_file(end.into());
    let data = Data::whole(BufPool::new(0).copy_of(&[7; 4096]));
    let mut ended = Vec::new();
    for (token, device, op, data) in [
        (1, pipe, Op::Flush, Data::None),
        // Next to a write, the flush goes through the ring.
        (2, file, Op::Write, data),
        (3, pipe, Op::Flush, Data::None),
    ] {
        driver.submit(token, request(device, op, 0, 0, data));
    }
    while ended.len() < 3 {
        driver.wait(None, &mut ended);
    }
    ended.sort_by_key(|end| end.token);
    let results: Vec<_> = ended.iter().map(|end| end.result).collect();
    let refused = Err(IoError::EINVAL);
    assert_eq!(results, [refused, Ok(4096), refused]);
}

/// A flush that is alone blocks the thread, on a slow drive for long.
#[test]
fn queued_replies_leave_before_a_flush_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let mut driver = UringDriver::new().unwrap();
    let file = driver.handle().add_file(zero_file(&dir).into());
    let (near, mut far) = UnixStream::pair().unwrap();
    far.set_nonblocking(true).unwrap();
    let stream = driver.handle().add_stream(near.into());
    let reply = Data::whole(BufPool::new(0).copy_of(b"done"));
    driver.submit(1, request(stream, Op::Send, 0, 0, reply));
    driver.submit(2, request(file, Op::Flush, 0, 0, Data::None));
    let mut received = [0; 8];
    assert_eq!(far.read(&mut received).unwrap(), 4);
    let mut ended = Vec::new();
    while ended.len() < 2 {
        driver.wait(None, &mut ended);
    }
    assert!(ended.iter().all(|end| end.result.is_ok()));
}

#[test]
fn a_dropped_driver_waits_for_operations_under_way() {
    let dir = tempfile::tempdir().unwrap();
    let file = zero_file(&dir);
    let mut driver = UringDriver::new().unwrap();
    let device = driver.handle().add_file(file.try_clone().unwrap().into());
    let (near, _far) = UnixStream::pair().unwrap();
    let stream = driver.handle().add_stream(near.into());
    let (event, _sender) = driver.handle().add_event().unwrap();
    let pool = BufPool::new(0);
    let buf = |len| Data::whole(pool.copy_of(&vec![7; len]));
    for token in 0..3000 {
        let offset = token % 8 * (1 << 20);
        driver.submit(token, request(device, Op::Write, offset, 0, buf(4096)));
    }
    for device in [stream, event] {
        driver.submit(0, request(device, Op::Recv, 0, 0, buf(8)));
    }
    driver.submit(0, request(stream, Op::Send, 0, 0, buf(4 << 20)));
    driver.submit(0, request(device, Op::Flush, 0, 0, Data::None));
    drop(driver);
    let mut block = [0; 4096];
    for place in 0..8 {
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut block, place << 20).unwrap();
        assert_eq!(block, [7; 4096]);
    }
}

/// A read from a pipe ends when the pipe is written to. Until then the kernel owns its memory.
#[test]
fn a_dropped_driver_waits_for_the_last_operation() {
    let (end, mut other) = std::io::pipe().unwrap();
    let mut driver = UringDriver::new().unwrap();
    let pipe = driver.handle().add_file(end.into());
    let data = Data::whole(BufPool::new(0).alloc(8));
    driver.submit(1, request(pipe, Op::Read, 0, 0, data));
    let written = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let written = written.clone();
        move || {
            std::thread::sleep(Duration::from_millis(100));
            written.store(true, SeqCst);
            other.write_all(&[1; 8]).unwrap();
        }
    });
    drop(driver);
    assert!(written.load(SeqCst), "the memory is gone under the read");
    writer.join().unwrap();
}

#[test]
fn a_dropped_driver_with_an_idle_stream_ends() {
    let world = world();
    let (stream, _far) = world.stream();
    let data = Data::whole(world.pool.alloc(8));
    drop(world.rt.stream(stream, Op::Recv, data));
    drop(world);
}

/// /dev/null takes every command and ends it at once (Linux 6.3), so it stands for a queue of ublk here.
fn null(world: &World) -> DeviceId {
    let null = File::options().read(true).write(true).open("/dev/null");
    world.handle.add_ublk(null.unwrap().into())
}

fn command(
    world: &World,
    device: DeviceId,
    number: u64,
    argument: &[u8],
) -> Result<usize, IoError> {
    let data = Data::whole(world.pool.copy_of(argument));
    world
        .run(world.rt.io(request(device, Op::Command, number, 0, data)))
        .0
}

#[test]
fn a_command_ends_with_the_answer_of_its_driver() {
    let world = world();
    let null = null(&world);
    match command(&world, null, 0xc010_7520, &[0; 16]) {
        Ok(0) => {}
        // An older kernel.
        Err(IoError { errno }) => assert_eq!(errno, libc::EOPNOTSUPP),
        Ok(other) => panic!("{other}"),
    }
    let closed = world.run(world.rt.stream(null, Op::Close, Data::None));
    assert_eq!(closed.0, Ok(0));
}

#[test]
fn a_command_names_no_memory() {
    let world = world();
    let null = null(&world);
    let refused = Err(IoError::EINVAL);
    assert_eq!(command(&world, null, 1, &[1; 16]), refused);
    assert_eq!(command(&world, null, 1, &[0; 15]), refused);
    assert_eq!(command(&world, null, 1 << 32, &[0; 16]), refused);
    assert_eq!(command(&world, world.file, 1, &[0; 16]), refused);
    let read = world.rt.io(request(
        null,
        Op::Read,
        0,
        0,
        Data::whole(world.pool.alloc(16)),
    ));
    assert_eq!(world.run(read).0, refused);
}

/// Begins to read the first 64 blocks. The file is in the page cache, so that reads end as soon as they are submitted, all together.
fn begin_reads(world: &World) -> Vec<tonearm_rt::Io> {
    let begin = |block: u64| {
        let data = Data::whole(world.pool.alloc(4096));
        world
            .rt
            .io(request(world.file, Op::Read, block * 4096, 0, data))
    };
    (0..64).map(begin).collect()
}

#[test]
fn reads_that_are_held_back_end() {
    let world = world();
    for block in 0..64 {
        world.write(block * 4096, &[block as u8 + 1; 4096]);
    }
    for _ in 0..3 {
        for (io, block) in begin_reads(&world).into_iter().zip(0..) {
            let (result, data) = world.run(io);
            assert_eq!(result, Ok(4096));
            assert!(data.into_buf().iter().all(|byte| *byte == block + 1));
        }
    }
}

#[test]
fn a_driver_ends_while_reads_are_held_back() {
    let world = world();
    for _ in 0..2 {
        drop(begin_reads(&world));
        world.rt.wait(None);
    }
    let ios = begin_reads(&world);
    world.rt.shut_down();
    drop(ios);
}
