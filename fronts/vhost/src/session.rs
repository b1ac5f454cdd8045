//! The connection to a virtual machine monitor: memory, rings and features, as its messages say.

use crate::chain::Malformed;
use crate::devices::{Ask, AskEngine, RingId, RingPlan};
use crate::inflight::Region;
use crate::shape::{Features, QUEUE_SIZE_MAX, QUEUES_MAX, Shape};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig,
    VhostUserSharedMsg, VhostUserSingleMemoryRegion, VhostUserVirtioFeatures,
    VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{
    BackendReqHandler, Error, GpuBackend, Result, VhostUserBackendReqHandlerMut,
};
use virtio_queue::{Queue, QueueT};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// Most regions of memory of a guest, as QEMU has them.
const REGIONS_MAX: usize = 509;

/// Bytes of the configuration space that a monitor may read. What lies after the fields is zero.
const CONFIGURATION_BYTES: usize = 256;

/// The end of a connection that is none in order.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The volume cannot be served.
    #[error("{0}")]
    Volume(String),
    /// A ring broke a rule of virtio.
    #[error("ring {ring}: {fault}; the connection is ended")]
    Ring {
        /// Number of the ring.
        ring: usize,
        /// The rule.
        fault: Malformed,
    },
    /// A message that cannot be carried out.
    #[error("{0}; the connection is ended")]
    Message(String),
    /// The engine has ended.
    #[error("the server is shutting down")]
    Ended,
}

/// Serves `volume` on `connection` until that ends. All rings are stopped then.
///
/// # Errors
/// When it has not ended because the monitor has closed it.
pub fn serve(
    connection: UnixStream,
    volume: &str,
    engine: &AskEngine,
) -> std::result::Result<(), SessionError> {
    let shape = shape(volume, engine)?;
    let _connected = Connected::begin(volume, engine);
    let socket = |error: std::io::Error| SessionError::Message(error.to_string());
    let session = Session {
        engine: engine.clone(),
        shape,
        connection: connection.try_clone().map_err(socket)?,
        features: 0,
        regions: Vec::new(),
        rings: std::iter::repeat_with(RingState::default)
            .take(QUEUES_MAX)
            .collect(),
        inflight: None,
        fault: None,
        complaint: None,
    };
    let session = Arc::new(Mutex::new(session));
    let mut requests = BackendReqHandler::from_stream(connection, session.clone());
    let end = loop {
        match requests.handle_request() {
            Ok(()) => {}
            Err(error) => break error,
        }
    };
    let mut session = session.lock().unwrap_or_else(PoisonError::into_inner);
    session.stop_all();
    if let Some((ring, fault)) = session.fault {
        return Err(SessionError::Ring { ring, fault });
    }
    match (session.complaint.take(), end) {
        (Some(complaint), _) => Err(SessionError::Message(complaint)),
        // The monitor has ended, or the server ends the connection.
        (None, Error::Disconnected | Error::SocketBroken(_) | Error::PartialMessage) => Ok(()),
        (None, error) => Err(SessionError::Message(error.to_string())),
    }
}

/// The shape of a volume.
///
/// # Errors
/// When there is no such volume.
pub fn shape(volume: &str, engine: &AskEngine) -> std::result::Result<Shape, SessionError> {
    let shape = ask(engine, |reply| Ask::Shape(volume.to_owned(), reply));
    shape
        .ok_or(SessionError::Ended)?
        .map_err(SessionError::Volume)
}

/// Tells the engine that a monitor is connected, and at the end that it is not.
struct Connected<'a> {
    volume: &'a str,
    engine: &'a AskEngine,
}

impl<'a> Connected<'a> {
    fn begin(volume: &'a str, engine: &'a AskEngine) -> Self {
        engine(Ask::Connected(volume.to_owned()));
        Self { volume, engine }
    }
}

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        (self.engine)(Ask::Disconnected(self.volume.to_owned()));
    }
}

/// Asks the engine. `None` when that has ended.
fn ask<T>(
    engine: &AskEngine,
    question: impl FnOnce(std::sync::mpsc::SyncSender<T>) -> Ask,
) -> Option<T> {
    let (reply, answer) = sync_channel(1);
    engine(question(reply)).then(|| answer.recv().ok())?
}

/// A part of the guest's memory.
struct MappedRegion {
    /// Where the monitor has it. Rings are named by such addresses.
    monitor_address: u64,
    guest_address: u64,
    bytes: u64,
    mapping: Arc<MmapRegion>,
}

/// What the monitor has said of a ring.
#[derive(Default)]
struct RingState {
    size: u16,
    /// Addresses of the monitor: descriptors, used ring, available ring.
    addresses: Option<(u64, u64, u64)>,
    base: u16,
    kick: Option<File>,
    call: Option<File>,
    is_enabled: bool,
    running: Option<RingId>,
}

struct Session {
    engine: AskEngine,
    shape: Shape,
    connection: UnixStream,
    /// Accepted features; 0 before.
    features: u64,
    regions: Vec<MappedRegion>,
    rings: Vec<RingState>,
    inflight: Option<Region>,
    /// The first ring that broke a rule.
    fault: Option<(usize, Malformed)>,
    /// Why a message could not be carried out.
    complaint: Option<String>,
}

impl Session {
    /// An error for the monitor, which gets no text, and for the log.
    fn refuse(&mut self, why: impl ToString) -> Error {
        self.complaint = Some(why.to_string());
        Error::BackendInternalError
    }

    fn ring(&mut self, index: u32) -> Result<&mut RingState> {
        let ring = self.rings.get_mut(index as usize);
        ring.ok_or(Error::InvalidParam)
    }

    /// Changes a ring. One that runs is stopped before, and started again if it may run still.
    fn change(&mut self, index: u32, change: impl FnOnce(&mut RingState)) -> Result<()> {
        self.ring(index)?;
        self.stop(index as usize)?;
        change(&mut self.rings[index as usize]);
        self.start(index as usize)
    }

    fn stop(&mut self, index: usize) -> Result<()> {
        let Some(id) = self.rings[index].running.take() else {
            return Ok(());
        };
        let stopped = ask(&self.engine, |reply| Ask::Stop(id, reply));
        let Some((next, fault)) = stopped else {
            return Err(self.refuse(SessionError::Ended));
        };
        self.rings[index].base = next;
        if let Some(fault) = fault {
            self.fault.get_or_insert((index, fault));
        }
        Ok(())
    }

    fn stop_all(&mut self) {
        for index in 0..self.rings.len() {
            // The engine may have ended, and the rings with it.
            let _ = self.stop(index);
        }
    }

    /// Starts a ring if all is there that it needs.
    fn start(&mut self, index: usize) -> Result<()> {
        let ring = &self.rings[index];
        // Without the protocol's extensions a ring is enabled from its kick on.
        let extended = self.features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() != 0;
        let is_enabled = ring.is_enabled || !extended;
        let (Some(addresses), Some(kick)) = (ring.addresses, &ring.kick) else {
            return Ok(());
        };
        if !is_enabled || self.regions.is_empty() || self.fault.is_some() {
            return Ok(());
        }
        let plan = self.plan(index, addresses, kick);
        let plan = plan.map_err(|why| self.refuse(format!("ring {index}: {why}")))?;
        let started = ask(&self.engine, |reply| Ask::Start(Box::new(plan), reply));
        let started = started.unwrap_or_else(|| Err(SessionError::Ended.to_string()));
        let id = started.map_err(|why| self.refuse(format!("ring {index}: {why}")))?;
        self.rings[index].running = Some(id);
        Ok(())
    }

    fn plan(
        &self,
        index: usize,
        addresses: (u64, u64, u64),
        kick: &File,
    ) -> std::result::Result<RingPlan, String> {
        let ring = &self.rings[index];
        let memory = self.memory()?;
        let features = Features(self.features);
        let mut queue = self.queue(ring.size, addresses)?;
        queue.set_event_idx(features.event_index());
        queue.set_ready(true);
        if !queue.is_valid(&memory) {
            return Err(format!(
                "its {} descriptors are not in the guest's memory",
                ring.size
            ));
        }
        let used = queue.used_idx(&memory, std::sync::atomic::Ordering::Acquire);
        let used = used.map_err(|error| error.to_string())?.0;
        queue.set_next_used(used);
        queue.set_next_avail(ring.base);
        let inflight = match &self.inflight {
            Some(region) => region.ring(index, ring.size),
            None => Ok(None),
        };
        let inflight = inflight.map_err(|error| error.to_string())?;
        let mut left = Vec::new();
        if let Some(inflight) = &inflight {
            left = inflight.left(used);
            // What another process has taken is used or left.
            queue.set_next_avail(used.wrapping_add(left.len() as u16));
        }
        let copy = |file: &File| event_of(file).map_err(|error| error.to_string());
        Ok(RingPlan {
            volume: self.shape.name.clone(),
            memory,
            queue,
            inflight,
            left,
            kick: copy(kick)?,
            call: ring.call.as_ref().map(copy).transpose()?,
            connection: self
                .connection
                .try_clone()
                .map_err(|error| error.to_string())?,
            write_through: !features.flushes(),
            serial: self.shape.serial(),
        })
    }

    fn queue(
        &self,
        size: u16,
        (descriptors, used, available): (u64, u64, u64),
    ) -> std::result::Result<Queue, String> {
        let wrong = |error: virtio_queue::Error| error.to_string();
        let mut queue = Queue::new(QUEUE_SIZE_MAX).map_err(wrong)?;
        queue.try_set_size(size).map_err(wrong)?;
        queue
            .try_set_desc_table_address(self.guest_address(descriptors)?)
            .map_err(wrong)?;
        queue
            .try_set_used_ring_address(self.guest_address(used)?)
            .map_err(wrong)?;
        queue
            .try_set_avail_ring_address(self.guest_address(available)?)
            .map_err(wrong)?;
        Ok(queue)
    }

    /// The guest's address of what the monitor has at `address`.
    fn guest_address(&self, address: u64) -> std::result::Result<GuestAddress, String> {
        let inside = |region: &&MappedRegion| {
            let offset = address.checked_sub(region.monitor_address);
            offset.is_some_and(|offset| offset < region.bytes)
        };
        let found = self.regions.iter().find(inside);
        let region = found.ok_or_else(|| {
            format!("the monitor has shared no memory at its address {address:#x}")
        })?;
        let offset = address - region.monitor_address;
        Ok(GuestAddress(region.guest_address + offset))
    }

    fn memory(&self) -> std::result::Result<GuestMemoryMmap, String> {
        let regions = self.regions.iter().map(|region| {
            let at = GuestAddress(region.guest_address);
            let guest = GuestRegionMmap::with_arc(region.mapping.clone(), at);
            guest.map(Arc::new)
        });
        let regions: Option<Vec<_>> = regions.collect();
        let mut regions = regions.ok_or("a region of memory is beyond the last address")?;
        regions.sort_by_key(|region| vm_memory::GuestMemoryRegion::start_addr(&**region));
        GuestMemoryMmap::from_arc_regions(regions).map_err(|error| error.to_string())
    }

    /// Replaces the memory, while all rings are stopped.
    fn change_memory(
        &mut self,
        change: impl FnOnce(&mut Vec<MappedRegion>) -> std::result::Result<(), String>,
    ) -> Result<()> {
        for index in 0..self.rings.len() {
            self.stop(index)?;
        }
        change(&mut self.regions).map_err(|why| self.refuse(why))?;
        for index in 0..self.rings.len() {
            self.start(index)?;
        }
        Ok(())
    }

    fn reset(&mut self) -> Result<()> {
        for index in 0..self.rings.len() {
            self.stop(index)?;
            self.rings[index] = RingState::default();
        }
        self.features = 0;
        Ok(())
    }
}

/// Maps a region. Its file must have the bytes: what lies beyond the end of a file ends the process that touches it.
fn map(region: &VhostUserMemoryRegion, file: File) -> std::result::Result<MappedRegion, String> {
    let VhostUserMemoryRegion {
        guest_phys_addr,
        memory_size,
        user_addr,
        mmap_offset,
    } = *region;
    let failed = |why: &dyn std::fmt::Display| {
        format!("{memory_size} bytes of the guest's memory cannot be mapped: {why}")
    };
    let length = file.metadata().map_err(|error| failed(&error))?.len();
    let end = mmap_offset.checked_add(memory_size);
    let ends = [guest_phys_addr, user_addr].map(|at| at.checked_add(memory_size));
    if memory_size == 0 || end.is_none_or(|end| end > length) || ends.contains(&None) {
        return Err(failed(&"they are not in the file"));
    }
    let bytes = usize::try_from(memory_size).map_err(|error| failed(&error))?;
    let mapping = MmapRegion::from_file(FileOffset::new(file, mmap_offset), bytes);
    Ok(MappedRegion {
        monitor_address: user_addr,
        guest_address: guest_phys_addr,
        bytes: memory_size,
        mapping: Arc::new(mapping.map_err(|error| failed(&error))?),
    })
}

/// A copy of an eventfd of the monitor. It must never block: the engine's thread writes and reads it.
fn event_of(file: &File) -> std::io::Result<OwnedFd> {
    let fd = file.as_fd().try_clone_to_owned()?;
    let link = rustix::fs::readlink(
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&fd)),
        Vec::new(),
    )?;
    if link.to_bytes() != b"anon_inode:[eventfd]" {
        return Err(std::io::Error::other(
            "the monitor sent another file where an eventfd belongs",
        ));
    }
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    rustix::fs::fcntl_setfl(&fd, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(fd)
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.reset()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.shape.features() | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let unknown = features & !self.get_features()?;
        if unknown != 0 {
            return Err(self.refuse(format!("features {unknown:#x} are not offered")));
        }
        self.features = features;
        Ok(())
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<vhost::VhostUserMemoryRegionBase>>> {
        let pairs = regions.iter().zip(files);
        let mapped: std::result::Result<Vec<_>, String> =
            pairs.map(|(region, file)| map(region, file)).collect();
        let mapped = mapped.map_err(|why| self.refuse(why))?;
        self.change_memory(|regions| {
            *regions = mapped;
            Ok(())
        })?;
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        let valid = u16::try_from(size)
            .ok()
            .filter(|size| size.is_power_of_two() && *size <= QUEUE_SIZE_MAX);
        let Some(size) = valid else {
            let why = format!(
                "a ring has up to {QUEUE_SIZE_MAX} descriptors, a power of two; not {size}"
            );
            return Err(self.refuse(why));
        };
        self.change(index, |ring| ring.size = size)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptors: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let addresses = Some((descriptors, used, available));
        self.change(index, |ring| ring.addresses = addresses)
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        self.change(index, |ring| ring.base = base)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.ring(index)?;
        self.stop(index as usize)?;
        let ring = &mut self.rings[index as usize];
        // It starts again with its next kick descriptor.
        (ring.kick, ring.call) = (None, None);
        Ok(VhostUserVringState::new(index, ring.base.into()))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        if file.is_none() {
            return Err(self.refuse("a ring without an event for its requests is not served"));
        }
        self.change(index.into(), |ring| ring.kick = file)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.change(index.into(), |ring| ring.call = file)
    }

    fn set_vring_err(&mut self, _: u8, _: Option<File>) -> Result<()> {
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD
            | VhostUserProtocolFeatures::RESET_DEVICE
            | VhostUserProtocolFeatures::CONFIGURE_MEM_SLOTS)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(QUEUES_MAX as u64)
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.change(index, |ring| ring.is_enabled = enable)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        let mut bytes = self.shape.configuration();
        bytes.resize(CONFIGURATION_BYTES, 0);
        let end = offset.checked_add(size).ok_or(Error::InvalidParam)?;
        let found = bytes.get(offset as usize..end as usize);
        Ok(found.ok_or(Error::InvalidParam)?.to_vec())
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(self.refuse("no field of the configuration can be changed"))
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        let (queues, size) = (wanted.num_queues, wanted.queue_size);
        let made = Region::create(queues, size);
        let (region, file, bytes) = made.map_err(|error| self.refuse(error))?;
        self.inflight = Some(region);
        Ok((VhostUserInflight::new(bytes, 0, queues, size), file))
    }

    fn set_inflight_fd(&mut self, kept: &VhostUserInflight, file: File) -> Result<()> {
        let VhostUserInflight {
            mmap_size,
            mmap_offset,
            num_queues,
            queue_size,
        } = *kept;
        let region = Region::map(file, mmap_offset, mmap_size, num_queues, queue_size);
        let region = region.map_err(|error| self.refuse(error))?;
        self.inflight = Some(region);
        Ok(())
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<vhost::VhostUserMemoryRegionBase>> {
        if self.regions.len() >= REGIONS_MAX {
            return Err(self.refuse(format!("a guest has up to {REGIONS_MAX} regions of memory")));
        }
        let mapped = map(region, file).map_err(|why| self.refuse(why))?;
        self.change_memory(|regions| {
            regions.push(mapped);
            Ok(())
        })?;
        Ok(None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        let (at, bytes) = (region.guest_phys_addr, region.memory_size);
        self.change_memory(|regions| {
            let is_it = |region: &MappedRegion| region.guest_address == at && region.bytes == bytes;
            let found = regions.iter().position(is_it);
            let found = found.ok_or("there is no such region of memory to be taken away")?;
            regions.remove(found);
            Ok(())
        })
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(Error::InvalidMessage)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(Error::InvalidMessage)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(Error::InvalidMessage)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(Error::InvalidMessage)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(Error::InvalidMessage)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(Error::InvalidMessage)
    }
}
