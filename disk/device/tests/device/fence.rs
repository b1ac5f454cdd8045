//! No flush succeeds after a failed one.

use std::rc::Rc;
use tonearm_device::{Device, FlushFence, RawDevice};
use tonearm_rt::{DeviceId, IoError, Op, Rt};
use tonearm_world::filters::{Effect, Fault, FaultPlan};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

#[test]
fn after_a_failed_flush_every_flush_fails() {
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(1 << 20)]);
    let rt = Rt::new(world.driver());
    let raw = Rc::new(RawDevice::new(&rt, DeviceId(0), 1 << 20, 512, "sim"));
    let plan = FaultPlan::new();
    plan.once(
        |access| access.op == Op::Flush && access.number == 1,
        Effect::Fail(IoError::EIO),
    );
    let broken = Rc::new(Fault::new(raw, &plan));
    let device: Rc<dyn Device> = Rc::new(FlushFence::new(broken));
    rt.block_on(async move {
        // The first flush is under way when the second one fails.
        let first = device.flush();
        assert_eq!(device.flush().await, Err(IoError::EIO));
        assert_eq!(first.await, Err(IoError::EIO));
        assert_eq!(device.flush().await, Err(IoError::EIO));
    });
}
