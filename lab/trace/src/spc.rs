//! Storage Performance Council, trace file format revision 1.0.1: `ASU,LBA,size,opcode,timestamp`,
//! then fields of the user's own, which are ignored.

use crate::disksim::letter;
use crate::error::Reason;
use crate::fields::Fields;
use crate::parser::Parser;
use crate::record::{Arrival, Extent, Record, SECTOR_BYTES};
use crate::sink::Sink;

const S: u64 = 1_000_000_000;

/// LBA counts sectors of 512 bytes, size is in bytes.
pub(crate) struct Spc;

impl Parser for Spc {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let fields = Fields::commas(line);
        let device = fields.small(0, "an ASU number")?;
        let sector = fields.integer(1, "a sector number")?;
        let bytes = fields.integer(2, "a size in bytes")?;
        let op = fields.read(3, "r or w", letter)?;
        let at = fields.time(4, "a time in seconds", S)?;
        let at = sink.arrival(at)?;
        if bytes == 0 {
            sink.skipped += 1;
            return Ok(());
        }
        let extent = Extent::new(sector, bytes.div_ceil(SECTOR_BYTES))?;
        sink.push(Record {
            line: sink.line,
            arrival: Arrival::At(at),
            device,
            op,
            fua: false,
            sector: extent.sector,
            sectors: extent.sectors,
            response: None,
        });
        Ok(())
    }
}
