//! Small file systems with changed items and right checksums, as a faulty or hostile program could leave them.
//!
//! An input names edits: of items, of words of the tree's header, of records of lists. They are made by a commit of the store
//! itself, so that every checksum is right. Then the file system is opened, read, changed, verified, repaired, and read as a restore
//! of single files reads it. Nothing may panic, wait for ever or take memory without a bound. The fuzz target `trees` and the tests
//! of `disk/fs` and of the mount (`test/sim/tests/hostile.rs`) share this file.

use std::rc::Rc;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::RawDevice;
use tonearm_disk::{
    BlockId, CreateParams, Disk, MemberDevice, MemberSpace, NewMember, OpenOptions, TreePages,
    TreeStop, create, plan_create,
};
use tonearm_engine::CommitChange;
use tonearm_format::{LIST_RECORD_BYTES, SECTOR, Zones};
use tonearm_fs::{
    ACL_ACCESS, Allocate, Fs, FsError, NewInode, OfflineError, OfflineTree, ROOT_INO, Rename, Seek,
    SetAttr, SetXattr, Time,
};
use tonearm_layout::{Piece, RepairOptions};
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, SimOptions, SimWorld};

const BLOCK: u32 = 4096;
/// No operation on a small store takes longer on its drive.
const PATIENCE: Nanos = Nanos::from_secs(600);
/// Bytes of an edit, and most edits of an input.
pub const EDIT_BYTES: usize = 14;
const EDITS_MAX: usize = 8;
/// Most names of a directory, and directories, that are looked at.
const NAMES_MAX: usize = 50;
/// Bytes of an item before its value.
const ITEM_BYTES: usize = 19;

const FILE: NewInode = NewInode {
    mode: 0o100_644,
    uid: 0,
    gid: 0,
    rdev: 0,
};
const DIRECTORY: NewInode = NewInode {
    mode: 0o040_755,
    ..FILE
};

/// A store with a file system.
pub struct Base(DiskImage);

impl Base {
    /// A store with some files: of several extents, with many names, with attributes, without a name, to be cut off.
    pub fn new() -> Self {
        let params = CreateParams {
            log_bytes: Some(1 << 20),
            track_bytes: Some(64 << 10),
            block_size: BLOCK,
            ..CreateParams::new(6 << 20, *b"simulated store!")
        };
        let plan = plan_create(&params, &[MemberSpace::alone([1; 16])]).expect("sizes that work");
        let size = plan.member_bytes[0];
        let ((), image) = in_world(&DiskImage::new(size), async move |rt, pool| {
            let member = NewMember::blank(members(&rt, size).remove(0).device);
            let made = create(
                &rt,
                &pool,
                &plan,
                vec![member],
                64 << 10,
                [2; 16],
                |_, _| {},
            );
            made.await.expect("a drive without faults");
            let disk = open(&rt, &pool, size).await;
            let fs = Fs::open(&disk, &rt, Time::default).await;
            fill(&fs.expect("a store of ours"))
                .await
                .expect("room for all of it");
            disk.flush().await.expect("a drive without faults");
        });
        Self(image)
    }

    /// Makes the edits of `input`, and does all of it, through the file system.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn run(&self, input: &[u8]) {
        self.run_with(input, async |rt, fs| use_all(rt, fs).await);
    }

    /// Makes the edits of `input`, and does all of it. `use_all` does what programs can do.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn run_with(&self, input: &[u8], use_all: impl AsyncFnOnce(&Rt, &Fs) + 'static) {
        let size = self.0.size;
        let (edits, _) = input.as_chunks::<EDIT_BYTES>();
        let edits: Vec<Edit> = edits.iter().take(EDITS_MAX).map(Edit::new).collect();
        in_world(&self.0, async move |rt, pool| {
            let disk = open(&rt, &pool, size).await;
            for edit in edits {
                edit.make(&disk, &pool).await;
            }
            restore(&disk).await;
            let _ = tonearm_fs::check(&disk).await;
            let blocks = (0..disk.list_blocks_end().min(64)).map(BlockId).collect();
            let _ = tonearm_fs::owners(&disk, &blocks).await;
            if let Ok(fs) = Fs::open(&disk, &rt, Time::default).await {
                use_all(&rt, &fs).await;
            }
            let _ = tonearm_fs::check(&disk).await;
            let _ = disk.check_lists().await;
            repair(&disk).await;
            let _ = disk.close().await;
        });
    }
}

/// Repairs it as `check --repair` does, and verifies it again.
async fn repair(disk: &Disk) {
    let home = disk.engine().home();
    for group in 0..home.shape().groups() {
        if let Some(parity) = home.parity() {
            let _ = parity.scrub_group(group).await;
        }
        let _ = home.repair_group(group, RepairOptions::default()).await;
    }
    let _ = tonearm_fs::check(disk).await;
    let _ = disk.check_lists().await;
}

/// Runs random inputs.
///
/// # Panics
/// When one breaks a promise: its bytes are in the text.
pub fn run_random(runs: usize, run: impl Fn(&Base, &[u8])) {
    let base = Base::new();
    let mut state = 1u64;
    // splitmix64
    let mut random = move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    };
    run(&base, &[]);
    for number in 0..runs {
        let edits = 1 + number % 3;
        let bytes = (0..edits * EDIT_BYTES).map(|_| random() as u8);
        let input: Vec<u8> = bytes.collect();
        let own = std::panic::AssertUnwindSafe(|| run(&base, &input));
        assert!(
            std::panic::catch_unwind(own).is_ok(),
            "run {number}: {input:?}"
        );
    }
}

async fn fill(fs: &Fs) -> Result<(), FsError> {
    let file = fs.make(ROOT_INO, b"file", FILE).await?.ino;
    fs.write(file, 0, &[1; 9000]).await?;
    fs.write(file, 10 << 12, &[2; 4096]).await?;
    let a = fs.make(ROOT_INO, b"a", DIRECTORY).await?.ino;
    let b = fs.make(a, b"b", DIRECTORY).await?.ino;
    fs.make(ROOT_INO, b"c", DIRECTORY).await?;
    let deep = fs.make(b, b"deep", FILE).await?.ino;
    fs.write(deep, 5000, &[3; 30_000]).await?;
    fs.link(deep, a, b"second name").await?;
    fs.make_link(ROOT_INO, b"link", &[b't'; 1200], FILE).await?;
    for number in 0..20u8 {
        let name = [b'x', b'a' + number];
        fs.set_xattr(file, &name, &[number; 200], SetXattr::Any)
            .await?;
    }
    let acl = [
        2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 7, 0, 0, 0, 4, 0, 4, 0, 255, 255,
        255, 255, 16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255,
    ];
    fs.set_acl(deep, ACL_ACCESS, Some(&acl), true).await?;
    let unnamed = fs.make_unnamed(ROOT_INO, FILE).await?.ino;
    fs.write(unnamed, 0, &[4; 5000]).await?;
    Ok(())
}

/// A change of a few bytes.
struct Edit {
    index: usize,
    field: u8,
    at: usize,
    op: u8,
    value: u64,
}

impl Edit {
    fn new(bytes: &[u8; EDIT_BYTES]) -> Self {
        Self {
            index: usize::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            field: bytes[2],
            at: usize::from(u16::from_le_bytes([bytes[3], bytes[4]])),
            op: bytes[5],
            value: u64::from_le_bytes(bytes[6..14].try_into().expect("eight bytes")),
        }
    }

    /// Changes a number of 1, 2, 4 or 8 bytes.
    fn change(&self, bytes: &mut [u8], at: usize) {
        let grain = 1 << (self.op & 3);
        let Some(place) = bytes.get_mut(at..at + grain) else {
            return;
        };
        let mut old = [0; 8];
        old[..grain].copy_from_slice(place);
        let old = u64::from_le_bytes(old);
        let new = match self.op >> 2 & 7 {
            0 | 1 => self.value,
            2 => u64::MAX,
            3 => 1 << (self.value & 63),
            4 => old.wrapping_add(u64::from_le_bytes(
                i64::from(self.value as i8).to_le_bytes(),
            )),
            5 => (1 << (self.value & 63)) - 1,
            6 => self.value & 15,
            _ => 0,
        };
        place.copy_from_slice(&new.to_le_bytes()[..grain]);
    }

    async fn make(self, disk: &Disk, pool: &BufPool) {
        match self.field & 15 {
            0 => self.change_lists(disk, pool).await,
            _ => self.change_tree(disk).await,
        }
    }

    /// Changes a record of a list or a block.
    async fn change_lists(&self, disk: &Disk, pool: &BufPool) {
        let (engine, zones) = (disk.engine(), Zones::new(BLOCK));
        let pages: Vec<u64> = (0..engine.size_blocks())
            .filter(|home| {
                let block = disk.list_block_at(*home);
                block.is_some_and(|block| block.0 % zones.blocks() < 2)
            })
            .collect();
        let Some(home) = pages.get(self.at % pages.len().max(1)) else {
            return;
        };
        let Ok(read) = engine.read(*home, 1).await else {
            return;
        };
        let mut bytes = vec![0; BLOCK as usize];
        if let Some(Piece::Data(data)) = read.first() {
            bytes.copy_from_slice(data);
        }
        // The first records are those in use.
        let at = self.index % (20 * LIST_RECORD_BYTES as usize);
        self.change(&mut bytes, at);
        let data = pool.copy_of(&bytes).share();
        let admission = engine.admit(1, 0).await.expect("a log with room");
        let write = CommitChange::Write { first: *home, data };
        engine
            .commit(admission, vec![write])
            .expect("a store that works");
    }

    /// Changes the header of the tree, the header of a node, or an item.
    async fn change_tree(self, disk: &Disk) {
        let mut unit = disk.begin();
        unit.set_tree(Box::new(move |pages: &mut TreePages<'_>| {
            let mut items = Vec::new();
            for page in 1..pages.count() {
                let bytes = pages.page(page)?;
                let short = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
                if bytes.starts_with(b"TNND") {
                    let slots = (0..short(6)).map(|slot| short(16 + 2 * slot) * 8);
                    items.extend(slots.map(|at| (page, at)));
                }
            }
            let item = items.get(self.index % items.len().max(1));
            let (page, at) = match (self.field & 15, item) {
                (1 | 2, _) | (_, None) => (0, self.at % 128),
                (3, _) => (1 + self.index as u64 % (pages.count() - 1), self.at % 64),
                (4, Some((page, at))) => (*page, *at),
                (5 | 6, Some((page, at))) => (*page, at + 8),
                (7, Some((page, at))) => (*page, at + 16),
                (8, Some((page, at))) => (*page, at + 17),
                (_, Some((page, at))) => (*page, at + ITEM_BYTES + self.at % 104),
            };
            self.change(pages.page_mut(page)?, at);
            Ok::<(), TreeStop>(())
        }));
        // Pages that are zeroes make no commit.
        let _ = unit.end().await;
    }
}

/// Reads the tree as a restore of single files does.
async fn restore(disk: &Disk) {
    let mut pages: Vec<Vec<u8>> = Vec::new();
    let read = disk.look_at_tree(|tree| {
        pages.clear();
        for page in 0..tree.count() {
            pages.push(tree.page(page)?.to_vec());
        }
        Ok(())
    });
    if read.await.is_err() {
        return;
    }
    let count = pages.len() as u64;
    let read = move |page: u64, into: &mut [u8]| {
        into.copy_from_slice(&pages[page as usize]);
        Ok(())
    };
    let Ok(Some(mut tree)) = OfflineTree::open(BLOCK as usize, count, read) else {
        return;
    };
    let mut paths = Vec::new();
    let _ = tree.files(|path, _| {
        paths.push(path.to_vec());
        Ok::<(), OfflineError>(())
    });
    let more = [&b"link"[..], b"a/b/deep", b"a", b"none"].map(<[u8]>::to_vec);
    for path in paths.into_iter().take(NAMES_MAX).chain(more) {
        let _ = tree.siblings(&path, |_| {});
        if let Ok(file) = tree.find(&path) {
            let end = file.inode.size.div_ceil(u64::from(BLOCK));
            let _ = tree.extents(file.ino, end, |_, _| {});
        }
    }
}

/// Does all that programs can do. Whatever fails is an error.
async fn use_all(rt: &Rt, fs: &Fs) {
    let _ = fs.space().await;
    let (mut dirs, mut files) = (vec![ROOT_INO], Vec::new());
    let mut looked = 0;
    while let Some(dir) = dirs.get(looked).copied() {
        looked += 1;
        let listed = fs.list_with_attrs(dir, 0, NAMES_MAX).await;
        let listed = match listed {
            Ok(listed) => listed.into_iter().map(|(listed, _)| listed).collect(),
            Err(_) => fs.list(dir, 0, NAMES_MAX).await.unwrap_or_default(),
        };
        for one in listed {
            let _ = fs.look_up(dir, &one.name).await;
            let is_own = matches!(&one.name[..], b"." | b"..");
            match u32::from(one.kind) << 12 {
                0o040_000 if !is_own && dirs.len() < NAMES_MAX => dirs.push(one.ino),
                _ => files.push((dir, one.name, one.ino)),
            }
        }
    }
    files.truncate(NAMES_MAX);
    for (number, (dir, name, ino)) in files.iter().enumerate() {
        let (ino, size) = (*ino, fs.attr(*ino).await.map_or(0, |attr| attr.inode.size));
        for name in fs.xattrs(ino).await.unwrap_or_default().iter().take(3) {
            let _ = fs.xattr(ino, name).await;
            let _ = fs.remove_xattr(ino, name).await;
        }
        let _ = fs.read_link(ino).await;
        let _ = fs.read(ino, 0, 1 << 20).await;
        let _ = fs.read(ino, size.saturating_sub(100), 200).await;
        for what in [Seek::Data, Seek::Hole] {
            let _ = fs.seek(ino, 0, what).await;
            let _ = fs.seek(ino, size / 2, what).await;
        }
        let _ = fs.write(ino, 4000, &[9; 200]).await;
        let _ = fs.write(ino, size, &[9; 200]).await;
        for how in [Allocate::Punch, Allocate::Zero, Allocate::KeepSize] {
            let _ = fs.allocate(ino, 3000, 20_000, how).await;
        }
        let _ = fs.set_xattr(ino, b"new", &[7; 40], SetXattr::Any).await;
        let set = SetAttr {
            mode: Some(0o640),
            size: Some(5000).filter(|_| number % 2 == 0),
            ..SetAttr::default()
        };
        let _ = fs.set_attr(ino, set).await;
        let _ = fs
            .link(ino, ROOT_INO, format!("link {number}").as_bytes())
            .await;
        if number % 3 == 0 && fs.open_handle(ino).is_ok() {
            let _ = fs.unlink(*dir, name).await;
            let empty = SetAttr {
                size: Some(0),
                ..SetAttr::default()
            };
            let _ = fs.set_attr(ino, empty).await;
            fs.close_handle(ino);
        }
    }
    for (number, dir) in dirs.iter().enumerate() {
        let made = fs.make(*dir, b"made", FILE).await;
        if let Ok(made) = made {
            let _ = fs.write(made.ino, 0, &[5; 5000]).await;
        }
        let _ = fs.make(*dir, b"directory", DIRECTORY).await;
        let name = format!("moved {number}");
        let (from, to) = ((*dir, &b"directory"[..]), (ROOT_INO, name.as_bytes()));
        let _ = fs.rename(from, to, Rename::Replace).await;
        let (from, to) = ((ROOT_INO, &b"c"[..]), (*dir, &b"made"[..]));
        let _ = fs.rename(from, to, Rename::Exchange).await;
        let to = (*dir, &b"c"[..]);
        let _ = fs.rename(from, to, Rename::NoReplace).await;
    }
    if let Ok(unit) = fs.begin() {
        for (dir, name, ino) in &files {
            let _ = unit.fs().write(*ino, 100, &[6; 100]).await;
            let _ = unit.fs().unlink(*dir, name).await;
        }
        let _ = unit.fs().make(ROOT_INO, b"of a unit", FILE).await;
        let _ = unit.commit().await;
    }
    for dir in dirs.iter().rev() {
        for one in fs.list(*dir, 0, NAMES_MAX).await.unwrap_or_default() {
            let _ = fs.unlink(*dir, &one.name).await;
            let _ = fs.remove_dir(*dir, &one.name).await;
        }
    }
    if let Ok(made) = fs.make_unnamed(ROOT_INO, FILE).await {
        fs.close_handle(made.ino);
    }
    // Files without a name are deleted beside this.
    rt.sleep(Nanos::from_secs(1)).await;
    let _ = fs.sync(None).await;
}

async fn open(rt: &Rt, pool: &BufPool, size: u64) -> Disk {
    let options = OpenOptions {
        memory_bytes: 8 << 20,
        ..OpenOptions::default()
    };
    let disk = Disk::open(rt, pool, members(rt, size), options, |_| {}).await;
    disk.expect("a store of ours")
}

fn members(rt: &Rt, size: u64) -> Vec<MemberDevice> {
    let device = RawDevice::new(rt, DeviceId(0), size, SECTOR as u32, "member");
    vec![MemberDevice {
        device: Rc::new(device),
        path: "member".into(),
    }]
}

/// Runs `work` on a drive with `image`; its result, and what a power cut leaves.
fn in_world<T: 'static>(
    image: &DiskImage,
    work: impl AsyncFnOnce(Rt, BufPool) -> T + 'static,
) -> (T, DiskImage) {
    let world = SimWorld::new(SimOptions::default(), vec![image.clone()]);
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    let result = rt.block_on(async move {
        let timer = own.clone();
        own.spawn(async move {
            timer.sleep(PATIENCE).await;
            panic!("something waits for ever");
        });
        work(own, BufPool::new(1 << 20)).await
    });
    let image = world.crash().images(1).remove(0);
    rt.shut_down();
    (result, image)
}
