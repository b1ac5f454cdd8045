//! Small stores with changed fields and right checksums, as a faulty or hostile program could leave them.
//!
//! An input names a store and edits of its structures (superblocks, records, tables, volumes, lists, summaries, pages
//! of the map, checkpoints). Every checksum that covers an edit is made right again, from the inner structures to the
//! outer ones. The store is then looked at, opened, read, changed and closed, or its power is cut. Nothing may panic or
//! wait for ever, and what was written is read back or is an error. The fuzz target `images` and the tests share this
//! file.

use std::collections::BTreeSet;
use std::rc::Rc;
use tonearm_base::{BufPool, Nanos, crc32c};
use tonearm_device::RawDevice;
use tonearm_disk::{
    CreateParams, Disk, DiskError, HomeParams, MemberDevice, MemberSpace, NewMember, OpenOptions,
    Piece, Scrub, Volume, plan_create,
};
use tonearm_engine::{EngineError, Inspection};
use tonearm_format::{
    ENTRY_BYTES, EntryKind, HomeCheckpoint, MAP_ENTRY_BYTES, MapEntry, Placement,
    RECORD_FIXED_BYTES, RecordHeader, SECTOR, SEGMENT_ENTRY_BYTES, SUMMARY_ENTRY_BYTES, Summary,
    Superblock, TableSlot, entry_of_crc, superblock_offset,
};
use tonearm_layout::RepairOptions;
use tonearm_rt::{DeviceId, Rt};
use tonearm_world::{DiskImage, Fault, FaultKind, Place, SimOptions, SimWorld};

const BLOCK: usize = 4096;
const MAP_HEADER_BYTES: usize = 32;
const SUMMARY_HEADER_BYTES: usize = 96;
/// No operation on a small store takes longer on its drive.
const PATIENCE: Nanos = Nanos::from_secs(600);
/// Most edits of an input.
const EDITS_MAX: usize = 8;

/// The stores from which an input chooses.
pub struct Bases(Vec<(DiskImage, Vec<Structure>)>);

/// The place of a structure's checksum.
#[derive(Clone)]
enum Seal {
    /// In another structure: byte offset of the field, whether it is of a checksum table, and which structure that is.
    Elsewhere(u64, bool, usize),
    /// In the structure itself, at this offset.
    Own(usize),
    /// In the header of the checkpoint whose table it is, over its parts.
    Parts(u64, usize),
    /// For the blocks in the log, whose first byte is in the header: in the header, at this offset.
    Payload(u64, u64, usize),
}

#[derive(Clone)]
struct Structure {
    offset: u64,
    len: usize,
    /// Number of bytes among which an edit chooses.
    edited: usize,
    seals: Vec<Seal>,
    /// Inner structures come first.
    rank: u8,
}

impl Structure {
    fn new(offset: u64, len: usize, edited: usize, rank: u8, seals: Vec<Seal>) -> Self {
        Self {
            offset,
            len,
            edited,
            seals,
            rank,
        }
    }
}

const BLOCKS: u8 = 0;
const PAGES: u8 = 1;
const HOLDERS: u8 = 4;
const ROOTS: u8 = 5;

impl Bases {
    /// Stores of both layouts, closed in order and not.
    pub fn new() -> Self {
        let segments = HomeParams::Segments {
            segment_bytes: 64 << 10,
            spare_percent: 15,
            placement: Placement::Append,
        };
        let mut images = Vec::new();
        for home in [HomeParams::Overwrite, segments] {
            let (closed, cut) = filled(home);
            let (_, twice) = used(&cut, true);
            images.extend([closed, cut, twice]);
        }
        Self(
            images
                .into_iter()
                .map(|image| (image.clone(), structures(&image)))
                .collect(),
        )
    }

    /// The store that `input` names with its edits, and what is to be done with it.
    fn edited(&self, input: &[u8]) -> Option<(DiskImage, Vec<u64>, u8)> {
        let [base, choice, edits @ ..] = input else {
            return None;
        };
        let (image, structures) = &self.0[usize::from(*base) % self.0.len()];
        let (mut image, mut touched, mut bad) = (image.clone(), BTreeSet::new(), Vec::new());
        let (edits, _) = edits.as_chunks::<14>();
        for edit in edits.iter().take(EDITS_MAX) {
            let number = |at: usize| usize::from(u16::from_le_bytes([edit[at], edit[at + 1]]));
            let index = number(0) % structures.len();
            let structure = &structures[index];
            let value = u64::from_le_bytes(edit[6..14].try_into().expect("eight bytes"));
            let grain = 1 << (edit[4] & 3);
            let at = number(2) % structure.edited / grain * grain;
            let place = structure.offset + at as u64;
            let mut old = [0; 8];
            image.read(place, &mut old[..grain]);
            let old = u64::from_le_bytes(old);
            let new = match edit[4] >> 2 & 7 {
                0 | 1 => value,
                2 => u64::MAX,
                3 => 1 << (value & 63),
                4 => old.wrapping_add(u64::from_le_bytes(i64::from(value as i8).to_le_bytes())),
                5 => {
                    // Another one of its kind in its place.
                    let other = &structures[value as usize % structures.len()];
                    if (other.rank, other.len) == (structure.rank, structure.len) {
                        let mut bytes = vec![0; other.len];
                        image.read(other.offset, &mut bytes);
                        image.write(structure.offset, &bytes);
                    }
                    old
                }
                6 => {
                    bad.push(structure.offset);
                    old
                }
                _ => 0,
            };
            image.write(place, &new.to_le_bytes()[..grain]);
            touched.insert((structure.rank, index));
        }
        while let Some((_, index)) = touched.pop_first() {
            for seal in &structures[index].seals {
                if let Some(holder) = structures[index].seal(seal, &mut image) {
                    touched.insert((structures[holder].rank, holder));
                }
            }
        }
        Some((image, bad, *choice))
    }

    /// Does all of it.
    ///
    /// # Panics
    /// When a promise is broken.
    pub fn run(&self, input: &[u8]) {
        let Some((image, bad, choice)) = self.edited(input) else {
            return;
        };
        let options = OpenOptions {
            memory_bytes: if choice & 1 == 0 { 256 << 10 } else { 8 << 20 },
            map_cache_bytes: if choice & 2 == 0 { 1 << 20 } else { 16 << 10 },
            write_back_on_recovery: choice & 4 != 0,
            give_up_damaged_log: choice & 8 != 0,
            read_only: choice & 0x30 == 0x30,
            ..OpenOptions::default()
        };
        let orderly = choice & 0x40 == 0;
        let size = image.size;
        let (opened, image) = in_world(&image, &bad, async move |rt, pool| {
            let members = members(&rt, size);
            look(&rt, &pool, &members).await;
            if choice & 0x80 != 0 {
                // Only the segments layout has a map; the other layout returns an error.
                let members = members.clone();
                let _ = tonearm_engine::rebuild_map(&rt, &pool, members, 1 << 20, |_, _| {}).await;
            }
            let repairs = options.give_up_damaged_log && !options.read_only;
            let disk = Disk::open(&rt, &pool, members, options, |_| {})
                .await
                .ok()?;
            if repairs {
                repair(&disk).await;
            }
            let written = work(&disk, &pool).await;
            let kept = !orderly || disk.close().await.is_ok();
            kept.then_some(written)
        });
        let Some(written) = opened else {
            return;
        };
        // What was durable is read back, or is an error.
        in_world(&image, &[], async move |rt, pool| {
            let options = OpenOptions::default();
            let Ok(disk) = Disk::open(&rt, &pool, members(&rt, size), options, |_| {}).await else {
                return;
            };
            check(&disk, &written).await;
            let _ = disk.close().await;
        });
    }
}

impl Structure {
    /// Makes one checksum right; which structure has it, if it is another one.
    fn seal(&self, seal: &Seal, image: &mut DiskImage) -> Option<usize> {
        let mut bytes = vec![0; self.len];
        image.read(self.offset, &mut bytes);
        match *seal {
            Seal::Own(at) => {
                if bytes[at..].len() >= 4 && bytes.iter().any(|byte| *byte != 0) {
                    bytes[at..at + 4].fill(0);
                    let crc = crc32c(&bytes);
                    image.write(self.offset + at as u64, &crc.to_le_bytes());
                }
                None
            }
            Seal::Elsewhere(at, in_table, holder) => {
                let crc = crc32c(&bytes);
                let crc = if in_table { entry_of_crc(crc) } else { crc };
                image.write(at, &crc.to_le_bytes());
                Some(holder)
            }
            Seal::Parts(at, holder) => {
                let crc = crc32c(&crc32c(&bytes).to_le_bytes());
                image.write(at, &crc.to_le_bytes());
                Some(holder)
            }
            Seal::Payload(at, displaced, holder) => {
                image.read(displaced, &mut bytes[..1]);
                if bytes.starts_with(b"TNVOLUME") {
                    bytes[12..16].fill(0);
                    let crc = crc32c(&bytes);
                    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
                    image.write(self.offset + 12, &bytes[12..16]);
                }
                // The first byte in its place stays zero.
                image.write(self.offset, &[0]);
                image.write(at, &crc32c(&bytes).to_le_bytes());
                Some(holder)
            }
        }
    }
}

pub fn members(rt: &Rt, size: u64) -> Vec<MemberDevice> {
    let device = RawDevice::new(rt, DeviceId(0), size, SECTOR as u32, "member");
    vec![MemberDevice {
        device: Rc::new(device),
        path: "member".into(),
    }]
}

/// Runs `work` on a drive with `image`, of which the pages at `bad` cannot be read; its result, and what a power cut
/// leaves.
pub fn in_world<T: 'static>(
    image: &DiskImage,
    bad: &[u64],
    work: impl AsyncFnOnce(Rt, BufPool) -> T + 'static,
) -> (T, DiskImage) {
    let world = SimWorld::new(SimOptions::default(), vec![image.clone()]);
    for offset in bad {
        world.strike(Fault {
            drive: 0,
            after: 0,
            kind: FaultKind::LatentError,
            place: Place::At(*offset),
            span: Nanos(0),
            times: 1,
        });
    }
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

async fn look(rt: &Rt, pool: &BufPool, members: &[MemberDevice]) {
    let look = async {
        let look = Inspection::start(rt, pool, members.to_vec(), |_, _| {}).await?;
        let (entries, _) = look.volumes().await;
        let blocks = |entry: &tonearm_format::VolumeEntry| {
            entry.extents.iter().map(|extent| extent.count).sum::<u64>()
        };
        let used: u64 = entries.iter().map(blocks).sum();
        assert!(
            used <= look.superblock().size_blocks - tonearm_format::SYSTEM_BLOCKS,
            "the volumes fit the store"
        );
        for group in 0..look.groups() {
            look.check_group(group).await?;
        }
        look.check_map(|_, _| {}).await?;
        Ok::<_, EngineError>(())
    };
    let _ = look.await;
}

async fn repair(disk: &Disk) {
    let home = disk.engine().home();
    for group in 0..home.shape().groups() {
        let _ = home.repair_group(group, RepairOptions::default()).await;
    }
}

/// A block of each volume, as it was written.
type Written = Vec<(String, u64, u8)>;

/// Uses all that there is: whatever fails is an error.
async fn work(disk: &Disk, pool: &BufPool) -> Written {
    let mut written = Vec::new();
    for (index, info) in disk.volumes().iter().enumerate() {
        let Ok(volume) = disk.volume(&info.name) else {
            continue;
        };
        read_all(&volume).await;
        let stamp = 100 + index as u8;
        for at in [0, info.size_bytes / 2 / BLOCK as u64 * BLOCK as u64] {
            if at + BLOCK as u64 > info.size_bytes {
                continue;
            }
            let data = pool.copy_of(&[stamp; BLOCK]).share();
            if volume.write(at, data, true).await.is_ok() {
                written.push((info.name.clone(), at, stamp));
            }
        }
        let part = pool.copy_of(&[stamp; 100]).share();
        let _ = volume.write(BLOCK as u64 + 10, part, false).await;
        let _ = volume.trim(2 * BLOCK as u64, 3 * BLOCK as u64, false).await;
    }
    check(disk, &written).await;
    if let Ok(lists) = disk.lists().await {
        for list in lists.into_iter().take(20) {
            let _ = disk.check_lists().await;
            let blocks = disk.list_blocks(list).await.unwrap_or_default();
            for block in blocks.iter().take(3) {
                let _ = disk.read_block(*block).await;
                let _ = disk.new_block(list, Some(*block)).await;
            }
            let _ = disk.new_block(list, None).await;
            if let Some(last) = blocks.last() {
                let _ = disk.delete_block(*last).await;
            }
            if list.0 % 2 == 0 {
                let _ = disk.delete_list(list).await;
            }
        }
    }
    let _ = disk.new_list().await;
    let more = 64 << 10;
    let _ = disk.create_volume("more", more, [8; 16], 0).await;
    if let Ok(volume) = disk.volume("more") {
        read_all(&volume).await;
        let data = pool.copy_of(&vec![99; more as usize]).share();
        if volume.write(0, data, true).await.is_ok() {
            written.push(("more".into(), 0, 99));
        }
    }
    check(disk, &written).await;
    let _ = disk.scrub(Scrub::Repair, |_, _| true).await;
    written
}

async fn read_all(volume: &Volume) {
    let (step, size) = (64 << 10, volume.size_bytes());
    for at in (0..size).step_by(step as usize) {
        let _ = volume.read(at, step.min(size - at)).await;
    }
    let _ = volume.status(0, size).await;
}

async fn check(disk: &Disk, written: &Written) {
    for (name, at, stamp) in written {
        let read = async { disk.volume(name)?.read(*at, BLOCK as u64).await };
        let read: Result<_, DiskError> = read.await;
        for piece in read.unwrap_or_default() {
            match piece {
                Piece::Data(data) => {
                    assert!(data.iter().all(|byte| byte == stamp), "{name} at {at}")
                }
                Piece::Zero(bytes) => assert_eq!(bytes, 0, "{name} at {at} is {stamp}"),
            }
        }
    }
}

/// A store with volumes, files and lists: closed in order, and as a power cut has left it.
fn filled(home: HomeParams) -> (DiskImage, DiskImage) {
    let params = CreateParams {
        log_bytes: Some(640 << 10),
        track_bytes: Some(64 << 10),
        home,
        ..CreateParams::new(2 << 20, *b"simulated store!")
    };
    let plan = plan_create(&params, &[MemberSpace::alone([1; 16])]).expect("sizes that work");
    let size = plan.member_bytes[0];
    let (made, image) = in_world(&DiskImage::new(size), &[], async move |rt, pool| {
        let member = NewMember::blank(members(&rt, size).remove(0).device);
        tonearm_disk::create(
            &rt,
            &pool,
            &plan,
            vec![member],
            256 << 10,
            [2; 16],
            |_, _| {},
        )
        .await
    });
    made.expect("a drive without faults");
    let (_, closed) = used(&image, false);
    let (_, cut) = used(&closed, true);
    (closed, cut)
}

/// `image` after some use.
fn used(image: &DiskImage, cut: bool) -> ((), DiskImage) {
    let size = image.size;
    in_world(image, &[], async move |rt, pool| {
        let opened = Disk::open(
            &rt,
            &pool,
            members(&rt, size),
            OpenOptions::default(),
            |_| {},
        )
        .await;
        let disk = opened.expect("a store of ours");
        let fill = async {
            let main = disk.volume("main")?;
            for block in [0, 1, 7, 20, 21, 22, 40] {
                let data = pool.copy_of(&[block as u8 + 1; BLOCK]).share();
                main.write(block * BLOCK as u64, data, false).await?;
            }
            main.write(5000, pool.copy_of(&[3; 300]).share(), true)
                .await?;
            main.trim(20 * BLOCK as u64, 2 * BLOCK as u64, true).await?;
            let mut aru = disk.begin();
            let name = format!("more{}", disk.volumes().len());
            let file = aru.create_volume(&name, 9000, [7; 16], 0).await?;
            aru.write(&file, 0, &[4; 9000]).await?;
            let list = aru.new_list().await?;
            let mut block = None;
            for _ in 0..4 {
                block = Some(aru.new_block(list, block).await?);
            }
            if let Some(block) = block {
                aru.write_block(block, &[5; BLOCK]).await?;
            }
            let lsn = aru.end().await?;
            disk.wait_durable(lsn).await?;
            disk.new_list().await?;
            disk.flush().await?;
            if cut { Ok(()) } else { disk.close().await }
        };
        let filled: Result<(), DiskError> = fill.await;
        filled.expect("room for all of it");
    })
}

/// All that has a checksum or is covered by one.
fn structures(image: &DiskImage) -> Vec<Structure> {
    let mut found = Vec::new();
    let mut sector = [0; SECTOR];
    for slot in 0..4 {
        let edited = 256 + 480;
        let seals = vec![Seal::Own(12)];
        found.push(Structure::new(
            superblock_offset(slot, image.size),
            SECTOR,
            edited,
            ROOTS,
            seals,
        ));
    }
    image.read(0, &mut sector);
    let superblock = Superblock::decode(&sector).expect("a store of ours");
    let log = superblock.log_range(0);
    for at in log.step_by(SECTOR) {
        image.read(at, &mut sector);
        if let Ok((header, displaced)) = RecordHeader::decode(&sector) {
            add_record(&mut found, at, &header, displaced.len());
        }
    }
    match superblock.segments() {
        None => add_groups(&mut found, image, &superblock),
        Some(_) => add_segments(&mut found, image, &superblock),
    }
    found
}

fn add_record(found: &mut Vec<Structure>, at: u64, header: &RecordHeader, payload: usize) {
    let own = found.len();
    let plain = |kind: &EntryKind| !matches!(kind, EntryKind::Patch { .. });
    let words = header
        .entries
        .iter()
        .filter(|entry| !plain(&entry.kind))
        .count();
    let edited = RECORD_FIXED_BYTES + header.entries.len() * ENTRY_BYTES + payload;
    let seals = vec![Seal::Own(12)];
    found.push(Structure::new(
        at,
        SECTOR,
        edited.min(SECTOR),
        HOLDERS,
        seals,
    ));
    if words > 0 {
        // Runs of words take other room: the blocks of such records are left alone.
        return;
    }
    let displaced = at + (RECORD_FIXED_BYTES + header.entries.len() * ENTRY_BYTES) as u64;
    let data = header.entries.iter().enumerate();
    let data = data.filter(|(_, entry)| matches!(entry.kind, EntryKind::Data { .. }));
    for (block, (index, _)) in data.enumerate() {
        let crc_at = at + (RECORD_FIXED_BYTES + index * ENTRY_BYTES + 16) as u64;
        let seal = Seal::Payload(crc_at, displaced + block as u64, own);
        let offset = at + ((1 + block) * SECTOR) as u64;
        found.push(Structure::new(offset, BLOCK, BLOCK, BLOCKS, vec![seal]));
    }
}

fn add_groups(found: &mut Vec<Structure>, image: &DiskImage, superblock: &Superblock) {
    let geometry = tonearm_format::Geometry {
        block_size: BLOCK as u32,
        data_offset: superblock.members[0].data_offset,
        groups: superblock.members[0].groups,
    };
    let mut bytes = vec![0; BLOCK];
    for group in 0..geometry.groups {
        let mut slots = Vec::new();
        for slot in 0..2 {
            let offset = geometry.slot_offset(group, slot);
            image.read(offset, &mut bytes);
            if let Ok(Some(table)) = TableSlot::decode(group, &bytes) {
                slots.push((offset, found.len(), table));
                found.push(Structure::new(
                    offset,
                    BLOCK,
                    BLOCK,
                    HOLDERS,
                    vec![Seal::Own(4)],
                ));
            }
        }
        for index in 0..geometry.group_blocks() {
            let offset = geometry.block_offset(group * geometry.group_blocks() + index);
            image.read(offset, &mut bytes);
            let entry = entry_of_crc(crc32c(&bytes));
            let seal = |(offset, slot, table): &(u64, usize, TableSlot)| {
                let at = offset + 32 + 4 * index;
                (table.entries[index as usize] == entry).then_some(Seal::Elsewhere(at, true, *slot))
            };
            let mut seals: Vec<Seal> = slots.iter().filter_map(seal).collect();
            if !seals.is_empty() {
                if bytes.starts_with(b"TNVOLUME") {
                    seals.insert(0, Seal::Own(12));
                }
                found.push(Structure::new(offset, BLOCK, BLOCK, BLOCKS, seals));
            }
        }
    }
}

fn add_segments(found: &mut Vec<Structure>, image: &DiskImage, superblock: &Superblock) {
    let layout = superblock.segments().expect("this layout");
    let first = superblock.first_segment_offset(0);
    let mut bytes = vec![0; BLOCK];
    // Fields that name the checksum of the block at a place, with the structure that they are in.
    let mut fields: Vec<(u64, u64, usize)> = Vec::new();
    for slot in 0..2 {
        let offset = superblock.members[0].data_offset + slot * layout.slot_bytes();
        let mut header = [0; SECTOR];
        image.read(offset, &mut header);
        if let Ok(checkpoint) = HomeCheckpoint::decode(&header) {
            let own = found.len();
            fields.push((checkpoint.root.place, offset + 96 + 12, own));
            found.push(Structure::new(
                offset,
                SECTOR,
                112,
                ROOTS,
                vec![Seal::Own(12)],
            ));
            let len = (layout.segments * SEGMENT_ENTRY_BYTES) as usize;
            let seals = vec![Seal::Parts(offset + 80, own)];
            found.push(Structure::new(
                offset + SECTOR as u64,
                len,
                len,
                HOLDERS,
                seals,
            ));
        }
    }
    let offset_of = |place: u64| first + (place - layout.segment_blocks()) * BLOCK as u64;
    let places = layout.segment_blocks()..(layout.segments + 1) * layout.segment_blocks();
    let mut pages = Vec::new();
    for place in places.clone() {
        let offset = offset_of(place);
        image.read(offset, &mut bytes);
        if Summary::is_candidate(&bytes) {
            // The summaries of these stores take a block each.
            let Ok(summary) = Summary::decode(BLOCK as u32, &bytes) else {
                continue;
            };
            let own = found.len();
            let edited = SUMMARY_HEADER_BYTES + summary.entries.len() * SUMMARY_ENTRY_BYTES;
            found.push(Structure::new(
                offset,
                BLOCK,
                edited,
                HOLDERS,
                vec![Seal::Own(12)],
            ));
            let mut at = 0;
            for (index, entry) in summary.entries.iter().enumerate() {
                if entry.kind.crc().is_some() {
                    let field =
                        offset + (SUMMARY_HEADER_BYTES + index * SUMMARY_ENTRY_BYTES + 16) as u64;
                    fields.push((summary.place + 1 + at, field, own));
                    at += 1;
                }
            }
        } else if bytes.starts_with(b"TAMAP\x01") {
            pages.push(place);
        }
    }
    // Leaves are inner to the pages that lead to them.
    for place in pages {
        let offset = offset_of(place);
        image.read(offset, &mut bytes);
        let level = bytes[8].min(2);
        for at in (MAP_HEADER_BYTES..BLOCK).step_by(MAP_ENTRY_BYTES) {
            let entry = MapEntry::decode(&bytes[at..at + MAP_ENTRY_BYTES]);
            if entry.is_placed() {
                fields.push((entry.place, offset + at as u64 + 12, found.len()));
            }
        }
        found.push(Structure::new(
            offset,
            BLOCK,
            BLOCK,
            PAGES + level,
            Vec::new(),
        ));
    }
    let pages = found.clone();
    for place in places {
        let offset = offset_of(place);
        image.read(offset, &mut bytes);
        let own = fields.iter().filter(|(of, ..)| *of == place);
        let seals: Vec<Seal> = own
            .map(|(_, at, holder)| Seal::Elsewhere(*at, false, *holder))
            .collect();
        if seals.is_empty() {
            continue;
        }
        match pages.iter().position(|page| page.offset == offset) {
            Some(page) => found[page].seals = seals,
            None => {
                let mut seals = seals;
                if bytes.starts_with(b"TNVOLUME") {
                    seals.insert(0, Seal::Own(12));
                }
                found.push(Structure::new(offset, BLOCK, BLOCK, BLOCKS, seals));
            }
        }
    }
}
