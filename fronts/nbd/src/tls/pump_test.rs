use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustls::{ClientConnection, StreamOwned};

use super::testing::*;
use super::*;

/// What a pump's thread reports.
struct End {
    result: io::Result<()>,
    cpu_time: Duration,
}

/// A client, the served socket, and the pump between them.
struct Rig {
    client: StreamOwned<ClientConnection, UnixStream>,
    local: UnixStream,
    pump: JoinHandle<End>,
}

impl Rig {
    fn new() -> Rig {
        let authority = Authority::new();
        let (mut net, client_net) = UnixStream::pair().expect("pair");
        let (local, ours) = UnixStream::pair().expect("pair");
        let mut tls = server_connection(authority.server());
        let (at_pump, shaken) = mpsc::channel();
        let pump = thread::spawn(move || {
            while tls.is_handshaking() {
                tls.complete_io(&mut net).expect("handshake");
            }
            at_pump.send(()).expect("send");
            let result = pump(tls, net.into(), ours.into());
            End {
                result,
                cpu_time: thread_cpu_time(),
            }
        });
        let mut client = StreamOwned::new(authority.client(false), client_net);
        while client.conn.is_handshaking() {
            client
                .conn
                .complete_io(&mut client.sock)
                .expect("handshake");
        }
        // After its side of the handshake the server still sends tickets: a client that broke the connection now would break that.
        shaken.recv().expect("the server's handshake");
        Rig {
            client,
            local,
            pump,
        }
    }

    fn join(self) -> End {
        self.pump.join().expect("the pump's thread")
    }
}

fn thread_cpu_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let nanos = text.split(' ').next().expect("a field");
    Duration::from_nanos(nanos.parse().expect("a number"))
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 31 + i / 251) as u8).collect()
}

#[test]
fn bytes_cross_unchanged_both_ways_at_once() {
    let mut rig = Rig::new();
    let data = pattern((8 << 20) + 12345);
    let mut echo = rig.local.try_clone().expect("clone");
    let echo = thread::spawn(move || {
        let mut chunk = vec![0; 100_000];
        loop {
            match echo.read(&mut chunk).expect("read") {
                0 => break,
                got => echo.write_all(&chunk[..got]).expect("write"),
            }
        }
        echo.shutdown(Shutdown::Both).expect("shutdown");
    });
    let mut got = vec![0; 64 << 10];
    for chunk in data.chunks(64 << 10) {
        rig.client.write_all(chunk).expect("write");
        rig.client
            .read_exact(&mut got[..chunk.len()])
            .expect("read");
        assert_eq!(&got[..chunk.len()], chunk);
    }
    rig.client.conn.send_close_notify();
    rig.client.flush().expect("flush");
    echo.join().expect("echo");
    assert_eq!(rig.client.read(&mut got).expect("close_notify"), 0);
    drop(rig.client);
    drop(rig.local);
    assert!(rig.pump.join().expect("pump").result.is_ok());
}

#[test]
fn the_last_reply_arrives_before_a_clean_end() {
    let mut rig = Rig::new();
    let data = pattern(3 << 20);
    let expected = data.clone();
    let local = rig.local;
    let writer = thread::spawn(move || {
        let mut local = local;
        local.write_all(&data).expect("write");
    });
    let mut got = Vec::new();
    // Fails unless a close_notify precedes the end of the socket.
    rig.client.read_to_end(&mut got).expect("a clean end");
    assert!(got == expected);
    writer.join().expect("writer");
    drop(rig.client);
    assert!(rig.pump.join().expect("pump").result.is_ok());
}

#[test]
fn a_client_that_closes_is_still_answered() {
    let mut rig = Rig::new();
    rig.client.write_all(b"request").expect("write");
    rig.client.conn.send_close_notify();
    rig.client.flush().expect("flush");
    let mut got = Vec::new();
    rig.local.read_to_end(&mut got).expect("end of requests");
    assert_eq!(got, b"request");
    rig.local.write_all(b"reply").expect("write");
    drop(rig.local);
    let mut got = Vec::new();
    rig.client.read_to_end(&mut got).expect("reply");
    assert_eq!(got, b"reply");
    drop(rig.client);
    assert!(rig.pump.join().expect("pump").result.is_ok());
}

#[test]
fn a_client_that_vanishes_ends_the_served_socket() {
    let mut rig = Rig::new();
    rig.client.write_all(b"request").expect("write");
    rig.client.sock.shutdown(Shutdown::Both).expect("shutdown");
    let mut got = Vec::new();
    rig.local.read_to_end(&mut got).expect("end");
    assert_eq!(got, b"request");
    drop(rig.local);
    drop(rig.client);
    // Whether an error shows depends on what was still to be sent.
    let _ = rig.pump.join().expect("pump").result;
}

#[test]
fn records_that_are_not_tls_end_the_connection() {
    let mut rig = Rig::new();
    rig.client
        .sock
        .write_all(b"this is not a TLS record")
        .expect("write");
    let mut got = Vec::new();
    rig.local.read_to_end(&mut got).expect("end");
    assert!(got.is_empty());
    let error = rig.join().result.expect_err("broken TLS");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

/// Writes until nothing more is taken for a while.
fn fill(stream: &mut impl Write, limit: usize) -> usize {
    let chunk = vec![0; 64 << 10];
    let (mut written, mut last) = (0, Instant::now());
    while last.elapsed() < Duration::from_millis(300) && written < limit {
        match stream.write(&chunk) {
            Ok(count) => {
                written += count;
                last = Instant::now();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    }
    written
}

#[test]
fn client_that_does_not_read_is_cut_at_the_deadline() {
    let mut rig = Rig::new();
    rig.local.set_nonblocking(true).expect("nonblocking");
    let limit = 16 << 20;
    let written = fill(&mut rig.local, limit);
    assert!(written < limit, "took {written} bytes");
    let start = Instant::now();
    drop(rig.local);
    while !rig.pump.is_finished() {
        assert!(start.elapsed() < Duration::from_secs(8), "never cut");
        thread::sleep(Duration::from_millis(10));
    }
    let end = rig.pump.join().expect("pump");
    assert_eq!(end.result.expect_err("cut").kind(), ErrorKind::TimedOut);
    assert!(
        end.cpu_time < Duration::from_secs(1),
        "spun for {:?}",
        end.cpu_time
    );
}

#[test]
fn a_server_that_does_not_read_stops_the_client() {
    let mut rig = Rig::new();
    rig.client.sock.set_nonblocking(true).expect("nonblocking");
    rig.client.conn.set_buffer_limit(Some(64 << 10));
    let limit = 16 << 20;
    let written = fill(&mut rig.client, limit);
    assert!(written < limit, "took {written} bytes");
    thread::sleep(Duration::from_millis(500));
    // The client hangs up while nothing moves: noticed without spinning.
    drop(rig.client);
    thread::sleep(Duration::from_millis(500));
    let mut got = Vec::new();
    rig.local.read_to_end(&mut got).expect("what was sent");
    drop(rig.local);
    let end = rig.pump.join().expect("pump");
    assert!(
        end.cpu_time < Duration::from_secs(1),
        "spun for {:?}",
        end.cpu_time
    );
}

#[test]
fn an_idle_pump_sleeps() {
    let rig = Rig::new();
    thread::sleep(Duration::from_millis(500));
    drop(rig.client);
    drop(rig.local);
    let end = rig.pump.join().expect("pump");
    assert!(end.cpu_time < Duration::from_millis(200));
}
