//! Traces: any text is read in any format, and the records keep what the readers promise.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_trace::{Arrival, Format, Op, Reader};

fuzz_target!(init: tonearm_fuzz::write_seeds("traces"), |data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else {
        return;
    };
    let format = Format::ALL[usize::from(choice) % Format::ALL.len()];
    let (mut last_line, mut last_at) = (0, None);
    let mut ended = false;
    for record in Reader::new("trace", format, text) {
        assert!(!ended, "nothing follows an error");
        let Ok(record) = record else {
            ended = true;
            continue;
        };
        assert!(record.line >= last_line.max(1), "records come in the order of lines");
        last_line = record.line;
        assert_eq!(record.sectors == 0, record.op == Op::Flush);
        assert!(record.sector.checked_add(record.sectors.into()).is_some());
        if let Arrival::At(at) = record.arrival {
            assert!(Some(at) >= last_at, "arrival times never decrease");
            last_at = Some(at);
        }
    }
});
