//! Ways to reach the server and to observe it: `--run`, TLS, socket activation, metrics.

use std::time::Duration;
use tonearm_tests::{Bench, MIB, contains, noise, tool, wait_until};

#[test]
fn run_serves_while_a_command_runs_and_returns_its_exit_code() {
    let bench = Bench::with_store("64MiB");
    bench.write("in.raw", &noise(1, 1 << 20));
    let serve = |command: &str| bench.run(&["serve", "s.tn", "--run", command]);
    let copy = serve(
        "nbdcopy --flush in.raw \"$uri\" && test -S \"$unixsocket\" && nbdinfo --size \"$uri\"",
    );
    assert_eq!(copy.code, Some(0), "{copy:?}");
    contains(&copy.out, &(64 * MIB).to_string());
    assert_eq!(serve("exit 7").code, Some(7));
    assert_eq!(bench.json(&["info", "s.tn", "--json"])["state"], "clean");
    let server = bench.serve_store();
    assert!(server.client("").read(0, 1 << 20).expect("read") == noise(1, 1 << 20));
}

/// Creates a certificate authority `ca.pem`, certificates of a server and of a client signed by it, and a certificate
/// of a stranger.
fn certificates(bench: &Bench) {
    let run = |arguments: &[&str]| {
        bench.tool("openssl", arguments);
    };
    let authority = |name: &str| {
        let (key, cert, subject) = (
            format!("{name}.key"),
            format!("{name}.pem"),
            format!("/CN={name}"),
        );
        let make = [
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ];
        run(&[
            &make[..],
            &["-keyout", &key, "-out", &cert, "-subj", &subject],
        ]
        .concat());
    };
    authority("ca");
    authority("stranger-ca");
    bench.write("server.ext", b"subjectAltName=DNS:localhost,IP:127.0.0.1\n");
    bench.write("client.ext", b"extendedKeyUsage=clientAuth\n");
    for (name, ca, extensions) in [
        ("server", "ca", "server.ext"),
        ("client", "ca", "client.ext"),
        ("stranger", "stranger-ca", "client.ext"),
    ] {
        let (key, csr, cert) = (
            format!("{name}.key"),
            format!("{name}.csr"),
            format!("{name}.pem"),
        );
        let subject = format!("/CN={name}");
        let ask = [
            "req",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
        ];
        run(&[
            &ask[..],
            &["-keyout", &key, "-out", &csr, "-subj", &subject],
        ]
        .concat());
        let (ca_key, ca_cert) = (format!("{ca}.key"), format!("{ca}.pem"));
        let sign = [
            "x509",
            "-req",
            "-days",
            "2",
            "-CAcreateserial",
            "-in",
            &csr,
            "-out",
            &cert,
        ];
        run(&[
            &sign[..],
            &["-CA", &ca_cert, "-CAkey", &ca_key, "-extfile", extensions],
        ]
        .concat());
    }
    // These are the file names that libnbd and qemu expect.
    for (folder, who) in [("pki", "client"), ("pki-stranger", "stranger")] {
        std::fs::create_dir(bench.path(folder)).expect("a folder");
        for (from, to) in [
            ("ca.pem".to_string(), "ca-cert.pem"),
            (format!("{who}.pem"), "client-cert.pem"),
            (format!("{who}.key"), "client-key.pem"),
        ] {
            std::fs::copy(bench.path(&from), bench.path(folder).join(to)).expect("copied");
        }
    }
    std::fs::create_dir(bench.path("pki-nobody")).expect("a folder");
    std::fs::copy(bench.path("ca.pem"), bench.path("pki-nobody/ca-cert.pem")).expect("copied");
}

#[test]
fn tls_accepts_only_clients_with_a_certificate() {
    let bench = Bench::with_store("64MiB");
    certificates(&bench);
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    let port = port.expect("a free port").port();
    let listen = format!("127.0.0.1:{port}");
    let tls = [
        "--tls-cert",
        "server.pem",
        "--tls-key",
        "server.key",
        "--tls-ca",
        "ca.pem",
    ];
    let server = bench.serve(&[&["s.tn", "--listen", &listen], &tls[..]].concat());
    let uri = |folder: &str| {
        let folder = bench.path(folder);
        format!(
            "nbds://localhost:{port}/main?tls-certificates={}",
            folder.display()
        )
    };
    let info = bench.tool("nbdinfo", &["--json", &uri("pki")]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["TLS"], true);
    bench.write("in.raw", &noise(4, 3 << 20));
    bench.tool("nbdcopy", &["in.raw", &uri("pki")]);
    for folder in ["pki-stranger", "pki-nobody"] {
        let ran = bench.tool_run("nbdinfo", &[&uri(folder)]);
        assert_eq!(ran.code, Some(1), "{folder}: {ran:?}");
    }
    let plain = bench.tool_run("nbdinfo", &[&format!("nbd://localhost:{port}/main")]);
    assert_eq!(plain.code, Some(1), "without TLS: {plain:?}");
    // qemu connects with TLS too.
    let credentials = format!(
        "tls-creds-x509,id=t,endpoint=client,dir={}",
        bench.path("pki").display()
    );
    let image = format!("driver=nbd,host=localhost,port={port},export=main,tls-creds=t");
    let read = bench.tool(
        "qemu-img",
        &["info", "--object", &credentials, "--image-opts", &image],
    );
    contains(&read, "64 MiB");
    server.end_ok();
    // Invalid combinations of options are refused before anything is served.
    let error = bench.fails(&[
        "serve",
        "s.tn",
        "--listen",
        &listen,
        "--tls-cert",
        "ca.pem",
        "--tls-key",
        "no.key",
    ]);
    contains(&error, "no.key");
}

#[test]
fn a_socket_handed_over_by_systemd_is_served() {
    let bench = Bench::with_store("64MiB");
    // systemd listens on the socket, and starts the server when the first client connects.
    let mut activate = tool(bench.folder(), "systemd-socket-activate");
    let socket = bench.path("activated.sock");
    activate
        .arg("--listen")
        .arg(&socket)
        .arg(tonearm_tests::binary())
        .args(["serve", "s.tn"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null());
    let mut child = activate.spawn().expect("timeout runs");
    wait_until("a socket", Duration::from_secs(10), || socket.exists());
    let info = bench.tool_run("nbdinfo", &["--size", "nbd+unix:///?socket=activated.sock"]);
    let pid = bench.json(&["info", "s.tn", "--json"])["pid"].as_u64();
    // timeout(1) forwards signals to the program that the activator has executed.
    let wrapper = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(wrapper, rustix::process::Signal::TERM).expect("sent");
    child.wait().expect("an end");
    assert_eq!(info.code, Some(0), "{info:?}");
    assert_eq!(info.out.trim(), (64 * MIB).to_string());
    assert!(pid.is_some());
    let state = || bench.json(&["info", "s.tn", "--json"])["state"].clone();
    wait_until("an orderly end", Duration::from_secs(20), || {
        state() == "clean"
    });
}

#[test]
fn metrics_have_the_names_that_dashboards_use() {
    let bench = Bench::with_store("64MiB");
    let server = bench.serve(&["s.tn", "--socket", "s.sock", "--metrics", "unix:m.sock"]);
    let mut client = server.client("main");
    for block in 0..10 {
        client.write(block * 4096, &[1; 4096], 0).expect("written");
    }
    client.flush().expect("flushed");
    client.read(0, 8192).expect("read");
    let text = bench.metrics("m.sock");
    for name in [
        "tonearm_commits_total 10",
        "tonearm_flush_requests_total 1",
        "tonearm_log_flushes_total",
        "tonearm_log_writes_total",
        "tonearm_log_full_waits_total",
        "tonearm_written_back_blocks_total",
        "tonearm_checksum_errors_total 0",
        "tonearm_log_used_bytes",
        "tonearm_memory_used_bytes",
        "tonearm_write_back_lag_seconds",
        "tonearm_recovery_seconds",
        "tonearm_nbd_connections_opened_total",
        "tonearm_nbd_requests_total{command=\"write\"} 10",
        "tonearm_nbd_request_bytes_total{command=\"write\"} 40960",
        "tonearm_nbd_request_latency_seconds_bucket{le=",
        "# EOF",
    ] {
        contains(&text, name);
    }
    let stats = bench.json(&["stats", "s.tn", "--json"]);
    assert_eq!(stats["store"]["commits"], 10);
    assert_eq!(stats["store"]["flush_requests"], 1);
    assert_eq!(stats["pid"], server.pid());
}
