//! The requests of a trace, in memory, on a dense space of blocks.

use super::case::{BLOCK, FOOTPRINT_BYTES_MAX};
use super::character::Character;
use super::error::StudyError;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use tonearm_trace::{Arrival, Format, Op, Reader, Reason, Record, SECTOR_BYTES, TraceError};
use tonearm_workload::{Footprint, Touched};

/// Requests between two looks at the footprint while a trace is read.
const LOOK: usize = 1 << 16;

/// How a gzip file begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Devices that an error names.
const DEVICES_NAMED: usize = 8;

/// Which trace, and which part of it.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its file, gzipped or not.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// The only device whose requests are taken.
    pub device: Option<u32>,
    /// At most so many requests are taken, from the first one on.
    pub requests: u64,
    /// Requests that arrive later than this many seconds after the first one are left out.
    pub seconds: Option<f64>,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Nanoseconds from the first arrival to this one; in a closed loop, from the answer before to this request.
    pub time: u64,
    /// First byte in the dense space.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub bytes: u64,
    /// The operation.
    pub op: Op,
    /// True for a write that ends when it is durable.
    pub durable: bool,
}

/// The part of a trace that is studied.
pub struct Load {
    /// Its requests, at least one of them a read or write.
    pub requests: Vec<Request>,
    /// True when they have arrival times, false when each waits for the one before.
    pub open: bool,
    /// Nanoseconds after which the trace is repeated.
    pub period: u64,
    /// Blocks of the dense space.
    pub blocks: u64,
    /// What the trace is like.
    pub character: Character,
}

/// The format in which the first request of the trace at `path` can be read. If it can be read in none, the format that
/// takes the most lines; its error says more than this function could.
///
/// # Errors
/// When no format takes more lines than the others, several have the first request, or the trace is empty.
pub fn guess_format(path: &Path) -> Result<Format, StudyError> {
    let name = path.display().to_string();
    let (mut fitting, mut refused, mut without) = (Vec::new(), Vec::new(), 0);
    for format in Format::ALL {
        match Reader::new(&name, format, open(path)?).next() {
            Some(Ok(_)) => fitting.push(format),
            Some(Err(error)) => refused.push((format, error)),
            None => without += 1,
        }
    }
    match fitting[..] {
        [format] => Ok(format),
        // Some format takes all lines, and none of them is a request.
        [] if without > 0 => Err(StudyError::Empty {
            name,
            device: None,
            others: Vec::new(),
        }),
        [] => furthest(path, name, &refused),
        _ => Err(StudyError::Format {
            name,
            fitting: fitting.into_iter().map(Format::name).collect(),
        }),
    }
}

/// The only format that refuses a later line than all others.
fn furthest(
    path: &Path,
    name: String,
    refused: &[(Format, TraceError)],
) -> Result<Format, StudyError> {
    let line = |error: &TraceError| match error {
        TraceError::Line { line, .. } | TraceError::Read { line, .. } => *line,
    };
    let last = refused.iter().map(|(_, error)| line(error)).max();
    let mut furthest = refused.iter().filter(|(_, e)| Some(line(e)) == last);
    let unreadable = |(_, error): &&(Format, TraceError)| matches!(error, TraceError::Read { .. });
    match (furthest.next(), furthest.next()) {
        (Some((format, _)), None) => Ok(*format),
        // The file cannot be read, and all formats say so.
        (Some(first), _) if unreadable(&first) => Ok(first.0),
        _ if !is_text(path) => Err(StudyError::NoText { name }),
        _ => {
            // The reader of iologs quotes the first line, since that has the version.
            let begin = refused.iter().find_map(|(_, error)| match error {
                TraceError::Line {
                    reason: Reason::NotAnIolog { text },
                    ..
                } => Some(text.clone()),
                _ => None,
            });
            Err(StudyError::Unknown {
                name,
                begin: begin.unwrap_or_default(),
            })
        }
    }
}

/// False when the file begins with bytes that no text has.
fn is_text(path: &Path) -> bool {
    let mut begin = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut begin));
    read.is_err() || begin.starts_with(&GZIP) || !begin.contains(&0)
}

fn open(path: &Path) -> Result<BufReader<File>, StudyError> {
    let opening = |source| StudyError::Open {
        name: path.display().to_string(),
        source,
    };
    let file = File::open(path).map_err(opening)?;
    if file.metadata().map_err(opening)?.is_dir() {
        return Err(StudyError::Folder {
            name: path.display().to_string(),
        });
    }
    Ok(BufReader::new(file))
}

impl Load {
    /// Reads the trace.
    ///
    /// # Errors
    /// When it cannot be read, is not in order, is empty, or touches too many blocks.
    pub fn read(source: &Source) -> Result<Self, StudyError> {
        let name = source.path.display().to_string();
        let mut reader = Reader::new(&name, source.format, open(&source.path)?);
        let mut taken = Taken::default();
        let mut complete = true;
        for record in &mut reader {
            let record = record.map_err(|error| advise(source, error, taken.records.is_empty()))?;
            if source.device.is_some_and(|device| device != record.device) {
                taken.leave_out(record.device);
                continue;
            }
            if taken.records.len() as u64 == source.requests || taken.is_late(&record, source) {
                complete = false;
                break;
            }
            taken.take(record);
            if taken.records.len().is_multiple_of(LOOK) {
                taken.check(&name)?;
            }
        }
        taken.check(&name)?;
        let footprint = Footprint::of(std::mem::take(&mut taken.touched));
        if footprint.pages() == 0 {
            return Err(StudyError::Empty {
                name,
                device: source.device,
                others: taken.named_devices,
            });
        }
        let mut load = taken.pack(&footprint);
        let character = Character::of(&load.requests, load.open, load.blocks);
        load.character = Character {
            trace: name,
            format: source.format.name().to_string(),
            complete,
            left_out: reader.skipped(),
            other_devices: taken.other_devices,
            moved_up: reader.clamped(),
            reach_bytes: taken.reach.saturating_mul(SECTOR_BYTES),
            ..character
        };
        Ok(load)
    }

    /// Request `index` of the endless repetition.
    pub fn request(&self, index: u64) -> &Request {
        &self.requests[(index % self.requests.len() as u64) as usize]
    }

    /// When request `index` of the endless repetition arrives, in nanoseconds.
    pub fn due(&self, index: u64) -> u64 {
        let count = self.requests.len() as u64;
        index / count * self.period + self.request(index).time
    }

    /// Blocks that the writes of a pass through the trace write.
    pub fn blocks_written(&self) -> u64 {
        let writes = self.requests.iter().filter(|r| r.op == Op::Write);
        writes.map(Request::blocks).sum()
    }
}

impl Request {
    /// Blocks that it touches.
    pub fn blocks(&self) -> u64 {
        (self.offset + self.bytes).div_ceil(BLOCK) - self.offset / BLOCK
    }
}

/// What was read so far.
#[derive(Default)]
struct Taken {
    records: Vec<Record>,
    touched: Touched,
    /// Where the last sector ends.
    reach: u64,
    other_devices: u64,
    /// The first of those devices.
    named_devices: Vec<u32>,
}

impl Taken {
    fn leave_out(&mut self, device: u32) {
        self.other_devices += 1;
        if self.named_devices.len() < DEVICES_NAMED && !self.named_devices.contains(&device) {
            self.named_devices.push(device);
        }
    }

    fn take(&mut self, record: Record) {
        let end = record.sector + u64::from(record.sectors);
        let sectors = BLOCK / SECTOR_BYTES;
        if record.op != Op::Flush {
            let pages = record.sector / sectors..end.div_ceil(sectors);
            self.touched.add(record.device, pages);
            self.reach = self.reach.max(end);
        }
        self.records.push(record);
    }

    fn is_late(&self, record: &Record, source: &Source) -> bool {
        let first = self.records.first().map(|first| first.arrival);
        match (first, record.arrival, source.seconds) {
            (Some(Arrival::At(first)), Arrival::At(at), Some(seconds)) => {
                at.since(first).0 as f64 > seconds * 1e9
            }
            _ => false,
        }
    }

    /// Refuses a footprint that is too large.
    fn check(&mut self, name: &str) -> Result<(), StudyError> {
        let bytes = self.touched.pages().saturating_mul(BLOCK);
        let line = self.records.last().map_or(0, |record| record.line);
        if bytes > FOOTPRINT_BYTES_MAX {
            return Err(StudyError::Footprint {
                name: name.to_string(),
                line,
                bytes,
            });
        }
        Ok(())
    }

    fn pack(&mut self, footprint: &Footprint) -> Load {
        let records = std::mem::take(&mut self.records);
        let first = match records[0].arrival {
            Arrival::At(at) => Some(at),
            Arrival::AfterThink(_) => None,
        };
        // A trace that asks for durability where it needs it gets it there alone.
        let asks = records.iter().any(|r| r.op == Op::Flush || r.fua);
        let sectors = BLOCK / SECTOR_BYTES;
        let requests = records.iter().map(|record| {
            let page = footprint.number(record.device, record.sector / sectors);
            let within = record.sector % sectors * SECTOR_BYTES;
            Request {
                time: match record.arrival {
                    Arrival::At(at) => at.since(first.unwrap_or_default()).0,
                    Arrival::AfterThink(think) => think.0,
                },
                offset: page.map_or(0, |page| page * BLOCK + within),
                bytes: u64::from(record.sectors) * SECTOR_BYTES,
                op: record.op,
                durable: record.op == Op::Write && (record.fua || !asks),
            }
        });
        let requests: Vec<Request> = requests.collect();
        let span = requests[requests.len() - 1].time;
        let gap = match requests.len() as u64 - 1 {
            0 => 1_000_000_000,
            gaps => (span / gaps).max(1),
        };
        Load {
            open: first.is_some(),
            period: span + gap,
            blocks: footprint.pages(),
            requests,
            character: Character::default(),
        }
    }
}

/// The error with what to do about it. `first` is true when there is no request before it.
fn advise(source: &Source, error: TraceError, first: bool) -> StudyError {
    const PART: &str = "--requests N takes the N requests before it";
    let advice = match &error {
        TraceError::Line {
            reason: Reason::BackInTime { .. },
            ..
        } => format!("; sort the lines by their times, or {PART}"),
        TraceError::Read { source, .. } if source.kind() == ErrorKind::UnexpectedEof => {
            format!("; the file is cut short: copy it again, or {PART}")
        }
        TraceError::Line { .. } if ends_within_a_line(source) => {
            format!(
                "; the file ends within a line, so it may be cut short: copy it again, or {PART}"
            )
        }
        TraceError::Line { .. } => format!(
            "; is the file of the format {}?{}",
            source.format,
            match first {
                true => String::new(),
                false => format!(" If it is, {PART}"),
            }
        ),
        TraceError::Read { .. } => String::new(),
    };
    StudyError::Trace { error, advice }
}

/// True when the last byte of the file is no line end.
fn ends_within_a_line(source: &Source) -> bool {
    let mut last = [b'\n'];
    let file = File::open(&source.path).and_then(|mut file| {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)
    });
    file.is_ok() && last != [b'\n']
}
