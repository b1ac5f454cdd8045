//! Clients keep their disk when the server is killed and started again.
//!
//! docs/operations/serve.md says what this needs: the client must reconnect. A client that takes unflushed writes for
//! durable, as every copying tool does, also needs a server with `--ack write`.

use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;
use tonearm_tests::nbd::Client;
use tonearm_tests::{Background, Bench, MIB, Server, contains, noise, tool, wait_until};

const MANUAL: &str = concat!(
    include_str!("../../../../docs/operations/serve.md"),
    include_str!("../../../../docs/virtual-machines.md")
);

/// The line of the manual that begins with `start`, with the store and sockets of these tests.
fn recipe(start: &str) -> String {
    let mut lines = MANUAL.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with(start));
    let line = line.unwrap_or_else(|| panic!("the manual has no line {start:?}"));
    let line = line.replace("/srv/tonearm/disk.tn.sock", "s.sock");
    line.replace("/srv/tonearm/kit.sock", "kit.sock")
}

/// The options for the image in the manual's `-drive` line, without those for the virtual machine.
fn qemu() -> String {
    let drive = recipe("-drive driver=nbd");
    let machine = ["werror=", "rerror=", "if="];
    let options = drive["-drive ".len()..].split(',');
    let image = options.filter(|option| !machine.iter().any(|of| option.starts_with(of)));
    image.collect::<Vec<_>>().join(",")
}

/// Starts a client whose standard error is kept.
fn background(mut command: Command) -> Background {
    Background::start(command.stdout(Stdio::null()).stderr(Stdio::piped()))
}

fn serve(bench: &Bench) -> Server {
    bench.serve(&["s.tn", "--socket", "s.sock", "--ack", "write"])
}

/// Number of bytes of `command` requests so far.
fn moved(bench: &Bench, command: &str) -> u64 {
    let stats = bench.json(&["stats", "s.tn", "--json"]);
    let commands = stats["nbd"]["commands"].as_array().expect("a list").clone();
    let found = commands.iter().find(|entry| entry["command"] == command);
    found
        .and_then(|entry| entry["bytes"].as_u64())
        .expect("a number")
}

/// Kills the server three times while `client` works, each time after some progress.
fn kills(bench: &Bench, client: &mut Background, command: &str) -> Server {
    let mut server = serve(bench);
    for kill in 0..3 {
        wait_until("progress", Duration::from_secs(20), || {
            moved(bench, command) > 4 * MIB
        });
        assert!(client.runs(), "done before kill {kill}");
        server.kill9();
        std::thread::sleep(Duration::from_millis(200));
        server = serve(bench);
    }
    server
}

/// nbdkit between a client and the server. It is started as in the manual, but in the foreground and with a rate limit
/// that leaves time for kills.
fn nbdkit(bench: &Bench) -> Background {
    let line = recipe("nbdkit -U");
    let words = line.split(' ').skip(1);
    let mut command = tool(bench.folder(), "nbdkit");
    command.args(["--foreground", "--exit-with-parent", "--filter=rate"]);
    command.args(words).arg("rate=240M");
    let kit = background(command);
    // The socket file exists before nbdkit listens on it.
    wait_until("nbdkit", Duration::from_secs(10), || {
        UnixStream::connect(bench.path("kit.sock")).is_ok()
    });
    kit
}

#[test]
fn nbdkit_retry_filter_completes_a_copy_across_kills() {
    let bench = Bench::with_store("128MiB");
    let bytes = noise(11, 96 << 20);
    bench.write("in.raw", &bytes);
    let server = serve(&bench);
    let _kit = nbdkit(&bench);
    let mut copy = tool(bench.folder(), "nbdcopy");
    copy.args([
        "--flush",
        "--connections=1",
        "in.raw",
        "nbd+unix:///?socket=kit.sock",
    ]);
    let mut copy = background(copy);
    wait_until("progress", Duration::from_secs(20), || {
        moved(&bench, "write") > 4 * MIB
    });
    server.kill9();
    let server = kills(&bench, &mut copy, "write");
    copy.ended_well();
    server.kill9();
    let server = bench.serve_store();
    bench.tool("nbdcopy", &[&server.uri, "out.raw"]);
    assert!(bench.read("out.raw")[..bytes.len()] == bytes[..]);
}

#[test]
fn a_writer_behind_the_retry_filter_loses_nothing_flushed() {
    let bench = Bench::with_store("64MiB");
    // With the default `--ack` flushed writes survive. The client must repeat the others.
    let mut server = Some(bench.serve_store());
    let _kit = nbdkit(&bench);
    let mut client = Client::connect(&bench.path("kit.sock"), "").expect("connected");
    for step in 0..60u64 {
        if step % 20 == 10 {
            server.take().expect("serving").kill9();
            server = Some(bench.serve_store());
        }
        client
            .write(step * 65536, &noise(step, 65536), 0)
            .expect("written");
        client.flush().expect("flushed");
    }
    drop(server);
    let server = bench.serve_store();
    let mut direct = server.client("main");
    for step in 0..60u64 {
        assert!(
            direct.read(step * 65536, 65536).expect("read") == noise(step, 65536),
            "{step}"
        );
    }
}

#[test]
fn qemu_reconnects_in_the_middle_of_a_conversion() {
    let bench = Bench::with_store("128MiB");
    let bytes = noise(12, 96 << 20);
    bench.write("in.raw", &bytes);
    let server = serve(&bench);
    let mut convert = tool(bench.folder(), "qemu-img");
    convert.args([
        "convert",
        "-n",
        "-r",
        "64M",
        "-f",
        "raw",
        "in.raw",
        "--target-image-opts",
        &qemu(),
    ]);
    let mut convert = background(convert);
    wait_until("progress", Duration::from_secs(20), || {
        moved(&bench, "write") > 4 * MIB
    });
    server.kill9();
    let server = kills(&bench, &mut convert, "write");
    convert.ended_well();
    server.kill9();
    let _server = bench.serve_store();
    let compared = bench.tool(
        "qemu-img",
        &["compare", "in.raw", "nbd+unix:///?socket=s.sock"],
    );
    contains(&compared, "Images are identical");
}

#[test]
fn qemu_trims_only_with_discard_unmap() {
    let bench = Bench::with_store("64MiB");
    let server = serve(&bench);
    let io = |options: &str, command: &str| {
        let ran = bench.tool("qemu-io", &["--image-opts", options, "-c", command]);
        assert!(!ran.contains("error"), "{ran}");
    };
    let taken = || bench.allocated("s.tn");
    let before = taken();
    io(&qemu(), "write -P 7 0 32M");
    wait_until("write-back", Duration::from_secs(60), || {
        taken() > before + 30 * MIB
    });
    // Without the option a virtual machine's discards are ignored.
    io(
        &qemu().replace("discard=unmap", "discard=ignore"),
        "discard 0 32M",
    );
    assert_eq!(moved(&bench, "trim"), 0);
    // The counter changes some seconds later, with the write-back.
    io(&qemu(), "discard 0 32M");
    assert_eq!(moved(&bench, "trim"), 32 * MIB);
    wait_until("space", Duration::from_secs(60), || {
        taken() < before + 4 * MIB
    });
    server.end_ok();
}

#[test]
fn the_server_prints_a_note_where_answered_writes_may_be_lost() {
    let bench = Bench::with_store("16MiB");
    let said = |arguments: &[&str], connects: bool| {
        let server = bench.serve(arguments);
        if connects {
            server.client("").read(0, 4096).expect("content");
        }
        server.end().err
    };
    let note = "for such clients serve with --ack write";
    contains(&said(&["s.tn"], true), note);
    assert!(!said(&["s.tn"], false).contains(note));
    assert!(!said(&["s.tn", "--ack", "write"], true).contains(note));
    assert!(!said(&["s.tn", "--read-only"], true).contains(note));
}
