//! A small world in memory and virtual time, for tests: devices with a volatile write cache that a
//! power cut empties in any order.
//!
//! Invariants:
//! 1. The same seed and the same requests give the same completions at the same times.
//! 2. Reads see completed writes. Only what a flush (submitted after the write's completion) or a
//!    `WriteDurable` covered is stable.
//! 3. A power cut may keep, drop, tear or garble every 512-byte sector of what is not stable, each on
//!    its own; of several unstable writes to one sector any may be the last that reached the medium.

use crate::image::DiskImage;
use base::Nanos;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rt::{Completion, Data, DeviceId, Driver, IoError, Op, Request};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

const PAGE: usize = 4096;
const SECTOR: usize = 512;

/// Speeds of a simulated world, in nanoseconds for each operation.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed of the jitter.
    pub seed: u64,
    /// Fixed part of any operation.
    pub latency: Nanos,
    /// Upper bound of the random part, by which completions change places.
    pub jitter: Nanos,
    /// Added for each page moved.
    pub per_page: Nanos,
    /// Fixed part of a flush.
    pub flush: Nanos,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            seed: 0,
            latency: Nanos::from_micros(70),
            jitter: Nanos::from_micros(40),
            per_page: Nanos(500),
            flush: Nanos::from_micros(60),
        }
    }
}

#[derive(Clone)]
enum Payload {
    Bytes(Rc<[u8]>),
    Zeroes(u64),
}

impl Payload {
    /// Writes `len` bytes from `from` on to their place in `image`.
    fn apply(&self, image: &mut DiskImage, offset: u64, from: u64, len: u64) {
        match self {
            Payload::Bytes(bytes) => {
                image.write(offset + from, &bytes[from as usize..(from + len) as usize]);
            }
            Payload::Zeroes(_) => image.zero(offset + from, len),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::Zeroes(len) => *len,
        }
    }
}

#[derive(Clone)]
struct Unstable {
    offset: u64,
    payload: Payload,
    /// Submission token of the world; None once completed.
    in_flight: Option<u64>,
}

struct Disk {
    /// What reads see.
    view: DiskImage,
    /// What a power cut cannot take.
    stable: DiskImage,
    /// In submission order.
    unstable: VecDeque<Unstable>,
}

struct Event {
    token: u64,
    request: Request,
    serial: u64,
    /// For a flush: writes completed before this serial become stable.
    covered: Vec<usize>,
}

type Hook = Box<dyn FnMut(u64, &Crash)>;
type FaultRule = Box<dyn FnMut(&Request) -> Option<IoError>>;

struct World {
    now: Nanos,
    options: SimOptions,
    rng: ChaCha8Rng,
    disks: Vec<Disk>,
    events: BTreeMap<(Nanos, u64), Event>,
    serial: u64,
    ios: u64,
    hash: u64,
    hook: Option<Hook>,
    fault: Option<FaultRule>,
}

/// Handle on a simulated world, for the test that holds it while the engine runs in it.
#[derive(Clone)]
pub struct SimWorld(Rc<RefCell<World>>);

/// The driver of a simulated world.
pub struct SimDriver(Rc<RefCell<World>>);

/// What a power cut at one moment leaves to chance.
#[derive(Clone)]
pub struct Crash {
    disks: Vec<(DiskImage, Vec<Unstable>)>,
}

impl SimWorld {
    /// A world of the given switched-off devices; the device ids are their indexes.
    pub fn new(options: SimOptions, disks: Vec<DiskImage>) -> Self {
        let rng = ChaCha8Rng::seed_from_u64(options.seed);
        let disks = disks
            .into_iter()
            .map(|image| Disk {
                view: image.clone(),
                stable: image,
                unstable: VecDeque::new(),
            })
            .collect();
        Self(Rc::new(RefCell::new(World {
            now: Nanos(0),
            options,
            rng,
            disks,
            events: BTreeMap::new(),
            serial: 0,
            ios: 0,
            hash: 0xcbf2_9ce4_8422_2325,
            hook: None,
            fault: None,
        })))
    }

    /// The driver for an executor.
    pub fn driver(&self) -> Box<dyn Driver> {
        Box::new(SimDriver(self.0.clone()))
    }

    /// Calls `hook` with a running number and the crash state after each submission and before each
    /// completion of a write, flush or punch.
    pub fn on_io(&self, hook: impl FnMut(u64, &Crash) + 'static) {
        self.0.borrow_mut().hook = Some(Box::new(hook));
    }

    /// Takes the hook away.
    pub fn clear_hook(&self) {
        self.0.borrow_mut().hook = None;
    }

    /// Lets `fault` fail requests: it sees each and names the error, if any.
    pub fn set_fault(&self, fault: impl FnMut(&Request) -> Option<IoError> + 'static) {
        self.0.borrow_mut().fault = Some(Box::new(fault));
    }

    /// Takes the fault away.
    pub fn clear_fault(&self) {
        self.0.borrow_mut().fault = None;
    }

    /// What a power cut now would leave.
    pub fn crash(&self) -> Crash {
        self.0.borrow().crash()
    }

    /// The devices as reads see them: what a clean switch-off after a flush leaves.
    pub fn images(&self) -> Vec<DiskImage> {
        self.0
            .borrow()
            .disks
            .iter()
            .map(|disk| disk.view.clone())
            .collect()
    }

    /// Hash over every operation, its bytes and its time of completion.
    pub fn trace_hash(&self) -> u64 {
        self.0.borrow().hash
    }

    /// Requests submitted so far.
    pub fn ios(&self) -> u64 {
        self.0.borrow().ios
    }
}

impl Crash {
    /// The devices after a power cut now. `seed` chooses a manner (all kept, all lost, an ordered
    /// prefix kept, any subset of sectors, garbled sectors) and all of its details.
    pub fn images(&self, seed: u64) -> Vec<DiskImage> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let manner = rng.next_u32() % 8;
        let share = rng.next_u32() % 101;
        let mut images = Vec::new();
        for (stable, unstable) in &self.disks {
            let mut image = stable.clone();
            let cut = if unstable.is_empty() {
                0
            } else {
                rng.next_u32() as usize % (unstable.len() + 1)
            };
            for (index, write) in unstable.iter().enumerate() {
                let len = write.payload.len();
                match manner {
                    0 if write.in_flight.is_none() => {
                        write.payload.apply(&mut image, write.offset, 0, len)
                    }
                    1 => {}
                    2 if index < cut => write.payload.apply(&mut image, write.offset, 0, len),
                    2 if index > cut => {}
                    _ => {
                        let garble = manner >= 6;
                        scatter(&mut image, write, share, garble, &mut rng);
                    }
                }
            }
            images.push(image);
        }
        images
    }

    /// The devices after a power cut now, for a storage that keeps what it has taken: only what is under
    /// way is left to chance.
    pub fn images_ordered(&self, seed: u64) -> Vec<DiskImage> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let share = rng.next_u32() % 101;
        let mut images = Vec::new();
        for (stable, unstable) in &self.disks {
            let mut image = stable.clone();
            for write in unstable {
                match write.in_flight {
                    None => write
                        .payload
                        .apply(&mut image, write.offset, 0, write.payload.len()),
                    Some(_) => scatter(&mut image, write, share, seed.is_multiple_of(3), &mut rng),
                }
            }
            images.push(image);
        }
        images
    }

    /// True when chance has nothing to decide.
    pub fn is_settled(&self) -> bool {
        self.disks.iter().all(|(_, unstable)| unstable.is_empty())
    }
}

/// Each sector of `write` reaches the medium with a chance of `share` percent, or as garbage.
fn scatter(
    image: &mut DiskImage,
    write: &Unstable,
    share: u32,
    garble: bool,
    rng: &mut ChaCha8Rng,
) {
    let len = write.payload.len();
    let mut from = 0;
    while from < len {
        let part = (SECTOR as u64).min(len - from);
        let roll = rng.next_u32();
        if garble && roll.is_multiple_of(7) {
            let mut garbage = [0u8; SECTOR];
            rng.fill_bytes(&mut garbage);
            image.write(write.offset + from, &garbage[..part as usize]);
        } else if (roll >> 8) % 100 < share {
            write.payload.apply(image, write.offset, from, part);
        }
        from += part;
    }
}

impl World {
    fn crash(&self) -> Crash {
        let disks = self
            .disks
            .iter()
            .map(|disk| (disk.stable.clone(), disk.unstable.iter().cloned().collect()))
            .collect();
        Crash { disks }
    }

    fn mix(&mut self, value: u64) {
        self.hash = (self.hash ^ value)
            .wrapping_mul(0x0000_0100_0000_01b3)
            .rotate_left(23);
    }

    fn mix_bytes(&mut self, bytes: &[u8]) {
        self.mix(u64::from(base::crc32c(bytes)));
    }

    fn submit(&mut self, token: u64, request: Request) {
        self.ios += 1;
        let serial = self.serial;
        self.serial += 1;
        let moved = request.len.max(request.data.len() as u64) / PAGE as u64;
        let fixed = if request.op == Op::Flush {
            self.options.flush
        } else {
            self.options.latency
        };
        let jitter = if self.options.jitter.0 == 0 {
            0
        } else {
            self.rng.next_u64() % self.options.jitter.0
        };
        let bytes = if matches!(request.op, Op::Punch | Op::Zero) {
            0
        } else {
            moved * self.options.per_page.0
        };
        let done_at = self.now + fixed.0 + jitter + bytes;
        self.mix(u64::from(request.device.0) ^ request.offset ^ ((request.op as u64) << 56));
        self.mix(done_at.0);
        let disk = &mut self.disks[request.device.0 as usize];
        let payload = payload_of(&request);
        if let Some(Payload::Bytes(bytes)) = &payload {
            let crc = u64::from(base::crc32c(bytes));
            self.hash = (self.hash ^ crc).wrapping_mul(0x0000_0100_0000_01b3);
        }
        let mut covered = Vec::new();
        if let Some(payload) = payload {
            assert!(
                request.offset + payload.len() <= disk.view.size,
                "a write beyond the device's end"
            );
            disk.unstable.push_back(Unstable {
                offset: request.offset,
                payload,
                in_flight: Some(serial),
            });
        }
        if request.op == Op::Flush {
            covered = (0..disk.unstable.len())
                .filter(|i| disk.unstable[*i].in_flight.is_none())
                .collect();
        }
        self.events.insert(
            (done_at, serial),
            Event {
                token,
                request,
                serial,
                covered,
            },
        );
    }

    fn finish(&mut self, event: Event) -> Completion {
        let Event {
            token,
            mut request,
            serial,
            covered,
        } = event;
        let failed = self.fault.as_mut().and_then(|fault| fault(&request));
        let len = request.data.len();
        let disk = &mut self.disks[request.device.0 as usize];
        if let Some(error) = failed {
            // A failed write may have reached the medium in part: it stays unstable for ever.
            for write in &mut disk.unstable {
                if write.in_flight == Some(serial) {
                    write.in_flight = None;
                }
            }
            return Completion {
                token,
                result: Err(error),
                data: request.data,
            };
        }
        match request.op {
            Op::Read => {
                if let Data::Buf(buf, range) = &mut request.data {
                    if request.offset + range.len() as u64 > disk.view.size {
                        return Completion {
                            token,
                            result: Err(IoError::EIO),
                            data: request.data,
                        };
                    }
                    let range = range.clone();
                    disk.view.read(request.offset, &mut buf[range]);
                }
            }
            Op::Write | Op::WriteDurable | Op::Punch | Op::Zero => {
                let index = disk
                    .unstable
                    .iter()
                    .position(|write| write.in_flight == Some(serial))
                    .expect("a write under way is listed");
                let write = disk.unstable[index].clone();
                write
                    .payload
                    .apply(&mut disk.view, write.offset, 0, write.payload.len());
                if request.op == Op::WriteDurable {
                    write
                        .payload
                        .apply(&mut disk.stable, write.offset, 0, write.payload.len());
                    disk.unstable.remove(index);
                    self.forget_index(request.device, index);
                } else {
                    disk.unstable[index].in_flight = None;
                }
            }
            Op::Flush => {
                for (removed, index) in covered.iter().enumerate() {
                    let write = disk
                        .unstable
                        .remove(index - removed)
                        .expect("covered by this flush");
                    write
                        .payload
                        .apply(&mut disk.stable, write.offset, 0, write.payload.len());
                }
                for index in covered.iter().rev() {
                    self.forget_index(request.device, *index);
                }
            }
            Op::Recv | Op::RecvAll | Op::Send | Op::Close => {
                panic!("the simulated world has no streams")
            }
        }
        Completion {
            token,
            result: Ok(len),
            data: request.data,
        }
    }

    /// Entry `index` of the device's unstable list is gone: indexes kept by other flushes move.
    fn forget_index(&mut self, device: DeviceId, index: usize) {
        for event in self.events.values_mut() {
            if event.request.device != device || event.request.op != Op::Flush {
                continue;
            }
            event.covered.retain(|kept| *kept != index);
            for kept in &mut event.covered {
                if *kept > index {
                    *kept -= 1;
                }
            }
        }
    }
}

fn payload_of(request: &Request) -> Option<Payload> {
    match request.op {
        Op::Punch | Op::Zero => Some(Payload::Zeroes(request.len)),
        Op::Write | Op::WriteDurable => match &request.data {
            Data::Buf(buf, range) => Some(Payload::Bytes(Rc::from(&buf[range.clone()]))),
            Data::Slices(slices) => {
                let bytes: Vec<u8> = slices
                    .iter()
                    .flat_map(|slice| slice.iter().copied())
                    .collect();
                Some(Payload::Bytes(Rc::from(bytes)))
            }
            Data::None => panic!("a write without data"),
        },
        _ => None,
    }
}

fn observe(world: &Rc<RefCell<World>>) {
    let taken = {
        let mut world = world.borrow_mut();
        world
            .hook
            .take()
            .map(|hook| (hook, world.ios, world.crash()))
    };
    if let Some((mut hook, ios, crash)) = taken {
        // The world is not borrowed here: the hook may run other worlds, and look at this one.
        hook(ios, &crash);
        world.borrow_mut().hook.get_or_insert(hook);
    }
}

impl Driver for SimDriver {
    fn now(&self) -> Nanos {
        self.0.borrow().now
    }

    fn submit(&mut self, token: u64, request: Request) {
        let watched = !matches!(request.op, Op::Read);
        self.0.borrow_mut().submit(token, request);
        if watched {
            observe(&self.0);
        }
    }

    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>) {
        let next = self.0.borrow().events.keys().next().copied();
        let Some((at, _)) = next.filter(|(at, _)| deadline.is_none_or(|deadline| *at <= deadline))
        else {
            if let Some(deadline) = deadline {
                let mut world = self.0.borrow_mut();
                world.now = world.now.max(deadline);
            }
            return;
        };
        self.0.borrow_mut().now = at;
        loop {
            let event = {
                let mut world = self.0.borrow_mut();
                match world.events.first_entry() {
                    Some(entry) if entry.key().0 == at => entry.remove(),
                    _ => return,
                }
            };
            let watched = !matches!(event.request.op, Op::Read);
            let completion = self.0.borrow_mut().finish(event);
            if watched {
                observe(&self.0);
            }
            let mut world = self.0.borrow_mut();
            if let (Data::Buf(buf, range), Ok(_)) = (&completion.data, &completion.result) {
                world.mix_bytes(&buf[range.clone()]);
            }
            drop(world);
            completions.push(completion);
        }
    }
}
