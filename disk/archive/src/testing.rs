//! A small archive in memory, whose objects can be changed before they are sealed, and everything that readers do with one. For
//! tests and fuzzing.

use crate::bucket::{Bucket, BucketError};
use crate::catalog::Catalog;
use crate::chain::{mark_name, object_name, part_name};
use crate::extract::Extract;
use crate::merge::Merge;
use crate::plan::{Plan, Target};
use crate::table::{TABLE, VolumeTable};
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::task::{Context, Poll, Waker};
use tonearm_base::{Lsn, crc32c};
use tonearm_format::{
    ArchiveBase, ArchiveHeader, ArchiveKind, ArchiveOpening, ArchivePart, ArchiveWriter,
};
use tonearm_rt::Boxed;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Blocks of the store.
pub const BLOCKS: u64 = 300;
/// The block that each commit writes: all of its bytes are the number of the commit.
pub const WRITTEN: u64 = 260;
/// The commits that can be restored.
pub const FIRST: u64 = 12;
/// The last commit.
pub const LAST: u64 = 18;
/// When commit 0 would have been durable, in milliseconds since 1970. Each commit follows a second after the one before.
pub const START_MS: u64 = 1_700_000_000_000;
/// Number of the folder of the base.
pub const FOLDER: u64 = 1 << 20 | 1;
/// The object of the second base, and the number of the folder of its parts.
pub const SECOND_BASE: &str = "chain/0000000000000007";
/// See [`SECOND_BASE`].
pub const SECOND_FOLDER: u64 = 1 << 20 | 2;
/// The name of a mark, and its commit.
pub const MARK: (&str, u64) = ("named", 14);

/// A bucket in memory.
#[derive(Default)]
pub struct MemoryBucket {
    /// Its objects.
    pub objects: RefCell<BTreeMap<String, Vec<u8>>>,
    /// How many more requests for an object it answers as if there were none.
    pub misses: RefCell<BTreeMap<String, u32>>,
    /// How many bytes of an object were asked for, at most.
    pub most: RefCell<BTreeMap<String, u64>>,
}

impl MemoryBucket {
    fn find(&self, name: &str) -> Option<Vec<u8>> {
        if let Some(left) = self.misses.borrow_mut().get_mut(name)
            && *left > 0
        {
            *left -= 1;
            return None;
        }
        self.objects.borrow().get(name).cloned()
    }
}

impl Bucket for MemoryBucket {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        let mut objects = self.objects.borrow_mut();
        let is_new = !objects.contains_key(name);
        if is_new {
            objects.insert(name.to_string(), object.to_vec());
        }
        Box::pin(async move { Ok(is_new) })
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        self.most.borrow_mut().insert(name.to_string(), most);
        let mut found = self.find(name);
        if let Some(object) = &mut found {
            object.truncate(most as usize + 1);
        }
        Box::pin(async { Ok(found) })
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        let heads = names.iter().map(|name| {
            let object = self.find(name)?;
            object.get(..bytes).map(<[u8]>::to_vec)
        });
        let heads = heads.collect();
        Box::pin(async { Ok(heads) })
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        let (objects, prefix) = (self.objects.borrow(), format!("{folder}/"));
        let names = objects.keys().filter(|name| name.starts_with(&prefix));
        let names = names.cloned().collect();
        Box::pin(async { Ok(names) })
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        self.objects.borrow_mut().remove(name);
        Box::pin(async { Ok(()) })
    }

    fn url(&self) -> String {
        "sim://archive".into()
    }
}

/// The result of a future that waits for nothing.
///
/// # Panics
/// When it waits.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
    {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a bucket in memory waits for nothing"),
    }
}

/// Changes the header and the payload of an object before they are sealed.
pub type Change<'a> = &'a mut dyn FnMut(&str, &mut ArchiveHeader, &mut Vec<u8>);

/// An archive of two openings, one base, some ranges and a mark. The names of its objects are those that they have without a
/// change; each object names the one before it as that is.
pub fn archive(change: Change<'_>) -> MemoryBucket {
    make(change, false)
}

/// The sound archive, with a second base ([`SECOND_BASE`]) from which the states from commit 16 on can be had, too.
pub fn two_bases() -> MemoryBucket {
    make(&mut |_, _, _| {}, true)
}

fn make(change: Change<'_>, has_second: bool) -> MemoryBucket {
    let bucket = MemoryBucket::default();
    let mut made = Made {
        bucket: &bucket,
        change,
        number: 0,
        crc: 0,
        archived: 10,
    };
    let opening = ArchiveOpening {
        block_size: BLOCK as u32,
        size_blocks: BLOCKS,
        creator: "a test".into(),
    };
    made.link(ArchiveKind::Opening, 10, 10, opening.encode());
    made.range(11, 12);
    let mut part = ArchiveWriter::default();
    put(&mut part, WRITTEN, 11);
    let part = made.part(FOLDER, part.into_bytes());
    let base = ArchiveBase {
        block_size: BLOCK as u32,
        size_blocks: BLOCKS,
        folder: FOLDER,
        parts: vec![part],
    };
    made.link(ArchiveKind::Base, 10, FIRST, base.encode());
    made.range(13, 14);
    made.link(ArchiveKind::Mark, MARK.1, MARK.1, Vec::new());
    let mut mark = made.header(ArchiveKind::Mark, MARK.1, MARK.1);
    (mark.number, mark.previous_crc, mark.exact_from) = (0, 0, 0);
    made.put(&mark_name(MARK.0), mark, Vec::new());
    made.range(15, 16);
    if has_second {
        let mut part = ArchiveWriter::default();
        put(&mut part, WRITTEN, 16);
        let part = made.part(SECOND_FOLDER, part.into_bytes());
        let second = ArchiveBase {
            folder: SECOND_FOLDER,
            parts: vec![part],
            ..base
        };
        made.link(ArchiveKind::Base, 16, 16, second.encode());
    }
    made.link(ArchiveKind::Opening, 16, 16, opening.encode());
    made.range(17, LAST);
    bucket
}

/// The sound archive.
pub fn sound() -> MemoryBucket {
    archive(&mut |_, _, _| {})
}

fn put(writer: &mut ArchiveWriter, block: u64, byte: u64) {
    let data = [byte as u8; BLOCK];
    writer.data(block, crc32c(&data), &data);
}

/// An archive that is being made.
struct Made<'a> {
    bucket: &'a MemoryBucket,
    change: Change<'a>,
    number: u64,
    crc: u32,
    archived: u64,
}

impl Made<'_> {
    fn header(&self, kind: ArchiveKind, first: u64, last: u64) -> ArchiveHeader {
        ArchiveHeader {
            kind,
            store: [3; 16],
            number: self.number + 1,
            epoch: 1,
            first,
            last,
            inexact_from: 0,
            exact_from: match kind {
                ArchiveKind::Base | ArchiveKind::Mark => self.archived,
                _ => 0,
            },
            unix_ms: START_MS + 1000 * last,
            raw_bytes: 0,
            stored_bytes: 0,
            payload_crc: 0,
            digest: 0,
            previous_crc: self.crc,
            base: if self.number >= 2 { 3 } else { 0 },
            encrypted: false,
            spares_table: false,
            level: 0,
        }
    }

    /// Puts the next object of the chain.
    fn link(&mut self, kind: ArchiveKind, first: u64, last: u64, payload: Vec<u8>) {
        let header = self.header(kind, first, last);
        let name = object_name(&header);
        self.number += 1;
        self.crc = self.put(&name, header, payload);
    }

    fn range(&mut self, first: u64, last: u64) {
        let mut writer = ArchiveWriter::default();
        for lsn in first..=last {
            put(&mut writer, WRITTEN, lsn);
            writer.zero(WRITTEN + 1, 3, lsn % 2 == 0);
            writer.patch(WRITTEN + 5, &[(8, lsn), (4088, lsn)]);
            writer.commit(Lsn(lsn));
            writer.time(START_MS + 1000 * lsn);
        }
        self.archived = last;
        self.link(ArchiveKind::Range, first, last, writer.into_bytes());
    }

    /// Puts the only part of a base.
    fn part(&mut self, folder: u64, payload: Vec<u8>) -> ArchivePart {
        let mut header = self.header(ArchiveKind::BasePart, 0, BLOCKS);
        (header.number, header.previous_crc) = (0, 0);
        ArchivePart {
            end_block: BLOCKS,
            crc: self.put(&part_name(folder, 0), header, payload),
        }
    }

    /// Puts an object. Returns the checksum of its header.
    fn put(&mut self, name: &str, mut header: ArchiveHeader, mut payload: Vec<u8>) -> u32 {
        let wanted = header;
        (self.change)(name, &mut header, &mut payload);
        let stored = compressed(&payload);
        let mut sealed = ArchiveHeader {
            raw_bytes: payload.len() as u64,
            stored_bytes: stored.len() as u64,
            payload_crc: crc32c(&stored),
            ..header
        };
        // Sizes can be changed, too.
        if header.raw_bytes != wanted.raw_bytes {
            sealed.raw_bytes = header.raw_bytes;
        }
        if header.stored_bytes != wanted.stored_bytes {
            sealed.stored_bytes = header.stored_bytes;
        }
        let object = [&sealed.encode()[..], &stored].concat();
        let mut objects = self.bucket.objects.borrow_mut();
        objects.insert(name.to_string(), object);
        sealed.crc()
    }
}

thread_local! {
    /// Payloads as they are stored. To compress one takes longer than all else.
    static COMPRESSED: RefCell<BTreeMap<Vec<u8>, Vec<u8>>> = RefCell::default();
}

fn compressed(payload: &[u8]) -> Vec<u8> {
    COMPRESSED.with_borrow_mut(|known| match known.get(payload) {
        Some(stored) => stored.clone(),
        None => {
            let stored =
                zstd::bulk::compress(payload, 1).expect("memory takes any number of bytes");
            if known.len() < 64 {
                known.insert(payload.to_vec(), stored.clone());
            }
            stored
        }
    })
}

/// Does with an archive what the commands do that read one. Errors are right; a panic, or memory for what is not there, is not.
/// Returns the commit that is restored as the latest one.
pub fn read_all(bucket: &MemoryBucket) -> Option<Lsn> {
    let catalog = now(Catalog::load(bucket)).ok()?;
    let (faults, count) = (catalog.faults(), bucket.objects.borrow().len());
    assert!(catalog.missing.len() <= count && faults.len() <= 3 * count + 1);
    let _ = now(catalog.objects(bucket));
    let (_, _) = (catalog.replaced(|_| true), catalog.marked());
    let mut targets = vec![Target::Latest, Target::Mark(MARK.0.into())];
    let numbers = [0, FIRST, 15, LAST, 1 << 60, u64::MAX];
    targets.extend(numbers.map(|lsn| Target::Lsn(Lsn(lsn))));
    let times = [0, START_MS + 13_500, START_MS + 1000 * LAST, u64::MAX];
    targets.extend(times.map(Target::Time));
    for target in targets.iter().rev() {
        let Ok(plan) = now(Plan::make(bucket, &catalog, target)) else {
            continue;
        };
        restore(bucket, &plan, target);
    }
    let latest = now(Plan::make(bucket, &catalog, &Target::Latest));
    latest.ok().map(|plan| plan.lsn)
}

/// Takes a block out of the archive, and for the latest state the volume table, which is larger.
fn restore(bucket: &MemoryBucket, plan: &Plan, target: &Target) {
    let url = bucket.url();
    let block = tonearm_format::Extent {
        start: WRITTEN,
        count: 1,
    };
    let extents: &[_] = match target {
        Target::Latest => &[TABLE, block],
        _ => &[block],
    };
    let extract = Extract::new(plan, extents);
    let mut content = vec![0; extract.size_bytes() as usize];
    let mut merge = Merge::new(plan.shape.block_size);
    for object in plan.objects_of(&extract) {
        let Ok(payload) = now(object.fetch(bucket)) else {
            return;
        };
        let _ = merge.add(&payload);
        let applied = extract.apply(&payload, &url, &object.name, &mut content);
        if applied.is_err() {
            return;
        }
    }
    let _ = merge.encode(plan.lsn, 0);
    if *target == Target::Latest {
        let table = TABLE.count as usize * plan.shape.block_size as usize;
        let _ = VolumeTable::decode(plan, &url, &content[..table]);
    }
}

/// The content of the block that each commit writes, at the commit of `plan`: all of its bytes are this one.
///
/// # Errors
/// Those of the archive.
pub fn written(bucket: &MemoryBucket, plan: &Plan) -> Result<u8, crate::ArchiveError> {
    let extent = tonearm_format::Extent {
        start: WRITTEN,
        count: 1,
    };
    let extract = Extract::new(plan, &[extent]);
    let mut content = vec![0; extract.size_bytes() as usize];
    for object in plan.objects_of(&extract) {
        let payload = now(object.fetch(bucket))?;
        extract.apply(&payload, &bucket.url(), &object.name, &mut content)?;
    }
    assert!(content.iter().all(|byte| *byte == content[0]));
    Ok(content[0])
}
