//! A filter that makes two runs comparable: a hash over every begin and end with its time and bytes.
//!
//! Two runs that did the same I/O in the same order at the same times have the same hash; one changed
//! byte, place, order or time gives another.

use crate::device::{Device, DeviceIo, Interrupted, Recovering, span};
use std::cell::RefCell;
use std::rc::Rc;
use tonearm_base::Nanos;
use tonearm_rt::{Data, IoError, Op, Rt};

/// One line of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceEvent {
    /// When, by the executor's clock.
    pub at: Nanos,
    /// The device's number in the log, in the order of the filters' making.
    pub device: u32,
    /// What.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes on the device.
    pub len: u64,
    /// CRC-32C of the bytes written (at the begin) or read (at the end); else 0.
    pub crc: u32,
    /// None at the begin; the result at the end.
    pub end: Option<Result<usize, IoError>>,
}

#[derive(Default)]
struct Log {
    hash: u64,
    count: u64,
    devices: u32,
    kept: Option<Vec<TraceEvent>>,
}

/// The log of one or several traced devices; clones are the same log.
#[derive(Clone)]
pub struct TraceLog(Rc<RefCell<Log>>);

impl TraceLog {
    /// A log that keeps the hash alone.
    pub fn hashing() -> Self {
        Self(Rc::default())
    }

    /// A log that keeps every event as well, for short runs: it only grows.
    pub fn keeping() -> Self {
        Self(Rc::new(RefCell::new(Log {
            kept: Some(Vec::new()),
            ..Log::default()
        })))
    }

    /// Hash over all so far.
    pub fn hash(&self) -> u64 {
        self.0.borrow().hash
    }

    /// Events so far: a begin and an end for each operation that was waited for.
    pub fn count(&self) -> u64 {
        self.0.borrow().count
    }

    /// The events kept.
    pub fn events(&self) -> Vec<TraceEvent> {
        self.0.borrow().kept.clone().unwrap_or_default()
    }

    fn note(&self, event: TraceEvent) {
        let end = match event.end {
            None => 0,
            Some(Ok(bytes)) => 1 + bytes as u64,
            Some(Err(error)) => u64::MAX - error.errno as u64,
        };
        let mut log = self.0.borrow_mut();
        for word in [
            event.at.0,
            u64::from(event.device),
            event.op as u64,
            event.offset,
            event.len,
            u64::from(event.crc),
            end,
        ] {
            // FNV-1a over words, with a rotation so that the upper bits count.
            log.hash = (log.hash ^ word)
                .wrapping_mul(0x0000_0100_0000_01b3)
                .wrapping_add(0x9e37_79b9_7f4a_7c15)
                .rotate_left(23);
        }
        log.count += 1;
        if let Some(kept) = &mut log.kept {
            kept.push(event);
        }
    }
}

/// A device whose operations are logged.
pub struct Trace {
    rt: Rt,
    inner: Rc<dyn Device>,
    log: TraceLog,
    number: u32,
}

impl Trace {
    /// Logs what passes to `inner` in `log`, with the clock of `rt`.
    pub fn new(rt: &Rt, inner: Rc<dyn Device>, log: &TraceLog) -> Self {
        let number = log.0.borrow().devices;
        log.0.borrow_mut().devices += 1;
        Self {
            rt: rt.clone(),
            inner,
            log: log.clone(),
            number,
        }
    }
}

impl Device for Trace {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }

    fn block_size(&self) -> u32 {
        self.inner.block_size()
    }

    fn is_suspect(&self) -> bool {
        self.inner.is_suspect()
    }

    fn recover(&self, interrupted: Interrupted) -> Recovering {
        self.inner.recover(interrupted)
    }

    fn io(&self, op: Op, offset: u64, len: u64, data: Data) -> DeviceIo {
        let reads = op == Op::Read;
        let mut event = TraceEvent {
            at: self.rt.now(),
            device: self.number,
            op,
            offset,
            len: span(op, len, &data),
            crc: if reads { 0 } else { crc_of(&data) },
            end: None,
        };
        self.log.note(event.clone());
        let io = self.inner.io(op, offset, len, data);
        let (rt, log) = (self.rt.clone(), self.log.clone());
        Box::pin(async move {
            let (result, data) = io.await;
            event.at = rt.now();
            event.crc = if reads && result.is_ok() {
                crc_of(&data)
            } else {
                0
            };
            event.end = Some(result);
            log.note(event);
            (result, data)
        })
    }
}

/// For several slices, the checksum of their checksums.
fn crc_of(data: &Data) -> u32 {
    match data {
        Data::None => 0,
        Data::Buf(buf, range) => tonearm_base::crc32c(&buf[range.clone()]),
        Data::Slices(slices) => {
            let crcs: Vec<u8> = slices
                .iter()
                .flat_map(|slice| tonearm_base::crc32c(slice).to_le_bytes())
                .collect();
            tonearm_base::crc32c(&crcs)
        }
    }
}
