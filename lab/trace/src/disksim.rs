//! DiskSim's two text formats: validation traces, and its default.

use crate::error::Reason;
use crate::fields::Fields;
use crate::number;
use crate::parser::Parser;
use crate::record::{Arrival, Extent, Op, Record};
use crate::sink::Sink;
use tonearm_base::Nanos;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Bit of the flags that is set for a read.
const READ: u64 = 1;

/// `R|W buffer-action lbn sectors measured_us think_us`: the think time passes between this request's end and the start
/// of the next one.
#[derive(Default)]
pub(crate) struct DisksimValid {
    think: Nanos,
}

impl Parser for DisksimValid {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let fields = Fields::blanks(line);
        let op = fields.read(0, "R or W", letter)?;
        fields.get(1, "what the drive's buffer did")?;
        let sector = fields.integer(2, "a sector number")?;
        let extent = Extent::new(sector, fields.integer(3, "a number of sectors")?)?;
        let response = fields.time(4, "a time in microseconds", US)?;
        let next = fields.time(5, "a time in microseconds", US)?;
        sink.push(Record {
            line: sink.line,
            arrival: Arrival::AfterThink(std::mem::replace(&mut self.think, next)),
            device: 0,
            op,
            fua: false,
            sector: extent.sector,
            sectors: extent.sectors,
            response: Some(response),
        });
        Ok(())
    }
}

/// `arrival_ms device lbn sectors flags`.
pub(crate) struct DisksimAscii;

impl Parser for DisksimAscii {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let fields = Fields::blanks(line);
        let at = fields.time(0, "a time in milliseconds", MS)?;
        let device = fields.small(1, "a device number")?;
        let sector = fields.integer(2, "a sector number")?;
        let extent = Extent::new(sector, fields.integer(3, "a number of sectors")?)?;
        let flags = fields.read(4, "flags in hexadecimal", number::hexadecimal)?;
        let at = sink.arrival(at)?;
        sink.push(Record {
            line: sink.line,
            arrival: Arrival::At(at),
            device,
            op: if flags & READ == 0 {
                Op::Write
            } else {
                Op::Read
            },
            fua: false,
            sector: extent.sector,
            sectors: extent.sectors,
            response: None,
        });
        Ok(())
    }
}

/// `R` or `W`, in either case.
pub(crate) fn letter(field: &[u8]) -> Option<Op> {
    match field {
        b"R" | b"r" => Some(Op::Read),
        b"W" | b"w" => Some(Op::Write),
        _ => None,
    }
}
