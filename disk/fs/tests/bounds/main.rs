//! Files of very many parts: how much an operation reads, how long it keeps others waiting, how large its commits are, and how much
//! memory a check takes. And units of several files; and what waits while there is no space below.

#![allow(clippy::unwrap_used)]

mod check;
mod deletion;
mod search;
mod shortage;
mod units;

use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, Disk, MemberDevice, MemberSpace, NewMember, OpenOptions, TreePages, TreeStop,
    create, plan_create,
};
use tonearm_format::SECTOR;
use tonearm_fs::{Fs, Key, NewInode, Time, Tree, TreeError, Wait};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const FILE: NewInode = NewInode {
    mode: 0o100_644,
    uid: 0,
    gid: 0,
    rdev: 0,
};
/// Nothing takes longer on a drive of the simulator.
const PATIENCE: Nanos = Nanos::from_secs(600);

/// A drive in the simulator, which a power cut leaves as it was.
struct Drive {
    rt: Rt,
    world: SimWorld,
    size: u64,
}

impl Drive {
    fn member(&self) -> Rc<RawDevice> {
        let sector = SECTOR as u32;
        let device = RawDevice::new(&self.rt, DeviceId(0), self.size, sector, "member");
        Rc::new(device)
    }

    /// Opens the store with nothing in memory.
    async fn open(&self) -> Disk {
        let options = OpenOptions {
            memory_bytes: 16 << 20,
            ..OpenOptions::default()
        };
        let member = MemberDevice {
            device: self.member(),
            path: "member".into(),
        };
        let pool = BufPool::new(1 << 20);
        let disk = Disk::open(&self.rt, &pool, vec![member], options, |_| {});
        disk.await.unwrap()
    }

    async fn open_fs(&self) -> Fs {
        let disk = self.open().await;
        Fs::open(&disk, &self.rt, Time::default).await.unwrap()
    }
}

/// Runs `test` with a store of `size_bytes` and the smallest log.
fn with_drive(size_bytes: u64, test: impl AsyncFnOnce(Drive) + 'static) {
    let params = CreateParams {
        log_bytes: Some(1 << 20),
        track_bytes: Some(64 << 10),
        ..CreateParams::new(size_bytes, *b"simulated store!")
    };
    let plan = plan_create(&params, &[MemberSpace::alone([1; 16])]).unwrap();
    let size = plan.member_bytes[0];
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(size)]);
    let rt = Rt::new(world.driver());
    let drive = Drive {
        rt: rt.clone(),
        world: world.clone(),
        size,
    };
    rt.clone().block_on(async move {
        let timer = rt.clone();
        rt.spawn(async move {
            timer.sleep(PATIENCE).await;
            panic!("something waits for ever");
        });
        let member = NewMember::blank(drive.member());
        let pool = BufPool::new(1 << 20);
        let made = create(
            &rt,
            &pool,
            &plan,
            vec![member],
            64 << 10,
            [2; 16],
            |_, _| {},
        );
        made.await.unwrap();
        test(drive).await;
    });
}

/// Changes the tree beside the file system, as a faulty program could.
async fn craft(
    fs: &Fs,
    mut change: impl FnMut(&mut Tree<'_, TreePages<'_>>) -> Result<(), TreeError> + 'static,
) {
    let mut unit = fs.disk().begin();
    unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
        change(&mut Tree(pages)).map_err(|error| match error {
            TreeError::Wait(Wait::Missing(page)) => TreeStop::Missing(page),
            TreeError::Wait(Wait::Full) => TreeStop::Full,
            _ => TreeStop::Refused,
        })
    }));
    unit.end().await.unwrap();
}

/// Adds items of one kind to an inode, at places `0, 2, 4, ...`: no two of them are adjacent.
async fn add_items(fs: &Fs, ino: u64, kind: u8, count: u64, value: Vec<u8>) {
    for first in (0..count).step_by(200) {
        let value = value.clone();
        craft(fs, move |tree| {
            for at in first..count.min(first + 200) {
                let at = 2 * at;
                tree.put(Key { ino, kind, at }, &value)?;
            }
            Ok(())
        })
        .await;
    }
}
