//! A trace that is written in a format is read back unchanged.

use crate::read;
use proptest::prelude::*;
use std::fmt::Write;
use tonearm_base::Nanos;
use tonearm_trace::{Arrival, Format, Op, Record};

/// A request that all formats can express: whole microseconds.
#[derive(Clone, Debug)]
struct Request {
    gap_us: u64,
    write: bool,
    device: u32,
    sector: u64,
    sectors: u32,
    response_us: u64,
}

fn request() -> impl Strategy<Value = Request> {
    let fields = (
        0..10_000_000u64,
        any::<bool>(),
        0..100u32,
        0..(1u64 << 53),
        1..4096u32,
        0..10_000_000u64,
    );
    fields.prop_map(
        |(gap_us, write, device, sector, sectors, response_us)| Request {
            gap_us,
            write,
            device,
            sector,
            sectors,
            response_us,
        },
    )
}

/// The file, and the records that a reader must return.
fn written(format: Format, requests: &[Request]) -> (String, Vec<Record>) {
    let mut text = match format {
        Format::FioIolog => "fio version 3 iolog\n".to_string(),
        Format::Csv => "rw,blkno,blocks,measured_ms,think_ms_before_next\n".to_string(),
        _ => String::new(),
    };
    let headers = text.lines().count() as u64;
    let closed = matches!(format, Format::DisksimValid | Format::Csv);
    let has_device = matches!(format, Format::DisksimAscii | Format::Spc | Format::Msr);
    let has_response = closed || format == Format::Msr;
    let (mut now_us, mut think_us) = (0, 0);
    let mut records = Vec::new();
    for (index, request) in requests.iter().enumerate() {
        let Request {
            gap_us,
            write,
            device,
            sector,
            sectors,
            response_us,
        } = request.clone();
        if index > 0 {
            now_us += gap_us;
        }
        let letter = if write { 'W' } else { 'R' };
        let (offset, bytes) = (sector * 512, u64::from(sectors) * 512);
        let (whole, rest) = (now_us / 1_000, now_us % 1_000);
        let ms = |us: u64| format!("{}.{:03}", us / 1_000, us % 1_000);
        let line = match format {
            Format::DisksimValid => {
                format!("{letter} Miss {sector} {sectors} {response_us}.00000 {gap_us}.00000")
            }
            Format::DisksimAscii => {
                format!(
                    "{whole}.{rest:03} {device} {sector} {sectors} {:x}",
                    4 | u8::from(!write)
                )
            }
            Format::Spc => format!(
                "{device},{sector},{bytes},{letter},{}.{:06}",
                now_us / 1_000_000,
                now_us % 1_000_000
            ),
            Format::Msr => format!(
                "{},host,{device},{},{offset},{bytes},{}",
                128_166_372_003_061_629 + now_us * 10,
                if write { "Write" } else { "Read" },
                response_us * 10
            ),
            Format::FioIolog => {
                format!(
                    "{now_us} disk {} {offset} {bytes}",
                    if write { "write" } else { "read" }
                )
            }
            Format::Csv => {
                format!(
                    "{letter},{sector},{sectors},{},{}",
                    ms(response_us),
                    ms(gap_us)
                )
            }
            Format::Blkparse => unreachable!("its requests are of several lines"),
        };
        writeln!(text, "{line}").unwrap();
        let arrival = if closed {
            Arrival::AfterThink(Nanos::from_micros(std::mem::replace(&mut think_us, gap_us)))
        } else {
            Arrival::At(Nanos::from_micros(now_us))
        };
        records.push(Record {
            line: headers + index as u64 + 1,
            arrival,
            device: if has_device { device } else { 0 },
            op: if write { Op::Write } else { Op::Read },
            fua: false,
            sector,
            sectors,
            response: has_response.then_some(Nanos::from_micros(response_us)),
        });
    }
    (text, records)
}

proptest! {
    #[test]
    fn a_written_trace_reads_back(requests in prop::collection::vec(request(), 0..50)) {
        for format in Format::ALL {
            if format == Format::Blkparse {
                continue;
            }
            let (text, records) = written(format, &requests);
            prop_assert_eq!(read(format, text).unwrap(), records, "{}", format);
        }
    }

    #[test]
    fn blkparse_pairs_each_queue_event_with_its_completion(
        requests in prop::collection::vec((0..1_000u64, 1..5_000u64), 1..100)
    ) {
        // Concurrent requests, each at a place of its own, so that the pairs are known.
        let mut events = Vec::new();
        let mut now_us = 0;
        for (index, (gap_us, took_us)) in requests.iter().enumerate() {
            now_us += gap_us;
            let sector = index as u64 * 16;
            events.push((now_us, format!("Q R {sector} + 8 [dd]")));
            events.push((now_us + took_us, format!("C R {sector} + 8 [0]")));
        }
        events.sort();
        let text: String = events
            .iter()
            .map(|(us, event)| format!("8,0 0 1 {}.{:06} 7 {event}\n", us / 1_000_000, us % 1_000_000))
            .collect();
        let mut records = read(Format::Blkparse, text).unwrap();
        records.sort_by_key(|record| record.sector);
        let took: Vec<u64> = records.iter().map(|record| record.response.unwrap().0).collect();
        let expected: Vec<u64> = requests.iter().map(|(_, took_us)| took_us * 1_000).collect();
        prop_assert_eq!(took, expected);
    }
}
