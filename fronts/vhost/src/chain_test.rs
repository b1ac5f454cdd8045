//! Chains of descriptors, and the rules that a hostile guest breaks.

use crate::chain::{Chain, Malformed};
use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

const NEXT: u16 = 1;
const WRITE: u16 = 2;
const INDIRECT: u16 = 4;

/// Table of eight descriptors at 0; another one at 0x1000; data from 0x2000 on.
const SIZE: u16 = 8;
const OTHER: u64 = 0x1000;
const DATA: u64 = 0x2000;

fn memory() -> GuestMemoryMmap {
    GuestMemoryMmap::from_ranges(&[(GuestAddress(0), 0x8000)]).unwrap()
}

fn put(memory: &GuestMemoryMmap, table: u64, index: u16, descriptor: (u64, u32, u16, u16)) {
    let (at, bytes, flags, next) = descriptor;
    let mut raw = [0; 16];
    raw[..8].copy_from_slice(&at.to_le_bytes());
    raw[8..12].copy_from_slice(&bytes.to_le_bytes());
    raw[12..14].copy_from_slice(&flags.to_le_bytes());
    raw[14..].copy_from_slice(&next.to_le_bytes());
    let at = GuestAddress(table + 16 * u64::from(index));
    memory.write_slice(&raw, at).unwrap();
}

fn read(memory: &GuestMemoryMmap, head: u16) -> Result<Chain, Malformed> {
    Chain::read(memory, GuestAddress(0), SIZE, head)
}

#[test]
fn parts_are_read_and_written_in_order() {
    let memory = memory();
    put(&memory, 0, 2, (DATA, 5, NEXT, 6));
    put(&memory, 0, 6, (DATA + 100, 3, NEXT, 1));
    put(&memory, 0, 1, (DATA + 200, 4, NEXT | WRITE, 0));
    put(&memory, 0, 0, (DATA + 300, 2, WRITE, 0));
    memory.write_slice(b"abcde", GuestAddress(DATA)).unwrap();
    memory
        .write_slice(b"fgh", GuestAddress(DATA + 100))
        .unwrap();
    let chain = read(&memory, 2).unwrap();
    assert_eq!((chain.readable.bytes(), chain.writable.bytes()), (8, 6));
    let mut buf = [0; 4];
    chain.readable.copy_to(&memory, 3, &mut buf).unwrap();
    assert_eq!(&buf, b"defg");
    chain.writable.copy_from(&memory, 1, b"12345").unwrap();
    let mut written = [0; 4];
    memory
        .read_slice(&mut written, GuestAddress(DATA + 200))
        .unwrap();
    assert_eq!(&written, b"\x00123");
    memory
        .read_slice(&mut written[..2], GuestAddress(DATA + 300))
        .unwrap();
    assert_eq!(&written[..2], b"45");
}

#[test]
fn a_table_elsewhere_is_one_chain() {
    let memory = memory();
    put(&memory, 0, 3, (OTHER, 32, INDIRECT, 0));
    put(&memory, OTHER, 0, (DATA, 16, NEXT, 1));
    put(&memory, OTHER, 1, (DATA + 16, 1, WRITE, 0));
    let chain = read(&memory, 3).unwrap();
    assert_eq!((chain.head, chain.readable.bytes()), (3, 16));
    assert_eq!(chain.writable.bytes(), 1);
}

#[test]
fn rules_that_are_broken_are_named() {
    let memory = memory();
    // A loop, in the ring's table and in another one.
    put(&memory, 0, 0, (DATA, 16, NEXT, 1));
    put(&memory, 0, 1, (DATA, 16, NEXT, 0));
    assert_eq!(read(&memory, 0), Err(Malformed::Long));
    put(&memory, 0, 2, (OTHER, 16, INDIRECT, 0));
    put(&memory, OTHER, 0, (DATA, 16, NEXT, 0));
    assert_eq!(read(&memory, 2), Err(Malformed::Long));
    // Beyond the table.
    put(&memory, 0, 3, (DATA, 16, NEXT, SIZE));
    let beyond = Malformed::Index { next: 8, size: 8 };
    assert_eq!(read(&memory, 3), Err(beyond));
    put(&memory, OTHER, 0, (DATA, 16, NEXT, 1));
    let beyond = Malformed::Index { next: 1, size: 1 };
    assert_eq!(read(&memory, 2), Err(beyond));
    // A table in a table, one that is none, and one that is not the end.
    put(&memory, OTHER, 0, (OTHER, 16, INDIRECT, 0));
    assert_eq!(read(&memory, 2), Err(Malformed::Table { bytes: 16 }));
    for bytes in [0, 24] {
        put(&memory, 0, 4, (OTHER, bytes, INDIRECT, 0));
        assert_eq!(read(&memory, 4), Err(Malformed::Table { bytes }));
    }
    put(&memory, 0, 4, (OTHER, 16, INDIRECT | NEXT, 5));
    assert_eq!(read(&memory, 4), Err(Malformed::Table { bytes: 16 }));
    // A part to read after one to write.
    put(&memory, 0, 5, (DATA, 16, NEXT | WRITE, 6));
    put(&memory, 0, 6, (DATA, 16, 0, 0));
    assert_eq!(read(&memory, 5), Err(Malformed::Order));
}

#[test]
fn parts_outside_of_the_memory_are_refused() {
    let memory = memory();
    for at in [0x8000, u64::MAX - 4, 0x7fff] {
        put(&memory, 0, 0, (at, 16, 0, 0));
        let chain = read(&memory, 0).unwrap();
        let copied = chain.readable.copy_to(&memory, 0, &mut [0; 16]);
        assert_eq!(copied, Err(Malformed::Memory { at, bytes: 16 }));
    }
    put(&memory, 0, 1, (u64::MAX - 8, 32, INDIRECT, 0));
    assert!(matches!(read(&memory, 1), Err(Malformed::Memory { .. })));
}
