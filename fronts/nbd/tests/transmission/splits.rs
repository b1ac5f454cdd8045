//! However the stream is cut, the same requests come out of it.

use crate::common::*;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::testing::{Answer, TestClient};

/// Waits until every request is answered.
async fn finish(client: &mut TestClient) -> Vec<Answer> {
    let mut answers = Vec::new();
    while client.waiting() > 0 {
        answers.extend(client.answers().await.expect("the server goes on"));
    }
    answers.sort_by_key(|answer| answer.cookie);
    answers
}

fn session(client: &mut TestClient) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut push = |request: Request, payload: &[u8]| {
        bytes.extend_from_slice(&request.encode());
        bytes.extend_from_slice(payload);
    };
    push(client.request(CMD_WRITE, 0, 100, 300), &pattern(1, 300));
    push(client.request(CMD_WRITE, 0, 1 << 40, 50), &[9; 50]);
    push(client.request(CMD_READ, 0, 90, 320), &[]);
    push(client.request(CMD_WRITE, 1, 0, 1), &[5]);
    push(client.request(CMD_FLUSH, 0, 0, 0), &[]);
    push(client.request(CMD_READ, 0, 0, 100), &[]);
    push(client.request(77, 0, 0, 0), &[]);
    bytes
}

fn check(answers: &[Answer]) {
    let errors: Vec<_> = answers.iter().map(|answer| answer.error).collect();
    let expected = [
        None,
        Some(NbdErrno::NoSpc),
        None,
        None,
        None,
        None,
        Some(NbdErrno::Inval),
    ];
    assert_eq!(errors, expected);
    assert!(answers[2].data[10..310] == pattern(1, 300));
    assert_eq!((answers[5].data[0], answers[5].data[1]), (5, 0));
}

#[test]
fn a_session_may_be_split_at_every_byte() {
    for structured in [false, true] {
        let len = {
            let world = world();
            let mut client = world.connect(structured);
            session(&mut client).len()
        };
        for split in 0..=len {
            run(world(), |world| async move {
                let mut client = world.connect(structured);
                let bytes = session(&mut client);
                assert!(client.send(&bytes[..split]).await);
                world.rt.sleep(tonearm_base::Nanos(1000)).await;
                assert!(client.send(&bytes[split..]).await);
                check(&finish(&mut client).await);
            });
        }
    }
}

#[test]
fn a_session_may_come_byte_by_byte() {
    let world = world();
    world.streams.set_split(|_| 1);
    world.streams.set_capacity(3);
    run(world, |world| async move {
        let mut client = world.connect(true);
        let bytes = session(&mut client);
        let sender = world.connect(true);
        drop(sender);
        let (rt, pool, stream) = (world.rt.clone(), world.pool.clone(), client.stream);
        rt.clone().spawn(async move {
            let data = tonearm_rt::Data::whole(pool.copy_of(&bytes));
            rt.stream(stream, tonearm_rt::Op::Send, data).done().await
        });
        check(&finish(&mut client).await);
    });
}

#[test]
fn a_deep_pipeline_is_answered_in_few_sends() {
    run(world(), |world| async move {
        let mut client = world.connect(false);
        let mut bytes = Vec::new();
        for n in 0..1000u64 {
            let request = client.request(CMD_WRITE, 0, n * 512, 512);
            bytes.extend_from_slice(&request.encode());
            bytes.extend_from_slice(&pattern(n, 512));
        }
        let rt = world.rt.clone();
        let (pool, stream) = (world.pool.clone(), client.stream);
        world.rt.spawn(async move {
            let data = tonearm_rt::Data::whole(pool.copy_of(&bytes));
            rt.stream(stream, tonearm_rt::Op::Send, data).done().await
        });
        let answers = finish(&mut client).await;
        assert!(answers.iter().all(|answer| answer.error.is_none()));
        let content = world.target.bytes();
        for n in 0..1000 {
            assert!(content[n * 512..][..512] == pattern(n as u64, 512));
        }
        let sends = world.connections.metrics().sends.get();
        assert!(sends < 100, "{sends} sends for 1000 replies");
    });
}

#[test]
fn the_largest_requests_pass_with_less_memory_than_they_need() {
    let options = tonearm_nbd::transmission::TransmissionOptions {
        reply_bytes_max: 1 << 20,
        total_reply_bytes_max: 1 << 20,
        ..Default::default()
    };
    let size = 33 << 20;
    let world = tonearm_nbd::transmission::testing::TestWorld::new(size, 1 << 20, options);
    world
        .target
        .set_delay(tonearm_base::Nanos::from_micros(300));
    run(world, |world| async move {
        let mut client = world.connect(true);
        let len = PAYLOAD_BYTES_MAX as usize;
        let data = pattern(3, len);
        for offset in [0, 1] {
            let request = client.request(CMD_WRITE, 0, offset, PAYLOAD_BYTES_MAX);
            let answer = client.call(request, &data).await.expect("answered");
            assert_eq!(answer.error, None);
        }
        let mut bytes = Vec::new();
        for flags in [0, CMD_FLAG_DF, 0] {
            let request = client.request(CMD_READ, flags, 1, PAYLOAD_BYTES_MAX);
            bytes.extend_from_slice(&request.encode());
        }
        assert!(client.send(&bytes).await);
        for answer in finish(&mut client).await {
            assert!(answer.data == data);
        }
        let request = client.request(CMD_READ, 0, 0, PAYLOAD_BYTES_MAX + 1);
        let answer = client.call(request, &[]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::Overflow));
    });
}

#[test]
fn reads_of_nothing_but_holes_are_zeroes_in_any_form() {
    for (structured, flags) in [(false, 0), (true, 0), (true, CMD_FLAG_DF)] {
        run(world(), |world| async move {
            let mut client = world.connect(structured);
            for len in [1, 16_384, 16_385, 3 << 20] {
                let request = client.request(CMD_READ, flags, 5, len);
                let answer = client.call(request, &[]).await.expect("answered");
                assert_eq!(answer.error, None);
                assert!(answer.data.iter().all(|byte| *byte == 0));
            }
        });
    }
}
