//! What the drives of today lose with the power.

use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::{Device, RawDevice};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::{DriveFile, TODAY};
use tonearm_rt::{Data, DeviceId, Rt};
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

const BYTES: u64 = 1 << 20;

#[test]
fn only_a_volatile_cache_loses_what_was_not_flushed() {
    for name in TODAY {
        let spec = DriveFile::of_library(name).spec;
        let disk = SimDisk {
            image: DiskImage::new(BYTES),
            timing: Box::new(Drive::new(&spec, &DriveOptions::default())),
            write_cache: spec.write_cache.enabled,
            zeroing: Zeroing::Command,
        };
        let world = SimWorld::with_disks(SimOptions::default(), vec![disk]);
        let rt = Rt::new(world.driver());
        let device: Rc<dyn Device> = Rc::new(RawDevice::new(&rt, DeviceId(0), BYTES, 512, name));
        let pool = BufPool::new(1 << 20);
        let settled = |durable: bool, flush: bool| {
            let mut data = pool.alloc_zeroed(4096);
            data[0] = 1;
            let data = Data::Slices(vec![data.share()]);
            let device = device.clone();
            rt.block_on(async move {
                if durable {
                    device.write_durable(0, data).await.unwrap();
                } else {
                    device.write(0, data).await.unwrap();
                }
                if flush {
                    device.flush().await.unwrap();
                }
            });
            world.crash().is_settled()
        };
        let is_volatile = name != "nvme_plp";
        assert_eq!(settled(false, false), !is_volatile, "{name}: a write");
        assert!(settled(false, true), "{name}: a write and a flush");
        assert!(settled(true, false), "{name}: a durable write");
        rt.shut_down();
    }
}
