//! The fuzzers' entry point, on random input.

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_session_ends_and_leaves_nothing(data in prop::collection::vec(any::<u8>(), 0..400)) {
        nbd::fuzzing::fuzz_transmission(&data);
    }
}
