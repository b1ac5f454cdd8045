//! Traces as page accesses.

use crate::common::all;
use std::io::{self, BufReader, Cursor};
use tonearm_base::Nanos;
use tonearm_trace::Format;
use tonearm_workload::{Access, TracePages, TracePagesOptions, Workload, WorkloadError};

fn options(format: Format) -> TracePagesOptions {
    TracePagesOptions {
        name: "t".into(),
        format,
        page_bytes: 4096,
        device: None,
    }
}

fn open(text: &'static str) -> impl FnMut() -> io::Result<Cursor<&'static [u8]>> {
    move || Ok(Cursor::new(text.as_bytes()))
}

/// The error of a trace.
fn refuse(options: TracePagesOptions, text: &'static str) -> String {
    match TracePages::new(options, open(text)) {
        Ok(_) => panic!("{text:?} is accepted"),
        Err(error) => error.to_string(),
    }
}

const SPC: &str = "\
0,8,4096,w,0.5
1,0,8192,r,0.75
0,1000000,512,W,1.0
0,7,1024,r,1.0
0,16,512,w,2.5
";

#[test]
fn requests_become_pages_of_a_space_without_gaps() {
    let mut workload = TracePages::new(options(Format::Spc), open(SPC)).unwrap();
    // Device 0: pages 0, 1, 2 and 125,000; device 1: pages 0 and 1.
    assert_eq!(workload.pages(), 6);
    let at = |page, write, ms: u64| Access {
        page,
        write,
        at: Some(Nanos(ms * 1_000_000)),
    };
    let expected = [
        at(1, true, 500),
        at(4, false, 750),
        at(5, false, 750),
        at(3, true, 1_000),
        at(0, false, 1_000),
        at(1, false, 1_000),
        at(2, true, 2_500),
    ];
    assert_eq!(all(&mut workload), expected);
    workload.rewind().unwrap();
    assert_eq!(all(&mut workload), expected);
}

#[test]
fn one_device_is_taken_alone() {
    let mut one = options(Format::Spc);
    one.device = Some(1);
    let mut workload = TracePages::new(one, open(SPC)).unwrap();
    assert_eq!(workload.pages(), 2);
    assert_eq!(all(&mut workload).len(), 2);
    assert_eq!(workload.skipped(), 4);
    let mut none = options(Format::Spc);
    none.device = Some(7);
    assert_eq!(
        refuse(none, SPC),
        "the trace t has no read and no write of device 7"
    );
}

#[test]
fn closed_loops_have_no_times_and_flushes_are_skipped() {
    let csv = "rw,lba,sectors,think_ms_before_next\nW,0,16,0\nF,0,0,0\nR,8,1,5\n";
    let mut workload = TracePages::new(options(Format::Csv), open(csv)).unwrap();
    assert_eq!(
        all(&mut workload),
        [Access::write(0), Access::write(1), Access::read(1)]
    );
    assert_eq!(workload.skipped(), 1);
}

#[test]
fn every_format_of_the_readers_is_a_workload() {
    for (format, text) in [
        (Format::DisksimValid, "W Miss 8 8 1000.0 500.0\n"),
        (Format::DisksimAscii, "1.5 0 8 8 0\n"),
        (Format::Spc, "0,8,4096,w,0.5\n"),
        (
            Format::Msr,
            "128166372003061629,usr,0,Write,4096,4096,5000\n",
        ),
        (
            Format::Blkparse,
            "8,0 0 1 0.000000000 1 Q WS 8 + 8 [a]\n8,0 0 2 0.001000000 1 C WS 8 + 8 [0]\n",
        ),
        (
            Format::FioIolog,
            "fio version 2 iolog\nf add\nf open\nf write 4096 4096\nf close\n",
        ),
        (Format::Csv, "rw,lba,sectors,arrival_ms\nW,8,8,0\n"),
    ] {
        let mut workload = TracePages::new(options(format), open(text)).unwrap();
        let accesses = all(&mut workload);
        assert_eq!(accesses.len(), 1, "{}", format.name());
        assert!(
            accesses[0].write && accesses[0].page == 0,
            "{}",
            format.name()
        );
    }
}

#[test]
fn a_request_of_two_terabytes_needs_little_memory() {
    let csv = "rw,lba,sectors,arrival_ms\nW,0,4294967295,0\nR,4294967296,8,0\n";
    let mut workload = TracePages::new(options(Format::Csv), open(csv)).unwrap();
    assert_eq!(workload.pages(), (1 << 29) + 1);
    assert_eq!(
        workload.next_access().unwrap().map(|access| access.page),
        Some(0)
    );
}

#[test]
fn errors_name_the_trace_and_the_line() {
    assert_eq!(
        refuse(options(Format::Spc), ""),
        "the trace t has no read and no write"
    );
    assert_eq!(
        refuse(options(Format::Spc), "# nothing\n0,0,0,w,1\n"),
        "the trace t has no read and no write"
    );
    let error = refuse(options(Format::Spc), "0,8,4096,w,0.5\nfoo\n");
    assert!(error.starts_with("t:2: "), "{error}");
    for bytes in [0, 100, 1 << 25] {
        let mut options = options(Format::Spc);
        options.page_bytes = bytes;
        let error = refuse(options, SPC);
        assert!(error.contains(&bytes.to_string()), "{error}");
    }
    let missing = TracePages::new(options(Format::Spc), || {
        Err::<Cursor<&[u8]>, _>(io::Error::from(io::ErrorKind::NotFound))
    });
    match missing {
        Err(error) => assert!(
            error.to_string().starts_with("cannot open the trace t: "),
            "{error}"
        ),
        Ok(_) => panic!("a missing trace is opened"),
    }
}

#[test]
fn a_trace_that_changes_between_both_readings_is_refused() {
    let mut texts = ["0,8,4096,w,0.5\n", "0,8,4096,w,0.5\n0,80,4096,w,0.6\n"].into_iter();
    let open = move || {
        Ok(BufReader::new(Cursor::new(
            texts.next().expect("two readings"),
        )))
    };
    let mut workload = TracePages::new(options(Format::Spc), open).unwrap();
    workload.next_access().unwrap();
    match workload.next_access() {
        Err(error @ WorkloadError::Changed { .. }) => {
            assert_eq!(
                error.to_string(),
                "t:2: the trace has changed since its addresses were collected"
            );
        }
        other => panic!("{other:?}"),
    }
}
