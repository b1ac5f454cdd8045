use super::testing::*;
use super::*;
use crate::proto::*;

/// Runs a session up to STARTTLS, then goes on as if under TLS.
fn run_upgraded(policy: TlsPolicy, before: &Client, after: &Client) -> Outcome {
    let mut negotiation = Negotiation::new(catalog(), policy);
    let mut script = Script::new(before);
    let step = drive(&mut script, &mut negotiation).expect("a step");
    assert_eq!(step, Step::StartTls);
    let acknowledgement = replies(after_greeting(&script.output)).pop();
    assert_eq!(
        acknowledgement.map(|reply| (reply.option, reply.kind)),
        Some((OPT_STARTTLS, REP_ACK))
    );
    negotiation.tls_started();
    let mut script = Script::new(after);
    let result = drive(&mut script, &mut negotiation);
    Outcome {
        result,
        output: script.output,
        unread: script.input.into(),
    }
}

fn starttls() -> Client {
    Client::new().option(OPT_STARTTLS, &[])
}

#[test]
fn without_tls_starttls_is_against_the_policy() {
    let outcome = run(TlsPolicy::Off, &starttls().go("main"));
    assert_eq!(outcome.kinds(), [REP_ERR_POLICY, REP_INFO, REP_ACK]);
}

#[test]
fn other_options_are_refused_before_required_tls() {
    let client = Client::new()
        .option(OPT_LIST, &[])
        .go("main")
        .info(OPT_INFO, "nothing", &[])
        .structured()
        .select_allocation("main")
        .option(777, b"data")
        .option(OPT_ABORT, &[]);
    let outcome = run(TlsPolicy::Require, &client);
    let mut expected = vec![REP_ERR_TLS_REQD; 6];
    expected.push(REP_ACK);
    assert_eq!(outcome.kinds(), expected);
    assert_eq!(outcome.close(), Close::Aborted);
}

#[test]
fn where_tls_is_required_an_export_name_closes() {
    let client = Client::new().option(OPT_EXPORT_NAME, b"main");
    let outcome = run(TlsPolicy::Require, &client);
    assert!(outcome.output.is_empty());
    assert_eq!(outcome.close(), Close::TlsRequired);
}

#[test]
fn where_tls_is_allowed_plain_clients_go_on() {
    let outcome = run(TlsPolicy::Allow, &Client::new().go("main"));
    assert_eq!(outcome.selection().export.name, "main");
}

#[test]
fn starttls_with_data_is_invalid() {
    let client = Client::new().option(OPT_STARTTLS, b"x");
    let outcome = run(TlsPolicy::Require, &client);
    assert_eq!(outcome.kinds(), [REP_ERR_INVALID]);
    assert!(outcome.waits());
}

#[test]
fn under_tls_everything_goes() {
    for policy in [TlsPolicy::Allow, TlsPolicy::Require] {
        let outcome = run_upgraded(policy, &starttls(), &Client::under_tls().go("main"));
        assert_eq!(outcome.selection().export.name, "main");
        let name = Client::under_tls().option(OPT_EXPORT_NAME, b"main");
        let outcome = run_upgraded(policy, &starttls(), &name);
        assert_eq!(outcome.selection().export.name, "main");
    }
}

#[test]
fn under_tls_a_second_starttls_is_invalid() {
    let after = Client::under_tls().option(OPT_STARTTLS, &[]);
    let outcome = run_upgraded(TlsPolicy::Require, &starttls(), &after);
    assert_eq!(outcome.kinds(), [REP_ERR_INVALID]);
}

#[test]
fn nothing_negotiated_survives_starttls() {
    let before = Client::new()
        .structured()
        .select_allocation("main")
        .option(OPT_STARTTLS, &[]);
    let outcome = run_upgraded(TlsPolicy::Allow, &before, &Client::under_tls().go("main"));
    let selection = outcome.selection();
    assert_eq!(selection.negotiated, Negotiated::default());
    assert_eq!(selection.transmission_flags & FLAG_SEND_DF, 0);
    // Nor does structured replies alone revive the old selection.
    let after = Client::under_tls().structured().go("main");
    let selection = run_upgraded(TlsPolicy::Allow, &before, &after).selection();
    assert!(!selection.negotiated.base_allocation);
}

#[test]
fn bytes_after_starttls_are_left_to_tls() {
    let mut client = starttls();
    client.0.extend(Client::under_tls().go("main").0);
    let injected = Client::under_tls().go("main").0;
    let outcome = run(TlsPolicy::Allow, &client);
    assert!(matches!(outcome.result, Ok(Step::StartTls)));
    assert_eq!(outcome.unread, injected, "plaintext is never taken for TLS");
}

#[test]
fn client_flags_survive_starttls() {
    // Without NO_ZEROES the 124 zeroes come under TLS too.
    let before = Client::with_flags(1).option(OPT_STARTTLS, &[]);
    let after = Client::under_tls().option(OPT_EXPORT_NAME, b"main");
    let outcome = run_upgraded(TlsPolicy::Require, &before, &after);
    assert_eq!(outcome.output.len(), 134);
}
