//! Small file systems with changed items and right checksums. Each is opened, read, changed, verified, and read as a restore of single
//! files reads it. See `disk/fs/tests/hostile/trees.rs`.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_fuzz::trees::Base;

thread_local! {
    static BASE: Base = Base::new();
}

fuzz_target!(init: tonearm_fuzz::write_seeds("trees"), |data: &[u8]| {
    BASE.with(|base| base.run(data));
});
