//! Channels whose far ends are threads.

use crate::UringDriver;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tonearm_rt::{Rt, channel};

fn rt() -> Rt {
    Rt::new(Box::new(UringDriver::new().unwrap()))
}

#[test]
fn values_of_threads_and_their_end_are_received() {
    let rt = rt();
    let (sender, mut receiver) = channel(&rt, 2).unwrap();
    let threads: Vec<_> = (0..4u64)
        .map(|thread| {
            let sender = sender.clone();
            std::thread::spawn(move || (0..500).all(|value| sender.send(1000 * thread + value)))
        })
        .collect();
    drop(sender);
    let received = rt.block_on(async move {
        let mut received = Vec::new();
        while let Some(value) = receiver.recv().await {
            received.push(value);
        }
        received
    });
    assert_eq!(received.len(), 2000);
    for thread in threads {
        assert!(thread.join().unwrap());
    }
    rt.shut_down();
}

#[test]
fn a_wait_that_is_given_up_takes_no_value_away() {
    let rt = rt();
    let (sender, mut receiver) = channel(&rt, 1).unwrap();
    let received = rt.block_on(async move {
        {
            let mut first = pin!(receiver.recv());
            poll_fn(|context| {
                assert!(first.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            sender.send(7)
        });
        let received = receiver.recv().await;
        assert!(thread.join().unwrap());
        received
    });
    assert_eq!(received, Some(7));
}

#[test]
fn senders_notice_that_the_receiver_has_gone() {
    let rt = rt();
    let (sender, receiver) = channel(&rt, 1).unwrap();
    drop(receiver);
    assert!(!sender.send(7));
    let (_sender, late) = channel::<u32>(&rt, 1).unwrap();
    rt.shut_down();
    drop(late);
}
