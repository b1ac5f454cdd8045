//! Blocks that record which write made them, and a writer that knows which states a crash may leave.
//!
//! The disk is divided into units, each written by one request: single blocks, and groups of [`GROUP`] blocks. Writes
//! are numbered. After a crash the units must have
//! 1. whole blocks, and groups of one number (a request is atomic),
//! 2. nothing older than the last acknowledged flush,
//! 3. one point in the order of writes (the state is a prefix of it).

use crate::nbd::{Client, FLAG_FUA};
use std::io;

/// Bytes of a block.
pub const BLOCK: usize = 4096;
/// Blocks in a group.
pub const GROUP: u64 = 32;
const SINGLES: u64 = 256;
const GROUPS: u64 = 24;
const UNITS: u64 = SINGLES + GROUPS;
/// Bytes of the volume that the writer uses.
pub const SPAN: u64 = (SINGLES + GROUPS * GROUP) * BLOCK as u64;

/// The writes that were sent, and which of them must survive.
#[derive(Default)]
pub struct Ledger {
    /// Number and unit of each write that a later crash may still show.
    sent: Vec<(u64, u64)>,
    /// Number in each unit if no write of `sent` has arrived.
    base: std::collections::BTreeMap<u64, u64>,
    next: u64,
    /// Every write up to this number was acknowledged as durable.
    promised: u64,
    random: u64,
}

/// Result of a verification after a crash.
#[derive(Debug, Clone, Copy)]
pub struct Found {
    /// Writes that had been sent since the last verification.
    pub sent: usize,
    /// How many of them must be there.
    pub promised: usize,
    /// How many of them are there.
    pub kept: usize,
}

impl Ledger {
    /// A ledger without writes. The seed determines the order of units.
    pub fn new(seed: u64) -> Self {
        Self {
            next: 1,
            random: seed.wrapping_mul(2).wrapping_add(1),
            ..Self::default()
        }
    }

    /// Writes until the connection is lost, with some flushes and FUA writes.
    pub fn write_until_cut(&mut self, client: &mut Client) {
        while self.step(client).is_ok() {}
    }

    /// Makes one write, and sometimes a flush.
    ///
    /// # Errors
    /// When the connection is lost.
    pub fn step(&mut self, client: &mut Client) -> io::Result<()> {
        // A multiplicative generator (Lehmer) is random enough to choose units.
        self.random = self
            .random
            .wrapping_mul(0xda94_2042_e4dd_58b5)
            .wrapping_add(1);
        let draw = self.random >> 33;
        let (unit, number) = (draw % UNITS, self.next);
        self.next += 1;
        self.sent.push((number, unit));
        let fua = draw >> 12 & 15 == 0;
        client.write(
            offset(unit),
            &payload(unit, number),
            if fua { FLAG_FUA } else { 0 },
        )?;
        // The log is one sequence and recovery returns a prefix of it, so a durable write makes all writes before it
        // durable too.
        if fua {
            self.promised = number;
        }
        if draw >> 16 & 7 == 0 {
            client.flush()?;
            self.promised = number;
        }
        Ok(())
    }

    /// Checks every unit after a restart, and takes the found state as the new start.
    ///
    /// # Panics
    /// When a rule of this module does not hold.
    pub fn verify(&mut self, client: &mut Client) -> Found {
        let found: Vec<u64> = (0..UNITS).map(|unit| number_in(client, unit)).collect();
        let newest = found.iter().copied().max().unwrap_or(0);
        let newest_before = self.base.values().copied().max().unwrap_or(0);
        let point = newest.max(self.promised).max(newest_before);
        assert!(
            newest >= self.promised,
            "a flushed write is lost: the newest found is {newest}, flushed was {}",
            self.promised
        );
        let kept = self.sent.iter().filter(|(number, _)| *number <= point);
        let mut expected = self.base.clone();
        expected.extend(kept.clone().map(|&(number, unit)| (unit, number)));
        for (unit, number) in (0..).zip(&found) {
            let right = expected.get(&unit).copied().unwrap_or(0);
            assert_eq!(
                *number, right,
                "unit {unit} holds write {number}, not {right}: no prefix of the order \
                 (newest {newest}, flushed {})",
                self.promised
            );
        }
        let report = Found {
            sent: self.sent.len(),
            promised: self
                .sent
                .iter()
                .filter(|(number, _)| *number <= self.promised)
                .count(),
            kept: kept.count(),
        };
        self.base = expected;
        self.sent.clear();
        self.promised = 0;
        report
    }
}

fn offset(unit: u64) -> u64 {
    let block = if unit < SINGLES {
        unit
    } else {
        SINGLES + (unit - SINGLES) * GROUP
    };
    block * BLOCK as u64
}

fn blocks(unit: u64) -> u64 {
    if unit < SINGLES { 1 } else { GROUP }
}

/// The payload of a write. Each word mixes unit, block, number and position, so that a torn block is detected.
fn payload(unit: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(blocks(unit) as usize * BLOCK);
    for block in 0..blocks(unit) {
        bytes.extend(number.to_le_bytes());
        for word in 1..BLOCK as u64 / 8 {
            bytes.extend(mixed(unit, block, number, word).to_le_bytes());
        }
    }
    bytes
}

fn mixed(unit: u64, block: u64, number: u64, word: u64) -> u64 {
    (number << 32 ^ unit << 20 ^ block << 12 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The number of the write that a unit has, or 0 if it was never written.
fn number_in(client: &mut Client, unit: u64) -> u64 {
    let length = blocks(unit) as usize * BLOCK;
    let bytes = client
        .read(offset(unit), length as u32)
        .unwrap_or_else(|error| panic!("unit {unit} cannot be read: {error}"));
    let number = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let right = if number == 0 {
        bytes.iter().all(|byte| *byte == 0)
    } else {
        bytes == payload(unit, number)
    };
    assert!(
        right,
        "unit {unit} is torn or foreign: its first block says write {number}"
    );
    number
}
