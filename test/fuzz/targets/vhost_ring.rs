//! Requests of a virtual machine, out of the whole content of its memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tonearm_vhost::fuzzing::Machine;

thread_local! {
    static MACHINE: Machine = tonearm_fuzz::machine();
}

fuzz_target!(init: tonearm_fuzz::write_seeds("vhost_ring"), |data: &[u8]| {
    MACHINE.with(|machine| machine.run(data));
});
