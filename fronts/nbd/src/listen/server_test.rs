use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::{Duration, Instant};

use super::testing::*;
use super::*;
use crate::handshake::testing::Client;

/// Whether the server has closed its side.
fn is_closed(stream: &mut UnixStream) -> bool {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => true,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_finished_handshake_is_delivered_with_its_socket() {
    let rig = Rig::new();
    let mut stream = rig.connect();
    let client = Client::new()
        .structured()
        .select_allocation("main")
        .go("main");
    stream.write_all(&client.0).expect("sent");
    stream.write_all(b"request").expect("sent");
    let accepted = rig.next();
    let client = accepted.client;
    assert_eq!(client.export, "main");
    assert!(!client.read_only && !client.tls);
    assert!(client.negotiated.structured_replies && client.negotiated.base_allocation);
    let peer = format!("unix:pid={}", std::process::id());
    assert!(client.peer.starts_with(&peer), "{}", client.peer);
    let mut got = [0; 7];
    File::from(accepted.socket)
        .read_exact(&mut got)
        .expect("the first request");
    assert_eq!(&got, b"request");
}

#[test]
fn tcp_and_unix_clients_are_served_together() {
    let folder = tempfile::tempdir().expect("folder");
    let tcp = Listener::tcp((Ipv4Addr::LOCALHOST, 0).into()).expect("tcp");
    let unix = Listener::unix(&folder.path().join("socket")).expect("unix");
    let config = ListenConfig::new(crate::handshake::testing::catalog());
    let rig = Rig::on(config, vec![tcp, unix], folder);
    let ListenAddress::Tcp(address) = rig.server.addresses()[0] else {
        panic!("not TCP");
    };
    let mut stream = TcpStream::connect(address).expect("connected");
    go(&mut stream);
    let accepted = rig.next();
    let local = stream.local_addr().expect("address");
    assert_eq!(accepted.client.peer, format!("tcp:{local}"));
    assert!(rustix::net::sockopt::tcp_nodelay(&accepted.socket).expect("option"));
    go(&mut rig.connect());
    assert!(rig.next().client.peer.starts_with("unix:"));
}

#[test]
fn a_slow_client_meets_the_deadline() {
    let rig = Rig::with(|config| config.handshake_timeout = Duration::from_millis(300));
    let start = Instant::now();
    let mut silent = rig.connect();
    let mut dripping = rig.connect();
    let dripper = thread::spawn(move || {
        // One byte at a time, each well within any idle timeout.
        for byte in Client::new().go("main").0 {
            if dripping.write_all(&[byte]).is_err() {
                return true;
            }
            thread::sleep(Duration::from_millis(50));
        }
        false
    });
    for _ in 0..2 {
        assert!(rig.next_refusal().contains("longer than its deadline"));
    }
    assert!(is_closed(&mut silent));
    assert!(dripper.join().expect("dripper"), "the dripper was cut");
    assert!(start.elapsed() < Duration::from_secs(5));
    eventually("all places are free", || rig.server.counts().open == 0);
}

#[test]
fn a_client_that_does_not_read_meets_the_deadline() {
    let rig = Rig::with(|config| config.handshake_timeout = Duration::from_millis(500));
    let mut stream = rig.connect();
    let mut lists = Client::new();
    for _ in 0..900 {
        lists = lists.info(6, "main", &[0, 1, 2, 3]).option(3, &[]);
    }
    stream.set_write_timeout(Some(PATIENCE)).expect("timeout");
    // May fail once the server has gone.
    for _ in 0..10 {
        let _ = stream.write_all(&lists.0);
    }
    rig.next_refusal();
    eventually("all places are free", || rig.server.counts().open == 0);
}

#[test]
fn connections_over_the_limit_are_closed_at_once() {
    let rig = Rig::with(|config| config.connections_max = 3);
    let streams: Vec<_> = (0..3)
        .map(|_| {
            let mut stream = rig.connect();
            go(&mut stream);
            stream
        })
        .collect();
    let mut delivered: Vec<_> = (0..3).map(|_| rig.next()).collect();
    assert!(is_closed(&mut rig.connect()));
    assert_eq!(rig.server.counts().over_limit, 1);
    assert_eq!(rig.server.counts().open, 3);
    // Once one client leaves, another may come.
    delivered.pop();
    go(&mut rig.connect());
    rig.next();
    drop(streams);
}

#[test]
fn a_thousand_silent_clients_do_not_keep_others_out() {
    let rig = Rig::with(|config| {
        config.connections_max = 2000;
        config.handshakes_max = 256;
    });
    let silent: Vec<_> = (0..1000)
        .map(|_| UnixStream::connect(rig.path()).expect("connected"))
        .collect();
    let threads = || {
        std::fs::read_dir("/proc/self/task")
            .expect("tasks")
            .filter(|task| {
                let path = task.as_ref().expect("task").path().join("comm");
                std::fs::read_to_string(path).is_ok_and(|name| name.starts_with("nbd-handshake"))
            })
            .count()
    };
    // Threads of other tests of this process are few.
    assert!(threads() <= 400, "threads are bounded");
    // All of them stay connected while this one connects.
    let mut stream = rig.connect();
    go(&mut stream);
    assert_eq!(rig.next().client.export, "main");
    assert!(rig.server.counts().handshakes <= 256);
    drop(silent);
}

#[test]
fn the_oldest_silent_client_makes_room_for_the_next() {
    let rig = Rig::with(|config| config.handshakes_max = 2);
    let mut oldest = rig.connect();
    let mut greeting = [0; 18];
    oldest.read_exact(&mut greeting).expect("greeting");
    let mut second = rig.connect();
    second.read_exact(&mut greeting).expect("greeting");
    let start = Instant::now();
    go(&mut rig.connect());
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(is_closed(&mut oldest));
    // The second one was not needed and still gets through.
    second
        .write_all(&Client::new().go("frozen").0)
        .expect("sent");
    let mut names = [rig.next().client.export, rig.next().client.export];
    names.sort();
    assert_eq!(names, ["frozen", "main"]);
}

#[test]
fn hostile_clients_are_refused_and_the_server_continues() {
    let rig = Rig::new();
    for _ in 0..50 {
        let mut garbage = rig.connect();
        garbage.write_all(&[0xff; 64]).expect("sent");
        assert!(is_closed(&mut garbage));
        assert!(rig.next_refusal().contains("unknown client flags"));

        let mut half = rig.connect();
        half.write_all(&Client::new().claim(7, 100).0)
            .expect("sent");
        drop(half);
        assert!(rig.next_refusal().contains("disconnected"));

        let mut huge = rig.connect();
        huge.write_all(&Client::new().claim(99, u32::MAX).0)
            .expect("sent");
        assert!(is_closed(&mut huge));
        assert!(rig.next_refusal().contains("4294967295 bytes"));
    }
    go(&mut rig.connect());
    rig.next();
}

#[test]
fn stopping_cuts_handshakes_and_leaves_connections() {
    let mut rig = Rig::new();
    let mut silent = rig.connect();
    let mut served = rig.connect();
    go(&mut served);
    let accepted = rig.next();
    let start = Instant::now();
    rig.server.stop();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert!(is_closed(&mut silent));
    assert!(!rig.path().exists(), "the socket's file is gone");
    assert!(UnixStream::connect(rig.path()).is_err());
    // The delivered connection goes on.
    served.write_all(b"x").expect("sent");
    assert!(!rig.server.wait_connections(Duration::from_millis(50)));
    drop(accepted);
    assert!(rig.server.wait_connections(PATIENCE));
    rig.server.stop();
}

#[test]
fn stopping_with_full_slots_does_not_hang() {
    let mut rig = Rig::with(|config| config.handshakes_max = 1);
    let silent: Vec<_> = (0..5).map(|_| rig.connect()).collect();
    eventually("a handshake", || rig.server.counts().handshakes == 1);
    let start = Instant::now();
    rig.server.stop();
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(rig.server.counts().handshakes, 0);
    assert!(rig.server.wait_connections(Duration::ZERO));
    drop(silent);
}

#[test]
fn a_callback_that_panics_costs_one_connection() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    let listener = Listener::unix(&path).expect("listener");
    let config = ListenConfig::new(crate::handshake::testing::catalog());
    let server = Server::start(
        config,
        vec![listener],
        |_| panic!("a panic on purpose"),
        |_, _| {},
    )
    .expect("server");
    for _ in 0..3 {
        let mut stream = UnixStream::connect(&path).expect("connected");
        go(&mut stream);
        assert!(is_closed(&mut stream));
    }
    assert!(server.wait_connections(PATIENCE));
}
