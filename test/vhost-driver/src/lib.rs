//! A driver of vhost-user devices, for tests and benchmarks: the part of a virtual machine monitor and of a guest's driver that a disk needs.
//!
//! Each request has three descriptors, a header, data and a status, at a fixed place of the guest's memory.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserHeaderFlag, VhostUserInflight, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion,
};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use vmm_sys_util::poll::PollContext;

/// Descriptors of the ring.
pub const SIZE: u16 = 256;

/// Most requests at once.
pub const DEPTH: u16 = 64;

/// Most bytes of the data of a request.
pub const DATA_BYTES: usize = 64 << 10;

/// Flags of descriptors.
pub const NEXT: u16 = 1;
/// The device writes.
pub const WRITE: u16 = 2;
/// The descriptor names a table.
pub const INDIRECT: u16 = 4;

/// Places in the guest's memory.
const TABLE: u64 = 0x1000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;
const HEADERS: u64 = 0x10000;
const DATA: u64 = 1 << 20;
const MEMORY_BYTES: u64 = DATA + DEPTH as u64 * DATA_BYTES as u64;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kinds of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the names of the specification")]
pub enum Kind {
    Read = 0,
    Write = 1,
    Flush = 4,
    Identify = 8,
    Discard = 11,
    WriteZeroes = 13,
}

/// A guest with one ring, and its monitor.
pub struct Guest {
    frontend: Frontend,
    memory: GuestMemoryMmap,
    kick: EventFd,
    call: EventFd,
    poll: PollContext<u32>,
    inflight: Option<(VhostUserInflight, File)>,
    features: u64,
    /// Index of the next available request, and of the next used one.
    available: u16,
    used: u16,
    free: Vec<u16>,
}

/// The message of an error of the protocol.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Guest {
    /// A guest at the server's socket. `without` are features that it does not accept.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn connect(socket: &Path, without: u64) -> Result<Self, Failure> {
        let fd = rustix::fs::memfd_create("guest", rustix::fs::MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&fd, MEMORY_BYTES)?;
        let range = (
            GuestAddress(0),
            MEMORY_BYTES as usize,
            Some(FileOffset::new(File::from(fd), 0)),
        );
        let memory = GuestMemoryMmap::from_ranges_with_files([range])?;
        let call = EventFd::new(EFD_NONBLOCK)?;
        let poll = PollContext::new()?;
        poll.add(&call, 0)?;
        let mut guest = Self {
            frontend: Frontend::from_stream(UnixStream::connect(socket)?, 1),
            memory,
            kick: EventFd::new(EFD_NONBLOCK)?,
            call,
            poll,
            inflight: None,
            features: !without,
            available: 0,
            used: 0,
            free: (0..DEPTH).rev().collect(),
        };
        guest.set_up()?;
        Ok(guest)
    }

    /// Connects again, to a server that has taken the place of one that died. The guest notices nothing.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn reconnect(&mut self, socket: &Path) -> Result<(), Failure> {
        self.frontend = Frontend::from_stream(UnixStream::connect(socket)?, 1);
        self.set_up()
    }

    fn set_up(&mut self) -> Result<(), Failure> {
        let frontend = &mut self.frontend;
        frontend.set_owner()?;
        self.features &= frontend.get_features()?;
        let protocol = frontend.get_protocol_features()?
            & (VhostUserProtocolFeatures::CONFIG
                | VhostUserProtocolFeatures::MQ
                | VhostUserProtocolFeatures::INFLIGHT_SHMFD
                | VhostUserProtocolFeatures::REPLY_ACK);
        frontend.set_protocol_features(protocol)?;
        frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        frontend.set_features(self.features)?;
        let inflight = match &self.inflight {
            Some((shape, file)) => {
                frontend.set_inflight_fd(shape, file.as_raw_fd())?;
                None
            }
            None => Some(frontend.get_inflight_fd(&VhostUserInflight::new(0, 0, 1, SIZE))?),
        };
        if inflight.is_some() {
            self.inflight = inflight;
        }
        let region = self.memory.iter().next().expect("it has one region");
        let address = region.as_volatile_slice()?.ptr_guard().as_ptr() as u64;
        let info = VhostUserMemoryRegionInfo::from_guest_region(region)?;
        frontend.set_mem_table(&[info])?;
        frontend.set_vring_num(0, SIZE)?;
        let addresses = VringConfigData {
            queue_max_size: SIZE,
            queue_size: SIZE,
            flags: 0,
            desc_table_addr: address + TABLE,
            used_ring_addr: address + USED,
            avail_ring_addr: address + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(0, &addresses)?;
        // As QEMU: the index of the used ring, whatever the server had taken.
        let used: u16 = self
            .memory
            .load(GuestAddress(USED + 2), Ordering::Acquire)?;
        frontend.set_vring_base(0, used)?;
        frontend.set_vring_call(0, &self.call)?;
        frontend.set_vring_kick(0, &self.kick)?;
        frontend.set_vring_enable(0, true)?;
        Ok(())
    }

    /// The connection, for messages that this type does not send.
    pub fn frontend(&mut self) -> &mut Frontend {
        &mut self.frontend
    }

    /// The first bytes of the configuration space.
    ///
    /// # Errors
    /// When the server refuses.
    pub fn configuration(&mut self) -> Result<Vec<u8>, Failure> {
        let flags = VhostUserConfigFlags::empty();
        let (_, bytes) = self.frontend.get_config(0, 60, flags, &[0; 60])?;
        Ok(bytes)
    }

    /// Makes a request available and returns its number. `data` is sent; `room` are bytes for the answer.
    ///
    /// # Panics
    /// When [`DEPTH`] requests are under way, or the data has over [`DATA_BYTES`].
    pub fn submit(&mut self, kind: Kind, sector: u64, data: &[u8], room: usize) -> u16 {
        let number = self.free.pop().expect("a request is free");
        let (header, at) = (HEADERS + 32 * u64::from(number), data_at(number));
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&(kind as u32).to_le_bytes());
        bytes[8..].copy_from_slice(&sector.to_le_bytes());
        self.memory
            .write_slice(&bytes, GuestAddress(header))
            .unwrap();
        self.memory
            .write_obj(0xffu8, GuestAddress(header + 16))
            .unwrap();
        self.memory.write_slice(data, GuestAddress(at)).unwrap();
        assert!(data.len().max(room) <= DATA_BYTES);
        let first = 3 * number;
        let length = data.len().max(room) as u32;
        let status = (header + 16, 1, WRITE, 0);
        if length == 0 {
            self.put_descriptor(TABLE, first, (header, 16, NEXT, first + 1));
            self.put_descriptor(TABLE, first + 1, status);
        } else {
            let write = if room > 0 { WRITE } else { 0 };
            self.put_descriptor(TABLE, first, (header, 16, NEXT, first + 1));
            self.put_descriptor(TABLE, first + 1, (at, length, NEXT | write, first + 2));
            self.put_descriptor(TABLE, first + 2, status);
        }
        self.make_available(first);
        number
    }

    /// Writes a descriptor of the table at `table`: address, bytes, flags, next.
    pub fn put_descriptor(&self, table: u64, index: u16, descriptor: (u64, u32, u16, u16)) {
        let (at, bytes, flags, next) = descriptor;
        let mut raw = [0; 16];
        raw[..8].copy_from_slice(&at.to_le_bytes());
        raw[8..12].copy_from_slice(&bytes.to_le_bytes());
        raw[12..14].copy_from_slice(&flags.to_le_bytes());
        raw[14..].copy_from_slice(&next.to_le_bytes());
        let place = GuestAddress(table + 16 * u64::from(index));
        self.memory.write_slice(&raw, place).unwrap();
    }

    /// Writes a descriptor of the ring's own table.
    pub fn put_own_descriptor(&self, index: u16, descriptor: (u64, u32, u16, u16)) {
        self.put_descriptor(TABLE, index, descriptor);
    }

    /// Puts a chain into the available ring.
    pub fn make_available(&mut self, head: u16) {
        let place = AVAILABLE + 4 + 2 * u64::from(self.available % SIZE);
        self.memory.write_obj(head, GuestAddress(place)).unwrap();
        self.available = self.available.wrapping_add(1);
        self.set_available_index(self.available);
    }

    /// Sets the index of the available ring.
    pub fn set_available_index(&self, index: u16) {
        let place = GuestAddress(AVAILABLE + 2);
        self.memory.store(index, place, Ordering::Release).unwrap();
    }

    /// Notifies the server of what is available, unless it has suppressed that.
    pub fn kick(&self) {
        fence(Ordering::SeqCst);
        let wanted = match self.has_event_index() {
            true => {
                let place = GuestAddress(USED + 4 + 8 * u64::from(SIZE));
                let event: u16 = self.memory.load(place, Ordering::Acquire).unwrap();
                // Whether `event` lies in what was made available since any earlier kick. The requests of this type are few.
                self.available.wrapping_sub(event).wrapping_sub(1) < SIZE
            }
            false => {
                let flags: u16 = self
                    .memory
                    .load(GuestAddress(USED), Ordering::Acquire)
                    .unwrap();
                flags & 1 == 0
            }
        };
        if wanted {
            self.kick_anyway();
        }
    }

    /// Notifies the server although it may have suppressed that.
    pub fn kick_anyway(&self) {
        self.kick.write(1).unwrap();
    }

    fn has_event_index(&self) -> bool {
        self.features & 1 << 29 != 0
    }

    /// Requests that are used: their numbers and statuses. Does not wait.
    pub fn take(&mut self) -> Vec<(u16, u8)> {
        let mut done = Vec::new();
        let index: u16 = self
            .memory
            .load(GuestAddress(USED + 2), Ordering::Acquire)
            .unwrap();
        while self.used != index {
            let place = USED + 4 + 8 * u64::from(self.used % SIZE);
            let head: u32 = self.memory.read_obj(GuestAddress(place)).unwrap();
            let number = head as u16 / 3;
            let status = GuestAddress(HEADERS + 32 * u64::from(number) + 16);
            done.push((number, self.memory.read_obj(status).unwrap()));
            assert!(!self.free.contains(&number), "it is used twice");
            self.free.push(number);
            self.used = self.used.wrapping_add(1);
        }
        done
    }

    /// Waits for at least one used request.
    ///
    /// # Errors
    /// When none comes for a minute.
    pub fn wait(&mut self) -> Result<Vec<(u16, u8)>, Failure> {
        let began = Instant::now();
        let mut slept_in_vain = false;
        loop {
            let done = self.take();
            if !done.is_empty() {
                // The server notifies after it has added to the ring.
                let is_notified = || {
                    std::thread::sleep(Duration::from_millis(100));
                    self.call.read().is_ok()
                };
                if slept_in_vain && !is_notified() {
                    return Err("a request is used, and the guest was not notified".into());
                }
                return Ok(done);
            }
            if self.has_event_index() {
                let place = GuestAddress(AVAILABLE + 4 + 2 * u64::from(SIZE));
                self.memory.store(self.used, place, Ordering::Release)?;
                fence(Ordering::SeqCst);
                let index: u16 = self
                    .memory
                    .load(GuestAddress(USED + 2), Ordering::Acquire)?;
                if index != self.used {
                    continue;
                }
            }
            if began.elapsed() > PATIENCE {
                return Err("no request ends".into());
            }
            // Other events than the expected one do not exist.
            let events = self.poll.wait_timeout(Duration::from_secs(1))?;
            slept_in_vain = events.iter().count() == 0;
            drop(events);
            // None has come if the time is over.
            let _ = self.call.read();
        }
    }

    /// The answer of a request that is used.
    pub fn answer(&self, number: u16, bytes: usize) -> Vec<u8> {
        let mut data = vec![0; bytes];
        let at = GuestAddress(data_at(number));
        self.memory.read_slice(&mut data, at).unwrap();
        data
    }

    /// One request from its beginning to its end: its status and answer.
    ///
    /// # Errors
    /// When it does not end.
    pub fn request(
        &mut self,
        kind: Kind,
        sector: u64,
        data: &[u8],
        room: usize,
    ) -> Result<(u8, Vec<u8>), Failure> {
        let number = self.submit(kind, sector, data, room);
        self.kick();
        let done = self.wait()?;
        assert_eq!(done.len(), 1, "one request is under way");
        assert_eq!(done[0].0, number);
        Ok((done[0].1, self.answer(number, room)))
    }

    /// Whether the server has ended the connection, waiting some seconds for that.
    pub fn is_cut(&mut self) -> bool {
        let began = Instant::now();
        while began.elapsed() < PATIENCE / 4 {
            if self.frontend.get_features().is_err() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}

fn data_at(number: u16) -> u64 {
    DATA + DATA_BYTES as u64 * u64::from(number)
}
