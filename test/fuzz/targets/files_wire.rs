//! The protocol of a served store's files: decoding of requests and answers, and splitting of a stream into frames.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_store::remote::{decode_any, frames};

fuzz_target!(init: tonearm_fuzz::write_seeds("files_wire"), |data: &[u8]| {
    decode_any(data);
    let mut taken = 0;
    for frame in frames(data) {
        assert!(!frame.is_empty(), "no frame is empty");
        taken += 4 + frame.len();
        decode_any(frame);
    }
    assert!(taken <= data.len(), "the frames are no longer than the stream");
});
