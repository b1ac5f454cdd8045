//! The lines of a trace: the format csv of the laboratory, with named columns, or fio's iolog of version 3.

use crate::cli::TraceFormat;
use crate::control::{TraceOp, TraceRequest};
use std::io::Write;

/// The columns of csv.
const HEADER: &str = "arrival_ms,device,rw,lba,sectors,fua,response_ms\n";

/// Bytes of a sector of a trace.
const SECTOR_BYTES: u64 = 512;

// A vector takes all bytes, so the results of the writes below are left out.
impl TraceFormat {
    /// Adds what a file begins with. `about` has lines of comments.
    pub fn begin(self, lines: &mut Vec<u8>, about: &str) {
        match self {
            Self::Csv => {
                lines.extend_from_slice(about.as_bytes());
                lines.extend_from_slice(HEADER.as_bytes());
            }
            Self::FioIolog => lines.extend_from_slice(b"fio version 3 iolog\n"),
        }
    }

    /// Adds a comment. An iolog has none: fio takes each line for an action.
    pub fn comment(self, lines: &mut Vec<u8>, text: &str) {
        if self == Self::Csv {
            let _ = writeln!(lines, "# {text}");
        }
    }

    /// Adds what names a volume, before its first request.
    pub fn volume(self, lines: &mut Vec<u8>, number: usize, name: &str, arrival_ns: u64) {
        match self {
            // Names may have any character, so it is quoted.
            Self::Csv => {
                let _ = writeln!(lines, "# device {number}: volume {name:?}");
            }
            Self::FioIolog => {
                for action in ["add", "open"] {
                    action_line(lines, arrival_ns, name, action);
                    lines.push(b'\n');
                }
            }
        }
    }

    /// True when the format has the operation. fio 3.33 stops to keep the times of an iolog that has trims beside reads
    /// and writes, and no action of it zeroes.
    pub fn has(self, op: TraceOp) -> bool {
        self == Self::Csv || !matches!(op, TraceOp::Trim | TraceOp::Zero)
    }

    /// Adds a request to the volume `name`, of an operation that the format has.
    pub fn request(self, lines: &mut Vec<u8>, request: &TraceRequest, name: &str) {
        match self {
            Self::Csv => csv_line(lines, request),
            Self::FioIolog => iolog_lines(lines, request, name),
        }
    }
}

/// A sector that the request touches in part belongs to it as a whole.
fn csv_line(lines: &mut Vec<u8>, request: &TraceRequest) {
    let TraceRequest {
        volume,
        op,
        fua,
        offset,
        bytes,
        arrival_ns,
        response_ns,
    } = *request;
    let end = offset.saturating_add(bytes);
    let first = offset / SECTOR_BYTES;
    let sectors = end.div_ceil(SECTOR_BYTES) - first;
    let letter = match op {
        TraceOp::Read => 'R',
        TraceOp::Write => 'W',
        TraceOp::Flush => 'F',
        TraceOp::Trim => 'T',
        TraceOp::Zero => 'Z',
    };
    let (arrival, response) = (ms(arrival_ns), ms(response_ns));
    let fua = u8::from(fua);
    let _ = writeln!(
        lines,
        "{}.{:06},{volume},{letter},{first},{sectors},{fua},{}.{:06}",
        arrival.0, arrival.1, response.0, response.1
    );
}

/// A request, and for a write with FUA the datasync that makes it durable: fio has no FUA.
fn iolog_lines(lines: &mut Vec<u8>, request: &TraceRequest, name: &str) {
    let mut line = |action, offset, bytes| {
        action_line(lines, request.arrival_ns, name, action);
        let _ = writeln!(lines, " {offset} {bytes}");
    };
    match request.op {
        TraceOp::Read => line("read", request.offset, request.bytes),
        TraceOp::Write => line("write", request.offset, request.bytes),
        // fio refuses a sync without a range, though it has none.
        TraceOp::Flush => line("datasync", 0, 0),
        TraceOp::Trim | TraceOp::Zero => {}
    }
    if request.op == TraceOp::Write && request.fua {
        line("datasync", 0, 0);
    }
}

/// A time in microseconds, a file and an action, without the line's end. fio ends a name at a blank, so all bytes but
/// letters, digits and `._-` are written as `%` and two hexadecimal digits.
fn action_line(lines: &mut Vec<u8>, arrival_ns: u64, name: &str, action: &str) {
    let _ = write!(lines, "{} ", arrival_ns / 1_000);
    for byte in name.bytes() {
        match byte {
            b'.' | b'_' | b'-' => lines.push(byte),
            _ if byte.is_ascii_alphanumeric() => lines.push(byte),
            _ => {
                let _ = write!(lines, "%{byte:02X}");
            }
        }
    }
    let _ = write!(lines, " {action}");
}

/// Milliseconds, and the nanoseconds after the point.
fn ms(nanos: u64) -> (u64, u64) {
    (nanos / 1_000_000, nanos % 1_000_000)
}
