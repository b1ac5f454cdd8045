//! A read that a commit overtakes, in a simulated world, where the commit comes at any moment of the read.

use crate::Jobs;
use crate::files::CREATE;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::RawDevice;
use tonearm_disk::{CreateParams, Disk, MemberDevice, MemberSpace, NewMember, OpenOptions};
use tonearm_format::SECTOR;
use tonearm_rt::{DeviceId, Rt};
use tonearm_store::Store;
use tonearm_store::files::{Files, Open};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

fn raw(rt: &Rt, bytes: u64) -> Rc<RawDevice> {
    let device = RawDevice::new(rt, DeviceId(0), bytes, SECTOR as u32, "member");
    Rc::new(device)
}

/// A new store, closed, whose file `f` is all 1.
pub fn with_file() -> DiskImage {
    let params = CreateParams {
        log_bytes: Some(2 << 20),
        track_bytes: Some(64 << 10),
        ..CreateParams::new(8 << 20, *b"simulated store!")
    };
    let plan = tonearm_disk::plan_create(&params, &[MemberSpace::alone([1; 16])]).unwrap();
    let size = plan.member_bytes[0];
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(size)]);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let member = NewMember::blank(raw(&own, size));
        let pool = BufPool::new(1 << 20);
        tonearm_disk::create(&own, &pool, &plan, vec![member], 4096, [2; 16], |_, _| {})
            .await
            .unwrap();
    });
    let store = opened(&rt, size, OpenOptions::default());
    let files = store.files().unwrap();
    let file = files.open("f", CREATE).unwrap();
    files.write(file, None, 0, &[1; 4096]).unwrap();
    store.close().unwrap();
    drop((files, store));
    rt.shut_down();
    world.images().remove(0)
}

pub fn opened(rt: &Rt, size: u64, options: OpenOptions) -> Store {
    let own = rt.clone();
    let disk = rt.block_on(async move {
        let member = MemberDevice::new(raw(&own, size));
        let pool = BufPool::new(1 << 20);
        Disk::open(&own, &pool, vec![member], options, |_| {}).await
    });
    Store::over(rt.clone(), disk.unwrap())
}

#[test]
fn read_result_dates_from_the_start_of_the_read() {
    let image = with_file();
    let mut overtaken = 0;
    for delay in (0..400).step_by(10) {
        let size = image.size;
        let world = SimWorld::new(SimOptions::default(), vec![image.clone()]);
        let rt = Rt::new(world.driver());
        let store = opened(&rt, size, OpenOptions::default());
        let files = store.files().unwrap();
        let file = files.open("f", Open::default()).unwrap();
        let begun = store.run(move |context| async move {
            let fs = context.files.get().await.unwrap();
            let file = fs.at(b"f").await.unwrap().ino;
            context.rt.clone().spawn_detached(async move {
                context.rt.sleep(Nanos::from_micros(delay)).await;
                fs.write(file, 0, &[2; 4096]).await.unwrap();
            });
        });
        begun.unwrap();
        let mut counter = [0; 16];
        files.read(file, None, 24, &mut counter).unwrap();
        overtaken += u32::from(counter == [1; 16]);
        let later = store.run(|context| async move {
            context.rt.sleep(Nanos::from_millis(1)).await;
        });
        later.unwrap();
        files.read(file, None, 24, &mut counter).unwrap();
        assert_eq!(counter, [2; 16], "a commit {delay} us after the read began");
        store.close().unwrap();
        drop((files, store));
        rt.shut_down();
    }
    assert!(
        overtaken > 5,
        "{overtaken} commits came later than the read"
    );
}
