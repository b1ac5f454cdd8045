//! Operations on members. Adjacent parts of one member become one operation; reads of several members go to one buffer.

use super::cut::Payload;
use super::state::RaidError;
use crate::device::{Device, DeviceIo};
use tonearm_base::BufPool;
use tonearm_rt::{Data, IoError, Op, SLICES_MAX};

/// Most bytes of a joined operation on a member.
pub(crate) const JOINED_BYTES_MAX: u64 = 1 << 20;

/// The smallest size and the largest block size of `members`. There must be at least `least` members.
pub(crate) fn min_size<'a>(
    members: impl Iterator<Item = &'a dyn Device>,
    least: usize,
    unit: u64,
) -> Result<(u64, u32), RaidError> {
    let (mut size, mut block, mut count) = (u64::MAX, 1, 0);
    for member in members {
        size = size.min(member.size_bytes());
        block = block.max(member.block_size());
        count += 1;
    }
    if count < least {
        return Err(RaidError::Shape(format!(
            "it needs {least} members and has {count}"
        )));
    }
    if unit == 0 || !unit.is_multiple_of(u64::from(block)) || unit > 1 << 30 {
        return Err(RaidError::Shape(format!(
            "a stripe unit of {unit} bytes is not a whole number of blocks of {block} bytes, up to 1 GiB"
        )));
    }
    if size < unit {
        return Err(RaidError::Shape(format!(
            "the smallest member has {size} bytes, less than a stripe unit of {unit}"
        )));
    }
    Ok((size, block))
}

/// A change of one member.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub member: usize,
    pub offset: u64,
    pub len: u64,
    pub payload: Payload,
}

impl Transfer {
    pub fn new(member: usize, offset: u64, len: u64, payload: Payload) -> Self {
        Self {
            member,
            offset,
            len,
            payload,
        }
    }

    /// Appends `next` to `open` if they are adjacent. Otherwise `next` becomes the open one, and the previous one is
    /// returned.
    pub fn join(open: &mut Option<Transfer>, next: Transfer) -> Option<Transfer> {
        let Some(last) = open else {
            *open = Some(next);
            return None;
        };
        let follows = last.member == next.member && last.offset + last.len == next.offset;
        match (&mut last.payload, &next.payload) {
            (Payload::Zeroes(op), Payload::Zeroes(more)) if follows && op == more => {
                last.len += next.len;
                None
            }
            (Payload::Bytes(slices), Payload::Bytes(more))
                if follows
                    && last.len + next.len <= JOINED_BYTES_MAX
                    && slices.len() + more.len() <= SLICES_MAX =>
            {
                slices.extend(more.iter().cloned());
                last.len += next.len;
                None
            }
            _ => open.replace(next),
        }
    }
}

/// Starts `transfer`, as several operations if it has too many slices for one.
pub(crate) fn run(
    device: &dyn Device,
    transfer: Transfer,
    durable: bool,
) -> Vec<(usize, DeviceIo)> {
    let Transfer {
        member,
        mut offset,
        len,
        payload,
    } = transfer;
    match payload {
        Payload::Zeroes(op) => vec![(member, device.io(op, offset, len, Data::None))],
        Payload::Bytes(slices) => {
            let op = if durable { Op::WriteDurable } else { Op::Write };
            let parts = slices.chunks(SLICES_MAX).map(|part| {
                let data = Data::Slices(part.to_vec());
                let bytes = data.len() as u64;
                let io = device.io(op, offset, 0, data);
                offset += bytes;
                (member, io)
            });
            parts.collect()
        }
    }
}

/// Source and target of a part of a read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub member: usize,
    /// First byte on the member.
    pub at: u64,
    pub len: u64,
    /// First byte of the request.
    pub dest: u64,
}

/// A read of one place that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failed {
    pub member: usize,
    /// First byte on the member.
    pub offset: u64,
    pub error: IoError,
}

pub(crate) struct FailedRead {
    pub places: Vec<Place>,
    pub error: IoError,
}

/// Reads under way.
pub(crate) struct Reads {
    /// Memory of the request. A single read holds it while it is under way.
    data: Data,
    under_way: Vec<(Vec<Place>, DeviceIo)>,
    through: bool,
}

/// Starts to read `places`, in the order of the request, into `data`. The request has `len` bytes.
pub(crate) fn read_places(
    pool: &BufPool,
    places: impl Iterator<Item = Place>,
    len: u64,
    data: Data,
    mut start: impl FnMut(usize, u64, Data) -> DeviceIo,
) -> Reads {
    let mut joined: Vec<Vec<Place>> = Vec::new();
    for place in places {
        // There are few members, so the last read of this one is near the end.
        let last = joined
            .iter_mut()
            .rev()
            .take(64)
            .find(|read| read[0].member == place.member);
        match last {
            Some(read) if follows(read, &place) => read.push(place),
            _ => joined.push(vec![place]),
        }
    }
    let one = joined.len() == 1 && bytes_of(&joined[0]) == len;
    if let (true, Data::Buf(..)) = (one, &data) {
        let read = joined.remove(0);
        let io = start(read[0].member, read[0].at, data);
        return Reads {
            data: Data::None,
            under_way: vec![(read, io)],
            through: true,
        };
    }
    let begin = |read: Vec<Place>| {
        let buf = pool.alloc(bytes_of(&read) as usize);
        let io = start(read[0].member, read[0].at, Data::whole(buf));
        (read, io)
    };
    Reads {
        data,
        under_way: joined.into_iter().map(begin).collect(),
        through: false,
    }
}

fn bytes_of(read: &[Place]) -> u64 {
    read.iter().map(|place| place.len).sum()
}

fn follows(read: &[Place], next: &Place) -> bool {
    let bytes = bytes_of(read);
    read[0].at + bytes == next.at && bytes + next.len <= JOINED_BYTES_MAX
}

impl Reads {
    /// Waits for all reads. Those that failed, and the memory.
    pub async fn end(self) -> (Vec<FailedRead>, Data) {
        let (mut failed, mut data) = (Vec::new(), self.data);
        for (places, io) in self.under_way {
            let (result, read) = io.await;
            let bytes = bytes_of(&places) as usize;
            let whole = result.and_then(|got| {
                if got == bytes {
                    Ok(())
                } else {
                    Err(IoError::EIO)
                }
            });
            match whole {
                Ok(()) if !self.through => {
                    let (buf, mut at) = (read.into_buf(), 0);
                    for place in &places {
                        let len = place.len as usize;
                        copy_to(&mut data, place.dest, &buf[at..at + len]);
                        at += len;
                    }
                    continue;
                }
                Ok(()) => {}
                Err(error) => failed.push(FailedRead { places, error }),
            }
            if self.through {
                data = read;
            }
        }
        (failed, data)
    }
}

/// Copies `bytes` to byte `dest` of a read's memory.
pub(crate) fn copy_to(data: &mut Data, dest: u64, bytes: &[u8]) {
    if let Data::Buf(buf, range) = data {
        let at = range.start + dest as usize;
        buf[at..at + bytes.len()].copy_from_slice(bytes);
    }
}
