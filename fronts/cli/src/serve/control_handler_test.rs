//! What requests wait for.

use super::super::mailbox::{Mailbox, Message};
use super::{apart, spawn};
use crate::control::{Event, Request};
use tonearm_store::Executor;

#[test]
fn panic_of_a_request_is_its_answer() {
    let executor = Executor::new().unwrap();
    let (mailbox, mut messages) = Mailbox::new(&executor.rt).unwrap();
    let mut asked = mailbox.ask(Request::Stats);
    let received = executor.rt.block_on(async move { messages.recv().await });
    let Some(Message::Ask(_, replies)) = received else {
        panic!("no request");
    };
    spawn(&executor.rt, replies, async {
        panic!("a fault of its own")
    });
    let other = executor.rt.spawn(async { 7 });
    executor.rt.run_ready();
    assert_eq!(other.take(), Some(7));
    let Some(Event::Failed(said)) = asked.next() else {
        panic!("no answer");
    };
    assert!(said.contains("has met a fault of the server"), "{said}");
}

#[test]
fn a_request_ends_when_the_thread_that_works_for_it_panics() {
    let executor = Executor::new().unwrap();
    let own = executor.rt.clone();
    let ended = executor.rt.block_on(async move {
        let panics = || -> anyhow::Result<u32> { panic!("a fault of its own") };
        let panicked = apart(&own, "panics", panics).await;
        (panicked, apart(&own, "works", || Ok(7)).await)
    });
    let (panicked, worked) = ended;
    let said = panicked.unwrap_err().to_string();
    assert!(said.contains("has met a fault of the server"), "{said}");
    assert_eq!(worked.unwrap(), 7);
}
