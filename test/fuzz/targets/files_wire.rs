//! The protocol of a served store's files: what either side decodes, and how frames are cut out of a stream.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_store::remote::{decode_any, frames};

fuzz_target!(init: tonearm_fuzz::write_seeds("files_wire"), |data: &[u8]| {
    decode_any(data);
    let mut taken = 0;
    for frame in frames(data) {
        assert!(!frame.is_empty(), "a stream that is cut goes on");
        taken += 4 + frame.len();
        decode_any(frame);
    }
    assert!(taken <= data.len(), "frames are parts of the stream");
});
