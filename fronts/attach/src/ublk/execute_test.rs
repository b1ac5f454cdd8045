//! Requests of the kernel over a disk in a simulated world. Each kind is the last one before a power cut: no later request makes up
//! for it.

use super::abi::{IoRequest, Verb, data_offset};
use super::execute::Executor;
use rustix::fs::{MemfdFlags, memfd_create};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, RawDevice};
use tonearm_disk::{
    CreateParams, Disk, MemberDevice, MemberSpace, NewMember, OpenOptions, create, plan_create,
};
use tonearm_requests::{Recorder, Requests};
use tonearm_rt::{DeviceId, Rt, Semaphore};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const DISK_BYTES: u64 = 4 << 20;
const BLOCK: usize = 4096;
/// The tag of all requests.
const TAG: u16 = 3;

fn device(rt: &Rt, bytes: u64) -> Rc<dyn Device> {
    Rc::new(RawDevice::new(rt, DeviceId(0), bytes, 512, "store"))
}

/// A store whose volume `main` is all zeroes, closed.
fn created() -> Vec<DiskImage> {
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
        let members = vec![NewMember::blank(device(&own, bytes))];
        let pool = BufPool::new(1 << 20);
        let made = create(&own, &pool, &plan, members, DISK_BYTES, [3; 16], |_, _| {});
        made.await.unwrap();
    });
    rt.shut_down();
    world.images()
}

/// A device of the kernel.
struct Served {
    world: SimWorld,
    rt: Rt,
    executor: Rc<Executor>,
}

impl Served {
    fn on(images: Vec<DiskImage>) -> Self {
        let bytes = images[0].size;
        let world = SimWorld::new(SimOptions::default(), images);
        let rt = Rt::new(world.driver());
        let pool = BufPool::new(1 << 20);
        let (own, buffers) = (rt.clone(), pool.clone());
        let volume = rt.block_on(async move {
            let member = MemberDevice {
                device: device(&own, bytes),
                path: "store".to_owned(),
            };
            let options = OpenOptions::default();
            let opened = Disk::open(&own, &buffers, vec![member], options, |_| {});
            opened.await.unwrap().volume("main").unwrap()
        });
        let executor = Rc::new(Executor {
            name: "main".to_owned(),
            volume: volume.for_kernel_client(),
            pool,
            budget: Semaphore::new(&rt, 1 << 20),
            requests: Requests::new(&rt, &Recorder::new(&rt)),
            data: memfd_create("ublkc", MemfdFlags::empty()).unwrap(),
        });
        Self {
            world,
            rt,
            executor,
        }
    }

    /// A device that has ones in blocks 0 to 3, durably.
    fn with_ones() -> Self {
        let served = Self::on(created());
        served.change(Verb::Write, 0..4, 1, false);
        served.request(Verb::Flush, 0..0, false, false);
        served
    }

    /// One request for `blocks` from its beginning to its end.
    fn request(&self, verb: Verb, blocks: std::ops::Range<u64>, durable: bool, keep_space: bool) {
        let length = (blocks.end - blocks.start) * BLOCK as u64;
        let request = IoRequest {
            verb,
            offset: blocks.start * BLOCK as u64,
            length,
            durable,
            keep_space,
        };
        let executor = self.executor.clone();
        let result = async move { executor.execute(TAG, request).await };
        let has_data = matches!(verb, Verb::Read | Verb::Write);
        let expected = if has_data { length as i32 } else { 0 };
        assert_eq!(self.rt.block_on(result), expected, "{verb:?}");
    }

    /// A request that changes `blocks`, a write with `byte`; zeroes keep their space for any byte but 0.
    fn change(&self, verb: Verb, blocks: std::ops::Range<u64>, byte: u8, durable: bool) {
        let data = vec![byte; (blocks.end - blocks.start) as usize * BLOCK];
        rustix::io::pwrite(&self.executor.data, &data, data_offset(TAG)).unwrap();
        self.request(verb, blocks, durable, byte != 0);
    }

    /// The first four blocks, each by its first byte, after a power cut now, of several images.
    fn after_a_cut(&self) -> Vec<[u8; 4]> {
        let crash = self.world.crash();
        let image = |seed| {
            let after = Self::on(crash.images(seed));
            after.request(Verb::Read, 0..4, false, false);
            let mut bytes = vec![0; 4 * BLOCK];
            rustix::io::pread(&after.executor.data, &mut bytes[..], data_offset(TAG)).unwrap();
            after.rt.shut_down();
            [0, 1, 2, 3].map(|block| bytes[block * BLOCK])
        };
        (0..8).map(image).collect()
    }
}

/// Kind, blocks, byte, and the blocks after it.
type Change = (Verb, std::ops::Range<u64>, u8, [u8; 4]);

fn changes() -> [Change; 4] {
    [
        (Verb::Write, 1..2, 7, [1, 7, 1, 1]),
        (Verb::Discard, 1..3, 0, [1, 0, 0, 1]),
        (Verb::WriteZeroes, 1..3, 0, [1, 0, 0, 1]),
        (Verb::WriteZeroes, 3..4, 1, [1, 1, 1, 0]),
    ]
}

#[test]
fn each_durable_request_survives_a_cut() {
    for (verb, blocks, byte, after) in changes() {
        let served = Served::with_ones();
        served.change(verb, blocks, byte, true);
        assert_eq!(served.after_a_cut(), [after; 8], "{verb:?}");
        served.rt.shut_down();
    }
}

#[test]
fn a_flush_makes_each_request_before_it_durable() {
    for (verb, blocks, byte, after) in changes() {
        let served = Served::with_ones();
        served.change(verb, blocks, byte, false);
        let found = served.after_a_cut();
        assert!(found.contains(&[1; 4]), "a cut loses {verb:?}: {found:?}");
        served.request(Verb::Flush, 0..0, false, false);
        assert_eq!(served.after_a_cut(), [after; 8], "{verb:?}");
        served.rt.shut_down();
    }
}
