//! fio's iolog, versions 2 and 3 (fio's documentation, "Trace file format").
//!
//! Version 2 has no times except `wait`, so it is a closed loop: a request is sent when the previous one is done and
//! the waits between them have passed. Version 3 begins each line with microseconds since the start of the job.

use crate::error::{Reason, excerpt};
use crate::fields::Fields;
use crate::parser::Parser;
use crate::record::{Arrival, Extent, Op, Record};
use crate::sink::Sink;
use std::collections::BTreeMap;
use tonearm_base::Nanos;

const US: u64 = 1_000;
const FILES_MAX: usize = 4096;
/// Actions on a file without reading or writing.
const FILE_ACTIONS: [&[u8]; 7] = [
    b"add", b"open", b"close", b"unlink", b"delete", b"stat", b"mkdir",
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    Two,
    Three,
}

/// A job's log.
#[derive(Default)]
pub(crate) struct FioIolog {
    version: Option<Version>,
    /// Waits since the last request, nanoseconds.
    think: Nanos,
    files: BTreeMap<Vec<u8>, u32>,
}

impl Parser for FioIolog {
    fn line(&mut self, line: &[u8], sink: &mut Sink) -> Result<(), Reason> {
        let Some(version) = self.version else {
            self.version = Some(match line {
                b"fio version 2 iolog" => Version::Two,
                b"fio version 3 iolog" => Version::Three,
                _ => {
                    return Err(Reason::NotAnIolog {
                        text: excerpt(line),
                    });
                }
            });
            return Ok(());
        };
        let fields = Fields::blanks(line);
        // Number of the field with the file's name.
        let first = usize::from(version == Version::Three);
        let time = match version {
            Version::Two => None,
            Version::Three => Some(fields.time(0, "a time in microseconds", US)?),
        };
        let name = fields.get(first, "a file name")?;
        let action = fields.get(first + 1, "an action")?;
        if FILE_ACTIONS.contains(&action) {
            return Ok(());
        }
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"sync" | b"datasync" | b"syncfs" => Op::Flush,
            b"trim" | b"sync_file_range" => {
                sink.skipped += 1;
                return Ok(());
            }
            b"wait" => return self.wait(version, &fields, sink),
            _ => {
                return Err(Reason::NotA {
                    field: first + 2,
                    text: excerpt(action),
                    what: "an action of an iolog",
                });
            }
        };
        let extent = match op {
            Op::Flush => None,
            Op::Read | Op::Write => {
                let offset = fields.integer(first + 2, "an offset in bytes")?;
                let bytes = fields.integer(first + 3, "a length in bytes")?;
                Extent::of_bytes(offset, bytes)?
            }
        };
        if op != Op::Flush && extent.is_none() {
            sink.skipped += 1;
            return Ok(());
        }
        let arrival = match time {
            Some(at) => Arrival::At(sink.arrival(at)?),
            None => Arrival::AfterThink(std::mem::take(&mut self.think)),
        };
        sink.push(Record {
            line: sink.line,
            arrival,
            device: self.file(name)?,
            op,
            fua: false,
            sector: extent.map_or(0, |extent| extent.sector),
            sectors: extent.map_or(0, |extent| extent.sectors),
            response: None,
        });
        Ok(())
    }
}

impl FioIolog {
    /// fio accepts waits only in version 2, and so does this reader.
    fn wait(
        &mut self,
        version: Version,
        fields: &Fields<'_>,
        sink: &mut Sink,
    ) -> Result<(), Reason> {
        match version {
            Version::Three => sink.skipped += 1,
            Version::Two => {
                let wait = fields.time(2, "a time in microseconds", US)?;
                self.think = Nanos(
                    self.think
                        .0
                        .saturating_add(wait.0)
                        .min(crate::number::TIME_MAX_NS),
                );
            }
        }
        Ok(())
    }

    fn file(&mut self, name: &[u8]) -> Result<u32, Reason> {
        if let Some(index) = self.files.get(name) {
            return Ok(*index);
        }
        if self.files.len() == FILES_MAX {
            return Err(Reason::ManyFiles { max: FILES_MAX });
        }
        let index = self.files.len() as u32;
        self.files.insert(name.to_vec(), index);
        Ok(index)
    }
}
