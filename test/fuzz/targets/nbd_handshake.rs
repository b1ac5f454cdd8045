//! The server's side of the NBD handshake, with arbitrary bytes from the client.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(
    init: tonearm_fuzz::write_seeds("nbd_handshake"),
    |data: &[u8]| tonearm_nbd::fuzzing::fuzz_handshake(data)
);
