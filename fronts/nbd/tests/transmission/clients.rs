//! Listener, handshake, queue and service together, as real clients use them: libnbd's tools, of
//! the Debian packages `libnbd-bin` and `python3-libnbd`, and qemu's, of `qemu-utils`.

use crate::common::pattern;
use std::fs;
use std::process::Command;
use std::sync::mpsc::{channel, sync_channel};
use std::thread;
use tempfile::TempDir;
use tonearm_base::{BufPool, Nanos};
use tonearm_nbd::transmission::testing::MemoryTarget;
use tonearm_nbd::transmission::{Connections, TransmissionOptions};
use tonearm_nbd::{Accepted, Catalog, Export, Exports, ListenConfig, Listener, Server};
use tonearm_rt::{Data, Op, Rt};
use tonearm_uring::UringDriver;

const SIZE: usize = 64 << 20;

/// Serves `main` while `test` runs with the URI and a folder; then ends in order.
fn serve(test: impl FnOnce(&str, &TempDir)) {
    let folder = tempfile::tempdir().expect("folder");
    let (sender, queue) = sync_channel::<Accepted>(16);
    let (events, raised) = channel();
    let engine = thread::spawn(move || {
        let driver = UringDriver::new().expect("a ring");
        let handle = driver.handle();
        let (arrival, arrived) = handle.add_event().expect("event");
        let (end, ended) = handle.add_event().expect("event");
        events.send((arrived, ended)).expect("sent");
        let rt = Rt::new(Box::new(driver));
        let pool = BufPool::new(64 << 20);
        let connections = Connections::new(&rt, &pool, TransmissionOptions::default());
        let target = MemoryTarget::new(&rt, &pool, SIZE, 64 << 20);
        let (executor, served) = (rt.clone(), connections.clone());
        let mut raised = pool.alloc(8);
        rt.spawn(async move {
            loop {
                while let Ok(accepted) = queue.try_recv() {
                    let Accepted { socket, client } = accepted;
                    served.add(handle.add_stream(socket), client, target.clone());
                }
                let event = executor.stream(arrival, Op::Recv, Data::whole(raised));
                let (result, data) = event.await;
                result.expect("raised");
                raised = data.into_buf();
            }
        });
        let (executor, ending) = (rt.clone(), connections.clone());
        rt.block_on(async move {
            let space = Data::whole(pool.alloc(8));
            let io = executor.stream(end, Op::Recv, space);
            io.done().await.expect("raised");
            ending.shutdown(Nanos::from_secs(5)).await;
        });
        assert_eq!(connections.metrics().connections_violated.get(), 0);
        assert_eq!(connections.metrics().connections_stalled.get(), 0);
        rt.shut_down();
    });
    let (arrived, ended) = raised.recv().expect("events");
    let export = Export {
        name: "main".to_owned(),
        description: String::new(),
        size_bytes: SIZE as u64,
        read_only: false,
        block_size_preferred: 4096,
        block_size_max: 32 << 20,
    };
    let catalog = Catalog::new(Exports::new(vec![export], Some("main".to_owned())));
    let path = folder.path().join("socket");
    let listener = Listener::unix(&path).expect("listener");
    let mut server = Server::start(
        ListenConfig::new(catalog),
        vec![listener],
        move |accepted| {
            sender.send(accepted).expect("the engine lives");
            arrived.notify();
        },
        |_, _| {},
    )
    .expect("server");
    test(
        &format!("nbd+unix:///main?socket={}", path.display()),
        &folder,
    );
    server.stop();
    ended.notify();
    engine.join().expect("the engine ends in order");
}

fn run(program: &str, arguments: &[&str]) -> String {
    // The system's own Python has libnbd's module. Another Python that comes first in the path has not.
    let output = Command::new(program)
        .args(arguments)
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap_or_else(|error| panic!("cannot run {program}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn nbdcopy_copies_in_and_out_and_keeps_holes() {
    serve(|uri, folder| {
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let mut image = pattern(1, SIZE);
        image[1 << 20..20 << 20].fill(0);
        fs::write(&from, &image).expect("written");
        let file = |path: &std::path::Path| path.display().to_string();
        run("nbdcopy", &["--flush", &file(&from), uri]);
        let map = run("nbdinfo", &["--map", "--totals", uri]);
        assert!(map.contains("hole,zero"), "{map}");
        run(
            "nbdcopy",
            &["--connections=4", "--requests=64", uri, &file(&to)],
        );
        assert!(fs::read(&to).expect("read") == image);
    });
}

#[test]
fn qemu_io_verifies_its_patterns() {
    serve(|uri, _| {
        let commands = [
            "write -P 0xab 0 1M",
            "aio_write -P 0xcd 1049088 70000",
            "aio_flush",
            "write -z -u 4096 8192",
            "write -f -P 0x11 3 5",
            "discard 512k 64k",
            "flush",
            "read -P 0x11 3 5",
            "read -P 0xab 8 4088",
            "read -P 0 4096 8192",
            "read -P 0xcd 1049088 70000",
            "read -P 0 512k 64k",
        ];
        let mut arguments = vec!["-f", "raw"];
        for command in &commands {
            arguments.extend(["-c", command]);
        }
        arguments.push(uri);
        let text = run("qemu-io", &arguments);
        assert!(!text.contains("failed"), "{text}");
    });
}

#[test]
fn nbdsh_meets_the_corners_of_the_protocol() {
    let script = r#"
h.set_strict_mode(0)
h.pwrite(b"x" * 100, 1)
assert h.pread(102, 0) == b"\0" + b"x" * 100 + b"\0"
h.pwrite(b"y" * 512, 0, nbd.CMD_FLAG_FUA)
h.zero(4096, 0, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FAST_ZERO)
h.cache(1 << 20, 0)
def refused(code, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == code, error
    else:
        assert False, "it was not refused"
import errno
refused(errno.EINVAL, lambda: h.pread(512, h.get_size()))
refused(errno.ENOSPC, lambda: h.pwrite(b"z" * 512, h.get_size()))
refused(errno.EINVAL, lambda: h.trim(0, 0))
chunks = []
h.pread_structured(1 << 20, 0, lambda data, at, kind, error: chunks.append((at, kind)), nbd.CMD_FLAG_DF)
assert chunks == [(0, nbd.READ_DATA)], chunks
extents = []
h.block_status(1 << 20, 0, lambda name, at, found, error: extents.extend(found), nbd.CMD_FLAG_REQ_ONE)
assert len(extents) == 2, extents
h.flush()
h.shutdown()
"#;
    serve(|uri, _| {
        let connect = format!("h.add_meta_context('base:allocation'); h.connect_uri('{uri}')");
        run("nbdsh", &["-c", &connect, "-c", script]);
    });
}
