use super::testing::*;
use super::*;
use crate::catalog::Exports;
use crate::proto::*;

fn plain_flags() -> u16 {
    transmission_flags(false, false)
}

#[test]
fn export_name_answers_with_or_without_zeroes() {
    let mut head = MAIN_SIZE.to_be_bytes().to_vec();
    head.extend(plain_flags().to_be_bytes());
    let outcome = run_plain(&Client::new().option(OPT_EXPORT_NAME, b"main"));
    assert_eq!(outcome.output, head);
    assert_eq!(outcome.selection().export.name, "main");

    head.extend([0; 124]);
    let outcome = run_plain(&Client::with_flags(1).option(OPT_EXPORT_NAME, b""));
    assert_eq!(outcome.output, head);
    assert_eq!(outcome.selection().export.name, "main");
}

#[test]
fn export_name_of_nothing_closes_without_a_word() {
    let outcome = run_plain(&Client::new().option(OPT_EXPORT_NAME, b"nothing"));
    assert!(outcome.output.is_empty());
    assert_eq!(outcome.close(), Close::UnknownExport("nothing".to_owned()));
    for name in [&b"\xff"[..], b"a\0", &[b'n'; 4097]] {
        let outcome = run_plain(&Client::new().option(OPT_EXPORT_NAME, name));
        assert_eq!(outcome.close(), Close::ExportNameSyntax);
    }
}

#[test]
fn names_are_compared_as_bytes() {
    let outcome = run_plain(&Client::new().go("\u{e9}t\u{e9}"));
    assert_eq!(outcome.selection().export.size_bytes, 1);
    // The same letters, decomposed.
    let outcome = run_plain(&Client::new().go("e\u{301}te\u{301}"));
    assert_eq!(outcome.kinds(), [REP_ERR_UNKNOWN]);
    let outcome = run_plain(&Client::new().go("MAIN"));
    assert_eq!(outcome.kinds(), [REP_ERR_UNKNOWN]);
}

#[test]
fn list_names_every_export() {
    let outcome = run_plain(&Client::new().option(OPT_LIST, &[]));
    assert!(outcome.waits());
    let replies = outcome.replies();
    assert_eq!(
        kinds(&replies),
        [REP_SERVER, REP_SERVER, REP_SERVER, REP_ACK]
    );
    assert_eq!(replies[0].data, b"\0\0\0\x04mainvolume main");
    assert_eq!(replies[1].data, b"\0\0\0\x06frozenvolume frozen");
}

#[test]
fn info_describes_and_go_enters() {
    let asked = [
        INFO_BLOCK_SIZE,
        INFO_NAME,
        99,
        INFO_DESCRIPTION,
        INFO_EXPORT,
    ];
    let client = Client::new()
        .info(OPT_INFO, "", &asked)
        .info(OPT_GO, "", &asked);
    let outcome = run_plain(&client);
    let replies = outcome.replies();
    let each = [REP_INFO, REP_INFO, REP_INFO, REP_INFO, REP_ACK];
    assert_eq!(kinds(&replies), [each, each].concat());
    for (info, go) in replies[..5].iter().zip(&replies[5..]) {
        assert_eq!((info.option, go.option), (OPT_INFO, OPT_GO));
        assert_eq!(info.data, go.data);
    }
    let mut export = vec![0, 0];
    export.extend(MAIN_SIZE.to_be_bytes());
    export.extend(plain_flags().to_be_bytes());
    assert_eq!(replies[0].data, export);
    assert_eq!(replies[1].data, b"\0\x01main");
    assert_eq!(replies[2].data, b"\0\x02volume main");
    assert_eq!(replies[3].data, [0, 3, 0, 0, 0, 1, 0, 0, 16, 0, 2, 0, 0, 0]);
    let selection = outcome.selection();
    assert_eq!(selection.export.name, "main");
    assert_eq!(selection.transmission_flags, plain_flags());
}

#[test]
fn unrequested_info_is_not_sent() {
    let outcome = run_plain(&Client::new().go("main"));
    assert_eq!(outcome.kinds(), [REP_INFO, REP_ACK]);
}

#[test]
fn go_to_nowhere_can_be_repaired() {
    let outcome = run_plain(&Client::new().go("nothing").go("frozen"));
    assert_eq!(outcome.kinds(), [REP_ERR_UNKNOWN, REP_INFO, REP_ACK]);
    let selection = outcome.selection();
    assert!(selection.export.read_only);
    assert_ne!(selection.transmission_flags & FLAG_READ_ONLY, 0);
}

#[test]
fn requests_sent_too_early_stay_unread() {
    for client in [
        Client::new().go("main"),
        Client::new().option(OPT_EXPORT_NAME, b"main"),
    ] {
        let mut early = client.clone();
        early.0.extend(b"requests");
        let outcome = run_plain(&early);
        assert_eq!(outcome.unread, b"requests");
        assert_eq!(outcome.output, run_plain(&client).output);
    }
}

#[test]
fn structured_replies_offer_df() {
    let outcome = run_plain(&Client::new().structured().structured().go("main"));
    assert_eq!(outcome.kinds(), [REP_ACK, REP_ACK, REP_INFO, REP_ACK]);
    let selection = outcome.selection();
    assert!(selection.negotiated.structured_replies);
    assert!(!selection.negotiated.base_allocation);
    assert_ne!(selection.transmission_flags & FLAG_SEND_DF, 0);
}

#[test]
fn meta_contexts_need_structured_replies() {
    let client = Client::new()
        .meta(OPT_LIST_META_CONTEXT, "main", &[])
        .select_allocation("main")
        .go("main");
    let outcome = run_plain(&client);
    assert_eq!(
        outcome.kinds(),
        [REP_ERR_INVALID, REP_ERR_INVALID, REP_INFO, REP_ACK]
    );
    assert!(!outcome.selection().negotiated.base_allocation);
}

#[test]
fn meta_contexts_are_listed_by_query() {
    let found = [REP_META_CONTEXT, REP_ACK].as_slice();
    let nothing = [REP_ACK].as_slice();
    let table: [(&[&str], &[u32]); 8] = [
        (&[], found),
        (&["base:"], found),
        (&["base:allocation"], found),
        (&["x-other:", "base:allocation", "base:"], found),
        (&["base:other"], nothing),
        (&["qemu:dirty-bitmap:x"], nothing),
        (&["base"], nothing),
        (&["", "allocation"], nothing),
    ];
    for (queries, expected) in table {
        let client = Client::new()
            .structured()
            .meta(OPT_LIST_META_CONTEXT, "main", queries);
        let replies = run_plain(&client).replies();
        assert_eq!(kinds(&replies[1..]), expected, "queries {queries:?}");
        if expected == found {
            assert_eq!(replies[1].data, b"\0\0\0\0base:allocation");
        }
    }
}

#[test]
fn meta_contexts_are_selected_by_exact_name() {
    let table: [(&[&str], bool); 5] = [
        (&["base:allocation"], true),
        (&["x-other:y", "base:allocation", "base:allocation"], true),
        (&["base:"], false),
        (&["base:other"], false),
        (&[], false),
    ];
    for (queries, selected) in table {
        let client = Client::new()
            .structured()
            .meta(OPT_SET_META_CONTEXT, "main", queries)
            .go("main");
        let outcome = run_plain(&client);
        let replies = outcome.replies();
        if selected {
            assert_eq!(replies[1].data, b"\0\0\0\x01base:allocation");
            assert_eq!(replies[2].kind, REP_ACK);
        } else {
            assert_eq!(replies[1].kind, REP_ACK);
        }
        assert_eq!(
            outcome.selection().negotiated.base_allocation,
            selected,
            "queries {queries:?}"
        );
    }
}

#[test]
fn a_selection_holds_for_its_export_alone() {
    let select = |go: &str| {
        let client = Client::new().structured().select_allocation("main").go(go);
        run_plain(&client).selection().negotiated.base_allocation
    };
    assert!(select("main"));
    assert!(select(""), "the default export is the same export");
    assert!(!select("frozen"));
}

#[test]
fn every_later_selection_replaces_the_earlier_one() {
    let first = || Client::new().structured().select_allocation("main");
    let table = [
        first().meta(OPT_SET_META_CONTEXT, "main", &[]),
        first().select_allocation("nothing"),
        first().option(OPT_SET_META_CONTEXT, b"\0"),
        first().option(OPT_SET_META_CONTEXT, &[0; 70_000]),
    ];
    for client in table {
        let selection = run_plain(&client.go("main")).selection();
        assert!(!selection.negotiated.base_allocation);
    }
    // Listing is not selecting.
    let client = first().meta(OPT_LIST_META_CONTEXT, "main", &["x:y"]);
    assert!(
        run_plain(&client.go("main"))
            .selection()
            .negotiated
            .base_allocation
    );
}

#[test]
fn unknown_options_are_unsupported_whatever_their_data() {
    let client = Client::new()
        .option(OPT_EXTENDED_HEADERS, &[])
        .option(4, b"peek")
        .option(12345, &[7; 100_000])
        .go("main");
    let outcome = run_plain(&client);
    let unsup = REP_ERR_UNSUP;
    assert_eq!(outcome.kinds(), [unsup, unsup, unsup, REP_INFO, REP_ACK]);
    assert_eq!(outcome.replies()[2].option, 12345);
}

#[test]
fn malformed_options_are_invalid_and_the_session_goes_on() {
    let client = Client::new()
        .option(OPT_LIST, b"x")
        .option(OPT_STRUCTURED_REPLY, b"x")
        .option(OPT_INFO, b"")
        .option(OPT_GO, b"\0\0\0\x09main\0\0")
        .structured()
        .option(OPT_LIST_META_CONTEXT, b"abc")
        .option(OPT_SET_META_CONTEXT, b"\0\0\0\0\0\0\0\x01")
        .go("main");
    let invalid = REP_ERR_INVALID;
    let outcome = run_plain(&client);
    assert_eq!(
        outcome.kinds(),
        [
            invalid, invalid, invalid, invalid, REP_ACK, invalid, invalid, REP_INFO, REP_ACK
        ]
    );
}

#[test]
fn abort_is_acknowledged_with_its_data_ignored() {
    for data in [&b""[..], b"goodbye"] {
        let outcome = run_plain(&Client::new().option(OPT_ABORT, data));
        assert_eq!(outcome.kinds(), [REP_ACK]);
        assert_eq!(outcome.close(), Close::Aborted);
    }
}

#[test]
fn client_flags_are_checked() {
    for flags in [4, 1 << 16, u32::MAX] {
        let outcome = run_plain(&Client::with_flags(flags).go("main"));
        assert_eq!(outcome.close(), Close::ClientFlags(flags));
    }
}

#[test]
fn without_fixed_newstyle_only_an_export_name_goes() {
    let outcome = run_plain(&Client::with_flags(2).option(OPT_EXPORT_NAME, b"main"));
    assert_eq!(outcome.output.len(), 10);
    let outcome = run_plain(&Client::with_flags(0).option(OPT_LIST, b""));
    assert_eq!(outcome.close(), Close::NotFixedNewstyle(OPT_LIST));
}

#[test]
fn the_catalog_may_change_between_options() {
    let catalog = catalog();
    let mut negotiation = Negotiation::new(catalog.clone(), TlsPolicy::Off);
    let mut first = Script::new(&Client::new().go("late"));
    assert!(drive(&mut first, &mut negotiation).is_err());
    catalog.replace(Exports::new(vec![export("late", 5, false)], None));
    let mut second = Script::new(&Client::under_tls().go("").go("late"));
    let Ok(Step::Transmit(selection)) = drive(&mut second, &mut negotiation) else {
        panic!("the new export is there");
    };
    assert_eq!(selection.export.size_bytes, 5);
    assert_eq!(
        kinds(&replies(&second.output)),
        [REP_ERR_UNKNOWN, REP_INFO, REP_ACK],
        "there is no default export any more"
    );
}
