//! Whole small stores with changed fields and right checksums, of both layouts, closed in order and not: looked at,
//! opened, read, changed and closed, or their power is cut. See `images` of the tests of `disk`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_fuzz::images::Bases;

thread_local! {
    static BASES: Bases = Bases::new();
}

fuzz_target!(init: tonearm_fuzz::write_seeds("images"), |data: &[u8]| {
    BASES.with(|bases| bases.run(data));
});
