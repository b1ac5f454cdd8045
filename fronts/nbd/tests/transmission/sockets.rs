//! A real ring and real sockets, with a client in a thread of its own.

use crate::common::pattern;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;
use tonearm_base::{BufPool, Nanos};
use tonearm_nbd::listen::Client;
use tonearm_nbd::proto::*;
use tonearm_nbd::transmission::testing::{Answer, MemoryTarget, ReplyReader, client_of};
use tonearm_nbd::transmission::{Connections, TransmissionOptions};
use tonearm_rt::Rt;
use tonearm_uring::UringDriver;

const SIZE: usize = 64 << 20;

/// Serves as many socket pairs as there are `clients`, each in its thread, until all have ended.
fn serve(client: Client, stall_timeout: Nanos, clients: Vec<Box<dyn FnOnce(UnixStream) + Send>>) {
    let driver = UringDriver::new().expect("a ring");
    let handle = driver.handle();
    let rt = Rt::new(Box::new(driver));
    let pool = BufPool::new(64 << 20);
    let options = TransmissionOptions {
        stall_timeout,
        ..Default::default()
    };
    let target = MemoryTarget::new(&rt, &pool, SIZE, 64 << 20);
    let connections = Connections::new(&rt, &pool, options);
    let mut threads = Vec::new();
    for run in clients {
        let (ours, theirs) = UnixStream::pair().expect("a pair");
        theirs
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("set");
        let client = Client {
            negotiated: client.negotiated,
            ..client_of(true)
        };
        connections.add(handle.add_stream(ours.into()), client, target.clone());
        threads.push(thread::spawn(move || run(theirs)));
    }
    let (waited, executor) = (connections.clone(), rt.clone());
    rt.block_on(async move {
        let until = executor.now() + Nanos::from_secs(30).0;
        while !waited.is_empty() && executor.now() < until {
            executor.sleep(Nanos::from_millis(2)).await;
        }
        waited.shutdown(Nanos::from_secs(1)).await;
    });
    for thread in threads {
        thread.join().expect("the client is content");
    }
    assert_eq!(target.memory().used(), 0);
}

fn request(command: u16, cookie: u64, offset: u64, length: u32) -> Request {
    Request {
        flags: 0,
        command,
        cookie,
        offset,
        length,
    }
}

fn collect(stream: &mut UnixStream, reader: &mut ReplyReader) -> Vec<Answer> {
    let (mut answers, mut space) = (Vec::new(), vec![0; 1 << 20]);
    while reader.waiting() > 0 {
        let count = stream.read(&mut space).expect("read");
        assert!(count > 0, "the server goes on");
        answers.extend(reader.push(&space[..count]).expect("by the protocol"));
    }
    answers.sort_by_key(|answer| answer.cookie);
    answers
}

/// Writes, reads back and leaves; each client in a range of its own.
fn exercise(mut stream: UnixStream, structured: bool, base: u64, lens: &[usize]) {
    let mut reader = ReplyReader::new(structured);
    let (mut cookie, mut at) = (0, base);
    let mut ranges = Vec::new();
    let mut bytes = Vec::new();
    for len in lens {
        cookie += 1;
        let write = request(CMD_WRITE, cookie, at, *len as u32);
        reader.ask(write);
        bytes.extend_from_slice(&write.encode());
        bytes.extend(pattern(at, *len));
        ranges.push((at, *len));
        at += *len as u64;
    }
    let mut writer = stream.try_clone().expect("cloned");
    let sender = thread::spawn(move || writer.write_all(&bytes).expect("sent"));
    for answer in collect(&mut stream, &mut reader) {
        assert_eq!(answer.error, None);
    }
    sender.join().expect("sent");
    for (at, len) in &ranges {
        cookie += 1;
        let read = request(CMD_READ, cookie, *at, *len as u32);
        reader.ask(read);
        stream.write_all(&read.encode()).expect("sent");
    }
    for (answer, (at, len)) in collect(&mut stream, &mut reader).iter().zip(&ranges) {
        assert!(answer.data == pattern(*at, *len), "{at} {len}");
    }
    let last = request(CMD_DISC, 0, 0, 0);
    stream.write_all(&last.encode()).expect("sent");
    assert_eq!(stream.read(&mut [0]).expect("read"), 0, "closed in order");
}

#[test]
fn clients_on_sockets_read_what_they_wrote() {
    for structured in [false, true] {
        let clients = (0..4u64)
            .map(|n| {
                let run: Box<dyn FnOnce(UnixStream) + Send> = Box::new(move |stream| {
                    let mut lens = vec![4096; 200];
                    lens.extend([1, 511, 65_536, 1 << 20, 3_000_001, 4096, 8 << 20]);
                    exercise(stream, structured, n * (16 << 20), &lens);
                });
                run
            })
            .collect();
        serve(client_of(structured), Nanos::from_secs(20), clients);
    }
}

#[test]
fn stalling_and_vanishing_clients_do_not_hold_the_server() {
    let stall = |mut stream: UnixStream| {
        stream
            .write_all(&request(CMD_WRITE, 1, 0, 1 << 20).encode())
            .expect("sent");
        assert_eq!(stream.read(&mut [0]).expect("cut"), 0);
    };
    let deaf = |mut stream: UnixStream| {
        let bytes = request(CMD_READ, 1, 0, 1 << 20).encode().repeat(100);
        // The server cuts while we send or soon after.
        let _ = stream.write_all(&bytes);
        thread::sleep(Duration::from_millis(900));
    };
    let vanish = |mut stream: UnixStream| {
        stream
            .write_all(&request(CMD_WRITE, 1, 0, 100_000).encode())
            .expect("sent");
        stream.write_all(&[1; 70_000]).expect("sent");
    };
    serve(
        client_of(false),
        Nanos::from_millis(400),
        vec![
            Box::new(stall),
            Box::new(deaf),
            Box::new(vanish),
            Box::new(|stream| exercise(stream, false, 0, &[512; 100])),
        ],
    );
}
