//! Connections that both sides end in order, and the stop of the server.

use crate::common::*;
use tonearm_base::Nanos;
use tonearm_nbd::proto::*;

#[test]
fn disconnecting_finishes_what_is_under_way() {
    run(world(), |world| async move {
        world.target.set_delay(Nanos::from_millis(5));
        let mut client = world.connect(true);
        let mut bytes = Vec::new();
        for n in 0..32 {
            bytes.extend_from_slice(&client.request(CMD_WRITE, 0, n * 4096, 4096).encode());
            bytes.extend(pattern(n, 4096));
        }
        let last = Request {
            flags: 0,
            command: CMD_DISC,
            cookie: 0,
            offset: 0,
            length: 0,
        };
        bytes.extend_from_slice(&last.encode());
        // Requests after the disconnect do not count.
        bytes.extend_from_slice(&last.encode());
        assert!(client.send(&bytes).await);
        let mut answered = 0;
        while let Some(answers) = client.answers().await {
            answered += answers.len();
        }
        assert_eq!(answered, 32);
        assert!(world.all_gone(Nanos::from_secs(1)).await);
    });
}

#[test]
fn stopping_answers_what_runs_and_refuses_what_waits() {
    run(world(), |world| async move {
        world.target.set_delay(Nanos::from_millis(50));
        let mut client = world.connect(true);
        let idle = world.connect(false);
        let mut half = world.connect(false);
        let request = half.request(CMD_WRITE, 0, 0, 4096);
        assert!(half.send(&request.encode()).await);
        let mut bytes = Vec::new();
        for n in 0..580 {
            bytes.extend_from_slice(&client.request(CMD_TRIM, 0, n * 512, 512).encode());
        }
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_micros(10)).await;
        let connections = world.connections.clone();
        let start = world.rt.now();
        let end = world.rt.spawn(async move {
            connections.shutdown(Nanos::from_secs(10)).await;
        });
        let (mut done, mut refused) = (0, 0);
        while let Some(answers) = client.answers().await {
            for answer in answers {
                match answer.error {
                    None => done += 1,
                    Some(NbdErrno::Shutdown) => refused += 1,
                    error => panic!("{error:?}"),
                }
            }
        }
        assert_eq!(
            done + refused,
            580,
            "every request that was read has its answer"
        );
        assert!(done >= 256 && refused > 0, "{done} {refused}");
        end.await;
        assert!(world.connections.is_empty());
        assert!(world.rt.now().since(start) < Nanos::from_secs(1));
        assert!(!idle.send(&[0]).await);
        let mut late = world.connect(false);
        assert_eq!(
            late.answers().await,
            None,
            "no connection is served any more"
        );
    });
}

#[test]
fn stopping_does_not_wait_for_a_client_that_takes_nothing() {
    run(world(), |world| async move {
        let mut client = world.connect(false);
        let mut bytes = Vec::new();
        for _ in 0..8 {
            bytes.extend_from_slice(&client.request(CMD_READ, 0, 0, 1 << 20).encode());
        }
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_millis(1)).await;
        let start = world.rt.now();
        world.connections.shutdown(Nanos::from_secs(3)).await;
        let took = world.rt.now().since(start);
        assert!(took >= Nanos::from_secs(3) && took < Nanos::from_secs(4));
    });
}

#[test]
fn stopping_reaches_a_client_that_waits_for_memory() {
    run(world(), |world| async move {
        let all = world.target.memory().acquire(MEMORY).await;
        let mut client = world.connect(true);
        let request = client.request(CMD_WRITE, 0, 0, 512);
        let mut bytes = request.encode().to_vec();
        bytes.extend([1; 512]);
        assert!(client.send(&bytes).await);
        world.rt.sleep(Nanos::from_millis(1)).await;
        world.connections.shutdown(Nanos::from_secs(3)).await;
        let answers = client.answers().await.expect("refused");
        assert_eq!(answers[0].error, Some(NbdErrno::Shutdown));
        assert_eq!(world.target.memory().waiting(), 0);
        drop(all);
    });
}

#[test]
fn one_export_can_be_stopped_and_one_connection_cut() {
    run(world(), |world| async move {
        let mut cut = world.connect(true);
        let mut stopped = world.connect(true);
        assert!(world.connections.cut(cut.id));
        assert_eq!(cut.answers().await, None);
        world.connections.stop_export("other");
        let request = stopped.request(CMD_FLUSH, 0, 0, 0);
        assert!(stopped.call(request, &[]).await.is_some());
        world.connections.stop_export("main");
        assert_eq!(stopped.answers().await, None);
        assert!(!world.connections.cut(99));
    });
}
