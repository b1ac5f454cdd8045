//! The fuzzers' entry point, on random input.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_session_ends_and_leaves_nothing(data in prop::collection::vec(any::<u8>(), 0..400)) {
        tonearm_nbd::fuzzing::fuzz_transmission(&data);
    }
}

#[test]
fn request_completed_after_close_is_not_started() {
    // A refused flush, whose reply fails to be sent, then a write in two pieces.
    let script = [3, 42, 41, 54, 44, 1, 124, 1, 85, 183, 37, 114, 1, 57];
    let mut data = vec![146, 150, 245, 16, 81, 143];
    data.extend(script);
    tonearm_nbd::fuzzing::fuzz_transmission(&data);
}
