//! Entry point for fuzzers: the requests that the memory of a hostile guest describes, carried out on a volume.

#![allow(clippy::expect_used)]

use crate::chain::{Chain, Parts};
use crate::execute::{Executor, Status};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_disk::{Piece, Volume};
use tonearm_requests::{Recorder, Requests};
use tonearm_rt::{Rt, Semaphore};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

/// Bytes of the guest's memory, from address 0 on.
pub const MEMORY_BYTES: usize = 16 << 10;

/// Descriptors of the ring, whose table is at address 0.
pub const DESCRIPTORS: u16 = 16;

/// Bytes before the data of a request.
const HEADER_BYTES: usize = 16;

/// A machine with a disk, and what the disk must hold.
pub struct Machine {
    rt: Rt,
    executor: Rc<Executor>,
    expected: Rc<RefCell<Vec<u8>>>,
}

impl Machine {
    /// A machine whose disk is the empty `volume`.
    pub fn new(rt: &Rt, pool: &BufPool, volume: Volume) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)]);
        let size = volume.size_bytes() as usize;
        Self {
            rt: rt.clone(),
            executor: Rc::new(Executor {
                volume: volume.for_kernel_client(),
                memory: memory.expect("memory"),
                pool: pool.clone(),
                budget: Semaphore::new(rt, 1 << 20),
                requests: Requests::new(rt, &Recorder::new(rt)),
                write_through: false,
                serial: *b"fuzzed volume       ",
                name: "main".to_owned(),
            }),
            expected: Rc::new(RefCell::new(vec![0; size])),
        }
    }

    /// Puts `content` at the start of the guest's memory, and zeroes after it. Carries out the request of each descriptor of the ring,
    /// one after the other.
    ///
    /// # Panics
    /// When a request changes memory that it may not write, claims to have written more than there is room for, or reads or writes other
    /// bytes than it should.
    pub fn run(&self, content: &[u8]) {
        let memory = &self.executor.memory;
        let mut image = content[..content.len().min(MEMORY_BYTES)].to_vec();
        image.resize(MEMORY_BYTES, 0);
        memory.write_slice(&image, GuestAddress(0)).expect("memory");
        for head in 0..DESCRIPTORS {
            let Ok(chain) = Chain::read(memory, GuestAddress(0), DESCRIPTORS, head) else {
                continue;
            };
            let (executor, expected) = (self.executor.clone(), self.expected.clone());
            self.rt
                .block_on(async move { request(&executor, &chain, &expected).await });
        }
    }
}

async fn request(executor: &Executor, chain: &Chain, expected: &RefCell<Vec<u8>>) {
    let memory = &executor.memory;
    let content = || {
        let mut content = vec![0; MEMORY_BYTES];
        memory
            .read_slice(&mut content, GuestAddress(0))
            .expect("memory");
        content
    };
    let before = content();
    let result = executor.execute(chain).await;
    let after = content();
    let mut changed = before.clone();
    for range in ranges(&chain.writable) {
        changed[range.clone()].copy_from_slice(&after[range]);
    }
    assert!(changed == after, "{chain:?} changed other memory");
    let Ok((status, written)) = result else {
        return;
    };
    assert!(written < chain.writable.bytes(), "{chain:?}: {written}");
    let gather = |parts, content: &[u8]| -> Vec<u8> {
        ranges(parts)
            .flat_map(|range| content[range].to_vec())
            .collect()
    };
    let sent = gather(&chain.readable, &before);
    let word = |at: usize| u64::from_le_bytes(sent[at..at + 8].try_into().expect("8 bytes"));
    let (kind, sector) = (word(0) as u32, word(8));
    if let 11 | 13 = kind {
        // Which bytes these change is not the business of this crate. Of several ranges the first ones may be done.
        let content = disk(executor).await;
        *expected.borrow_mut() = content;
        return;
    }
    let mut expected = expected.borrow_mut();
    match kind {
        _ if status != Status::Done => {}
        0 => {
            let from = sector as usize * 512;
            let read = gather(&chain.writable, &after);
            let data = &expected[from..from + written as usize];
            // A guest that gives a byte twice gets the later one.
            assert!(
                overlap(&chain.writable) || read[..data.len()] == *data,
                "{chain:?}"
            );
        }
        1 => {
            let data = &sent[HEADER_BYTES..];
            expected[sector as usize * 512..][..data.len()].copy_from_slice(data);
        }
        _ => {}
    }
}

/// All that is on the disk.
async fn disk(executor: &Executor) -> Vec<u8> {
    let volume = &executor.volume;
    let pieces = volume.read(0, volume.size_bytes()).await.expect("read");
    Piece::concat(&pieces)
}

/// True when two of the parts have bytes in common.
fn overlap(parts: &Parts) -> bool {
    let mut sorted: Vec<_> = ranges(parts).filter(|range| !range.is_empty()).collect();
    sorted.sort_by_key(|range| range.start);
    sorted.windows(2).any(|pair| pair[0].end > pair[1].start)
}

/// The parts that are in the guest's memory, in order.
fn ranges(parts: &Parts) -> impl Iterator<Item = Range<usize>> {
    parts.ranges().map(|(at, bytes)| {
        let start = usize::try_from(at).unwrap_or(usize::MAX).min(MEMORY_BYTES);
        let end = start.saturating_add(bytes as usize).min(MEMORY_BYTES);
        start..end
    })
}
