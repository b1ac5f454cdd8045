//! Whole small stores of both layouts, closed cleanly or not, with changed fields and valid checksums. Each is
//! inspected, opened, read and changed, and then closed or cut off from power. See `disk/disk/tests/disk/images.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_fuzz::images::Bases;

thread_local! {
    static BASES: Bases = Bases::new();
}

fuzz_target!(init: tonearm_fuzz::write_seeds("images"), |data: &[u8]| {
    BASES.with(|bases| bases.run(data));
});
