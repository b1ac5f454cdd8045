use super::super::mailbox::{Mailbox, Message, Replies};
use super::{HANG_UP_CHECK_EVERY, parse, serve};
use crate::control::{Event, Request};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use tonearm_rt::Receiver;
use tonearm_store::Executor;

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

/// A mailbox, what is in it, and the executor that receives it.
fn mailbox() -> (Executor, Mailbox, Receiver<Message>) {
    let executor = Executor::new().expect("a ring");
    let (mailbox, messages) = Mailbox::new(&executor.rt).expect("an event");
    (executor, mailbox, messages)
}

const WAIT: &str = r#"{"tonearm":1,"request":{"command":"wait","mark":"archived","lsn":7}}"#;

/// The request of a client that waits, and where its answer goes.
fn asked(executor: &Executor, mut messages: Receiver<Message>) -> (Replies, Receiver<Message>) {
    executor.rt.block_on(async move {
        match messages.recv().await {
            Some(Message::Ask(Request::Wait { .. }, replies)) => (replies, messages),
            _ => panic!("another message"),
        }
    })
}

#[test]
fn a_client_that_goes_takes_its_request_along() {
    let (executor, mailbox, messages) = mailbox();
    let (mut client, stream) = UnixStream::pair().expect("a pair");
    let serving = std::thread::spawn(move || serve(stream, &mailbox));
    writeln!(client, "{WAIT}").expect("sent");
    let (replies, mut messages) = asked(&executor, messages);
    assert!(!replies.is_client_gone());
    drop(client);
    serving.join().expect("no panic").expect("an orderly end");
    assert!(replies.is_client_gone());
    let said = executor.rt.block_on(async move { messages.recv().await });
    assert!(matches!(said, Some(Message::ClientGone)));
    assert!(!replies.send(Event::Failed("late".into())));
}

#[test]
fn a_client_that_sends_nothing_more_gets_its_answer() {
    let (executor, mailbox, messages) = mailbox();
    let (mut client, stream) = UnixStream::pair().expect("a pair");
    let serving = std::thread::spawn(move || serve(stream, &mailbox));
    writeln!(client, "{WAIT}").expect("sent");
    client.shutdown(Shutdown::Write).expect("half closed");
    let (replies, _messages) = asked(&executor, messages);
    std::thread::sleep(2 * HANG_UP_CHECK_EVERY);
    assert!(replies.send(Event::Failed("late".into())));
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "{\"tonearm\":1,\"event\":{\"failed\":\"late\"}}\n");
    serving.join().expect("no panic").expect("an orderly end");
}
