//! Files at fixed places of a simulated drive, for SQLite: the least cost of any file system.
//!
//! A write goes to memory (the page cache). A sync writes the file's changed pages, adjacent ones as one request, all
//! sent at once in ascending order, waits for them, and flushes the drive. Names, sizes and the places of blocks cost
//! nothing, nor does the deletion of a file or the sync of a folder, so a real file system is slower. A file that is
//! created again gets its earlier place.

use sqlite_vfs::{DatabaseHandle, LockKind, OpenAccess, OpenOptions, Vfs, wip};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::OnceLock;
use std::time::Duration;
use tonearm_base::{BufPool, Nanos};
use tonearm_device::{Device, RawDevice};
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveFile;
use tonearm_rt::{Data, DeviceId, Rt};
use tonearm_world::{DiskImage, SimDisk, SimOptions, SimWorld, Zeroing};

/// Name of the VFS.
pub const VFS: &str = "in-place";

/// Bytes of a page of the cache.
const PAGE: u64 = 4096;
/// Bytes from the place of a file to that of the next. In a real file system they are farther apart.
const REGION: u64 = 32 << 20;
/// Most bytes of one request.
const REQUEST_MAX: u64 = 512 << 10;

/// The requests sent to the drive.
#[derive(Clone, Copy, Default, Debug)]
pub struct Sent {
    /// Bytes written.
    pub bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

/// The drive and its files.
struct Mounted {
    rt: Rt,
    device: Rc<dyn Device>,
    pool: BufPool,
    files: BTreeMap<String, File>,
    places: BTreeMap<String, u64>,
    sent: Sent,
}

#[derive(Default)]
struct File {
    place: u64,
    content: Vec<u8>,
    changed: BTreeSet<u64>,
}

thread_local! {
    /// SQLite calls the VFS on the thread of its connection, with nothing but the name of a file.
    static MOUNTED: RefCell<Option<Mounted>> = const { RefCell::new(None) };
}

/// Makes `drive` the drive of the VFS for connections of this thread.
///
/// # Panics
/// When the VFS cannot be registered with SQLite.
pub fn mount(drive: &DriveFile, seed: u64) {
    static REGISTERED: OnceLock<()> = OnceLock::new();
    REGISTERED.get_or_init(|| {
        sqlite_vfs::register(VFS, InPlace, false).expect("SQLite takes a VFS");
    });
    let options = DriveOptions {
        seed,
        ..DriveOptions::default()
    };
    let model = Drive::new(&drive.spec, &options);
    let bytes = model.sectors() * 512;
    let disk = SimDisk {
        image: DiskImage::new(bytes),
        timing: Box::new(model),
        write_cache: drive.spec.write_cache.enabled,
        zeroing: Zeroing::Command,
    };
    let options = SimOptions {
        seed,
        power_cuts: false,
        ..SimOptions::default()
    };
    let rt = Rt::new(SimWorld::with_disks(options, vec![disk]).driver());
    let device = RawDevice::new(&rt, DeviceId(0), bytes, 512, &drive.name);
    MOUNTED.set(Some(Mounted {
        device: Rc::new(device),
        rt,
        pool: BufPool::new(1 << 20),
        files: BTreeMap::new(),
        places: BTreeMap::new(),
        sent: Sent::default(),
    }));
}

/// The drive's time, and the requests sent to it.
///
/// # Errors
/// When nothing is mounted.
pub fn account() -> io::Result<(Nanos, Sent)> {
    with(|mounted| Ok((mounted.rt.now(), mounted.sent)))
}

fn with<T>(work: impl FnOnce(&mut Mounted) -> io::Result<T>) -> io::Result<T> {
    MOUNTED.with_borrow_mut(|mounted| match mounted {
        Some(mounted) => work(mounted),
        None => Err(io::Error::other("no drive is mounted on this thread")),
    })
}

impl Mounted {
    fn file(&mut self, name: &str) -> io::Result<&mut File> {
        self.files
            .get_mut(name)
            .ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    fn create(&mut self, name: &str) {
        let next = self.places.len() as u64 * REGION;
        let place = *self.places.entry(name.to_string()).or_insert(next);
        let file = File {
            place,
            ..File::default()
        };
        self.files.insert(name.to_string(), file);
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let pool = self.pool.clone();
        let file = self.file(name)?;
        let changed = std::mem::take(&mut file.changed);
        let mut requests = Vec::new();
        for pages in runs(&changed) {
            let bytes = pages.start * PAGE..pages.end * PAGE;
            let mut buf = pool.alloc_zeroed((bytes.end - bytes.start) as usize);
            let end = bytes.end.min(file.content.len() as u64);
            // Pages that a truncation has cut off are not written.
            let Some(content) = file.content.get(bytes.start as usize..end as usize) else {
                continue;
            };
            buf[..content.len()].copy_from_slice(content);
            requests.push((file.place + bytes.start, buf.share()));
        }
        let (device, rt) = (self.device.clone(), self.rt.clone());
        self.sent.bytes += requests
            .iter()
            .map(|(_, data)| data.len() as u64)
            .sum::<u64>();
        self.sent.flushes += 1;
        let done = self.rt.block_on(async move {
            let mut writes = Vec::new();
            for (at, data) in requests {
                writes.push(rt.spawn(device.write(at, Data::Slices(vec![data]))));
            }
            for write in writes {
                write.await?;
            }
            device.flush().await
        });
        done.map_err(|error| io::Error::other(error.to_string()))
    }
}

/// Neighbours joined, up to the largest request.
fn runs(pages: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for page in pages {
        match runs.last_mut() {
            Some(run) if run.end == *page && (run.end - run.start) * PAGE < REQUEST_MAX => {
                run.end += 1;
            }
            _ => runs.push(*page..page + 1),
        }
    }
    runs
}

struct InPlace;

struct Handle {
    name: String,
    lock: LockKind,
}

struct NoIndex;

impl Vfs for InPlace {
    type Handle = Handle;

    fn open(&self, name: &str, options: OpenOptions) -> io::Result<Handle> {
        with(|mounted| {
            let there = mounted.files.contains_key(name);
            match options.access {
                OpenAccess::Read | OpenAccess::Write if !there => {
                    return Err(io::ErrorKind::NotFound.into());
                }
                OpenAccess::CreateNew if there => return Err(io::ErrorKind::AlreadyExists.into()),
                _ if !there => mounted.create(name),
                _ => {}
            }
            Ok(Handle {
                name: name.to_string(),
                lock: LockKind::None,
            })
        })
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        with(|mounted| match mounted.files.remove(name) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn exists(&self, name: &str) -> io::Result<bool> {
        with(|mounted| Ok(mounted.files.contains_key(name)))
    }

    fn temporary_name(&self) -> String {
        "temporary".into()
    }

    fn random(&self, buffer: &mut [i8]) {
        // Always the same bytes, so that a run can be repeated. Nonces of journals need not differ here.
        buffer.fill(0x2a);
    }

    fn sleep(&self, duration: Duration) -> Duration {
        // With one connection no lock is ever waited for.
        duration
    }
}

impl DatabaseHandle for Handle {
    type WalIndex = NoIndex;

    fn size(&self) -> io::Result<u64> {
        with(|mounted| Ok(mounted.file(&self.name)?.content.len() as u64))
    }

    fn read_exact_at(&mut self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        with(|mounted| {
            let content = &mounted.file(&self.name)?.content;
            let rest = content.get(offset as usize..).unwrap_or_default();
            match rest.get(..buf.len()) {
                Some(bytes) => {
                    buf.copy_from_slice(bytes);
                    Ok(())
                }
                None => {
                    buf[..rest.len()].copy_from_slice(rest);
                    Err(io::ErrorKind::UnexpectedEof.into())
                }
            }
        })
    }

    fn write_all_at(&mut self, buf: &[u8], offset: u64) -> io::Result<()> {
        with(|mounted| {
            let file = mounted.file(&self.name)?;
            let end = offset + buf.len() as u64;
            if end > REGION {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if file.content.len() < end as usize {
                file.content.resize(end as usize, 0);
            }
            file.content[offset as usize..end as usize].copy_from_slice(buf);
            file.changed.extend(offset / PAGE..end.div_ceil(PAGE));
            Ok(())
        })
    }

    fn sync(&mut self, _data_only: bool) -> io::Result<()> {
        with(|mounted| mounted.sync(&self.name))
    }

    fn set_len(&mut self, size: u64) -> io::Result<()> {
        with(|mounted| {
            mounted.file(&self.name)?.content.resize(size as usize, 0);
            Ok(())
        })
    }

    fn lock(&mut self, lock: LockKind) -> io::Result<bool> {
        // One connection at a time.
        self.lock = lock;
        Ok(true)
    }

    fn reserved(&mut self) -> io::Result<bool> {
        Ok(matches!(
            self.lock,
            LockKind::Reserved | LockKind::Pending | LockKind::Exclusive
        ))
    }

    fn current_lock(&self) -> io::Result<LockKind> {
        Ok(self.lock)
    }

    fn wal_index(&self, _readonly: bool) -> io::Result<NoIndex> {
        Ok(NoIndex)
    }
}

/// WAL mode works only with an exclusive lock, which needs no shared memory.
impl wip::WalIndex for NoIndex {
    fn enabled() -> bool {
        false
    }

    fn map(&mut self, _region: u32) -> io::Result<[u8; 32768]> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn lock(&mut self, _locks: Range<u8>, _lock: wip::WalIndexLock) -> io::Result<bool> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn delete(self) -> io::Result<()> {
        Ok(())
    }
}
