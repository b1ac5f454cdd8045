//! Tests with traces as published, as programs write them, and with errors.

#![allow(clippy::unwrap_used)]

mod blkparse;
mod formats;
mod gzip;
mod hostile;
mod roundtrip;

use tonearm_base::Nanos;
use tonearm_trace::{Arrival, Format, Op, Reader, Record, TraceError};

fn read(format: Format, text: impl AsRef<[u8]>) -> Result<Vec<Record>, TraceError> {
    Reader::new("trace.txt", format, text.as_ref()).collect()
}

/// The error's text.
fn refused(format: Format, text: impl AsRef<[u8]>) -> String {
    read(format, text).expect_err("refused").to_string()
}

fn at_ns(record: &Record) -> u64 {
    match record.arrival {
        Arrival::At(at) => at.0,
        Arrival::AfterThink(_) => panic!("an open trace: {record:?}"),
    }
}

/// A request that arrives at a time, in microseconds, without flags.
fn open(line: u64, at_us: u64, op: Op, sector: u64, sectors: u32) -> Record {
    Record {
        line,
        arrival: Arrival::At(Nanos::from_micros(at_us)),
        device: 0,
        op,
        fua: false,
        sector,
        sectors,
        response: None,
    }
}
