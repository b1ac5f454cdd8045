use crate::{Device, Fault, FaultPlan, OpStats, RawDevice, Stats};
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Data, DeviceId, IoError, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

#[test]
fn counts_bytes_and_times_are_kept_for_each_kind() {
    let options = SimOptions {
        latency: Nanos(70),
        jitter: Nanos(0),
        per_page: Nanos(5),
        flush: Nanos(60),
        ..SimOptions::default()
    };
    let world = SimWorld::new(options, vec![DiskImage::new(1 << 20)]);
    let rt = Rt::new(world.driver());
    let raw = Rc::new(RawDevice::new(&rt, DeviceId(0), 1 << 20, 512, "sim"));
    let plan = FaultPlan::new();
    plan.on_nth(3, crate::Effect::Fail(IoError::EIO));
    let stats = Rc::new(Stats::new(&rt, Rc::new(Fault::new(raw, &plan))));
    let device: Rc<dyn Device> = stats.clone();
    rt.block_on(async move {
        let buf = |len| BufPool::new(0).alloc_zeroed(len);
        device.write(0, Data::whole(buf(4096))).await.unwrap();
        device.write(0, Data::whole(buf(8192))).await.unwrap();
        device.flush().await.unwrap();
        device.read(0, buf(512)).await.unwrap_err();
        device.punch(0, 65_536).await.unwrap();
        drop(device.zero(0, 512));
    });
    let seen = stats.snapshot();
    let write = OpStats {
        begun: 2,
        ended: 2,
        failed: 0,
        bytes: 12_288,
        latency_sum: Nanos(155),
        latency_max: Nanos(80),
    };
    assert_eq!(seen.write, write);
    assert_eq!(seen.write.latency_mean(), Nanos(77));
    assert_eq!(seen.flush.latency_mean(), Nanos(60));
    assert_eq!(
        (seen.read.begun, seen.read.ended, seen.read.failed),
        (1, 0, 1)
    );
    assert_eq!(seen.punch.bytes, 65_536);
    assert_eq!((seen.zero.begun, seen.zero.ended), (1, 0));
    assert_eq!(seen.write_durable, OpStats::default());
}
