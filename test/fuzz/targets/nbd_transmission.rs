//! Whole sessions of the NBD transmission phase, in memory and virtual time.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: tonearm_fuzz::write_seeds("nbd_transmission"),
    |data: &[u8]| tonearm_nbd::fuzzing::fuzz_transmission(data)
);
