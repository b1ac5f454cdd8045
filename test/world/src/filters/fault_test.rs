use super::{Effect, Fault, FaultPlan};
use crate::{DiskImage, SimOptions, SimWorld};
use std::rc::Rc;
use tonearm_base::{Buf, BufPool};
use tonearm_device::{Device, RawDevice};
use tonearm_rt::{Data, DeviceId, IoError, Op, Rt};

struct Broken {
    rt: Rt,
    plan: FaultPlan,
    device: Rc<dyn Device>,
}

fn broken() -> Broken {
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(1 << 20)]);
    let rt = Rt::new(world.driver());
    let plan = FaultPlan::new();
    let raw = Rc::new(RawDevice::new(&rt, DeviceId(0), 1 << 20, 512, "sim"));
    let device = Rc::new(Fault::new(raw, &plan));
    Broken { rt, plan, device }
}

impl Broken {
    fn write(&self, offset: u64, byte: u8) -> Result<(), IoError> {
        let data = Data::whole(BufPool::new(0).copy_of(&[byte; 4096]));
        self.rt.block_on(self.device.write(offset, data))
    }

    fn read(&self, offset: u64) -> Result<Buf, IoError> {
        let buf = BufPool::new(0).alloc(4096);
        self.rt.block_on(self.device.read(offset, buf))
    }
}

#[test]
fn the_nth_operation_fails_and_changes_nothing() {
    let broken = broken();
    broken
        .plan
        .on(|access| access.number == 1, Effect::Fail(IoError::EIO));
    assert_eq!(broken.write(0, 1), Ok(()));
    assert_eq!(broken.write(0, 2), Err(IoError::EIO));
    assert_eq!(broken.read(0).unwrap()[..], [1; 4096]);
    assert_eq!((broken.plan.seen(), broken.plan.acted()), (3, 1));
}

#[test]
fn operations_can_fail_after_they_took_effect() {
    let broken = broken();
    broken
        .plan
        .once(|access| access.is_write(), Effect::FailAfter(IoError::EIO));
    assert_eq!(broken.write(0, 1), Err(IoError::EIO));
    assert_eq!(broken.read(0).unwrap()[..], [1; 4096]);
    assert_eq!(broken.write(0, 2), Ok(()));
}

#[test]
fn lost_writes_and_flushes_look_like_success() {
    let broken = broken();
    broken
        .plan
        .once(|access| access.touches(4096), Effect::Lose);
    for place in 0..3 {
        assert_eq!(broken.write(place * 4096, 9), Ok(()));
    }
    let first_bytes: Vec<u8> = (0..3).map(|i| broken.read(i * 4096).unwrap()[0]).collect();
    assert_eq!(first_bytes, [9, 0, 9]);
    broken
        .plan
        .on(|access| access.op == Op::Flush, Effect::Lose);
    assert_eq!(broken.rt.block_on(broken.device.flush()), Ok(()));
}

#[test]
fn a_full_device_refuses_writes_until_there_is_room() {
    let broken = broken();
    broken.plan.set_room(Some(10_000));
    assert_eq!(broken.write(0, 1), Ok(()));
    assert_eq!(broken.write(4096, 1), Ok(()));
    assert_eq!(broken.write(8192, 1), Err(IoError::ENOSPC));
    assert_eq!(broken.read(8192).unwrap()[0], 0);
    broken.plan.set_room(None);
    assert_eq!(broken.write(8192, 1), Ok(()));
}
