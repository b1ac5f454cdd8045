use super::super::mailbox::{Mailbox, Message, Replies};
use super::{LOOK, parse, serve};
use crate::control::{Event, Request};
use rustix::event::EventfdFlags;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::Receiver;
use tonearm_uring::EventSender;

#[test]
fn requests_of_other_versions_and_garbage_are_refused_by_name() {
    let parse = |text: &str| parse(text.as_bytes());
    assert_eq!(
        parse(r#"{"tonearm":1,"request":{"command":"stats"}}"#),
        Ok(Request::Stats)
    );
    for (text, why) in [
        ("hello", "not JSON"),
        ("{}", "no version"),
        (r#"{"tonearm":2,"request":{"command":"stats"}}"#, "not 2"),
        (r#"{"tonearm":1,"request":{"command":"fly"}}"#, "not known"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
}

/// A mailbox, and what is in it.
fn mailbox() -> (Mailbox, Receiver<Message>) {
    let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC).expect("a bell");
    Mailbox::new(EventSender::to(&bell).expect("its sender"))
}

const WAIT: &str = r#"{"tonearm":1,"request":{"command":"wait","mark":"archived","lsn":7}}"#;

/// The request of a client that waits, and where its answer goes.
fn asked(messages: &Receiver<Message>) -> Replies {
    match messages.recv() {
        Ok(Message::Ask(Request::Wait { .. }, replies)) => replies,
        _ => panic!("another message"),
    }
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    let (mailbox, messages) = mailbox();
    let (mut client, stream) = UnixStream::pair().expect("a pair");
    let serving = std::thread::spawn(move || serve(stream, &mailbox));
    writeln!(client, "{WAIT}").expect("sent");
    let replies = asked(&messages);
    assert!(!replies.is_forsaken());
    drop(client);
    serving.join().expect("no panic").expect("an orderly end");
    assert!(replies.is_forsaken());
    assert!(!replies.send(Event::Failed("late".into())));
}

#[test]
fn a_client_that_sends_nothing_more_gets_its_answer() {
    let (mailbox, messages) = mailbox();
    let (mut client, stream) = UnixStream::pair().expect("a pair");
    let serving = std::thread::spawn(move || serve(stream, &mailbox));
    writeln!(client, "{WAIT}").expect("sent");
    client.shutdown(Shutdown::Write).expect("half closed");
    let replies = asked(&messages);
    std::thread::sleep(2 * LOOK);
    assert!(replies.send(Event::Failed("late".into())));
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "{\"tonearm\":1,\"event\":{\"failed\":\"late\"}}\n");
    serving.join().expect("no panic").expect("an orderly end");
}
