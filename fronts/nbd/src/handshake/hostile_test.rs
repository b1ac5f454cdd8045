use proptest::prelude::*;

use super::testing::*;
use super::*;
use crate::proto::*;

#[test]
fn garbage_closes_at_the_first_message() {
    let mut http = Client::default();
    http.0.extend(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let outcome = run_plain(&http);
    assert!(outcome.output.is_empty());
    assert!(matches!(outcome.close(), Close::ClientFlags(_)));

    let mut wrong = Client::new();
    wrong.0.extend(b"IHAVEOPX\0\0\0\x07\0\0\0\0");
    assert_eq!(run_plain(&wrong).close(), Close::OptionMagic);
}

#[test]
fn a_client_may_leave_at_any_byte() {
    let client = Client::new()
        .option(OPT_LIST, &[])
        .structured()
        .select_allocation("main")
        .option(99, b"unknown")
        .go("main");
    for end in 0..client.0.len() {
        let cut = Client(client.0[..end].to_vec());
        assert!(run_plain(&cut).waits(), "cut at {end}");
    }
    assert_eq!(run_plain(&client).selection().export.name, "main");
}

#[test]
fn large_data_of_known_options_is_too_big() {
    let large = vec![0; OPTION_BYTES_MAX as usize + 1];
    for option in [
        OPT_INFO,
        OPT_GO,
        OPT_LIST_META_CONTEXT,
        OPT_SET_META_CONTEXT,
    ] {
        let client = Client::new().option(option, &large).go("main");
        let outcome = run_plain(&client);
        assert_eq!(outcome.kinds(), [REP_ERR_TOO_BIG, REP_INFO, REP_ACK]);
    }
    // The largest that is looked at is invalid by its content.
    let client = Client::new().option(OPT_GO, &large[1..]);
    assert_eq!(run_plain(&client).kinds(), [REP_ERR_INVALID]);
}

#[test]
fn too_much_data_closes_before_it_is_read() {
    for option in [OPT_GO, OPT_ABORT, OPT_STARTTLS, 99] {
        for data_bytes in [DISCARD_BYTES_MAX + 1, u32::MAX] {
            let mut client = Client::new().claim(option, data_bytes);
            client.0.extend([0; 1000]);
            let outcome = run_plain(&client);
            assert_eq!(outcome.unread.len(), 1000);
            assert_eq!(outcome.close(), Close::OptionBytes { option, data_bytes });
        }
    }
    let most = vec![0; DISCARD_BYTES_MAX as usize];
    let client = Client::new().option(99, &most).go("main");
    assert_eq!(run_plain(&client).selection().export.name, "main");
}

#[test]
fn a_claimed_length_takes_no_memory() {
    let mut negotiation = Negotiation::new(catalog(), TlsPolicy::Off);
    let client = Client::new().claim(OPT_GO, OPTION_BYTES_MAX);
    for &byte in &client.0 {
        assert_eq!(negotiation.supply(&[byte]), Step::Read);
    }
    let held = format!("{negotiation:?}");
    assert!(held.contains("buffer: []"), "{held}");
    assert!(negotiation.want() <= 16 << 10);
}

#[test]
fn options_are_numbered() {
    let mut client = Client::new();
    for _ in 0..OPTIONS_MAX {
        client = client.option(99, &[]);
    }
    assert!(run_plain(&client).waits());
    let outcome = run_plain(&client.option(99, &[]));
    assert_eq!(outcome.replies().len(), OPTIONS_MAX as usize);
    assert_eq!(outcome.close(), Close::TooManyOptions);
}

#[test]
#[should_panic(expected = "more bytes than the message has")]
fn a_driver_that_reads_too_far_is_a_bug() {
    Negotiation::new(catalog(), TlsPolicy::Off).supply(&[0; 5]);
}

/// Client streams that get past the magic numbers.
fn plausible_stream() -> impl Strategy<Value = Vec<u8>> {
    let option = (
        prop_oneof![0u32..13, any::<u32>()],
        prop::collection::vec(any::<u8>(), 0..100),
        prop_oneof![
            Just(None),
            (0u32..200).prop_map(Some),
            any::<u32>().prop_map(Some)
        ],
    );
    let named = prop_oneof![Just("main"), Just(""), Just("nothing")];
    (0u32..5, prop::collection::vec((option, named), 0..12)).prop_map(|(flags, options)| {
        let mut client = Client::with_flags(flags);
        for ((option, data, claim), name) in options {
            client = match (option, claim) {
                (OPT_INFO, None) => client.info(OPT_INFO, name, &[0, 1, 2, 3]),
                (OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT, None) => {
                    client.meta(option, name, &["base:", "base:allocation"])
                }
                (OPT_LIST | OPT_STRUCTURED_REPLY | OPT_STARTTLS, None) => {
                    client.option(option, &[])
                }
                (_, None) => client.option(option, &data),
                (_, Some(claim)) => {
                    let mut client = client.claim(option, claim);
                    client.0.extend(data);
                    client
                }
            };
        }
        client.0
    })
}

proptest! {
    #[test]
    fn any_bytes_are_survived(data: Vec<u8>) {
        crate::fuzzing::fuzz_handshake(&data);
    }

    #[test]
    fn any_plausible_stream_is_survived(choice: u8, stream in plausible_stream()) {
        let mut data = vec![choice];
        data.extend(stream);
        crate::fuzzing::fuzz_handshake(&data);
    }

    #[test]
    fn splits_do_not_matter(stream in plausible_stream(), piece_bytes in 1usize..50) {
        let client = Client(stream);
        let whole = run_plain(&client);
        let mut script = Script::new(&client);
        script.piece_bytes = piece_bytes;
        let mut negotiation = Negotiation::new(catalog(), TlsPolicy::Off);
        let result = drive(&mut script, &mut negotiation);
        prop_assert_eq!(format!("{result:?}"), format!("{:?}", whole.result));
        prop_assert_eq!(after_greeting(&script.output), whole.output);
        prop_assert_eq!(Vec::from(script.input), whole.unread);
    }
}
