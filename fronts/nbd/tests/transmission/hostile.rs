//! Clients that break the protocol, stall, vanish, or ask for too much.

use crate::common::*;
use tonearm_base::Nanos;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::testing::{TestClient, TestWorld};
use tonearm_nbd::transmission::{Target, TransmissionOptions};
use tonearm_rt::{Data, Op};

const MINUTE: Nanos = Nanos::from_secs(60);

#[test]
fn garbage_ends_the_connection_after_pending_replies() {
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
fn large_payload_is_drained_and_an_absurd_one_disconnects() {
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
            assert_eq!(world.target.memory().used(), 0, "it is not whole");
            assert_eq!(world.connections.partial_bytes() > 0, len > 4096);
            client.close().await;
            assert!(world.all_gone(MINUTE).await);
            assert_eq!(world.connections.partial_bytes(), 0);
            assert_eq!(world.target.memory().used(), 0);
            assert!(world.target.bytes().iter().all(|byte| *byte == 0));
        });
    }
}

#[test]
fn stalled_client_is_cut_and_an_idle_one_is_not() {
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
fn client_that_takes_no_replies_is_bounded_and_cut() {
    let options = TransmissionOptions {
        reply_bytes_max: 2 << 20,
        ..Default::default()
    };
    run(TestWorld::new(SIZE, MEMORY, options), |world| async move {
        let fill = |target: &tonearm_nbd::transmission::testing::MemoryTarget| {
            let slice = world.pool.copy_of(&pattern(1, SIZE)).share();
            let target = target.clone();
            async move { tonearm_nbd::transmission::Target::write(&target, 0, slice, false).await }
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
fn without_memory_no_request_is_read_and_no_client_cut() {
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
fn vanished_client_is_removed_when_its_requests_end() {
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
fn thousand_idle_connections_stay_open_at_little_cost() {
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

/// Memory for half-received payloads in [`world`].
const PARTIAL: u64 = 64 << 20;

/// A world with memory for a few large replies only.
fn world_of_readers() -> TestWorld {
    let options = TransmissionOptions {
        total_reply_bytes_max: 16 << 20,
        ..TransmissionOptions::default()
    };
    TestWorld::new(SIZE, MEMORY, options)
}

/// Connections that have announced a payload of `len` bytes and sent `sent` of it.
async fn stalled_writers(
    world: &TestWorld,
    count: usize,
    len: u32,
    sent: usize,
) -> Vec<TestClient> {
    let mut stalled = Vec::new();
    for _ in 0..count {
        let mut client = world.connect(true);
        let mut bytes = client.request(CMD_WRITE, 0, 0, len).encode().to_vec();
        bytes.extend(vec![7; sent]);
        let (rt, pool, stream) = (world.rt.clone(), world.pool.clone(), client.stream);
        // The caller may stop waiting before: the server does not read bytes for which it has no memory.
        world.rt.spawn_detached(async move {
            let data = Data::whole(pool.copy_of(&bytes));
            let _ = rt.stream(stream, Op::Send, data).done().await;
        });
        stalled.push(client);
    }
    world.rt.sleep(Nanos::from_millis(100)).await;
    stalled
}

/// Connections that ask for `len` bytes `times` over and take no reply.
async fn stalled_readers(
    world: &TestWorld,
    count: usize,
    len: u32,
    times: usize,
) -> Vec<TestClient> {
    // Data, because holes would be answered by short chunks.
    let data = world.pool.copy_of(&pattern(1, SIZE)).share();
    let written = Target::write(&world.target, 0, data, false).await;
    written.expect("written");
    let mut stalled = Vec::new();
    for number in 0..count {
        let mut client = world.connect(number % 2 == 0);
        let bytes = client.request(CMD_READ, 0, 0, len).encode().repeat(times);
        assert!(client.send(&bytes).await);
        stalled.push(client);
    }
    world.rt.sleep(Nanos::from_millis(100)).await;
    stalled
}

/// How long a request takes that has to succeed, on a connection of its own.
async fn time_of(world: &TestWorld, command: u16, len: u32) -> Nanos {
    let mut client = world.connect(true);
    let start = world.rt.now();
    let request = client.request(command, 0, 0, len);
    let payload = match command {
        CMD_WRITE => vec![1; len as usize],
        _ => Vec::new(),
    };
    let answer = client.call(request, &payload).await;
    assert_eq!(answer.expect("answered").error, None);
    client.close().await;
    world.rt.now().since(start)
}

fn stalled_and_cut(world: &TestWorld) -> u64 {
    world.connections.metrics().connections_stalled.get()
}

/// How long a client may stall while others wait for the memory that it holds.
const SHORT: Nanos = Nanos::from_secs(5);
const SOON: Nanos = Nanos::from_secs(1);

#[test]
fn payloads_that_are_only_announced_take_no_memory() {
    for len in [60 << 10, 1 << 20, 32 << 20] {
        run(world(), move |world| async move {
            let stalled = stalled_writers(&world, 300, len, 0).await;
            assert_eq!(world.target.memory().used(), 0, "nothing has come");
            let held = world.connections.partial_bytes();
            assert!(held <= PARTIAL / 2, "{held} bytes are held for nothing");
            for len in [512, 4096, 1 << 20] {
                let took = time_of(&world, CMD_WRITE, len).await;
                assert!(took < SOON, "a write of {len} bytes took {took}");
            }
            assert_eq!(stalled_and_cut(&world), 0, "no request waited for memory");
            assert!(world.connections.list().len() >= stalled.len());
        });
    }
}

#[test]
fn payloads_that_are_half_sent_do_not_stall_other_writes() {
    run(world(), |world| async move {
        // 300 MiB announced, 150 MiB sent: more than there is for payloads on their way.
        let stalled = stalled_writers(&world, 300, 1 << 20, 512 << 10).await;
        let held = world.connections.partial_bytes();
        assert!(held <= PARTIAL + (1 << 20), "{held} bytes are held");
        // A client that has written before does not wait for clients that never have.
        let mut client = world.connect(true);
        for len in [4096, 100 << 10, 1 << 20] {
            let start = world.rt.now();
            let request = client.request(CMD_WRITE, 0, 0, len);
            let answer = client.call(request, &vec![1; len as usize]).await;
            assert_eq!(answer.expect("answered").error, None);
            let took = world.rt.now().since(start);
            assert!(took < SOON, "a write of {len} bytes took {took}");
        }
        assert_eq!(stalled_and_cut(&world), 0, "no request has waited for long");
        let took = time_of(&world, CMD_WRITE, 1 << 20).await;
        assert!(took < Nanos(2 * SHORT.0), "a first large write took {took}");
        assert!(stalled_and_cut(&world) > 0);
        assert!(!world.connections.is_empty(), "{}", stalled.len());
    });
}

#[test]
fn large_payloads_are_admitted_one_after_the_other() {
    let options = TransmissionOptions {
        partial_payload_bytes_max: 3 << 20,
        ..TransmissionOptions::default()
    };
    let world = TestWorld::new(SIZE, 2 << 20, options);
    run(world, |world| async move {
        world.streams.set_split(|there| there.min(30_000));
        let mut clients = Vec::new();
        for number in 0..12 {
            let mut client = world.connect(true);
            let mut bytes = client
                .request(CMD_WRITE, 0, 0, SIZE as u32)
                .encode()
                .to_vec();
            bytes.extend(pattern(number, SIZE));
            let (rt, pool, stream) = (world.rt.clone(), world.pool.clone(), client.stream);
            world.rt.spawn_detached(async move {
                let data = Data::whole(pool.copy_of(&bytes));
                rt.stream(stream, Op::Send, data)
                    .done()
                    .await
                    .expect("taken");
            });
            clients.push(client);
        }
        for client in &mut clients {
            let answers = client.answers().await.expect("answered");
            assert_eq!(answers[0].error, None);
        }
        assert_eq!(world.connections.partial_bytes(), 0);
        assert_eq!(stalled_and_cut(&world), 0);
    });
}

#[test]
fn a_slow_link_may_take_its_time_for_a_large_write() {
    run(world(), |world| async move {
        let mut slow = world.connect(true);
        let mut bytes = slow.request(CMD_WRITE, 0, 0, 2 << 20).encode().to_vec();
        bytes.extend(pattern(5, 2 << 20));
        for part in bytes.chunks(64 << 10) {
            assert!(slow.send(part).await);
            world.rt.sleep(Nanos::from_secs(3)).await;
        }
        let answers = slow.answers().await.expect("answered");
        assert_eq!(answers[0].error, None);
    });
}

#[test]
fn a_slow_link_that_goes_on_is_not_cut_for_those_that_stall() {
    run(world(), |world| async move {
        let _stalled = stalled_writers(&world, 200, 1 << 20, 512 << 10).await;
        let mut slow = world.connect(true);
        let mut bytes = slow.request(CMD_WRITE, 0, 0, 1 << 20).encode().to_vec();
        bytes.extend(pattern(5, 1 << 20));
        for part in bytes.chunks(32 << 10) {
            assert!(slow.send(part).await);
            world.rt.sleep(Nanos::from_secs(2)).await;
        }
        let answers = slow.answers().await.expect("answered");
        assert_eq!(answers[0].error, None);
    });
}

#[test]
fn readers_that_take_nothing_do_not_keep_others_from_reading() {
    for count in [8, 32, 64, 300] {
        run(world_of_readers(), move |world| async move {
            let _stalled = stalled_readers(&world, count, SIZE as u32, 3).await;
            for len in [512, 4096, 64 << 10, 1 << 20] {
                let took = time_of(&world, CMD_READ, len).await;
                assert!(
                    took < SOON,
                    "{count} stalled: a read of {len} bytes took {took}"
                );
            }
            let took = time_of(&world, CMD_WRITE, 4096).await;
            assert!(took < SOON, "{count} stalled: a write took {took}");
        });
    }
}

#[test]
fn readers_that_take_nothing_are_cut_under_pressure() {
    run(world_of_readers(), |world| async move {
        // Each within what many may have, and all together more.
        let stalled = stalled_readers(&world, 12, 1 << 20, 1).await;
        let took = time_of(&world, CMD_READ, 4096).await;
        assert!(took < SOON, "a small read took {took}");
        assert_eq!(stalled_and_cut(&world), 0, "no request waits for long yet");
        for len in [100 << 10, 1 << 20] {
            let took = time_of(&world, CMD_READ, len).await;
            assert!(took < Nanos(2 * SHORT.0), "a large read took {took}");
        }
        assert!(stalled_and_cut(&world) > 0);
        assert!(
            stalled.len() > stalled_and_cut(&world) as usize,
            "as many as it takes"
        );
    });
}

#[test]
fn small_reads_continue_while_stalled_readers_hold_memory() {
    run(world_of_readers(), |world| async move {
        let _stalled = stalled_readers(&world, 12, 1 << 20, 1).await;
        let mut client = world.connect(true);
        let start = world.rt.now();
        let mut bytes = Vec::new();
        for _ in 0..256 {
            bytes.extend_from_slice(&client.request(CMD_READ, 0, 0, 4096).encode());
        }
        assert!(client.send(&bytes).await);
        while client.waiting() > 0 {
            client.answers().await.expect("answered");
        }
        let took = world.rt.now().since(start);
        assert!(took < SOON, "256 small reads took {took}");
    });
}

#[test]
fn readers_that_take_nothing_do_not_keep_the_memory_of_writes() {
    let world = TestWorld::new(SIZE, 8 << 20, TransmissionOptions::default());
    run(world, |world| async move {
        let data = world.pool.copy_of(&pattern(1, SIZE)).share();
        let written = Target::write(&world.target, 0, data, false).await;
        written.expect("written");
        world.target.set_pinned();
        let stalled = stalled_readers(&world, 8, 1 << 20, 1).await;
        assert_eq!(world.target.memory().used(), 8 << 20, "{}", stalled.len());
        let took = time_of(&world, CMD_WRITE, 4096).await;
        assert!(took < Nanos(2 * SHORT.0), "a small write took {took}");
        assert_eq!(stalled_and_cut(&world), 1, "as many as it takes");
        // Later reads are copied for these clients.
        world.rt.sleep(Nanos::from_secs(2)).await;
        for client in &stalled[..7] {
            let ask = Request {
                flags: 0,
                command: CMD_READ,
                cookie: 99,
                offset: 0,
                length: 1 << 20,
            };
            client.send(&ask.encode()).await;
        }
        world.rt.sleep(Nanos::from_secs(1)).await;
        assert!(world.target.memory().used() <= 7 << 20);
    });
}
