//! The rules of every device, as functions that a test of any device calls. They overwrite the device, which needs
//! at least [`SIZE_MIN`] bytes. They panic with the name of the device when it breaks a rule.

use std::rc::Rc;
use tonearm_base::{Buf, BufPool};
use tonearm_device::Device;
use tonearm_rt::{Data, IoError, Op, SLICES_MAX};

/// Bytes that a device under test must have.
pub const SIZE_MIN: u64 = 4 << 20;

/// Unit of the test's I/O: a multiple of any device's block size.
const UNIT: usize = 4096;

/// Runs every function of the suite.
pub async fn all(device: Rc<dyn Device>) {
    assert!(device.size_bytes() >= SIZE_MIN, "the device is too small");
    assert!(
        UNIT.is_multiple_of(device.block_size() as usize),
        "the device's block size is over {UNIT} bytes"
    );
    reads_what_was_written(device.clone()).await;
    later_writes_win(device.clone()).await;
    writes_slices_in_order(device.clone()).await;
    reads_into_a_part_of_a_buffer(device.clone()).await;
    carries_many_at_once(device.clone()).await;
    starts_at_the_call(device.clone()).await;
    zeroes_and_punches(device.clone()).await;
    flushes(device.clone()).await;
    refuses_what_lies_beyond_the_end(device.clone()).await;
    refuses_parts_of_blocks(device.clone()).await;
    refuses_stream_operations(device).await;
}

/// Reads see completed writes, durable or not, small and large.
pub async fn reads_what_was_written(device: Rc<dyn Device>) {
    for (seed, len) in [(1, UNIT), (2, 3 * UNIT), (3, 1 << 20)] {
        for offset in [0, UNIT as u64, device_end(&device) - len as u64] {
            let data = Data::whole(pattern(len, seed));
            assert_ok(&device, device.write(offset, data).await);
            assert_content(&device, offset, &pattern(len, seed)).await;
            let data = Data::whole(pattern(len, seed + 100));
            assert_ok(&device, device.write_durable(offset, data).await);
            assert_content(&device, offset, &pattern(len, seed + 100)).await;
        }
    }
}

/// Of writes to one place, each started after the end of the one before, the last one stays.
pub async fn later_writes_win(device: Rc<dyn Device>) {
    let mut model = pattern(8 * UNIT, 9);
    let data = Data::whole(pattern(8 * UNIT, 9));
    assert_ok(&device, device.write(0, data).await);
    for seed in 10..30 {
        let from = (seed as usize * 5) % 7 * UNIT;
        let len = UNIT * (1 + seed as usize % 2).min(8 - from / UNIT);
        let part = pattern(len, seed);
        model[from..from + len].copy_from_slice(&part);
        assert_ok(&device, device.write(from as u64, Data::whole(part)).await);
    }
    assert_content(&device, 0, &model).await;
}

/// Slices, up to the most of a request, are one write.
pub async fn writes_slices_in_order(device: Rc<dyn Device>) {
    for parts in [1, 2, 63, SLICES_MAX] {
        let bytes = pattern(parts * UNIT, parts as u64);
        let whole = pattern(parts * UNIT, parts as u64).share();
        let slices = (0..parts)
            .map(|i| whole.slice(i * UNIT..(i + 1) * UNIT))
            .collect();
        let written = device.write(UNIT as u64, Data::Slices(slices)).await;
        assert_ok(&device, written);
        assert_content(&device, UNIT as u64, &bytes).await;
    }
}

/// A read into a part of a buffer leaves the rest unchanged.
pub async fn reads_into_a_part_of_a_buffer(device: Rc<dyn Device>) {
    let data = Data::whole(pattern(UNIT, 5));
    assert_ok(&device, device.write(0, data).await);
    let data = Data::Buf(pattern(3 * UNIT, 6), UNIT..2 * UNIT);
    let (result, data) = device.io(Op::Read, 0, 0, data).await;
    assert_eq!(result, Ok(UNIT), "{}", device.name());
    let (buf, around) = (data.into_buf(), pattern(3 * UNIT, 6));
    assert_eq!(buf[..UNIT], around[..UNIT], "{}", device.name());
    assert_eq!(
        buf[UNIT..2 * UNIT],
        pattern(UNIT, 5)[..],
        "{}",
        device.name()
    );
    assert_eq!(buf[2 * UNIT..], around[2 * UNIT..], "{}", device.name());
}

/// Concurrent operations do not disturb each other.
pub async fn carries_many_at_once(device: Rc<dyn Device>) {
    let places = SIZE_MIN / UNIT as u64;
    let writes: Vec<_> = (0..places)
        .map(|place| place * 7 % places)
        .map(|place| device.write(place * UNIT as u64, Data::whole(pattern(UNIT, place))))
        .collect();
    for write in writes {
        assert_ok(&device, write.await);
    }
    let pool = BufPool::new(0);
    let reads: Vec<_> = (0..places)
        .map(|place| device.read(place * UNIT as u64, pool.alloc(UNIT)))
        .collect();
    for (place, read) in reads.into_iter().enumerate() {
        let buf = read.await.expect("a read inside the device succeeds");
        assert!(
            buf[..] == pattern(UNIT, place as u64)[..],
            "{} {place}",
            device.name()
        );
    }
}

/// A write whose future is dropped without a poll still takes effect.
pub async fn starts_at_the_call(device: Rc<dyn Device>) {
    let data = Data::whole(pattern(UNIT, 41));
    assert_ok(&device, device.write(0, data).await);
    drop(device.write(0, Data::whole(pattern(UNIT, 42))));
    for _ in 0..10_000 {
        let buf = device.read(0, BufPool::new(0).alloc(UNIT)).await;
        if buf.expect("a read inside the device succeeds")[..] == pattern(UNIT, 42)[..] {
            return;
        }
    }
    panic!("{}: a dropped write had no effect", device.name());
}

/// Punched and zeroed ranges read as zeroes, and their neighbours are unchanged. Both can be written again.
pub async fn zeroes_and_punches(device: Rc<dyn Device>) {
    let len = 1 << 20;
    for op in [Op::Punch, Op::Zero] {
        let data = Data::whole(pattern(len, 7));
        assert_ok(&device, device.write(0, data).await);
        let (from, to) = (3 * UNIT, len - 5 * UNIT);
        let done = match op {
            Op::Punch => device.punch(from as u64, (to - from) as u64).await,
            _ => device.zero(from as u64, (to - from) as u64).await,
        };
        assert_ok(&device, done);
        let mut expected = pattern(len, 7);
        expected[from..to].fill(0);
        assert_content(&device, 0, &expected).await;
        let data = Data::whole(pattern(UNIT, 8));
        assert_ok(&device, device.write(from as u64, data).await);
        expected[from..from + UNIT].copy_from_slice(&pattern(UNIT, 8));
        assert_content(&device, 0, &expected).await;
    }
}

/// A flush ends: with nothing to flush, after a write, and during writes.
pub async fn flushes(device: Rc<dyn Device>) {
    assert_ok(&device, device.flush().await);
    assert_ok(&device, device.flush().await);
    let data = Data::whole(pattern(UNIT, 11));
    assert_ok(&device, device.write(0, data).await);
    let concurrent: Vec<_> = (1..17)
        .map(|place| device.write(place * UNIT as u64, Data::whole(pattern(UNIT, place))))
        .collect();
    let flushes = [device.flush(), device.flush()];
    for flush in flushes {
        assert_ok(&device, flush.await);
    }
    for write in concurrent {
        assert_ok(&device, write.await);
    }
    assert_content(&device, 0, &pattern(UNIT, 11)).await;
}

/// A range that is not wholly inside the device is refused and changes nothing.
pub async fn refuses_what_lies_beyond_the_end(device: Rc<dyn Device>) {
    let end = device.size_bytes();
    let last = device_end(&device) - UNIT as u64;
    let data = Data::whole(pattern(UNIT, 12));
    assert_ok(&device, device.write(last, data).await);
    let far = u64::MAX / UNIT as u64 * UNIT as u64;
    for offset in [last + UNIT as u64 / 2, end, end + UNIT as u64, far] {
        for op in [Op::Read, Op::Write, Op::WriteDurable, Op::Punch, Op::Zero] {
            let data = match op {
                Op::Punch | Op::Zero => Data::None,
                _ => Data::whole(pattern(UNIT, 13)),
            };
            let (result, _) = device.io(op, offset, UNIT as u64, data).await;
            let refused = Err(IoError::EINVAL);
            assert_eq!(result, refused, "{}: {op:?} at {offset}", device.name());
        }
    }
    // One block beyond the end, where a member of an array may have space.
    let block = u64::from(device.block_size());
    for op in [Op::Punch, Op::Zero] {
        let (result, _) = device.io(op, end - block, 2 * block, Data::None).await;
        assert_eq!(result, Err(IoError::EINVAL), "{}: {op:?}", device.name());
    }
    assert_content(&device, last, &pattern(UNIT, 12)).await;
}

/// Offsets and lengths that are not multiples of the block size are refused and change nothing.
pub async fn refuses_parts_of_blocks(device: Rc<dyn Device>) {
    if device.block_size() == 1 {
        return;
    }
    let data = Data::whole(pattern(2 * UNIT, 14));
    assert_ok(&device, device.write(0, data).await);
    for (offset, len) in [(1, UNIT), (0, UNIT - 1), (0, 1), (1, 1)] {
        for op in [Op::Read, Op::Write, Op::WriteDurable, Op::Punch, Op::Zero] {
            let data = match op {
                Op::Punch | Op::Zero => Data::None,
                _ => Data::whole(pattern(len, 15)),
            };
            let (result, _) = device.io(op, offset, len as u64, data).await;
            let refused = Err(IoError::EINVAL);
            assert_eq!(
                result,
                refused,
                "{}: {op:?} of {len} at {offset}",
                device.name()
            );
        }
    }
    assert_content(&device, 0, &pattern(2 * UNIT, 14)).await;
}

/// A device refuses stream operations.
pub async fn refuses_stream_operations(device: Rc<dyn Device>) {
    for op in [Op::Recv, Op::RecvAll, Op::Send, Op::Close] {
        let (result, _) = device.io(op, 0, 0, Data::whole(pattern(UNIT, 1))).await;
        assert_eq!(result, Err(IoError::EINVAL), "{}: {op:?}", device.name());
    }
}

/// The end of the device's last whole unit.
fn device_end(device: &Rc<dyn Device>) -> u64 {
    device.size_bytes() / UNIT as u64 * UNIT as u64
}

/// Bytes that differ between seeds and between places.
fn pattern(len: usize, seed: u64) -> Buf {
    let mut buf = BufPool::new(0).alloc(len);
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in buf.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
    buf
}

fn assert_ok(device: &Rc<dyn Device>, result: Result<(), IoError>) {
    assert_eq!(result, Ok(()), "{}", device.name());
}

async fn assert_content(device: &Rc<dyn Device>, offset: u64, expected: &[u8]) {
    let read = device.read(offset, BufPool::new(0).alloc(expected.len()));
    let read = read.await.expect("a read inside the device succeeds");
    let differs = read
        .iter()
        .zip(expected)
        .position(|(got, want)| got != want);
    assert_eq!(
        differs,
        None,
        "{}: the first wrong byte after {offset}",
        device.name()
    );
}
