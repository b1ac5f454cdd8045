//! Every command, with simple and with structured replies.

use crate::common::*;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::TargetError;
use tonearm_nbd::transmission::testing::{TestClient, client_of};
use tonearm_requests::CommandKind;

async fn write(client: &mut TestClient, flags: u16, offset: u64, data: &[u8]) {
    let request = client.request(CMD_WRITE, flags, offset, data.len() as u32);
    let answer = client.call(request, data).await.expect("answered");
    assert_eq!(answer.error, None);
}

async fn read(client: &mut TestClient, flags: u16, offset: u64, len: u32) -> Vec<u8> {
    let request = client.request(CMD_READ, flags, offset, len);
    let answer = client.call(request, &[]).await.expect("answered");
    assert_eq!(answer.error, None);
    answer.data
}

#[test]
fn reads_return_written_data_at_any_alignment() {
    for structured in [false, true] {
        run(world(), |world| async move {
            let mut client = world.connect(structured);
            let mut model = vec![0; SIZE];
            for (seed, (offset, len)) in [(0, 4096), (4097, 1), (511, 1026), (100_001, 70_001)]
                .into_iter()
                .enumerate()
            {
                let data = pattern(seed as u64, len);
                model[offset..offset + len].copy_from_slice(&data);
                write(&mut client, 0, offset as u64, &data).await;
            }
            for (offset, len) in [(0, 1), (0, 8192), (510, 3), (99_000, 90_000), (0, SIZE)] {
                let data = read(&mut client, 0, offset as u64, len as u32).await;
                assert!(data == model[offset..offset + len], "{offset} {len}");
            }
        });
    }
}

#[test]
fn holes_are_reported_unless_df_is_set() {
    run(world(), |world| async move {
        let mut client = world.connect(true);
        write(&mut client, 0, 65_536, &pattern(1, 4096)).await;
        let request = client.request(CMD_READ, 0, 0, 1 << 20);
        let answer = client.call(request, &[]).await.expect("answered");
        assert_eq!(
            (answer.chunks, answer.hole_bytes),
            (3, (1 << 20) - 4096),
            "hole, data, hole"
        );
        let request = client.request(CMD_READ, CMD_FLAG_DF, 0, 1 << 20);
        let whole = client.call(request, &[]).await.expect("answered");
        assert_eq!((whole.chunks, whole.hole_bytes), (1, 0));
        assert!(whole.data == answer.data);
        assert!(answer.data[65_536..69_632] == pattern(1, 4096));
    });
}

#[test]
fn durability_reaches_the_target() {
    run(world(), |world| async move {
        let mut client = world.connect(false);
        write(&mut client, 0, 0, &[1; 512]).await;
        assert_eq!(world.target.durable(), 0);
        write(&mut client, CMD_FLAG_FUA, 0, &[1; 512]).await;
        for command in [CMD_TRIM, CMD_WRITE_ZEROES] {
            let request = client.request(command, CMD_FLAG_FUA, 0, 512);
            let answer = client.call(request, &[]).await.expect("answered");
            assert_eq!(answer.error, None);
        }
        assert_eq!(world.target.durable(), 3);
        let request = client.request(CMD_FLUSH, 0, 0, 0);
        client.call(request, &[]).await.expect("answered");
        assert_eq!(world.target.flushes(), 1);
    });
}

#[test]
fn trim_zeroes_and_status_agree() {
    run(world(), |world| async move {
        let mut client = world.connect(true);
        write(&mut client, 0, 0, &pattern(7, 16_384)).await;
        let flags = CMD_FLAG_NO_HOLE | CMD_FLAG_FAST_ZERO;
        for (command, flags, offset) in [
            (CMD_WRITE_ZEROES, flags, 0),
            (CMD_WRITE_ZEROES, 0, 4096),
            (CMD_TRIM, 0, 12_288),
        ] {
            let request = client.request(command, flags, offset, 4096);
            let answer = client.call(request, &[]).await.expect("answered");
            assert_eq!(answer.error, None);
        }
        let request = client.request(CMD_BLOCK_STATUS, 0, 0, 32_768);
        let answer = client.call(request, &[]).await.expect("answered");
        let hole = STATE_HOLE | STATE_ZERO;
        let extents = [(4096, 0), (4096, hole), (4096, 0), (20_480, hole)];
        let expected = extents.map(|(length, flags)| Extent { length, flags });
        assert_eq!(answer.extents, expected);
        let request = client.request(CMD_BLOCK_STATUS, CMD_FLAG_REQ_ONE, 8191, 20_000);
        let answer = client.call(request, &[]).await.expect("answered");
        assert_eq!(
            answer.extents,
            [Extent {
                length: 1,
                flags: hole
            }]
        );
        let data = read(&mut client, 0, 0, 16_384).await;
        assert!(data[..8192].iter().all(|byte| *byte == 0));
        assert!(data[8192..12_288] == pattern(7, 16_384)[8192..12_288]);
        let request = client.request(CMD_CACHE, 0, 0, 16_384);
        let answer = client.call(request, &[]).await.expect("answered");
        assert_eq!(answer.error, None);
    });
}

#[test]
fn failure_message_is_sent_in_structured_replies() {
    for structured in [false, true] {
        run(world(), |world| async move {
            let mut client = world.connect(structured);
            world.target.set_failure(Some(TargetError {
                errno: NbdErrno::NoSpc,
                message: "the store is full".to_owned(),
            }));
            for (command, payload) in [(CMD_READ, 0), (CMD_WRITE, 512), (CMD_TRIM, 0)] {
                let request = client.request(command, 0, 0, 512);
                let answer = client.call(request, &vec![0; payload]).await.expect("some");
                assert_eq!(answer.error, Some(NbdErrno::NoSpc));
                let message = if structured { "the store is full" } else { "" };
                assert_eq!(answer.message, message);
            }
            let errors = &world
                .connections
                .metrics()
                .requests
                .total
                .of(CommandKind::Read)
                .errors;
            assert_eq!(errors.get(), 1);
        });
    }
}

#[test]
fn requests_meet_the_size_and_permission_of_the_moment() {
    run(world(), |world| async move {
        let mut client = world.connect(true);
        let beyond = SIZE as u64;
        let request = client.request(CMD_WRITE, 0, beyond, 512);
        let answer = client.call(request, &[1; 512]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::NoSpc));
        world.target.resize(SIZE + 512);
        write(&mut client, 0, beyond, &[1; 512]).await;
        world.target.resize(SIZE);
        let request = client.request(CMD_READ, 0, beyond, 512);
        let answer = client.call(request, &[]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::Inval));
        world.target.set_read_only();
        let request = client.request(CMD_WRITE, 0, 0, 70_000);
        let answer = client.call(request, &[1; 70_000]).await.expect("answered");
        assert_eq!(answer.error, Some(NbdErrno::Perm));
        assert!(world.target.bytes().iter().all(|byte| *byte == 0));
        assert_eq!(read(&mut client, 0, 0, 4).await, [0; 4], "still framed");
    });
}

#[test]
fn client_of_a_read_only_export_changes_nothing() {
    run(world(), |world| async move {
        let (server, stream) = world.streams.pair();
        let mut told = client_of(true);
        told.read_only = true;
        let id = world.connections.add(server, told, world.target.clone());
        let mut client = TestClient::new((&world.rt, &world.pool), stream, id, true);
        for (command, payload) in [(CMD_WRITE, 512), (CMD_TRIM, 0), (CMD_WRITE_ZEROES, 0)] {
            let request = client.request(command, 0, 0, 512);
            let answer = client.call(request, &vec![1; payload]).await;
            assert_eq!(answer.expect("answered").error, Some(NbdErrno::Perm));
        }
        assert_eq!(read(&mut client, 0, 0, 512).await, [0; 512]);
    });
}

#[test]
fn a_target_that_gives_too_few_bytes_has_failed() {
    for structured in [false, true] {
        run(world(), |world| async move {
            let mut client = world.connect(structured);
            write(&mut client, 0, 0, &pattern(1, 100_000)).await;
            world.target.set_short(true);
            // Data alone, data before a hole, a hole alone.
            for (offset, len) in [(0, 8192), (90_000, 50_000), (200_000, 4096)] {
                let request = client.request(CMD_READ, 0, offset, len);
                let answer = client.call(request, &[]).await.expect("answered");
                assert_eq!(answer.error, Some(NbdErrno::Io), "{offset} {len}");
            }
            world.target.set_short(false);
            assert!(read(&mut client, 0, 0, 100_000).await == pattern(1, 100_000));
        });
    }
}

#[test]
fn counters_and_latencies_are_those_of_the_replies() {
    run(world(), |world| async move {
        let mut client = world.connect(false);
        write(&mut client, 0, 0, &[3; 8192]).await;
        read(&mut client, 0, 0, 4096).await;
        read(&mut client, 0, 0, 4096).await;
        let metrics = world.connections.metrics();
        let reads = metrics.requests.total.of(CommandKind::Read);
        assert_eq!((reads.requests.get(), reads.bytes.get()), (2, 8192));
        assert_eq!(metrics.requests.read_latency.with(|reads| reads.len()), 2);
        assert_eq!(
            metrics.requests.write_latency.with(|writes| writes.len()),
            1
        );
        let listed = world.connections.list();
        assert_eq!((listed.len(), listed[0].id), (1, client.id));
        let own = listed[0].counters.of(CommandKind::Write);
        assert_eq!((own.requests.get(), own.bytes.get()), (1, 8192));
    });
}
