//! MSR Cambridge: `timestamp,host,disk,type,offset,size,response`, with timestamp and response in
//! Windows units of 100 ns, offset and size in bytes.

use crate::error::Reason;
use crate::fields::Fields;
use crate::number::{self, TIME_MAX_NS};
use crate::parser::Parser;
use crate::record::{Arrival, Extent, Op, Record};
use crate::sink::Sink;
use tonearm_base::Nanos;

/// Nanoseconds of one unit.
const TICK: u64 = 100;

/// Timestamps count from 1601; arrivals from the first line.
#[derive(Default)]
pub(crate) struct Msr {
    first: Option<u64>,
}

impl Parser for Msr {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let fields = Fields::commas(line);
        let named = fields
            .peek(0)
            .is_some_and(|field| field.eq_ignore_ascii_case(b"timestamp"));
        if self.first.is_none() && named {
            return Ok(());
        }
        let stamp = fields.integer(0, "a timestamp in units of 100 ns")?;
        let device = fields.small(2, "a disk number")?;
        let op = fields.read(3, "Read or Write", kind)?;
        let offset = fields.integer(4, "an offset in bytes")?;
        let bytes = fields.integer(5, "a size in bytes")?;
        let response = fields.read(6, "a time in units of 100 ns", ticks)?;
        // If the first line is slightly late, the second one is clamped instead of refused.
        let since = stamp.saturating_sub(*self.first.get_or_insert(stamp));
        let at = since
            .checked_mul(TICK)
            .filter(|nanos| *nanos <= TIME_MAX_NS);
        let at = at.ok_or(Reason::NotA {
            field: 1,
            text: stamp.to_string(),
            what: "a timestamp of the same 36 years as the first",
        })?;
        let at = sink.arrival(Nanos(at))?;
        let Some(extent) = Extent::of_bytes(offset, bytes)? else {
            sink.skipped += 1;
            return Ok(());
        };
        sink.push(Record {
            line: sink.line,
            arrival: Arrival::At(at),
            device,
            op,
            fua: false,
            sector: extent.sector,
            sectors: extent.sectors,
            response: Some(response),
        });
        Ok(())
    }
}

fn kind(field: &[u8]) -> Option<Op> {
    if field.eq_ignore_ascii_case(b"read") {
        Some(Op::Read)
    } else if field.eq_ignore_ascii_case(b"write") {
        Some(Op::Write)
    } else {
        None
    }
}

fn ticks(field: &[u8]) -> Option<Nanos> {
    number::time_ns(field, TICK).map(Nanos)
}
