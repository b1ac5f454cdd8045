use super::*;
use std::cell::RefCell;
use tonearm_device::{DeviceIo, RawDevice};
use tonearm_rt::DeviceId;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const BLOCK: u64 = 4096;
const SIZE: u64 = 64 << 20;

/// A device that notes what is under way, and whose flush takes a given time for each write before it.
struct Noted {
    rt: Rt,
    inner: RawDevice,
    notes: Rc<Notes>,
}

#[derive(Default)]
struct Notes {
    writes: Cell<u64>,
    most_writes: Cell<u64>,
    unflushed: Cell<u64>,
    most_unflushed: Cell<u64>,
    flushes: Cell<u64>,
    flush_fails: Cell<bool>,
    flush_time: Cell<Nanos>,
    order: RefCell<Vec<u64>>,
}

fn one_more(cell: &Cell<u64>, most: &Cell<u64>) {
    cell.set(cell.get() + 1);
    most.set(most.get().max(cell.get()));
}

impl Device for Noted {
    fn name(&self) -> &str {
        "noted"
    }

    fn size_bytes(&self) -> u64 {
        SIZE
    }

    fn block_size(&self) -> u32 {
        BLOCK as u32
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let (notes, rt) = (self.notes.clone(), self.rt.clone());
        match op {
            Op::Flush => {
                notes.flushes.set(notes.flushes.get() + 1);
                Box::pin(async move {
                    let time = notes.flush_time.get().0 * notes.unflushed.take();
                    rt.sleep(Nanos(time)).await;
                    match notes.flush_fails.get() {
                        true => (Err(IoError::EIO), data),
                        false => (Ok(0), data),
                    }
                })
            }
            Op::Write => {
                one_more(&notes.writes, &notes.most_writes);
                one_more(&notes.unflushed, &notes.most_unflushed);
                notes.order.borrow_mut().push(offset);
                let io = self.inner.io(op, offset, len, data);
                Box::pin(async move {
                    let result = io.await;
                    notes.writes.set(notes.writes.get() - 1);
                    result
                })
            }
            _ => self.inner.io(op, offset, len, data),
        }
    }
}

/// Runs `work` with the queue of a device on which a write takes a millisecond.
fn with_queue<T: 'static>(work: impl AsyncFnOnce(Rt, Rc<Queue>, Rc<Notes>) -> T + 'static) -> T {
    let options = SimOptions {
        latency: Nanos::from_millis(1),
        jitter: Nanos(0),
        ..SimOptions::default()
    };
    let world = SimWorld::new(options, vec![DiskImage::new(SIZE)]);
    let rt = Rt::new(world.driver());
    let notes: Rc<Notes> = Rc::default();
    let device = Noted {
        rt: rt.clone(),
        inner: RawDevice::new(&rt, DeviceId(0), SIZE, BLOCK as u32, "noted"),
        notes: notes.clone(),
    };
    let queue = Rc::new(Queue::new(&rt, Rc::new(device), 8));
    let own = rt.clone();
    let result = rt.block_on(async move { work(own, queue, notes).await });
    rt.shut_down();
    result
}

/// Writes `count` times `bytes`, all at once.
async fn write(rt: &Rt, queue: &Rc<Queue>, count: u64, bytes: u64) -> Result<(), HomeError> {
    let pool = tonearm_base::BufPool::new(0);
    let writes = (0..count).map(|index| {
        let (queue, data) = (queue.clone(), pool.alloc_zeroed(bytes as usize));
        rt.spawn(async move {
            let _turn = queue.turn(Op::Write, bytes).await?;
            let io = queue
                .device
                .io(Op::Write, index * bytes, bytes, Data::whole(data));
            let (result, _) = io.await;
            result.map_err(|error| queue.error(Op::Write, index * bytes, error))?;
            Ok(())
        })
    });
    let mut failed = None;
    for write in writes.collect::<Vec<_>>() {
        failed = failed.or(write.await.err());
    }
    failed.map_or(Ok(()), Err)
}

#[test]
fn all_writes_are_under_way_while_nobody_reads() {
    with_queue(async |rt, queue, notes| {
        write(&rt, &queue, 200, BLOCK).await.expect("writes");
        assert_eq!(notes.most_writes.get(), WRITES_MAX);
        assert_eq!(notes.flushes.get(), 0);
        assert!(notes.order.borrow().is_sorted(), "first come, first served");
    });
}

#[test]
fn few_writes_are_under_way_while_a_client_reads_and_a_second_after_it() {
    with_queue(async |rt, queue, notes| {
        let read = queue.note_client_read();
        rt.sleep(Nanos::from_secs(5)).await;
        write(&rt, &queue, 40, BLOCK).await.expect("writes");
        assert_eq!(notes.most_writes.take(), 8, "while it reads");
        drop(read);
        rt.sleep(Nanos::from_millis(900)).await;
        write(&rt, &queue, 40, BLOCK).await.expect("writes");
        assert_eq!(notes.most_writes.take(), 8, "soon after it");
        rt.sleep(Nanos::from_millis(1100)).await;
        write(&rt, &queue, 40, BLOCK).await.expect("writes");
        assert_eq!(notes.most_writes.take(), 40, "long after it");
        assert!(notes.order.borrow().chunks(40).all(|part| part.is_sorted()));
    });
}

#[test]
fn large_writes_count_as_many() {
    with_queue(async |rt, queue, notes| {
        let _read = queue.note_client_read();
        write(&rt, &queue, 12, 4 * UNIT_BYTES)
            .await
            .expect("writes");
        assert_eq!(notes.most_writes.take(), 2);
        write(&rt, &queue, 3, 16 * UNIT_BYTES)
            .await
            .expect("writes");
        assert_eq!(notes.most_writes.take(), 1, "larger than the bound");
        assert_eq!(queue.part_bytes(), PART_BYTES);
    });
}

/// A flush takes 20 ms for each write: while a client reads, the device is flushed before it would take longer than
/// [`FLUSH_MAX`].
#[test]
fn device_is_flushed_before_its_flush_takes_long() {
    with_queue(async |rt, queue, notes| {
        notes.flush_time.set(Nanos::from_millis(20));
        for _ in 0..3 {
            write(&rt, &queue, 30, BLOCK).await.expect("writes");
            queue.flush().await.expect("a flush");
        }
        assert_eq!((notes.flushes.take(), notes.most_unflushed.take()), (3, 30));
        let _read = queue.note_client_read();
        write(&rt, &queue, 200, BLOCK).await.expect("writes");
        let most = FLUSH_MAX.0 / Nanos::from_millis(20).0;
        let found = notes.most_unflushed.get();
        assert!(
            (most / 2..=most + 8).contains(&found),
            "{found} writes before a flush"
        );
        assert!(
            notes.flushes.get() >= 200 / (most + 8),
            "{} flushes",
            notes.flushes.get()
        );
    });
}

#[test]
fn failed_flush_fails_the_write_that_waits_for_it() {
    with_queue(async |rt, queue, notes| {
        let _read = queue.note_client_read();
        notes.flush_fails.set(true);
        let failed = write(&rt, &queue, 200, BLOCK).await;
        assert!(
            matches!(failed, Err(HomeError::Device { .. })),
            "{failed:?}"
        );
    });
}

/// A reader could take the error of the flush for one of its own blocks.
#[test]
fn reads_of_the_cleaner_flush_nothing() {
    with_queue(async |rt, queue, notes| {
        let _read = queue.note_client_read();
        notes.flush_time.set(Nanos::from_millis(20));
        write(&rt, &queue, UNITS_UNMEASURED + 1, BLOCK)
            .await
            .expect("writes");
        let flushes = notes.flushes.get();
        assert!(queue.is_flush_due());
        let turn = queue.turn(Op::Read, PART_BYTES).await.expect("a turn");
        assert!(turn.flushed.is_none());
        assert_eq!(notes.flushes.get(), flushes);
    });
}
