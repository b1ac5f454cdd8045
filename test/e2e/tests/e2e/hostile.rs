//! Hostile clients: the server continues to answer others, and its memory stays bounded.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tonearm_tests::nbd::{self, CMD_READ, CMD_WRITE, go, request};
use tonearm_tests::{Bench, MIB, Server, noise, wait_until};

/// `--memory` of the servers in these tests.
const MEMORY: &str = "64MiB";
/// Memory in KiB that a server may have in addition to written data.
const BESIDE_KIB: u64 = 150 << 10;

struct Besieged {
    bench: Bench,
    server: Server,
}

impl Besieged {
    fn new() -> Self {
        let bench = Bench::with_store("64MiB");
        let server = bench.serve(&["s.tn", "--socket", "s.sock", "--memory", MEMORY]);
        Self { bench, server }
    }

    /// A connection that has only received the greeting.
    fn stranger(&self) -> UnixStream {
        let mut stream = UnixStream::connect(self.server.socket()).expect("connected");
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("set");
        stream.set_write_timeout(limit).expect("set");
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).expect("a greeting");
        stream
    }

    /// Checks that the server runs, answers, serves data, and stays within its memory.
    fn holds(&mut self) {
        assert!(self.server.runs());
        let rss = self.server.rss_kib();
        assert!(rss < (64 << 10) + BESIDE_KIB, "{rss} KiB resident");
        let uri = self.server.uri.clone();
        self.bench.tool("nbdinfo", &[&uri]);
        let mut client = self.server.client("main");
        client.write(4096, &[7; 4096], 0).expect("written");
        assert_eq!(client.read(4096, 4096).expect("read"), [7; 4096]);
    }

    /// Waits until the server has closed the connection.
    fn closes(stream: &mut UnixStream) {
        let mut rest = [0; 4096];
        loop {
            match stream.read(&mut rest) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
                    return;
                }
            }
        }
    }
}

#[test]
fn garbage_at_any_stage_ends_that_connection_only() {
    let mut besieged = Besieged::new();
    for seed in 0..40 {
        let mut stream = besieged.stranger();
        // The server may close the connection before it has received everything.
        let _ = stream.write_all(&noise(seed, 1 << (seed % 18)));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        Besieged::closes(&mut stream);
        let mut client = besieged.server.client("main");
        let stream = client.stream();
        let _ = stream.write_all(&noise(seed + 100, 64 << (seed % 12)));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        Besieged::closes(stream);
    }
    besieged.holds();
}

#[test]
fn the_server_survives_a_disconnect_at_any_point() {
    let mut besieged = Besieged::new();
    let hello = go("main");
    for cut in 0..hello.len() {
        let mut stream = besieged.stranger();
        stream.write_all(&hello[..cut]).expect("sent");
    }
    let mut whole = request(CMD_WRITE, 0, 1, 1 << 20, 8 << 20);
    whole.extend(noise(1, 3 << 20));
    for cut in [1, 4, 12, 27, 28, 29, 5000, 1 << 20, whole.len()] {
        let mut client = besieged.server.client("main");
        client.stream().write_all(&whole[..cut]).expect("sent");
    }
    // A request that did not arrive completely must not have written anything.
    let mut client = besieged.server.client("main");
    let read = client.read(1 << 20, 8 << 20).expect("read");
    assert!(read.iter().all(|byte| *byte == 0));
    // A client requests much and disconnects without reading the replies.
    for _ in 0..8 {
        let mut client = besieged.server.client("main");
        for cookie in 0..64 {
            let ask = request(CMD_READ, 0, cookie, 0, 32 << 20);
            if client.stream().write_all(&ask).is_err() {
                break;
            }
        }
    }
    besieged.holds();
}

#[test]
fn oversize_lengths_are_refused_without_being_held() {
    let mut besieged = Besieged::new();
    // An option with a length of 4 GiB.
    let mut stream = besieged.stranger();
    let mut bytes = 3u32.to_be_bytes().to_vec();
    bytes.extend(nbd::OPTION_MAGIC.to_be_bytes());
    bytes.extend(nbd::OPT_GO.to_be_bytes());
    bytes.extend(u32::MAX.to_be_bytes());
    stream.write_all(&bytes).expect("sent");
    let more = std::iter::repeat_n(noise(3, 1 << 20), 64);
    for part in more {
        if stream.write_all(&part).is_err() {
            break;
        }
    }
    drop(stream);
    // A write of 4 GiB.
    let mut client = besieged.server.client("main");
    let stream = client.stream();
    let header = request(CMD_WRITE, 0, 1, 0, u32::MAX);
    stream.write_all(&header).expect("sent");
    for _ in 0..200 {
        if stream.write_all(&noise(4, 1 << 20)).is_err() {
            break;
        }
    }
    // A read of 4 GiB is answered with an error, and the connection stays open.
    let mut client = besieged.server.client("main");
    assert!(client.read(0, u32::MAX).is_err());
    assert_eq!(client.read(0, 1).expect("read"), [0]);
    besieged.holds();
}

#[test]
fn thousand_connections_are_bounded_and_then_released() {
    // The sockets of this process count against its limit of open files.
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    rustix::process::setrlimit(
        rustix::process::Resource::Nofile,
        rustix::process::Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        },
    )
    .expect("the hard limit may be used");
    let mut besieged = Besieged::new();
    let socket = besieged.server.socket();
    let mut held = Vec::new();
    for number in 0..1000 {
        let Ok(mut stream) = UnixStream::connect(&socket) else {
            continue;
        };
        let limit = Some(Duration::from_secs(20));
        stream.set_read_timeout(limit).expect("set");
        // A third of the connections are in transmission, with a request under way.
        if number % 3 == 0 {
            let _ = stream.write_all(&go("main"));
            let _ = stream.write_all(&request(CMD_WRITE, 0, 1, 0, 1 << 20));
        }
        held.push(stream);
    }
    assert!(held.len() > 500, "{}", held.len());
    let rss = besieged.server.rss_kib();
    assert!(rss < (64 << 10) + BESIDE_KIB, "{rss} KiB resident");
    // The control socket still answers.
    besieged.bench.json(&["stats", "s.tn", "--json"]);
    println!("{} connections, {rss} KiB resident", held.len());
    drop(held);
    let stats = || besieged.bench.json(&["stats", "s.tn", "--json"]);
    wait_until("the end of connections", Duration::from_secs(10), || {
        stats()["nbd"]["connections_open"] == 0
    });
    besieged.holds();
}

#[test]
fn writers_beyond_the_memory_limit_wait_instead_of_filling_it() {
    let mut besieged = Besieged::new();
    let socket = besieged.server.socket();
    std::thread::scope(|scope| {
        for writer in 0..8u64 {
            let socket = &socket;
            scope.spawn(move || {
                let mut client = nbd::Client::connect(socket, "main").expect("connected");
                let bytes = noise(writer, 4 << 20);
                for step in 0..8 {
                    let offset = (writer * 8 + step) % 15 * 4 * MIB;
                    client.write(offset, &bytes, 0).expect("written");
                }
            });
        }
    });
    besieged.holds();
}

/// Median time of small writes and reads of 4 KiB on a new connection.
fn median_of_small(server: &Server) -> Duration {
    let mut client = server.client("main");
    let mut times = Vec::new();
    for step in 0..15 {
        let started = Instant::now();
        client.write(step * 4096, &[7; 4096], 0).expect("written");
        assert_eq!(client.read(step * 4096, 4096).expect("read"), [7; 4096]);
        times.push(started.elapsed());
    }
    times.sort();
    times[times.len() / 2]
}

#[test]
fn missing_payloads_do_not_delay_small_requests() {
    for sent in [0, 100 << 10] {
        let mut besieged = Besieged::new();
        let mut stalled = Vec::new();
        for _ in 0..300 {
            let mut client = besieged.server.client("main");
            let stream = client.stream();
            let header = request(CMD_WRITE, 0, 1, 0, 1 << 20);
            stream.write_all(&header).expect("sent");
            stream.write_all(&vec![1; sent]).expect("sent");
            stalled.push(client);
        }
        let took = median_of_small(&besieged.server);
        assert!(took < Duration::from_secs(2), "{sent} bytes sent: {took:?}");
        besieged.holds();
    }
}

#[test]
fn clients_that_read_no_replies_do_not_delay_small_requests() {
    for count in [8, 64] {
        let mut besieged = Besieged::new();
        let mut stalled = Vec::new();
        for _ in 0..count {
            let mut client = besieged.server.client("main");
            let ask = request(CMD_READ, 0, 1, 0, 32 << 20);
            client.stream().write_all(&ask.repeat(4)).expect("sent");
            stalled.push(client);
        }
        std::thread::sleep(Duration::from_millis(500));
        let took = median_of_small(&besieged.server);
        assert!(took < Duration::from_secs(2), "{count} readers: {took:?}");
        assert!(besieged.server.runs());
    }
}
