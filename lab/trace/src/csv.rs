//! Columns named in a header: measured traces, output of a simulator, output of a replay, and what `tonearm trace record`
//! writes.
//!
//! A header that comes again is skipped, so that the files of a recording can be joined.

use crate::disksim::letter;
use crate::error::Reason;
use crate::fields::Fields;
use crate::parser::Parser;
use crate::record::{Arrival, Extent, Op, Record};
use crate::sink::Sink;
use tonearm_base::Nanos;

const MS: u64 = 1_000_000;

/// Where each column is.
struct Columns {
    op: usize,
    sector: usize,
    sectors: usize,
    when: When,
    response: Option<usize>,
    device: Option<usize>,
    fua: Option<usize>,
}

/// A file with both columns is a closed loop: its arrivals are those of another drive.
#[derive(Clone, Copy)]
enum When {
    ThinkBeforeNext(usize),
    Arrival(usize),
}

#[derive(Default)]
pub(crate) struct Csv {
    columns: Option<Columns>,
    header: Vec<u8>,
    think: Nanos,
}

impl Parser for Csv {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let fields = Fields::commas(line);
        let Some(columns) = &self.columns else {
            self.columns = Some(Columns::find(&fields)?);
            self.header = line.to_vec();
            return Ok(());
        };
        if line == self.header {
            return Ok(());
        }
        let op = fields.read(columns.op, "R, W, F, T or Z", operation)?;
        let sector = fields.integer(columns.sector, "a sector number")?;
        let sectors = fields.integer(columns.sectors, "a number of sectors")?;
        let extent = match op {
            None | Some(Op::Flush) => Extent {
                sector: 0,
                sectors: 0,
            },
            Some(Op::Read | Op::Write) => Extent::new(sector, sectors)?,
        };
        let time = |index| fields.time(index, "a time in milliseconds", MS);
        let response = columns.response.map(time).transpose()?;
        let device = columns
            .device
            .map(|index| fields.small(index, "a device number"));
        let device = device.transpose()?.unwrap_or(0);
        let fua = columns.fua.map(|index| fields.read(index, "0 or 1", flag));
        let fua = fua.transpose()?.unwrap_or(false);
        let arrival = match columns.when {
            When::Arrival(index) => Arrival::At(sink.arrival(time(index)?)?),
            When::ThinkBeforeNext(index) => {
                Arrival::AfterThink(std::mem::replace(&mut self.think, time(index)?))
            }
        };
        let Some(op) = op else {
            sink.skipped += 1;
            return Ok(());
        };
        sink.push(Record {
            line: sink.line,
            arrival,
            device,
            op,
            fua,
            sector: extent.sector,
            sectors: extent.sectors,
            response,
        });
        Ok(())
    }
}

impl Columns {
    fn find(header: &Fields<'_>) -> Result<Self, Reason> {
        let find = |name: &str| header.iter().position(|field| field == name.as_bytes());
        let need = |name: &'static str, other: &'static str| {
            find(name)
                .or_else(|| find(other))
                .ok_or(Reason::NoColumn { name })
        };
        let when = match find("think_ms_before_next") {
            Some(index) => When::ThinkBeforeNext(index),
            None => When::Arrival(find("arrival_ms").ok_or(Reason::NoColumn {
                name: "think_ms_before_next",
            })?),
        };
        Ok(Self {
            op: need("rw", "rw")?,
            sector: need("blkno", "lba")?,
            sectors: need("blocks", "sectors")?,
            when,
            response: find("measured_ms").or_else(|| find("response_ms")),
            device: find("device"),
            fua: find("fua"),
        })
    }
}

/// `Some(None)` for a trim and for a zeroing, which have no meaning for the drives of this project.
fn operation(field: &[u8]) -> Option<Option<Op>> {
    match field {
        b"F" | b"f" => Some(Some(Op::Flush)),
        b"T" | b"t" | b"Z" | b"z" => Some(None),
        _ => letter(field).map(Some),
    }
}

fn flag(field: &[u8]) -> Option<bool> {
    match field {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}
