//! Aligned buffers for direct I/O, kept in a pool so that the write path does not allocate.
//!
//! Invariants:
//! 1. Every buffer starts at a multiple of [`ALIGN`] and its capacity is a power-of-two class.
//! 2. A buffer's memory is always initialised: zeroed at its first allocation, with stale content after reuse.
//! 3. The pool keeps at most `cached_bytes_max` of free memory and returns the rest to the allocator.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::rc::Rc;

/// Alignment of every buffer in bytes. Direct I/O on any drive accepts it.
pub const ALIGN: usize = 4096;

const CLASSES: usize = 40;

/// An exclusively owned, aligned buffer of `len` bytes.
pub struct Buf {
    memory: NonNull<u8>,
    class: u32,
    len: usize,
    pool: Rc<PoolState>,
    /// The permit of the budget that pays for this memory. It is dropped with the buffer.
    lease: RefCell<Option<Rc<dyn Any>>>,
}

/// A copy of some bytes that belongs to no pool and, unlike a [`Buf`], may go from thread to thread. Bytes that fill an
/// aligned page or more lie in memory that [`BufPool::adopt`] takes over without another copy.
pub enum LooseBuf {
    /// Fewer bytes.
    Short(Box<[u8]>),
    /// Aligned memory.
    Aligned(AlignedMemory),
}

/// The memory of a buffer, without a pool. All of it is initialised, `len` bytes count.
pub struct AlignedMemory {
    memory: NonNull<u8>,
    class: u32,
    len: usize,
}

// SAFETY: the memory is plain bytes, and only this value refers to it.
unsafe impl Send for AlignedMemory {}

/// Allocates buffers and reuses freed ones. Cheap to clone; each engine thread has one.
#[derive(Clone)]
pub struct BufPool(Rc<PoolState>);

struct PoolState {
    free: RefCell<Vec<Vec<NonNull<u8>>>>,
    cached_bytes: Cell<usize>,
    cached_bytes_max: usize,
    in_use_bytes: Cell<usize>,
}

impl BufPool {
    /// A pool that keeps at most `cached_bytes_max` bytes of free buffers for reuse.
    pub fn new(cached_bytes_max: usize) -> Self {
        Self(Rc::new(PoolState {
            free: RefCell::new((0..CLASSES).map(|_| Vec::new()).collect()),
            cached_bytes: Cell::new(0),
            cached_bytes_max,
            in_use_bytes: Cell::new(0),
        }))
    }

    /// A buffer of `len` bytes with unspecified (but initialised) content.
    pub fn alloc(&self, len: usize) -> Buf {
        let class = class_of(len);
        let reused = self.0.free.borrow_mut()[class as usize].pop();
        let memory = match reused {
            Some(memory) => {
                self.0
                    .cached_bytes
                    .set(self.0.cached_bytes.get() - (1 << class));
                memory
            }
            None => ManuallyDrop::new(AlignedMemory::alloc(class)).memory,
        };
        self.0
            .in_use_bytes
            .set(self.0.in_use_bytes.get() + (1 << class));
        Buf {
            memory,
            class,
            len,
            pool: self.0.clone(),
            lease: RefCell::default(),
        }
    }

    /// A buffer of `len` zero bytes.
    pub fn alloc_zeroed(&self, len: usize) -> Buf {
        let mut buf = self.alloc(len);
        buf.fill(0);
        buf
    }

    /// A buffer holding a copy of `data`.
    pub fn copy_of(&self, data: &[u8]) -> Buf {
        let mut buf = self.alloc(data.len());
        buf.copy_from_slice(data);
        buf
    }

    /// Free memory of the pool for `len` bytes, if there is any, for [`LooseBuf::copy_to`].
    pub fn spare(&self, len: usize) -> Option<AlignedMemory> {
        let class = class_of(len);
        let memory = self.0.free.borrow_mut()[class as usize].pop()?;
        let cached = &self.0.cached_bytes;
        cached.set(cached.get() - (1 << class));
        Some(AlignedMemory { memory, class, len })
    }

    /// A buffer of the bytes of `loose`.
    pub fn adopt(&self, loose: LooseBuf) -> Buf {
        let aligned = match loose {
            LooseBuf::Short(bytes) => return self.copy_of(&bytes),
            LooseBuf::Aligned(aligned) => ManuallyDrop::new(aligned),
        };
        let in_use = &self.0.in_use_bytes;
        in_use.set(in_use.get() + (1 << aligned.class));
        Buf {
            memory: aligned.memory,
            class: aligned.class,
            len: aligned.len,
            pool: self.0.clone(),
            lease: RefCell::default(),
        }
    }

    /// Bytes of memory that a buffer of `len` bytes takes.
    pub fn capacity_of(len: usize) -> usize {
        1 << class_of(len)
    }

    /// Bytes of memory of all live buffers.
    pub fn in_use_bytes(&self) -> usize {
        self.0.in_use_bytes.get()
    }

    /// Bytes of free memory in the pool.
    #[cfg(test)]
    pub(crate) fn cached_bytes(&self) -> usize {
        self.0.cached_bytes.get()
    }
}

impl LooseBuf {
    /// A copy of `data`.
    pub fn copy_of(data: &[u8]) -> Self {
        Self::copy_to(None, data)
    }

    /// A copy of `data`, in the memory `spare` if that has the right size.
    pub fn copy_to(spare: Option<AlignedMemory>, data: &[u8]) -> Self {
        if data.len() < ALIGN {
            return Self::Short(data.into());
        }
        let class = class_of(data.len());
        let spare = spare.filter(|spare| spare.class == class);
        let mut memory = spare.unwrap_or_else(|| AlignedMemory::alloc(class));
        memory.len = data.len();
        // SAFETY: the class has room for `len` bytes, and nothing else knows this memory.
        unsafe {
            let from = NonNull::from(data).cast();
            memory.memory.copy_from_nonoverlapping(from, data.len());
        }
        Self::Aligned(memory)
    }
}

impl AlignedMemory {
    /// Zeroed memory of a class, with length 0.
    fn alloc(class: u32) -> Self {
        let layout = layout_of(class);
        // SAFETY: the layout's size is a power of two of at least ALIGN, never zero.
        let raw = unsafe { alloc_zeroed(layout) };
        let memory = NonNull::new(raw).unwrap_or_else(|| handle_alloc_error(layout));
        Self {
            memory,
            class,
            len: 0,
        }
    }
}

impl Deref for LooseBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Short(bytes) => bytes,
            // SAFETY: all of the memory is initialised, and lives as long as self.
            Self::Aligned(AlignedMemory { memory, len, .. }) => unsafe {
                std::slice::from_raw_parts(memory.as_ptr(), *len)
            },
        }
    }
}

impl Drop for AlignedMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with the layout of its class, as all buffers; a pool that adopts the memory does not drop self.
        unsafe { dealloc(self.memory.as_ptr(), layout_of(self.class)) };
    }
}

impl Buf {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a buffer of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory of the buffer.
    pub fn capacity(&self) -> usize {
        1 << self.class
    }

    /// Sets the length. The content between the old and the new length is unspecified.
    ///
    /// # Panics
    /// When `len` exceeds the capacity.
    pub fn set_len(&mut self, len: usize) {
        assert!(
            len <= self.capacity(),
            "{len} bytes in a buffer of {}",
            self.capacity()
        );
        self.len = len;
    }

    /// Attaches `lease` to the buffer, which drops it when its memory is freed. Several buffers may share a lease.
    pub fn attach(&mut self, lease: Rc<dyn Any>) {
        *self.lease.get_mut() = Some(lease);
    }

    /// Makes the buffer shared and immutable.
    pub fn share(self) -> Slice {
        let range = 0..self.len;
        Slice {
            buf: Rc::new(self),
            start: range.start,
            len: range.end,
        }
    }
}

impl Deref for Buf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `memory` holds `1 << class >= len` initialised bytes (invariant 2) and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl DerefMut for Buf {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `&mut self` gives exclusive access to the memory.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        let bytes = 1usize << self.class;
        self.pool
            .in_use_bytes
            .set(self.pool.in_use_bytes.get() - bytes);
        self.pool.make_room(bytes, self.class);
        let cached = self.pool.cached_bytes.get();
        if cached + bytes <= self.pool.cached_bytes_max {
            self.pool.cached_bytes.set(cached + bytes);
            self.pool.free.borrow_mut()[self.class as usize].push(self.memory);
        } else {
            // SAFETY: allocated by `alloc` with this layout, and not in the free list.
            unsafe { dealloc(self.memory.as_ptr(), layout_of(self.class)) };
        }
    }
}

impl PoolState {
    /// Returns free buffers of the class with the most free bytes to the allocator, so that a workload of one size does
    /// not fill the cache for all others.
    fn make_room(&self, bytes: usize, class: u32) {
        let mut free = self.free.borrow_mut();
        let own = free[class as usize].len() << class;
        while self.cached_bytes.get() + bytes > self.cached_bytes_max {
            let others = free
                .iter_mut()
                .enumerate()
                .filter(|(other, _)| *other != class as usize);
            let Some((other, list)) = others.max_by_key(|(other, list)| list.len() << other) else {
                return;
            };
            if list.len() << other <= own {
                return;
            }
            let Some(memory) = list.pop() else { return };
            self.cached_bytes
                .set(self.cached_bytes.get() - (1 << other));
            // SAFETY: allocated with the layout of its class, and no longer in the free list.
            unsafe { dealloc(memory.as_ptr(), layout_of(other as u32)) };
        }
    }
}

impl Drop for PoolState {
    fn drop(&mut self) {
        for (class, free) in self.free.get_mut().iter().enumerate() {
            for memory in free {
                // SAFETY: each entry was allocated with the layout of its class and is listed once.
                unsafe { dealloc(memory.as_ptr(), layout_of(class as u32)) };
            }
        }
    }
}

impl fmt::Debug for Buf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buf({} bytes)", self.len)
    }
}

/// A shared, immutable part of a buffer. Clones are cheap.
#[derive(Clone)]
pub struct Slice {
    buf: Rc<Buf>,
    start: usize,
    len: usize,
}

impl Slice {
    /// Length in bytes. Reading it does not touch the buffer, which has often left the processor's cache.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for a slice of no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of memory of the buffer, which lives as long as any slice of it.
    pub fn capacity(&self) -> usize {
        self.buf.capacity()
    }

    /// Attaches `lease` to the buffer in place of its present one ([`Buf::attach`]).
    pub fn attach(&self, lease: Rc<dyn Any>) {
        let before = self.buf.lease.replace(Some(lease));
        drop(before);
    }

    /// True when the buffer has a lease.
    pub fn has_lease(&self) -> bool {
        self.buf.lease.borrow().is_some()
    }

    /// True when the buffer has a lease that no other buffer shares and for which `is_right` holds.
    pub fn has_own_lease<L: 'static>(&self, is_right: impl FnOnce(&L) -> bool) -> bool {
        let lease = self.buf.lease.borrow();
        let own = lease.as_ref().filter(|lease| Rc::strong_count(lease) == 1);
        own.and_then(|lease| lease.downcast_ref())
            .is_some_and(is_right)
    }

    /// Part `range` of this slice.
    ///
    /// # Panics
    /// When the range does not lie within the slice.
    pub fn slice(&self, range: Range<usize>) -> Slice {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "range outside the slice"
        );
        Slice {
            buf: self.buf.clone(),
            start: self.start + range.start,
            len: range.end - range.start,
        }
    }

    /// True when `other` continues this slice in the same buffer, so that one I/O operation can carry both.
    pub fn is_followed_by(&self, other: &Slice) -> bool {
        Rc::ptr_eq(&self.buf, &other.buf) && self.start + self.len == other.start
    }

    /// This slice extended by `other`, for which [`Slice::is_followed_by`] holds.
    pub fn joined(&self, other: &Slice) -> Slice {
        assert!(self.is_followed_by(other), "slices are not adjacent");
        Slice {
            buf: self.buf.clone(),
            start: self.start,
            len: self.len + other.len,
        }
    }
}

impl Deref for Slice {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.buf[self.start..self.start + self.len]
    }
}

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice({} bytes)", self.len)
    }
}

fn class_of(len: usize) -> u32 {
    let class = len.max(ALIGN).next_power_of_two().trailing_zeros();
    assert!(
        (class as usize) < CLASSES,
        "{len} bytes are too many for a buffer"
    );
    class
}

fn layout_of(class: u32) -> Layout {
    Layout::from_size_align(1 << class, ALIGN).expect("a power-of-two size and alignment")
}
