//! A ring over a disk in a simulated world. Each kind of request is the last one before a power cut, and the last one
//! before the ring is stopped: no later request makes up for it.

use crate::execute::Executor;
use crate::ring::Ring;
use rustix::event::EventfdFlags;
use std::cell::{Cell, RefCell};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::{Device, RawDevice};
use tonearm_disk::{
    CreateParams, Disk, MemberDevice, MemberSpace, NewMember, OpenOptions, create, plan_create,
};
use tonearm_nbd::transmission::testing::Streams;
use tonearm_requests::{Recorder, Requests};
use tonearm_rt::{Data, DeviceId, IoError, Notify, Op, Rt, Semaphore};
use tonearm_uring::EventSender;
use tonearm_world::{DiskImage, SimOptions, SimWorld};
use virtio_queue::{Queue, QueueT};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const DISK_BYTES: u64 = 4 << 20;
const BLOCK: usize = 4096;

/// Requests of the ring, each with three descriptors: header, data, status.
const DEPTH: u16 = 16;
const TABLE: u64 = 0;
const AVAILABLE: u64 = 0x1000;
const USED: u64 = 0x2000;
const HEADERS: u64 = 0x3000;
const DATA: u64 = 0x1_0000;
const MEMORY_BYTES: usize = 0x4_0000;

const READ: u32 = 0;
const WRITE: u32 = 1;
const FLUSH: u32 = 4;
const DISCARD: u32 = 11;
const ZEROES: u32 = 13;

fn device(rt: &Rt, bytes: u64) -> Rc<dyn Device> {
    Rc::new(RawDevice::new(rt, DeviceId(0), bytes, 512, "store"))
}

/// A store whose volume `main` is all zeroes, closed.
fn created() -> DiskImage {
    let params = CreateParams {
        log_bytes: Some(2 << 20),
        track_bytes: Some(64 << 10),
        block_size: BLOCK as u32,
        ..CreateParams::new(2 * DISK_BYTES, [1; 16])
    };
    let plan = plan_create(&params, &[MemberSpace::alone([2; 16])]).unwrap();
    let bytes = plan.member_bytes[0];
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(bytes)]);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let member = NewMember::blank(device(&own, bytes));
        let pool = BufPool::new(1 << 20);
        create(
            &own,
            &pool,
            &plan,
            vec![member],
            DISK_BYTES,
            [3; 16],
            |_, _| {},
        )
        .await
        .unwrap();
    });
    rt.shut_down();
    world.images().remove(0)
}

/// A machine with one ring.
struct Machine {
    world: SimWorld,
    rt: Rt,
    disk: Disk,
    ring: Rc<Ring>,
    /// The guest's end of the event.
    kicks: DeviceId,
    /// The eventfd of the guest's interrupts.
    calls: OwnedFd,
    pool: BufPool,
    memory: GuestMemoryMmap,
    made: Cell<u16>,
    monitor: UnixStream,
}

impl Machine {
    fn on(images: Vec<DiskImage>, write_through: bool) -> Self {
        let bytes = images[0].size;
        let world = SimWorld::new(SimOptions::default(), images);
        let streams = Streams::default();
        let rt = Rt::new(streams.driver(world.driver()));
        let pool = BufPool::new(1 << 20);
        let (own, buffers) = (rt.clone(), pool.clone());
        let disk = rt.block_on(async move {
            let member = MemberDevice {
                device: device(&own, bytes),
                path: "store".to_owned(),
            };
            let options = OpenOptions::default();
            let opened = Disk::open(&own, &buffers, vec![member], options, |_| {});
            opened.await.unwrap()
        });
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]).unwrap();
        let mut queue = Queue::new(64).unwrap();
        queue.set_desc_table_address(Some(TABLE as u32), Some(0));
        queue.set_avail_ring_address(Some(AVAILABLE as u32), Some(0));
        queue.set_used_ring_address(Some(USED as u32), Some(0));
        queue.set_ready(true);
        let (connection, monitor) = UnixStream::pair().unwrap();
        let (kick, kicks) = streams.pair();
        let calls = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let call = EventSender::to(&calls).unwrap();
        let ring = Rc::new_cyclic(|own| Ring {
            contained: Ring::contained(own),
            is_lost: Cell::new(false),
            rt: rt.clone(),
            executor: Executor {
                volume: disk.volume("main").unwrap().for_kernel_client(),
                memory: memory.clone(),
                pool: pool.clone(),
                budget: Semaphore::new(&rt, 1 << 20),
                requests: Requests::new(&rt, &Recorder::new(&rt)),
                write_through,
                serial: [0; 20],
                name: "main".to_owned(),
            },
            queue: RefCell::new(queue),
            inflight: None,
            kick,
            call: Some(call),
            connection,
            fault: RefCell::default(),
            under_way: Cell::new(0),
            is_stopping: Cell::new(false),
            has_ended: Cell::new(false),
            changed: Notify::new(&rt),
            call_is_due: Cell::new(false),
        });
        ring.begin(Vec::new());
        Self {
            world,
            rt,
            disk,
            ring,
            kicks,
            calls,
            pool,
            memory,
            made: Cell::new(0),
            monitor,
        }
    }

    fn new(write_through: bool) -> Self {
        Self::on(vec![created()], write_through)
    }

    fn put_descriptor(&self, index: u16, (at, bytes, flags, next): (u64, u32, u16, u16)) {
        let place = GuestAddress(TABLE + 16 * u64::from(index));
        self.memory.write_obj(at, place).unwrap();
        let rest = [
            &bytes.to_le_bytes()[..],
            &flags.to_le_bytes(),
            &next.to_le_bytes(),
        ];
        let place = GuestAddress(place.0 + 8);
        self.memory.write_slice(&rest.concat(), place).unwrap();
    }

    /// Makes a request available. A read has `data` as its room.
    fn submit(&self, kind: u32, sector: u64, data: &[u8]) {
        let number = self.made.get();
        assert!(number < DEPTH);
        self.made.set(number + 1);
        let (header, at) = (HEADERS + 64 * u64::from(number), place_of(number));
        let head = [
            &kind.to_le_bytes()[..],
            &0u32.to_le_bytes(),
            &sector.to_le_bytes(),
        ];
        let memory = &self.memory;
        memory
            .write_slice(&head.concat(), GuestAddress(header))
            .unwrap();
        memory.write_obj(0xffu8, GuestAddress(header + 16)).unwrap();
        memory.write_slice(data, GuestAddress(at)).unwrap();
        let (first, room) = (3 * number, if kind == READ { 2 } else { 0 });
        let next = if data.is_empty() {
            first + 2
        } else {
            first + 1
        };
        self.put_descriptor(first, (header, 16, 1, next));
        self.put_descriptor(first + 1, (at, data.len() as u32, 1 | room, first + 2));
        self.put_descriptor(first + 2, (header + 16, 1, 2, 0));
        let place = AVAILABLE + 4 + 2 * u64::from(number);
        memory.write_obj(first, GuestAddress(place)).unwrap();
        memory
            .write_obj(number + 1, GuestAddress(AVAILABLE + 2))
            .unwrap();
    }

    /// Tells the ring, and runs until `is_done` holds.
    fn run_until(&self, is_done: impl Fn(&Ring, u16) -> bool + 'static) {
        let kick = Data::whole(self.pool.copy_of(&[1; 8]));
        let sent = self.rt.stream(self.kicks, Op::Send, kick);
        self.rt.block_on(async move { sent.await.0.unwrap() });
        self.wait_until(is_done);
    }

    fn wait_until(&self, is_done: impl Fn(&Ring, u16) -> bool + 'static) {
        let (rt, ring, memory) = (self.rt.clone(), self.ring.clone(), self.memory.clone());
        self.rt.block_on(async move {
            while !is_done(&ring, used(&memory)) {
                rt.sleep(Nanos::from_micros(1)).await;
            }
        });
    }

    fn status(&self, number: u16) -> u8 {
        let place = HEADERS + 64 * u64::from(number) + 16;
        self.memory.read_obj(GuestAddress(place)).unwrap()
    }

    /// One request from its beginning to its end. Its status.
    fn request(&self, kind: u32, sector: u64, data: &[u8]) -> u8 {
        self.submit(kind, sector, data);
        let made = self.made.get();
        self.run_until(move |_, used| used == made);
        self.status(made - 1)
    }

    /// Interrupts of the guest since the last call of this.
    fn interrupts(&self) -> u64 {
        let rt = self.rt.clone();
        // The ring interrupts at the end of its turn.
        self.rt
            .block_on(async move { rt.sleep(Nanos::from_micros(1)).await });
        let mut count = [0; 8];
        #[expect(clippy::host_endian_bytes, reason = "the kernel's order")]
        match rustix::io::read(&self.calls, &mut count) {
            Ok(_) => u64::from_ne_bytes(count),
            Err(_) => 0,
        }
    }

    /// Stops the ring. Returns the number of requests that are used then, and that which it answers with.
    fn stop(&self) -> (u16, u16) {
        let (ring, memory) = (self.ring.clone(), self.memory.clone());
        self.rt.block_on(async move {
            let next = ring.stop().await;
            (used(&memory), next)
        })
    }

    /// The first blocks of the disk, each by its first byte, as they are in memory.
    fn blocks(&self, count: usize) -> Vec<u8> {
        let volume = self.disk.volume("main").unwrap();
        self.rt.block_on(async move {
            let mut bytes = Vec::new();
            for piece in volume.read(0, (count * BLOCK) as u64).await.unwrap() {
                piece.append_to(&mut bytes);
            }
            bytes.chunks(BLOCK).map(|block| block[0]).collect()
        })
    }

    /// The first blocks after a power cut now, of several images.
    fn blocks_after_a_cut(&self, count: usize) -> Vec<Vec<u8>> {
        let crash = self.world.crash();
        let image = |seed| {
            let after = Machine::on(crash.images(seed), false);
            let blocks = after.blocks(count);
            after.end();
            blocks
        };
        (0..8).map(image).collect()
    }

    fn end(self) {
        self.rt.shut_down();
    }
}

fn place_of(number: u16) -> u64 {
    DATA + 0x2000 * u64::from(number)
}

/// Index of the used ring.
fn used(memory: &GuestMemoryMmap) -> u16 {
    memory.read_obj(GuestAddress(USED + 2)).unwrap()
}

/// A range of a discard or a write of zeroes, in blocks.
fn range(block: u64, blocks: u32, flags: u32) -> Vec<u8> {
    let bytes = [
        &(8 * block).to_le_bytes()[..],
        &(8 * blocks).to_le_bytes(),
        &flags.to_le_bytes(),
    ];
    bytes.concat()
}

/// Name, type, sector, and the two buffers of a request.
type Change = (&'static str, u32, u64, Vec<u8>, Vec<u8>);

/// Changes of a disk whose blocks 0 to 3 are all 1: name, kind, sector, data, and the blocks after it.
fn changes() -> Vec<Change> {
    let two = [range(0, 1, 0), range(2, 1, 0)].concat();
    vec![
        ("write", WRITE, 8, vec![7; BLOCK], vec![1, 7, 1, 1]),
        ("discard", DISCARD, 0, range(1, 2, 0), vec![1, 0, 0, 1]),
        ("discards", DISCARD, 0, two.clone(), vec![0, 1, 0, 1]),
        ("zeroes", ZEROES, 0, range(1, 2, 0), vec![1, 0, 0, 1]),
        (
            "zeroes, unmapped",
            ZEROES,
            0,
            range(3, 1, 1),
            vec![1, 1, 1, 0],
        ),
        ("two ranges of zeroes", ZEROES, 0, two, vec![0, 1, 0, 1]),
    ]
}

/// A machine whose disk has ones in blocks 0 to 3, durably.
fn with_ones(write_through: bool) -> Machine {
    let machine = Machine::new(write_through);
    assert_eq!(machine.request(WRITE, 0, &[1; 2 * BLOCK]), 0);
    assert_eq!(machine.request(WRITE, 16, &[1; 2 * BLOCK]), 0);
    assert_eq!(machine.request(FLUSH, 0, &[]), 0);
    machine
}

#[test]
fn change_without_flush_support_is_durable_when_used() {
    for (name, kind, sector, data, after) in changes() {
        let machine = with_ones(true);
        assert_eq!(machine.request(kind, sector, &data), 0, "{name}");
        for blocks in machine.blocks_after_a_cut(4) {
            assert_eq!(blocks, after, "{name}");
        }
        machine.end();
    }
}

#[test]
fn a_flush_makes_each_change_before_it_durable() {
    for (name, kind, sector, data, after) in changes() {
        let machine = with_ones(false);
        assert_eq!(machine.request(kind, sector, &data), 0, "{name}");
        assert_eq!(machine.request(FLUSH, 0, &[]), 0);
        for blocks in machine.blocks_after_a_cut(4) {
            assert_eq!(blocks, after, "{name}");
        }
        machine.end();
    }
}

#[test]
fn a_ring_stops_when_all_that_it_has_taken_is_used() {
    for (name, kind, sector, data, after) in changes() {
        let machine = with_ones(true);
        let before = machine.made.get();
        machine.submit(kind, sector, &data);
        machine.submit(FLUSH, 0, &[]);
        machine.submit(READ, 0, &[9; BLOCK]);
        // They are under way, and the log takes its time.
        machine.run_until(|ring, _| ring.under_way.get() > 0);
        assert!(used(&machine.memory) < before + 3, "{name}: it is too fast");
        assert_eq!(machine.stop(), (before + 3, before + 3), "{name}");
        assert_eq!(machine.ring.under_way.get(), 0);
        for number in before..before + 3 {
            assert_eq!(machine.status(number), 0, "{name}");
        }
        assert_eq!(machine.blocks(4), after, "{name}");
        for blocks in machine.blocks_after_a_cut(4) {
            assert_eq!(blocks, after, "{name}");
        }
        machine.end();
    }
}

#[test]
fn a_ring_that_has_stopped_takes_nothing_more() {
    let machine = with_ones(true);
    let before = machine.made.get();
    assert_eq!(machine.stop(), (before, before));
    machine.submit(WRITE, 0, &[5; BLOCK]);
    let rt = machine.rt.clone();
    let pause = async move { rt.sleep(Nanos::from_millis(100)).await };
    machine.rt.block_on(pause);
    assert_eq!(used(&machine.memory), before);
    assert_eq!(machine.blocks(1), [1]);
    machine.end();
}

#[test]
fn failed_changes_return_a_status_and_do_not_block_stop() {
    for (name, kind, sector, data, _) in changes() {
        let machine = with_ones(true);
        let before = machine.made.get();
        machine.world.set_fault(|request| {
            let writes = matches!(request.op, Op::Write | Op::WriteDurable | Op::Flush);
            writes.then_some(IoError::EIO)
        });
        machine.submit(kind, sector, &data);
        machine.submit(FLUSH, 0, &[]);
        machine.run_until(|ring, _| ring.under_way.get() > 0);
        assert_eq!(machine.stop(), (before + 2, before + 2), "{name}");
        assert_eq!(machine.status(before), 1, "{name}");
        assert_eq!(machine.status(before + 1), 1, "{name}: the flush");
        machine.end();
    }
}

#[test]
fn failing_range_fails_its_request_despite_later_ranges() {
    for kind in [DISCARD, ZEROES] {
        let machine = with_ones(true);
        let beyond = DISK_BYTES / BLOCK as u64;
        let ranges = [range(0, 1, 0), range(beyond, 1, 0), range(2, 1, 0)].concat();
        assert_eq!(machine.request(kind, 0, &ranges), 1);
        assert_eq!(machine.blocks(4), [0, 1, 1, 1], "those before it are done");
        machine.end();
    }
}

/// Another process may have died after it used a request, and before it interrupted the guest.
#[test]
fn guest_is_interrupted_at_ring_start_and_at_used_requests() {
    let machine = Machine::new(false);
    assert_eq!(machine.interrupts(), 1);
    assert_eq!(machine.interrupts(), 0);
    assert_eq!(machine.request(WRITE, 0, &[1; BLOCK]), 0);
    assert_eq!(machine.interrupts(), 1);
    machine.end();
}

/// The ring finds its queue in use, which is a fault of its own: when it takes a request, or when it answers one.
#[test]
fn panic_of_a_ring_ends_its_connection_alone() {
    for answers in [false, true] {
        let machine = with_ones(false);
        let (reports, stays) = (Rc::new(Cell::new(0)), machine.made.get());
        let count = reports.clone();
        let report = move |_: &str| count.set(count.get() + 1);
        machine.rt.report_panics(report);
        machine.submit(WRITE, 0, &[7; BLOCK]);
        if answers {
            machine.run_until(|ring, _| ring.under_way.get() > 0);
        }
        let queue = machine.ring.queue.borrow_mut();
        if answers {
            machine.wait_until(|ring, _| ring.is_lost.get())
        } else {
            machine.run_until(|ring, _| ring.is_lost.get())
        }
        drop(queue);
        assert_eq!((reports.get(), used(&machine.memory)), (1, stays));
        // The monitor sees the end, and stops the ring.
        assert_eq!((&machine.monitor).read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(machine.stop().0, stays);
        assert_eq!(machine.blocks(2), [[1, 7][usize::from(answers)], 1]);
        machine.end();
    }
}
