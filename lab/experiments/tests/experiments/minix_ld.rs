//! The Minix file system over the Logical Disk, with concurrent and with sequential units.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, Disk, ListId, MemberDevice, MemberSpace, NewMember, OpenOptions, create,
    plan_create,
};
use tonearm_experiments::Random;
use tonearm_experiments::minix_ld::{
    Deletion, FileError, FileSystem, LogicalDisk, ROOT, Sequential, reserve_blocks,
};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Blocks that the lists of a test may have.
const BLOCKS: u64 = 1000;

/// A store on a drive of a world.
struct Store {
    rt: Rt,
    pool: BufPool,
    device: Rc<RawDevice>,
}

impl Store {
    fn new() -> Self {
        let params = CreateParams {
            log_bytes: Some(4 << 20),
            ..CreateParams::new(24 << 20, *b"simulated store!")
        };
        let plan = plan_create(&params, &[MemberSpace::alone([1; 16])]).unwrap();
        let bytes = plan.member_bytes[0];
        let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(bytes)]);
        let rt = Rt::new(world.driver());
        let pool = BufPool::new(1 << 20);
        let device = Rc::new(RawDevice::new(&rt, DeviceId(0), bytes, 512, "member"));
        let member = NewMember::blank(device.clone());
        let made = rt.block_on({
            let (rt, pool) = (rt.clone(), pool.clone());
            async move { create(&rt, &pool, &plan, vec![member], 1 << 20, [2; 16], |_, _| {}).await }
        });
        made.unwrap();
        Self { rt, pool, device }
    }

    async fn open(&self) -> Disk {
        let member = MemberDevice {
            device: self.device.clone(),
            path: "member".into(),
        };
        let options = OpenOptions::default();
        let disk = Disk::open(&self.rt, &self.pool, vec![member], options, |_| {}).await;
        disk.unwrap()
    }

    /// Runs `work` on a new store, once with units of either kind.
    fn with_both<F: Future<Output = ()> + 'static>(work: impl Fn(Rc<Store>, LogicalDisk) -> F) {
        for sequential in [false, true] {
            let store = Rc::new(Self::new());
            let (rt, own) = (store.rt.clone(), store.clone());
            let disk = rt.block_on(async move {
                let disk = own.open().await;
                reserve_blocks(&disk, BLOCKS).await.unwrap();
                disk.close().await.unwrap();
                let disk = own.open().await;
                match sequential {
                    true => LogicalDisk::Sequential(Sequential::open(&disk).await.unwrap()),
                    false => LogicalDisk::Concurrent(disk),
                }
            });
            rt.block_on(work(store, disk));
        }
    }
}

/// The content of each file.
type Model = BTreeMap<String, (u64, Vec<u8>)>;

/// Creates, writes and deletes files of a directory at random.
async fn work(system: &FileSystem, directory: u64, seed: u64, operations: u64) -> Model {
    let (mut model, mut random) = (Model::new(), Random::new(seed, 0));
    for _ in 0..operations {
        let name = format!("file{}", random.below(300));
        let known = model.get(&name).map(|(file, _)| *file);
        match (known, random.below(4)) {
            (None, _) => {
                let file = system.make(directory, &name).await.unwrap();
                model.insert(name, (file, Vec::new()));
            }
            (Some(_), 0) => {
                system.delete(directory, &name).await.unwrap();
                model.remove(&name);
            }
            (Some(file), _) => {
                let content = &mut model.get_mut(&name).unwrap().1;
                let offset = random.below(content.len() as u64 + 1) as usize;
                let data = vec![random.number() as u8; 1 + random.below(6000) as usize];
                system.write(file, offset as u64, &data).await.unwrap();
                let end = content.len().max(offset + data.len());
                content.resize(end, 0);
                content[offset..offset + data.len()].copy_from_slice(&data);
            }
        }
    }
    model
}

async fn check(system: &FileSystem, directory: u64, model: &Model) {
    for (name, (file, content)) in model {
        assert_eq!(system.look_up(directory, name).await.unwrap(), *file);
        let read = system.read(*file, 0, content.len() as u64 + 10).await;
        assert!(read.unwrap() == *content, "{name}");
    }
}

#[test]
fn files_have_what_was_written_after_a_mount_too() {
    Store::with_both(|store, disk| async move {
        for deletion in [Deletion::HeadFirst, Deletion::TailFirst, Deletion::List] {
            let system = FileSystem::format(&disk, &store.rt, deletion);
            let system = system.await.unwrap();
            let directory = system.make_directory(ROOT, "directory").await.unwrap();
            let model = work(&system, directory, deletion as u64, 700).await;
            assert!(model.len() > 100, "more inodes than a block has");
            check(&system, directory, &model).await;
            let again = FileSystem::mount(&disk, &store.rt, system.number(), deletion);
            let again = again.await.unwrap();
            assert_eq!(again.look_up(ROOT, "directory").await.unwrap(), directory);
            check(&again, directory, &model).await;
            for name in model.keys() {
                again.delete(directory, name).await.unwrap();
            }
        }
        disk.store().close().await.unwrap();
        let disk = store.open().await;
        let report = disk.check_lists().await.unwrap();
        assert_eq!(report.problems, Vec::<String>::new());
        // The inodes, the root and the directory of each file system, and the blocks of the first two.
        assert_eq!(report.lists, 9);
        disk.close().await.unwrap();
    });
}

#[test]
fn names_are_unique_and_short() {
    Store::with_both(|store, disk| async move {
        let system = FileSystem::format(&disk, &store.rt, Deletion::List);
        let system = system.await.unwrap();
        let file = system.make(ROOT, "a").await.unwrap();
        let again = system.make(ROOT, "a").await;
        assert!(matches!(again, Err(FileError::Exists(_))));
        for name in ["", "a name of 15 by"] {
            let made = system.make(ROOT, name).await;
            assert!(matches!(made, Err(FileError::BadName(_))), "{name}");
        }
        system.make(ROOT, "a name of 14 b").await.unwrap();
        let absent = system.look_up(ROOT, "b").await;
        assert!(matches!(absent, Err(FileError::NotFound(_))));
        let absent = system.delete(ROOT, "b").await;
        assert!(matches!(absent, Err(FileError::NotFound(_))));
        let beyond = system.write(file, 1, b"x").await;
        assert!(matches!(beyond, Err(FileError::Beyond(1))));
        disk.store().close().await.unwrap();
    });
}

#[test]
fn two_file_systems_share_a_disk() {
    Store::with_both(|store, disk| async move {
        let first = FileSystem::format(&disk, &store.rt, Deletion::List);
        let first = first.await.unwrap();
        let second = FileSystem::format(&disk, &store.rt, Deletion::HeadFirst);
        let second = second.await.unwrap();
        let models = [
            work(&first, ROOT, 1, 300).await,
            work(&second, ROOT, 2, 300).await,
        ];
        check(&first, ROOT, &models[0]).await;
        check(&second, ROOT, &models[1]).await;
        disk.store().close().await.unwrap();
    });
}

/// The difference between the two is that of their units alone.
#[test]
fn sequential_units_commit_the_same_lists() {
    let found = Rc::new(RefCell::new(Vec::<Vec<(ListId, u64)>>::new()));
    let each = found.clone();
    Store::with_both(move |store, disk| {
        let each = each.clone();
        async move {
            let system = FileSystem::format(&disk, &store.rt, Deletion::HeadFirst);
            let system = system.await.unwrap();
            work(&system, ROOT, 3, 1000).await;
            let log_bytes = disk.store().stats().log_bytes;
            disk.store().close().await.unwrap();
            let disk = store.open().await;
            let mut lists = vec![(ListId(0), log_bytes)];
            for list in disk.lists().await.unwrap() {
                let blocks = disk.list_blocks(list).await.unwrap();
                lists.extend(blocks.into_iter().map(|block| (list, block.0)));
            }
            disk.close().await.unwrap();
            each.borrow_mut().push(lists);
        }
    });
    let found = found.borrow();
    assert!(found[0].len() > 200);
    assert_eq!(found[0][1..], found[1][1..]);
    let (new, old) = (found[0][0].1 as f64, found[1][0].1 as f64);
    assert!((new / old - 1.0).abs() < 0.01, "{new} {old} bytes of log");
}
