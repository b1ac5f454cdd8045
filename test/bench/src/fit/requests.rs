//! The measured trace: single requests with the real drive's response times.

use anyhow::{Context, bail};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use tonearm_base::Nanos;
use tonearm_drive::{Drive, DriveOptions};
use tonearm_drive_file::DriveSpec;
use tonearm_trace::{Arrival, Format, Op, Reader, Record};
use tonearm_world::Kind;

/// A trace with fewer requests is too short to compare distributions.
const FEWEST: usize = 100;

/// A measured request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Read or write.
    pub kind: Kind,
    /// First sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Time from the end of the previous request to the issue of this one.
    pub think: Nanos,
    /// Time from the issue to the end of this request.
    pub response: Nanos,
}

/// Reads a trace, gzipped or not.
///
/// # Errors
/// With file and line, when the trace cannot be read, or a request has no think time or no measured response time.
pub fn load(path: &Path, format: Format) -> anyhow::Result<Vec<Request>> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot open the trace {name}"))?;
    let mut requests = Vec::new();
    for record in Reader::new(&name, format, BufReader::new(file)) {
        let record = record?;
        let line = record.line;
        requests.push(request(record).with_context(|| format!("{name}:{line}"))?);
    }
    if requests.len() < FEWEST {
        bail!("{name} has fewer than {FEWEST} requests");
    }
    Ok(requests)
}

fn request(record: Record) -> anyhow::Result<Request> {
    let kind = match record.op {
        Op::Read => Kind::Read,
        Op::Write => Kind::Write,
        Op::Flush => bail!("a flush: a fit takes reads and writes"),
    };
    let Arrival::AfterThink(think) = record.arrival else {
        bail!("an arrival without think time: a fit takes one request at a time (closed loop)");
    };
    let Some(response) = record.response else {
        bail!("there is no measured response time");
    };
    Ok(Request {
        kind,
        lba: record.sector,
        sectors: record.sectors,
        think,
        response,
    })
}

/// Checks that all requests lie on the drive.
///
/// # Errors
/// When a request does not.
pub fn check(requests: &[Request], spec: &DriveSpec) -> anyhow::Result<()> {
    let sectors = Drive::new(spec, &DriveOptions::default()).sectors();
    let beyond = |request: &&Request| request.lba + u64::from(request.sectors) > sectors;
    if let Some(request) = requests.iter().find(beyond) {
        bail!(
            "sector {} of the trace lies beyond the end of the drive, which has {sectors}",
            request.lba
        );
    }
    Ok(())
}
