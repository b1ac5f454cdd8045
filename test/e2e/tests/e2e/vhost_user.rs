//! Volumes as disks of virtual machines: a guest's driver over shared memory, with kills of the server and hostile rings.

use std::path::PathBuf;
use std::time::Duration;
use tonearm_tests::{Bench, Server, noise, wait_until};
use tonearm_vhost_driver::{DEPTH, Guest, INDIRECT, Kind, NEXT, SIZE, WRITE};

/// Bit of the feature that the guest sends flushes.
const FLUSH: u64 = 1 << 9;

/// Bit of the feature that both sides name the index at which they want a notification.
const EVENT_INDEX: u64 = 1 << 29;

/// Bytes of a sector.
const SECTOR: u64 = 512;

/// A store with a volume of 64 MiB, and its server with a socket for guests.
fn served() -> (Bench, Server) {
    let bench = Bench::created(&["--size", "64MiB", "--log-size", "8MiB"]);
    let server = serve(&bench);
    (bench, server)
}

fn serve(bench: &Bench) -> Server {
    bench.serve(&["s.tn", "--socket", "s.sock", "--vhost-user", "vm.sock"])
}

fn socket(bench: &Bench) -> PathBuf {
    bench.path("vm.sock")
}

fn guest(bench: &Bench) -> Guest {
    Guest::connect(&socket(bench), 0).expect("connected")
}

/// A request that must succeed, and its answer.
#[track_caller]
fn ok(guest: &mut Guest, kind: Kind, sector: u64, data: &[u8], room: usize) -> Vec<u8> {
    let (status, answer) = guest.request(kind, sector, data, room).expect("an answer");
    assert_eq!(status, 0, "{kind:?} at {sector}");
    answer
}

/// A range of a discard or a write of zeroes: first sector, sectors, flags.
fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
    [
        &sector.to_le_bytes()[..],
        &sectors.to_le_bytes(),
        &flags.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn a_guest_has_the_bytes_that_other_clients_have() {
    let (bench, server) = served();
    let mut nbd = server.client("main");
    for without in [0, EVENT_INDEX] {
        let mut guest = Guest::connect(&socket(&bench), without).expect("connected");
        let configuration = guest.configuration().expect("an answer");
        assert_eq!(configuration[..8], (64u64 << 20 >> 9).to_le_bytes());
        let serial = ok(&mut guest, Kind::Identify, 0, &[], 20);
        assert_eq!(&serial[..5], b"main\0");
        let data = noise(without, 20_480);
        ok(&mut guest, Kind::Write, 7, &data, 0);
        ok(&mut guest, Kind::Flush, 0, &[], 0);
        assert_eq!(nbd.read(7 * SECTOR, 20_480).expect("read"), data);
        nbd.write(64 * SECTOR, &data, 0).expect("written");
        assert_eq!(ok(&mut guest, Kind::Read, 64, &[], 20_480), data);
        // Whole blocks of a discard, and exactly the range of zeroes.
        ok(&mut guest, Kind::Discard, 0, &range(72, 8, 0), 0);
        let zeroes = [range(64, 1, 0), range(80, 2, 1)].concat();
        ok(&mut guest, Kind::WriteZeroes, 0, &zeroes, 0);
        let mut expected = data.clone();
        for (from, sectors) in [(0, 1), (8, 8), (16, 2)] {
            expected[from * 512..(from + sectors) * 512].fill(0);
        }
        assert_eq!(nbd.read(64 * SECTOR, 20_480).expect("read"), expected);
        // The server serves one guest at a time on a socket.
        drop(guest);
    }
    drop(nbd);
    server.end_ok();
    bench.ok(&["check", "s.tn"]);
}

#[test]
fn impossible_requests_are_answered() {
    let (bench, server) = served();
    let mut guest = guest(&bench);
    let end = (64u64 << 20) / SECTOR;
    let mut status = |kind, sector, data: &[u8], room| {
        let answered = guest.request(kind, sector, data, room);
        answered.expect("an answer").0
    };
    assert_eq!(status(Kind::Read, end - 1, &[], 1024), 1, "beyond the end");
    assert_eq!(status(Kind::Write, u64::MAX / 512, &[0; 512], 0), 1);
    assert_eq!(status(Kind::Write, u64::MAX, &[0; 512], 0), 1);
    assert_eq!(status(Kind::Write, 0, &[0; 500], 0), 1, "no whole sectors");
    assert_eq!(status(Kind::Read, 0, &[], 0), 1, "no data");
    assert_eq!(status(Kind::Discard, 0, &[0; 17], 0), 1, "no ranges");
    assert_eq!(status(Kind::Discard, 0, &range(0, 8, 1), 0), 2, "a flag");
    assert_eq!(status(Kind::Discard, 0, &range(u64::MAX, 8, 0), 0), 1);
    assert_eq!(status(Kind::WriteZeroes, 0, &range(end, 8, 0), 0), 1);
    assert_eq!(status(Kind::Identify, 0, &[], 19), 2, "too little room");
    assert_eq!(status(Kind::Write, 0, &[1; 512], 0), 0, "and it goes on");
    server.end_ok();
}

#[test]
fn a_read_only_volume_refuses_changes() {
    let bench = Bench::created(&["--size", "64MiB", "--log-size", "8MiB"]);
    let server = bench.serve(&[
        "s.tn",
        "--socket",
        "s.sock",
        "--read-only",
        "--vhost-user",
        "vm.sock:main",
    ]);
    let mut guest = guest(&bench);
    let (status, _) = guest
        .request(Kind::Write, 0, &[1; 512], 0)
        .expect("an answer");
    assert_eq!(status, 1);
    assert_eq!(ok(&mut guest, Kind::Read, 0, &[], 512), [0; 512]);
    server.end_ok();
}

/// A write that was sent, in the place of its number.
struct Sent {
    sector: u64,
    data: Vec<u8>,
}

/// The guest keeps a full queue while its server is killed, and sees nothing of it: each request ends once and well, and what was
/// flushed is there.
#[test]
fn a_guest_does_not_notice_the_death_of_its_server() {
    const ROUNDS: u64 = 20;
    const BYTES: usize = 8192;
    let (bench, mut server) = served();
    let mut guest = guest(&bench);
    // What each place has, and what it may have besides while its write is under way.
    let mut content = vec![vec![0; BYTES]; 512];
    let mut under_way: Vec<Option<Sent>> = (0..DEPTH).map(|_| None).collect();
    let mut written = 0;
    for round in 0..ROUNDS {
        // The numbers vary, so that the kill meets other moments.
        for step in 0..200 + 37 * round {
            while under_way.iter().filter(|sent| sent.is_some()).count() < 32 {
                written += 1;
                let place = written * 7 % content.len() as u64;
                let sector = place * BYTES as u64 / SECTOR;
                if under_way.iter().flatten().any(|sent| sent.sector == sector) {
                    break;
                }
                let data = noise(written, BYTES);
                let number = guest.submit(Kind::Write, sector, &data, 0);
                under_way[usize::from(number)] = Some(Sent { sector, data });
            }
            guest.kick();
            if step % 16 == 0 {
                continue;
            }
            take_ended(&mut guest, &mut under_way, &mut content);
        }
        server.kill9();
        server = serve(&bench);
        guest.reconnect(&socket(&bench)).expect("connected again");
    }
    while under_way.iter().any(Option::is_some) {
        take_ended(&mut guest, &mut under_way, &mut content);
    }
    for (place, expected) in (0u64..).zip(&content) {
        let sector = place * BYTES as u64 / SECTOR;
        let found = ok(&mut guest, Kind::Read, sector, &[], BYTES);
        assert!(found == *expected, "place {place}");
    }
    ok(&mut guest, Kind::Flush, 0, &[], 0);
    server.kill9();
    let server = serve(&bench);
    let mut nbd = server.client("main");
    for (place, expected) in (0u64..).zip(&content) {
        let found = nbd.read(place * BYTES as u64, BYTES as u32).expect("read");
        assert!(found == *expected, "place {place} after a flush");
    }
    drop(nbd);
    server.end_ok();
}

/// Takes the requests that have ended.
fn take_ended(guest: &mut Guest, under_way: &mut [Option<Sent>], content: &mut [Vec<u8>]) {
    for (number, status) in guest.wait().expect("an answer") {
        assert_eq!(status, 0);
        let sent = under_way[usize::from(number)].take().expect("it was sent");
        let place = sent.sector * SECTOR / sent.data.len() as u64;
        content[place as usize] = sent.data;
    }
}

/// A guest that does not flush has every write durable when it ends.
#[test]
fn without_flushes_each_write_is_durable() {
    let (bench, mut server) = served();
    let mut guest = Guest::connect(&socket(&bench), FLUSH).expect("connected");
    for round in 0..5 {
        let data = noise(round, 4096);
        ok(&mut guest, Kind::Write, 8 * round, &data, 0);
        let store = &bench.json(&["stats", "s.tn", "--json"])["store"];
        assert_eq!(store["durable_lsn"], store["appended_lsn"], "{store}");
        server.kill9();
        server = serve(&bench);
        guest.reconnect(&socket(&bench)).expect("connected again");
        assert_eq!(ok(&mut guest, Kind::Read, 8 * round, &[], 4096), data);
    }
    server.end_ok();
}

/// Each broken rule ends the connection of that guest, and the server says why. Everybody else goes on, and so does the next
/// guest on the same socket.
#[test]
fn hostile_ring_ends_only_its_connection() {
    let (bench, server) = served();
    let mut nbd = server.client("main");
    let header = 0x10000;
    type Attack = fn(&mut Guest, u64);
    let attacks: [(&str, Attack); 9] = [
        ("loops", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, NEXT, 1));
            guest.put_own_descriptor(1, (at, 16, NEXT, 0));
            guest.make_available(0);
        }),
        ("number 256", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, NEXT, SIZE));
            guest.make_available(0);
        }),
        ("number 300", |guest, _| guest.make_available(300)),
        ("table of 16 bytes", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, INDIRECT, 0));
            guest.put_descriptor(at, 0, (at, 16, INDIRECT, 0));
            guest.make_available(0);
        }),
        ("no memory of the guest", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, NEXT, 1));
            guest.put_own_descriptor(1, (u64::MAX - 600, 512, NEXT | WRITE, 2));
            guest.put_own_descriptor(2, (at + 16, 1, WRITE, 0));
            guest.put_descriptor(at, 0, (0, 0, 0, 0));
            guest.make_available(0);
        }),
        ("part to read after", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, NEXT | WRITE, 1));
            guest.put_own_descriptor(1, (at, 16, 0, 0));
            guest.make_available(0);
        }),
        ("bytes to read and", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, 0, 0));
            guest.make_available(0);
        }),
        ("further ahead", |guest, _| {
            guest.set_available_index(SIZE + 1)
        }),
        // More requests than the ring has descriptors, faster than they are taken or than they end.
        ("the ring", |guest, at| {
            guest.put_own_descriptor(0, (at, 16, NEXT, 1));
            guest.put_own_descriptor(1, (at + 16, 1, WRITE, 0));
            guest.put_descriptor(at, 0, (4, 0, 0, 0));
            for _ in 0..50 * SIZE {
                guest.make_available(0);
                guest.kick();
            }
        }),
    ];
    for (number, (why, attack)) in attacks.into_iter().enumerate() {
        let mut hostile = guest(&bench);
        attack(&mut hostile, header);
        hostile.kick_anyway();
        assert!(hostile.is_cut(), "{why}");
        server.wait_for_note(why);
        let data = noise(number as u64, 4096);
        nbd.write(0, &data, 0).expect("written");
        let mut next = guest(&bench);
        assert_eq!(ok(&mut next, Kind::Read, 0, &[], 4096), data, "{why}");
    }
    drop(nbd);
    server.end_ok();
}

/// The end of a server in order waits for the requests under way.
#[test]
fn the_end_in_order_answers_what_is_under_way() {
    let (bench, server) = served();
    let mut guest = guest(&bench);
    for place in 0..32 {
        guest.submit(Kind::Write, 16 * place, &noise(place, 8192), 0);
    }
    guest.kick();
    server.end_ok();
    bench.ok(&["check", "s.tn"]);
    let server = serve(&bench);
    guest.reconnect(&socket(&bench)).expect("connected again");
    let mut ended = 0;
    while ended < 32 {
        for (_, status) in guest.wait().expect("an answer") {
            assert_eq!(status, 0);
            ended += 1;
        }
    }
    for place in 0..32 {
        let found = ok(&mut guest, Kind::Read, 16 * place, &[], 8192);
        assert!(found == noise(place, 8192));
    }
    server.end_ok();
}

#[test]
fn unusable_vhost_socket_is_an_error() {
    let bench = Bench::created(&["--size", "64MiB", "--log-size", "8MiB"]);
    let refused = |argument: &str, text: &str| {
        let words = [
            "serve",
            "s.tn",
            "--socket",
            "s.sock",
            "--vhost-user",
            argument,
        ];
        let ran = bench.run(&words);
        assert_ne!(ran.code, Some(0), "{argument}");
        assert!(ran.err.contains(text), "{argument}: {}", ran.err);
    };
    refused("vm.sock:none", "none");
    refused("", "PATH:VOLUME");
    bench.write("file", b"content");
    refused("file", "is not a socket");
    assert_eq!(bench.read("file"), b"content");
    refused(&"x".repeat(120), "path must be shorter");
}

/// A guest counts as a client from its connection on, also before its driver has begun.
#[test]
fn volume_of_a_guest_cannot_be_shrunk_or_replaced() {
    let (bench, server) = served();
    bench.write("image", &noise(1, 4096));
    let refused_below_a_guest = || {
        for command in [
            &[
                "volume", "resize", "s.tn", "main", "--size", "32MiB", "--shrink",
            ][..],
            &["volume", "delete", "s.tn", "main"],
            &["volume", "put", "s.tn", "main", "image"],
        ] {
            let refused = bench.fails(command);
            assert!(
                refused.contains("a virtual machine (vhost-user)"),
                "{refused}"
            );
        }
    };
    let monitor = std::os::unix::net::UnixStream::connect(socket(&bench)).expect("connected");
    wait_until("the monitor", Duration::from_secs(5), || {
        bench.json(&["volume", "list", "s.tn", "--json"])["volumes"][0]["clients"] == 1
    });
    refused_below_a_guest();
    drop(monitor);
    let guest = guest(&bench);
    refused_below_a_guest();
    drop(guest);
    wait_until("the end of the guest", Duration::from_secs(5), || {
        bench.run(&["volume", "put", "s.tn", "main", "image"]).code == Some(0)
    });
    bench.ok(&["volume", "resize", "s.tn", "main", "--size", "32MiB"]);
    bench.ok(&["volume", "delete", "s.tn", "main"]);
    server.end_ok();
}
