//! NBD request headers: they are parsed from pieces of any size, and only valid requests reach the engine.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: tonearm_fuzz::write_seeds("nbd_requests"),
    |data: &[u8]| tonearm_nbd::fuzzing::fuzz_requests(data)
);
