//! Small file systems with changed items and right checksums. Each is opened, read, changed, verified, repaired, and read as a restore of
//! single files reads it. See `disk/fs/tests/hostile/trees.rs`. An input of an odd length uses the mount's operations.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_fuzz::trees::Base;

thread_local! {
    static BASE: Base = Base::new();
}

fuzz_target!(init: tonearm_fuzz::write_seeds("trees"), |data: &[u8]| {
    BASE.with(|base| match data.len() % 2 {
        0 => base.run(data),
        _ => base.run_with(data, tonearm_fuse::testing::use_all),
    });
});
