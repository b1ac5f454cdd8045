//! Lossless content in little memory. A page that is zero after its first 16 bytes is kept as these 16 bytes (a
//! stamp), and so is a page that repeats its first 16 bytes. Any other page is kept up to its last sector that is not zero.

use crate::image::DiskImage;
use std::ops::Range;
use std::rc::Rc;
use tonearm_rt::{Data, Op, Request};

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;
/// Bytes of a sector, the unit of a torn write.
pub(crate) const SECTOR: usize = 512;
/// Bytes of a stamp.
const STAMP: usize = 16;

#[derive(Clone, Default)]
pub(crate) enum Page {
    #[default]
    Zero,
    Stamp([u8; STAMP]),
    /// The page consists of copies of these bytes.
    Repeat([u8; STAMP]),
    /// The first bytes; the rest is zero.
    Bytes(Rc<[u8]>),
}

/// Length of `bytes` without the zeroes at its end, or a few bytes more.
fn significant(bytes: &[u8]) -> usize {
    const STEP: usize = 64;
    let (steps, rest) = bytes.as_chunks::<STEP>();
    if rest.iter().any(|byte| *byte != 0) {
        return bytes.len();
    }
    let used = |step: &[u8; STEP]| step.iter().fold(0, |all, byte| all | byte) != 0;
    match steps.iter().rposition(used) {
        None => 0,
        Some(0) if steps[0][STAMP..].iter().all(|byte| *byte == 0) => STAMP,
        Some(last) => (last + 1) * STEP,
    }
}

fn stamp(bytes: &[u8]) -> [u8; STAMP] {
    let mut stamp = [0; STAMP];
    stamp.copy_from_slice(&bytes[..STAMP]);
    stamp
}

/// True when the page `bytes` consists of copies of its first bytes.
fn repeats(bytes: &[u8]) -> bool {
    bytes.len() == PAGE && bytes[STAMP..] == bytes[..PAGE - STAMP]
}

impl Page {
    /// The page that begins with `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        match significant(bytes) {
            0 => Page::Zero,
            STAMP => Page::Stamp(stamp(bytes)),
            _ if repeats(bytes) => Page::Repeat(stamp(bytes)),
            len => Page::Bytes(Rc::from(
                &bytes[..len.next_multiple_of(SECTOR).min(bytes.len())],
            )),
        }
    }

    /// Copies the part `within` of the page to `out`, which has the same length.
    pub fn read(&self, within: Range<usize>, out: &mut [u8]) {
        let bytes: &[u8] = match self {
            Page::Zero => &[],
            Page::Stamp(stamp) => stamp,
            Page::Bytes(bytes) => bytes,
            Page::Repeat(stamp) => {
                let mut turned = *stamp;
                turned.rotate_left(within.start % STAMP);
                for part in out.chunks_mut(STAMP) {
                    part.copy_from_slice(&turned[..part.len()]);
                }
                return;
            }
        };
        let there = bytes.len().clamp(within.start, within.end) - within.start;
        out[..there].copy_from_slice(&bytes[within.start.min(bytes.len())..][..there]);
        out[there..].fill(0);
    }

    /// Overwrites the page from `at` on.
    pub fn write(&mut self, at: usize, data: &[u8]) {
        if at == 0 && data.len() == PAGE {
            // A page in full size is overwritten in place, unless the new content needs much less.
            if let Page::Bytes(bytes) = self
                && bytes.len() == PAGE
                && data[PAGE / 2..].iter().any(|byte| *byte != 0)
                && !repeats(data)
                && let Some(bytes) = Rc::get_mut(bytes)
            {
                bytes.copy_from_slice(data);
                return;
            }
            *self = Page::of(data);
            return;
        }
        let mut whole = [0; PAGE];
        self.read(0..PAGE, &mut whole);
        whole[at..at + data.len()].copy_from_slice(data);
        *self = Page::of(&whole);
    }
}

/// The content of a write.
#[derive(Clone)]
pub(crate) enum Payload {
    /// Whole pages, at a page boundary.
    Pages(Rc<[Page]>),
    Bytes(Rc<[u8]>),
    Zeroes(u64),
}

impl Payload {
    /// The content that `request` writes, if it is a write.
    pub fn of(request: &Request) -> Option<Self> {
        let aligned = request.offset.is_multiple_of(PAGE as u64);
        let of_parts = |parts: &[&[u8]]| {
            if aligned && parts.iter().all(|part| part.len().is_multiple_of(PAGE)) {
                let pages = parts.iter().flat_map(|part| part.chunks_exact(PAGE));
                return Payload::Pages(pages.map(Page::of).collect());
            }
            Payload::Bytes(Rc::from(parts.concat()))
        };
        match (request.op, &request.data) {
            (Op::Punch | Op::Zero, _) => Some(Payload::Zeroes(request.len)),
            (Op::Write | Op::WriteDurable, Data::Buf(buf, range)) => {
                Some(of_parts(&[&buf[range.clone()]]))
            }
            (Op::Write | Op::WriteDurable, Data::Slices(slices)) => {
                let parts: Vec<&[u8]> = slices.iter().map(|slice| &slice[..]).collect();
                Some(of_parts(&parts))
            }
            (Op::Write | Op::WriteDurable, Data::None) => panic!("a write without data"),
            _ => None,
        }
    }

    pub fn len(&self) -> u64 {
        match self {
            Payload::Pages(pages) => (pages.len() * PAGE) as u64,
            Payload::Bytes(bytes) => bytes.len() as u64,
            Payload::Zeroes(len) => *len,
        }
    }

    /// Writes `len` bytes from `from` on to their place in `image`, the payload being at `offset`.
    pub fn apply(&self, image: &mut DiskImage, offset: u64, from: u64, len: u64) {
        match self {
            Payload::Pages(pages) => {
                let (mut at, end) = (from, from + len);
                while at < end {
                    let page = &pages[(at / PAGE as u64) as usize];
                    let within = (at % PAGE as u64) as usize;
                    let part = (PAGE - within).min((end - at) as usize);
                    if part == PAGE && offset.is_multiple_of(PAGE as u64) {
                        image.put_page((offset + at) / PAGE as u64, page.clone());
                    } else {
                        let mut bytes = [0; PAGE];
                        page.read(within..within + part, &mut bytes[..part]);
                        image.write(offset + at, &bytes[..part]);
                    }
                    at += part as u64;
                }
            }
            Payload::Bytes(bytes) => {
                image.write(offset + from, &bytes[from as usize..(from + len) as usize]);
            }
            Payload::Zeroes(_) => image.zero(offset + from, len),
        }
    }
}

/// Writes the content of `request` to `offset` of `image`, without an intermediate copy.
pub(crate) fn apply_request(request: &Request, image: &mut DiskImage, mut offset: u64) {
    match (request.op, &request.data) {
        (Op::Punch | Op::Zero, _) => image.zero(offset, request.len),
        (_, Data::Buf(buf, range)) => image.write(offset, &buf[range.clone()]),
        (_, Data::Slices(slices)) => {
            for slice in slices {
                image.write(offset, slice);
                offset += slice.len() as u64;
            }
        }
        (_, Data::None) => panic!("a write without data"),
    }
}
