//! Recordings of requests.

use crate::common::*;
use tonearm_base::Nanos;
use tonearm_nbd::listen::Client;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::testing::{TestClient, TestWorld, client_of};
use tonearm_requests::{CommandKind, REQUESTS_MAX, RecordedRequest};

async fn call(client: &mut TestClient, command: u16, flags: u16, offset: u64, length: u32) {
    let request = client.request(command, flags, offset, length);
    let payload = match command {
        CMD_WRITE => pattern(1, length as usize),
        _ => Vec::new(),
    };
    client.call(request, &payload).await.expect("answered");
}

/// A client of the export `name`; all exports are the same target.
fn connect(world: &TestWorld, name: &str) -> TestClient {
    let (server, stream) = world.streams.pair();
    let client = Client {
        export: name.to_owned(),
        ..client_of(false)
    };
    let id = world.connections.add(server, client, world.target.clone());
    TestClient::new((&world.rt, &world.pool), stream, id, false)
}

/// A recorded request without its times.
fn shape(request: &RecordedRequest) -> (u32, CommandKind, bool, u64, u64) {
    let RecordedRequest {
        volume,
        kind,
        fua,
        offset,
        bytes,
        ..
    } = *request;
    (volume, kind, fua, offset, bytes)
}

#[test]
fn each_kind_of_request_is_recorded_with_its_range_and_volume() {
    run(world(), |world| async move {
        let (mut main, mut other) = (connect(&world, "main"), connect(&world, "other"));
        assert_eq!(world.connections.recorder().take(), None);
        call(&mut main, CMD_WRITE, 0, 0, 512).await;
        assert!(world.connections.recorder().start(None));
        assert!(!world.connections.recorder().start(None), "one at a time");
        call(&mut main, CMD_WRITE, 0, 4096, 8192).await;
        call(&mut other, CMD_WRITE, CMD_FLAG_FUA, 512, 512).await;
        call(&mut main, CMD_READ, 0, 1, 3).await;
        call(&mut main, CMD_FLUSH, 0, 0, 0).await;
        call(&mut main, CMD_TRIM, CMD_FLAG_FUA, 65_536, 1 << 20).await;
        call(&mut main, CMD_WRITE_ZEROES, 0, 0, 4096).await;
        call(&mut main, CMD_CACHE, 0, 0, 4096).await;
        call(&mut main, CMD_READ, 0, SIZE as u64, 1).await;
        let recorded = world.connections.recorder().stop().expect("recording");
        assert_eq!(recorded.volumes, ["main", "other"]);
        assert_eq!((recorded.lost, recorded.failed), (0, 1));
        let shapes: Vec<_> = recorded.requests.iter().map(shape).collect();
        assert_eq!(
            shapes,
            [
                (0, CommandKind::Write, false, 4096, 8192),
                (1, CommandKind::Write, true, 512, 512),
                (0, CommandKind::Read, false, 1, 3),
                (0, CommandKind::Flush, false, 0, 0),
                (0, CommandKind::Trim, true, 65_536, 1 << 20),
                (0, CommandKind::WriteZeroes, false, 0, 4096),
            ]
        );
        assert_eq!(world.connections.recorder().take(), None, "it has ended");
    });
}

#[test]
fn a_recording_of_one_volume_leaves_out_the_others() {
    run(world(), |world| async move {
        let (mut main, mut other) = (connect(&world, "main"), connect(&world, "other"));
        assert!(world.connections.recorder().start(Some("other".to_owned())));
        call(&mut main, CMD_WRITE, 0, 0, 512).await;
        call(&mut other, CMD_READ, 0, 0, 512).await;
        let recorded = world.connections.recorder().take().expect("recording");
        assert_eq!(recorded.volumes, ["other"]);
        let shapes: Vec<_> = recorded.requests.iter().map(shape).collect();
        assert_eq!(shapes, [(0, CommandKind::Read, false, 0, 512)]);
    });
}

#[test]
fn recording_omits_requests_from_before_its_start() {
    run(world(), |world| async move {
        let mut client = connect(&world, "main");
        world.target.set_delay(Nanos::from_millis(100));
        // Half of the requests wait in the target: of so many, some are under way when the recording starts.
        let mut bytes = Vec::new();
        for _ in 0..64 {
            bytes.extend(client.request(CMD_READ, 0, 0, 512).encode());
        }
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_millis(1)).await;
        assert!(world.connections.recorder().start(None));
        while client.waiting() > 0 {
            client.answers().await.expect("answers");
        }
        let before = world.connections.recorder().take().expect("recording");
        assert_eq!(before.requests, []);
        world.rt.sleep(Nanos::from_millis(50)).await;
        let since = world
            .connections
            .recorder()
            .take()
            .expect("recording")
            .until;
        call(&mut client, CMD_READ, 0, 0, 512).await;
        let recorded = world.connections.recorder().take().expect("recording");
        let [request] = recorded.requests[..] else {
            panic!("one request: {recorded:?}");
        };
        assert!(request.arrival >= since && since >= Nanos::from_millis(50));
        assert!(request.arrival + request.response.0 <= recorded.until);
    });
}

#[test]
fn requests_that_are_not_taken_in_time_are_counted_as_lost() {
    run(world(), |world| async move {
        let mut client = connect(&world, "main");
        assert!(world.connections.recorder().start(None));
        let (batch, more) = (128, 256);
        for _ in 0..(REQUESTS_MAX + more) / batch {
            let mut bytes = Vec::new();
            for _ in 0..batch {
                bytes.extend(client.request(CMD_FLUSH, 0, 0, 0).encode());
            }
            assert!(client.send(&bytes).await);
            while client.waiting() > 0 {
                client.answers().await.expect("answers");
            }
        }
        let recorded = world.connections.recorder().take().expect("recording");
        assert_eq!(recorded.requests.len(), REQUESTS_MAX);
        assert_eq!(recorded.lost, more as u64);
        call(&mut client, CMD_FLUSH, 0, 0, 0).await;
        let recorded = world.connections.recorder().take().expect("recording");
        assert_eq!((recorded.requests.len(), recorded.lost), (1, more as u64));
    });
}
