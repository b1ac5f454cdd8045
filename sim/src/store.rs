//! Small stores on simulated devices.

use device::RawDevice;
use disk::{
    CreateParams, Disk, DiskError, MemberDevice, MemberSpace, NewMember, OpenOptions, plan_create,
};
use drive::{DiskImage, SimOptions, SimWorld};
use engine::{Engine, EngineError};
use format::{Roles, SECTOR, SYSTEM_BLOCKS};
use rt::{DeviceId, Rt};
use std::rc::Rc;

/// Identity of all simulated stores.
pub const STORE: [u8; 16] = *b"simulated store!";

/// How a simulated store is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of a home block.
    pub block_size: u32,
    /// Bytes of a log track.
    pub track_bytes: u32,
    /// Tracks of the log.
    pub tracks: u64,
    /// Blocks of the part that workloads use.
    pub blocks: u64,
    /// Log and data on members of their own.
    pub split: bool,
}

/// The members of a store, switched off.
#[derive(Clone)]
pub struct StoreImage {
    /// Their content.
    pub disks: Vec<DiskImage>,
    /// How the store is laid out.
    pub shape: Shape,
}

impl Shape {
    /// First block of the part that workloads use.
    pub fn first_block(&self) -> u64 {
        SYSTEM_BLOCKS
    }

    /// Bytes of the volume that an empty store has.
    pub fn main_bytes(&self) -> u64 {
        (self.blocks * u64::from(self.block_size)).max(1 << 20)
    }

    /// Makes an empty store.
    ///
    /// # Panics
    /// When the shape cannot be.
    pub fn create(&self) -> StoreImage {
        let params = CreateParams {
            size_bytes: self.main_bytes(),
            log_bytes: Some(self.tracks * u64::from(self.track_bytes)),
            track_bytes: Some(self.track_bytes),
            block_size: self.block_size,
            store: STORE,
            created_unix_s: 0,
        };
        let space = |roles, path: &str| MemberSpace {
            roles,
            available_bytes: None,
            uuid: [1; 16],
            path: path.into(),
        };
        let spaces = if self.split {
            vec![
                space(
                    Roles {
                        log: true,
                        data: false,
                    },
                    "",
                ),
                space(
                    Roles {
                        log: false,
                        data: true,
                    },
                    "data",
                ),
            ]
        } else {
            vec![space(
                Roles {
                    log: true,
                    data: true,
                },
                "",
            )]
        };
        let plan = plan_create(&params, &spaces).expect("a simulated store can be planned");
        let disks = plan
            .member_bytes
            .iter()
            .map(|bytes| DiskImage::new(*bytes))
            .collect();
        let world = SimWorld::new(SimOptions::default(), disks);
        let rt = Rt::new(world.driver());
        let pool = base::BufPool::new(1 << 20);
        let members = plan
            .member_bytes
            .iter()
            .enumerate()
            .map(|(index, bytes)| NewMember {
                device: raw(&rt, index, *bytes),
                blank: true,
            })
            .collect();
        let rt2 = rt.clone();
        rt.block_on(async move {
            disk::create(
                &rt2,
                &pool,
                &plan,
                members,
                params.size_bytes,
                [2; 16],
                |_, _| {},
            )
            .await
            .expect("a simulated store can be created");
        });
        let image = StoreImage {
            disks: world.images(),
            shape: *self,
        };
        rt.shut_down();
        image
    }
}

fn raw(rt: &Rt, index: usize, bytes: u64) -> Rc<dyn device::Device> {
    let name = format!("member-{index}");
    Rc::new(RawDevice::new(
        rt,
        DeviceId(index as u32),
        bytes,
        SECTOR as u32,
        &name,
    ))
}

impl StoreImage {
    /// Opens the store in `world`, which must have this image's devices.
    ///
    /// # Errors
    /// What the engine says.
    pub async fn open(&self, rt: &Rt, options: OpenOptions) -> Result<Engine, EngineError> {
        let pool = base::BufPool::new(1 << 20);
        Engine::open(rt, &pool, self.members(rt), options, |_| {}).await
    }

    /// Opens the store with its volumes, as [`StoreImage::open`] does.
    ///
    /// # Errors
    /// What the disk says.
    pub async fn open_disk(&self, rt: &Rt, options: OpenOptions) -> Result<Disk, DiskError> {
        let pool = base::BufPool::new(1 << 20);
        Disk::open(rt, &pool, self.members(rt), options, |_| {}).await
    }

    /// The members' devices in the world of `rt`.
    pub fn members(&self, rt: &Rt) -> Vec<MemberDevice> {
        let member = |(index, disk): (usize, &DiskImage)| MemberDevice {
            device: raw(rt, index, disk.size),
            path: format!("member-{index}"),
        };
        self.disks.iter().enumerate().map(member).collect()
    }
}
