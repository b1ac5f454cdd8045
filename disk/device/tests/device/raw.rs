//! Checks of a device of the driver.

use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, RawDevice};
use tonearm_rt::{Data, DeviceId, IoError, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

#[test]
fn ranges_are_checked_before_the_driver_sees_them() {
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(10_000)]);
    let rt = Rt::new(world.driver());
    let device: Rc<dyn Device> = Rc::new(RawDevice::new(&rt, DeviceId(0), 10_000, 1, "odd"));
    let write = |offset, len| {
        let data = Data::whole(BufPool::new(0).alloc_zeroed(len));
        rt.block_on(device.write(offset, data))
    };
    assert_eq!(write(9_999, 1), Ok(()));
    assert_eq!(write(9_999, 2), Err(IoError::EINVAL));
    assert_eq!(write(u64::MAX, 2), Err(IoError::EINVAL));
    assert_eq!(world.ios(), 1);
    assert_eq!((device.name(), device.size_bytes()), ("odd", 10_000));
}
