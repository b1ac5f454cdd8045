//! Clients that break the protocol, stall, vanish, or ask for too much.

use crate::common::*;
use base::Nanos;
use nbd::proto::*;
use nbd::transmission::TransmissionOptions;
use nbd::transmission::testing::TestWorld;
use rt::{Data, Op};

const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn garbage_ends_the_connection_after_what_was_asked_before() {
    run(world(), |world| async move {
        let mut client = world.connect(true);
        let mut bytes = client.request(CMD_READ, 0, 0, 512).encode().to_vec();
        bytes.extend_from_slice(b"GET / HTTP/1.1\r\n");
        assert!(client.send(&bytes).await);
        let answers = client.answers().await.expect("the read is answered");
        assert_eq!(answers.len(), 1);
        assert_eq!(client.answers().await, None);
        assert_eq!(world.connections.metrics().connections_violated.get(), 1);
        assert!(world.all_gone(MINUTE).await);
    });
}

#[test]
fn an_absurd_payload_ends_the_connection_and_a_large_one_is_thrown_away() {
    run(world(), |world| async move {
        let mut client = world.connect(true);
        let len = PAYLOAD_BYTES_MAX + 4096;
        let request = client.request(CMD_WRITE, 0, 0, len);
        let answer = client.call(request, &vec![1; len as usize]).await;
        assert_eq!(answer.expect("answered").error, Some(NbdErrno::NoSpc));
        assert_eq!(world.target.memory().used(), 0);
        let request = client.request(CMD_WRITE, 0, 0, u32::MAX);
        assert!(client.send(&request.encode()).await);
        assert_eq!(client.answers().await, None);
        assert_eq!(world.connections.metrics().connections_violated.get(), 1);
    });
}

#[test]
fn a_client_that_vanishes_in_mid_payload_leaves_nothing() {
    for (len, sent) in [(4096, 0), (4096, 4000), (1 << 20, 10), (1 << 20, 900_000)] {
        run(world(), |world| async move {
            let mut client = world.connect(true);
            let mut bytes = client.request(CMD_WRITE, 0, 0, len).encode().to_vec();
            bytes.extend(vec![7; sent]);
            assert!(client.send(&bytes).await);
            world.rt.sleep(Nanos::from_millis(1)).await;
            assert!(world.target.memory().used() > 0, "it was reserved");
            client.close().await;
            assert!(world.all_gone(MINUTE).await);
            assert_eq!(world.target.memory().used(), 0);
            assert!(world.target.bytes().iter().all(|byte| *byte == 0));
        });
    }
}

#[test]
fn a_client_that_stalls_in_mid_request_is_cut_and_an_idle_one_is_not() {
    let request = |len| Request {
        flags: 0,
        command: CMD_WRITE,
        cookie: 1,
        offset: 0,
        length: len,
    };
    for (len, sent) in [(512, 0), (512, 27), (512, 28), (512, 500), (1 << 20, 99)] {
        run(world(), |world| async move {
            let client = world.connect(true);
            let mut bytes = request(len).encode().to_vec();
            bytes.extend(vec![7; 600]);
            if sent > 0 {
                assert!(client.send(&bytes[..sent]).await);
            }
            let start = world.rt.now();
            let cut = world.all_gone(Nanos::from_secs(300)).await;
            assert_eq!(cut, sent > 0, "after {sent} bytes");
            if cut {
                let after = world.rt.now().since(start);
                assert!(after >= MINUTE && after < Nanos::from_secs(80), "{after}");
                assert_eq!(world.connections.metrics().connections_stalled.get(), 1);
            }
        });
    }
}

#[test]
fn dripping_bytes_does_not_keep_a_request_open() {
    run(world(), |world| async move {
        let mut client = world.connect(true);
        let bytes = client.request(CMD_READ, 0, 0, 512).encode();
        let mut sent = 0;
        while sent < 27 && client.send(&bytes[sent..=sent]).await {
            sent += 1;
            world.rt.sleep(Nanos::from_secs(20)).await;
        }
        assert!(sent < 10, "{sent} bytes were waited for");
    });
}

#[test]
fn a_client_that_takes_no_replies_is_cut_and_held_within_bounds() {
    let options = TransmissionOptions {
        reply_bytes_max: 2 << 20,
        ..Default::default()
    };
    run(TestWorld::new(SIZE, MEMORY, options), |world| async move {
        let fill = |target: &nbd::transmission::testing::MemoryTarget| {
            let slice = world.pool.copy_of(&pattern(1, SIZE)).share();
            let target = target.clone();
            async move { nbd::transmission::Target::write(&target, 0, slice, false).await }
        };
        fill(&world.target).await.expect("written");
        let mut client = world.connect(true);
        let (rt, pool, stream) = (world.rt.clone(), world.pool.clone(), client.stream);
        let request = client.request(CMD_READ, 0, 0, 1 << 20);
        let bytes = request.encode().repeat(100_000);
        world.rt.spawn(async move {
            let data = Data::whole(pool.copy_of(&bytes));
            rt.stream(stream, Op::Send, data).done().await
        });
        world.rt.sleep(Nanos::from_secs(1)).await;
        let in_flight = world.connections.list()[0].in_flight();
        assert!(in_flight <= 2, "{in_flight} reads of 1 MiB are held");
        let start = world.rt.now();
        assert!(world.all_gone(Nanos::from_secs(300)).await);
        assert!(world.rt.now().since(start) < Nanos::from_secs(80));
        assert_eq!(world.connections.metrics().connections_stalled.get(), 1);
    });
}

#[test]
fn small_requests_are_bounded_too() {
    run(world(), |world| async move {
        world.streams.set_capacity(1 << 20);
        world.target.set_delay(Nanos::from_secs(10));
        let mut client = world.connect(false);
        let mut bytes = Vec::new();
        for _ in 0..10_000 {
            bytes.extend_from_slice(&client.request(CMD_TRIM, 0, 0, 512).encode());
        }
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_millis(1)).await;
        let in_flight = world.connections.list()[0].in_flight();
        assert_eq!(in_flight, 256);
        client.close().await;
        assert!(world.all_gone(MINUTE).await);
    });
}

#[test]
fn without_memory_nothing_is_read_and_nobody_is_cut() {
    run(world(), |world| async move {
        let all = world.target.memory().acquire(MEMORY).await;
        let mut client = world.connect(true);
        let request = client.request(CMD_WRITE, 0, 0, 4096);
        let mut bytes = request.encode().to_vec();
        bytes.extend(pattern(2, 4096));
        bytes.extend_from_slice(&client.request(CMD_READ, 0, 0, 4096).encode());
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_secs(1000)).await;
        assert_eq!(client.waiting(), 2);
        assert_eq!(world.connections.list().len(), 1, "it is our fault");
        drop(all);
        while client.waiting() > 0 {
            for answer in client.answers().await.expect("goes on") {
                assert_eq!(answer.error, None);
            }
        }
        assert!(world.target.bytes()[..4096] == pattern(2, 4096));
    });
}

#[test]
fn a_client_that_vanishes_while_requests_run_is_forgotten_when_they_end() {
    run(world(), |world| async move {
        world.target.set_delay(Nanos::from_millis(20));
        let mut client = world.connect(true);
        let mut bytes = Vec::new();
        for n in 0..64 {
            bytes.extend_from_slice(&client.request(CMD_WRITE, 0, n * 512, 512).encode());
            bytes.extend(pattern(n, 512));
            bytes.extend_from_slice(&client.request(CMD_READ, 0, 0, 100_000).encode());
        }
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_millis(1)).await;
        client.close().await;
        assert!(world.all_gone(MINUTE).await);
        assert_eq!(world.target.memory().used(), 0);
    });
}

#[test]
fn a_thousand_idle_connections_cost_no_timer_and_little_memory() {
    run(world(), |world| async move {
        let clients: Vec<_> = (0..1000).map(|_| world.connect(true)).collect();
        world.rt.sleep(Nanos::from_secs(100_000)).await;
        assert_eq!(world.connections.list().len(), 1000);
        for client in &clients {
            client.close().await;
        }
        assert!(world.all_gone(MINUTE).await);
    });
}

#[test]
fn clients_that_announce_much_and_send_nothing_do_not_keep_others_from_writing() {
    let options = TransmissionOptions {
        large_payload_bytes_max: 4 << 20,
        ..TransmissionOptions::default()
    };
    run(
        TestWorld::new(16 << 20, 8 << 20, options),
        |world| async move {
            let mut stalled = Vec::new();
            for _ in 0..8 {
                let mut client = world.connect(true);
                let request = client.request(CMD_WRITE, 0, 0, 2 << 20);
                assert!(client.send(&request.encode()).await);
                stalled.push(client);
            }
            world.rt.sleep(Nanos::from_secs(1)).await;
            let mut client = world.connect(true);
            let request = client.request(CMD_WRITE, 0, 0, 1 << 20);
            let answer = client.call(request, &vec![1; 1 << 20]).await;
            assert_eq!(answer.expect("answered").error, None);
            assert!(
                world.rt.now() < Nanos::from_secs(5),
                "without waiting for the stalled ones"
            );
        },
    );
}
