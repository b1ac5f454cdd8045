//! A trace file as an iterator of records.

use crate::blkparse::Blkparse;
use crate::csv::Csv;
use crate::disksim::{DisksimAscii, DisksimValid};
use crate::error::{Reason, TraceError};
use crate::fio::FioIolog;
use crate::format::Format;
use crate::lines::{LineError, Lines};
use crate::msr::Msr;
use crate::parser::Parser;
use crate::record::Record;
use crate::sink::Sink;
use crate::spc::Spc;
use std::io::BufRead;

/// Reads a trace record by record; ends after the first error.
pub struct Reader<'a> {
    name: String,
    lines: Lines<'a>,
    parser: Box<dyn Parser>,
    sink: Sink,
    ended: bool,
}

impl<'a> Reader<'a> {
    /// Reads `file`, gzipped or not. Errors name it `name`.
    pub fn new(name: &str, format: Format, file: impl BufRead + 'a) -> Self {
        let parser: Box<dyn Parser> = match format {
            Format::DisksimValid => Box::new(DisksimValid::default()),
            Format::DisksimAscii => Box::new(DisksimAscii),
            Format::Spc => Box::new(Spc),
            Format::Msr => Box::new(Msr::default()),
            Format::Blkparse => Box::new(Blkparse::default()),
            Format::FioIolog => Box::new(FioIolog::default()),
            Format::Csv => Box::new(Csv::default()),
        };
        Self {
            name: name.to_string(),
            lines: Lines::new(file),
            parser,
            sink: Sink::default(),
            ended: false,
        }
    }

    /// Requests left out so far: discards, zeroings, and those of zero bytes.
    pub fn skipped(&self) -> u64 {
        self.sink.skipped
    }

    /// Arrivals so far that were before that of the previous line and were taken as simultaneous with it.
    pub fn clamped(&self) -> u64 {
        self.sink.clamped
    }

    /// Reads one line; false at the end of the file.
    fn step(&mut self) -> Result<bool, TraceError> {
        self.sink.line = self.lines.number() + 1;
        let line = match self.lines.next() {
            Ok(Some(line)) => line.trim_ascii(),
            Ok(None) => return Ok(false),
            Err(LineError::Long) => return Err(self.refuse(Reason::LongLine)),
            Err(LineError::Io(source)) => {
                return Err(TraceError::Read {
                    file: self.name.clone(),
                    line: self.lines.number(),
                    source,
                });
            }
        };
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(true);
        }
        match self.parser.line(line, &mut self.sink) {
            Ok(()) => Ok(true),
            Err(reason) => Err(self.refuse(reason)),
        }
    }

    fn refuse(&self, reason: Reason) -> TraceError {
        TraceError::Line {
            file: self.name.clone(),
            line: self.lines.number(),
            reason,
        }
    }
}

impl Iterator for Reader<'_> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(record) = self.sink.pop() {
                return Some(Ok(record));
            }
            if self.ended {
                return None;
            }
            match self.step() {
                Ok(true) => {}
                Ok(false) => {
                    self.ended = true;
                    self.parser.end(&mut self.sink);
                }
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}
