//! A server that is killed and started again does not cost its clients their disk.
//!
//! What a client must do for it is in the manual: reconnect, and for writes that it believes in before
//! it has flushed them (every copying tool), a server with `--ack write`.

use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tonearm_tests::nbd::Client;
use tonearm_tests::{Bench, MIB, Server, contains, noise, tool, wait_until};

/// Reconnects for ten seconds.
const QEMU: &str = "driver=nbd,server.type=unix,server.path=s.sock,export=main,reconnect-delay=10";

/// A program that goes on beside the test.
struct Beside(Child);

impl Beside {
    fn start(mut command: Command) -> Self {
        let command = command.stdout(Stdio::null()).stderr(Stdio::piped());
        Self(command.spawn().expect("timeout runs"))
    }

    fn runs(&mut self) -> bool {
        self.0.try_wait().expect("a child").is_none()
    }

    /// Its end, which must be a good one.
    fn ended_well(mut self) {
        let mut text = String::new();
        let mut err = self.0.stderr.take().expect("piped");
        std::io::Read::read_to_string(&mut err, &mut text).expect("text");
        let status = self.0.wait().expect("an end");
        assert!(status.success(), "{status}: {text}");
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // timeout hands it on to what it runs.
        if self.runs() {
            let wrapper = rustix::process::Pid::from_child(&self.0);
            let _ = rustix::process::kill_process(wrapper, rustix::process::Signal::TERM);
            let _ = self.0.wait();
        }
    }
}

fn serve(bench: &Bench) -> Server {
    bench.serve(&["s.tn", "--socket", "s.sock", "--ack", "write"])
}

/// Bytes that clients have written or read so far.
fn moved(bench: &Bench, command: &str) -> u64 {
    let stats = bench.json(&["stats", "s.tn", "--json"]);
    let commands = stats["nbd"]["commands"].as_array().expect("a list").clone();
    let found = commands.iter().find(|entry| entry["command"] == command);
    found
        .and_then(|entry| entry["bytes"].as_u64())
        .expect("a number")
}

/// Kills the server three times while `client` is at work, each time after some progress.
fn kills(bench: &Bench, client: &mut Beside, command: &str) -> Server {
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

/// nbdkit between a client and the server: retries, and no faster than what leaves time for kills.
fn nbdkit(bench: &Bench) -> Beside {
    let mut command = tool(bench.folder(), "nbdkit");
    command.args(["--foreground", "--exit-with-parent", "-U", "kit.sock"]);
    command.args(["--filter=rate", "--filter=retry", "nbd"]);
    command.args(["socket=s.sock", "export=main", "rate=240M"]);
    command.args(["retries=20", "retry-delay=1", "retry-exponential=no"]);
    let beside = Beside::start(command);
    // The socket is there before somebody listens on it.
    wait_until("nbdkit", Duration::from_secs(10), || {
        UnixStream::connect(bench.path("kit.sock")).is_ok()
    });
    beside
}

#[test]
fn nbdkits_retry_filter_carries_a_copy_in_over_kills() {
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
    let mut copy = Beside::start(copy);
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
    // With the default acknowledgement: what was flushed is safe, the rest is the client's to repeat.
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
        QEMU,
    ]);
    let mut convert = Beside::start(convert);
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
