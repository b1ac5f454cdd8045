//! NBD request headers: parsing in any pieces, and what is let through to the engine.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: tonearm_fuzz::write_seeds("nbd_requests"),
    |data: &[u8]| tonearm_nbd::fuzzing::fuzz_requests(data)
);
