use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustls::{ClientConnection, StreamOwned};

use super::testing::*;
use crate::handshake::testing::Client;
use crate::tls::Tls;
use crate::tls::testing::Authority;

/// Greeting, client flags, STARTTLS and its acknowledgement.
fn upgrade(
    mut stream: UnixStream,
    tls: ClientConnection,
) -> StreamOwned<ClientConnection, UnixStream> {
    let client = Client::new().option(5, &[]);
    stream.write_all(&client.0).expect("sent");
    let mut replies = [0; 18 + 20];
    stream.read_exact(&mut replies).expect("acknowledgement");
    StreamOwned::new(tls, stream)
}

fn require(rig_tls: Tls) -> Rig {
    Rig::with(|config| config.tls = rig_tls)
}

#[test]
fn requests_and_replies_cross_tls() {
    let authority = Authority::new();
    let rig = require(Tls::Require(authority.strict_server()));
    let mut stream = upgrade(rig.connect(), authority.client(true));
    // The first request comes in one record with the last option.
    let mut client = Client::under_tls().structured().go("main");
    client.0.extend(b"request");
    stream.write_all(&client.0).expect("sent");
    let mut replies = [0; 20 + 32 + 20];
    stream.read_exact(&mut replies).expect("replies");
    let accepted = rig.next();
    let client = accepted.client;
    assert!(client.tls && client.negotiated.structured_replies);
    assert_eq!(client.export, "main");
    let mut served = File::from(accepted.socket);
    let mut request = [0; 7];
    served.read_exact(&mut request).expect("request");
    assert_eq!(&request, b"request");
    served.write_all(b"reply").expect("sent");
    drop(served);
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).expect("a clean end");
    assert_eq!(reply, b"reply");
    // The place is held until the pump has ended too.
    drop(client.guard);
    drop(stream);
    assert!(rig.server.wait_connections(PATIENCE));
}

#[test]
fn clients_without_required_certificate_are_refused() {
    let authority = Authority::new();
    let rig = require(Tls::Require(authority.strict_server()));
    let mut stream = upgrade(rig.connect(), authority.client(false));
    let sent = stream.write_all(&Client::under_tls().go("main").0);
    let read = sent.and_then(|()| stream.read_exact(&mut [0; 1]));
    assert!(read.is_err());
    let why = rig.next_refusal();
    assert!(why.starts_with("TLS: "), "{why}");
}

#[test]
fn certificates_of_strangers_are_refused() {
    let authority = Authority::new();
    let stranger = Authority::new();
    let rig = require(Tls::Require(authority.strict_server()));
    // The client does not trust the server either: it says so and disconnects.
    let mut stream = upgrade(rig.connect(), stranger.client(true));
    assert!(stream.write_all(b"x").is_err());
    drop(stream);
    rig.next_refusal();
}

#[test]
fn tls_handshake_has_a_deadline() {
    let authority = Authority::new();
    let rig = Rig::with(|config| {
        config.tls = Tls::Allow(authority.server());
        config.handshake_timeout = Duration::from_millis(300);
    });
    let stream = upgrade(rig.connect(), authority.client(false));
    assert!(rig.next_refusal().contains("longer than its deadline"));
    drop(stream);
}

#[test]
fn options_that_fail_under_tls_end_with_a_clean_close() {
    let authority = Authority::new();
    let rig = require(Tls::Allow(authority.server()));
    let mut stream = upgrade(rig.connect(), authority.client(false));
    let client = Client::under_tls().option(2, &[]);
    stream.write_all(&client.0).expect("sent");
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).expect("a clean end");
    assert_eq!(rest.len(), 20);
    assert!(rig.next_refusal().contains("ended the session"));
}

#[test]
fn plaintext_after_starttls_is_not_parsed_as_options() {
    let authority = Authority::new();
    let rig = require(Tls::Allow(authority.server()));
    let mut stream = rig.connect();
    let mut client = Client::new().option(5, &[]);
    client.0.extend(Client::under_tls().go("main").0);
    stream.write_all(&client.0).expect("sent");
    let why = rig.next_refusal();
    assert!(why.starts_with("TLS: "), "{why}");
}
