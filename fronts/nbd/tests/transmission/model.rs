//! Random sessions on random splits behave as an array of bytes.

use crate::common::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use tonearm_base::Nanos;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::TransmissionOptions;
use tonearm_nbd::transmission::testing::{Answer, TestWorld};
use tonearm_rt::{Data, Op};

const BYTES: usize = 400_000;

#[derive(Clone, Debug)]
struct Step {
    command: u16,
    flags: u16,
    offset: usize,
    len: usize,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![
        6 => 1..9000usize,
        1 => 60_000..70_000usize,
        1 => 1..300_000usize,
    ];
    let step = (0..8u16, 0..32u16, 0..BYTES, len).prop_map(|(command, flags, offset, len)| {
        let command = if command == CMD_DISC {
            CMD_WRITE
        } else {
            command
        };
        let flags = match command {
            CMD_WRITE_ZEROES => flags & 0b10011,
            CMD_READ => flags & 0b101,
            CMD_BLOCK_STATUS => flags & 0b1001,
            _ => flags & 1,
        };
        Step {
            command,
            flags,
            offset,
            len,
        }
    });
    prop::collection::vec(step, 1..40)
}

/// Applies `step` to the model. Returns the answer that the protocol demands.
fn expect(
    step: &Step,
    cookie: u64,
    structured: bool,
    model: &mut [u8],
) -> (Option<NbdErrno>, Vec<u8>) {
    let end = step.offset + step.len;
    let unknown = step.command == CMD_BLOCK_STATUS && !structured;
    let flags_known = structured || step.command != CMD_READ || step.flags & CMD_FLAG_DF == 0;
    if step.command == CMD_FLUSH {
        return (None, Vec::new());
    }
    if !flags_known {
        return (Some(NbdErrno::Inval), Vec::new());
    }
    if end > BYTES {
        let grows = matches!(step.command, CMD_WRITE | CMD_WRITE_ZEROES);
        let errno = if grows {
            NbdErrno::NoSpc
        } else {
            NbdErrno::Inval
        };
        return (Some(errno), Vec::new());
    }
    if unknown {
        return (Some(NbdErrno::Inval), Vec::new());
    }
    match step.command {
        CMD_READ => return (None, model[step.offset..end].to_vec()),
        CMD_WRITE => model[step.offset..end].copy_from_slice(&pattern(cookie, step.len)),
        CMD_WRITE_ZEROES => model[step.offset..end].fill(0),
        CMD_TRIM => {
            let (from, to) = (step.offset.next_multiple_of(512), end / 512 * 512);
            if from < to {
                model[from..to].fill(0);
            }
        }
        _ => {}
    }
    (None, Vec::new())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_session_behaves_as_an_array_of_bytes(
        steps in steps(),
        structured: bool,
        pieces in prop::collection::vec(1..100_000usize, 1..8),
        (capacity, memory) in (1000..400_000usize, 1..1_000_000u64),
        slow: bool,
    ) {
        let options = TransmissionOptions {
            requests_max: 1 + memory % 7,
            reply_bytes_max: memory,
            ..Default::default()
        };
        let world = TestWorld::new(BYTES, memory, options);
        world.streams.set_capacity(capacity);
        let mut turn = 0;
        world.streams.set_split(move |there| {
            turn += 1;
            pieces[turn % pieces.len()].min(there)
        });
        if slow {
            world.target.set_delay(Nanos::from_micros(200));
        }
        run(world, |world| async move {
            let mut client = world.connect(structured);
            let mut model = vec![0; BYTES];
            let mut bytes = Vec::new();
            let mut expected = BTreeMap::new();
            for step in &steps {
                let (offset, length) = match step.command {
                    CMD_FLUSH => (0, 0),
                    _ => (step.offset as u64, step.len as u32),
                };
                let request = client.request(step.command, step.flags, offset, length);
                let want = expect(step, request.cookie, structured, &mut model);
                expected.insert(request.cookie, want);
                bytes.extend_from_slice(&request.encode());
                if step.command == CMD_WRITE {
                    bytes.extend(pattern(request.cookie, step.len));
                }
            }
            let (rt, pool, stream) = (world.rt.clone(), world.pool.clone(), client.stream);
            world.rt.spawn(async move {
                rt.stream(stream, Op::Send, Data::whole(pool.copy_of(&bytes))).done().await
            });
            while client.waiting() > 0 {
                for answer in client.answers().await.expect("the server goes on") {
                    let Answer { cookie, error, data, extents, .. } = answer;
                    let (want_error, want_data) = &expected[&cookie];
                    assert_eq!(error, *want_error);
                    assert!(data == *want_data, "request {cookie}");
                    let step = &steps[cookie as usize - 1];
                    if step.command == CMD_BLOCK_STATUS && error.is_none() {
                        let covered: u64 = extents.iter().map(|extent| u64::from(extent.length)).sum();
                        assert!(covered >= 1 && covered <= step.len as u64);
                        assert!(step.flags & CMD_FLAG_REQ_ONE == 0 || extents.len() == 1);
                    }
                }
            }
            assert!(world.target.bytes() == model);
        });
    }
}
