use crate::common::{Bench, contains};
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::process::{Command, Stdio};
use std::time::Duration;

fn store() -> Bench {
    let bench = Bench::new();
    bench.ok(&["create", "a", "--size", "16MiB"]);
    bench
}

#[test]
fn server_prints_its_uri_and_removes_its_sockets() {
    let bench = store();
    let serving = bench.serve(&["a"]);
    let socket = bench
        .path("a.sock")
        .canonicalize()
        .expect("the socket is there");
    assert_eq!(
        serving.uri,
        format!("nbd+unix:///main?socket={}", socket.display())
    );
    assert_eq!(bench.files(), ["a", "a.ctl", "a.files", "a.sock"]);
    let mut greeting = [0; 8];
    let mut client = UnixStream::connect(&socket).expect("connected");
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
    let ran = serving.end("-INT");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(bench.files(), ["a"]);
    assert_eq!(bench.json(&["info", "a", "--json"])["state"], "clean");
}

#[test]
fn the_control_socket_answers_while_serving() {
    let bench = store();
    let serving = bench.serve(&["a"]);
    let stats = bench.json(&["stats", "a", "--json"]);
    assert_eq!(stats["pid"], serving.pid());
    assert!(stats["store"]["log_size_bytes"].as_u64() > Some(0));
    contains(&bench.ok(&["stats", "a"]), "memory in use");
    contains(&bench.ok(&["scrub", "a"]), "no damage found");
    let info = bench.json(&["info", "a", "--json"]);
    assert_eq!(
        (&info["state"], &info["pid"]),
        (&"served".into(), &serving.pid().into())
    );
    let mut control = UnixStream::connect(bench.path("a.ctl")).expect("connected");
    control
        .write_all(b"{\"tonearm\":1,\"request\":{\"command\":\"shutdown\"}}\n")
        .expect("sent");
    let mut answer = String::new();
    control
        .read_to_string(&mut answer)
        .expect("an answer, then the end");
    assert_eq!(
        answer,
        "{\"tonearm\":1,\"event\":{\"done\":\"shutting-down\"}}\n"
    );
}

#[test]
fn commands_that_need_a_server_fail_without_one() {
    let bench = store();
    for command in [&["stats"][..], &["scrub", "--cancel"]] {
        contains(
            &bench.fails(&[command, &["a"]].concat()),
            "a is not being served here; start `tonearm serve a` first",
        );
        contains(
            &bench.fails(&[command, &["missing"]].concat()),
            "missing does not exist",
        );
    }
    contains(&bench.ok(&["scrub", "a"]), "no damage found");
    contains(
        &bench.fails(&["scrub", "missing"]),
        "missing does not exist",
    );
}

#[test]
fn a_bound_on_the_delay_of_durability_is_kept_and_shown() {
    let bench = store();
    let serving = bench.serve(&["a", "--max-delay", "2s", "--metrics", "unix:m"]);
    bench.ok(&["volume", "set", "a", "main", "--read-only"]);
    let stats = bench.json(&["stats", "a", "--json"]);
    let number = |name: &str| stats["store"][name].as_u64().expect("a number");
    assert_eq!(number("max_delay_ns"), 2_000_000_000);
    assert!(number("delay_max_ns") > 0);
    assert_eq!(number("delays_missed"), 0);
    contains(&bench.ok(&["stats", "a"]), "durable within");
    let page = metrics(&bench);
    for line in [
        "\ntonearm_max_delay_seconds 2.0",
        "\ntonearm_delay_observed_seconds ",
        "\ntonearm_delays_missed_total 0",
    ] {
        contains(&page, line);
    }
    assert_eq!(serving.end("-TERM").code, Some(0));
    for text in ["0ms", "50", "soon"] {
        let ran = bench.run(&["serve", "a", "--max-delay", text]);
        assert_eq!(ran.code, Some(2), "{ran:?}");
    }
}

#[test]
fn a_killed_server_is_followed_by_the_next_on_the_same_socket() {
    let bench = store();
    bench.serve(&["a"]).kill();
    assert_eq!(bench.files(), ["a", "a.ctl", "a.files", "a.sock"]);
    let serving = bench.serve(&["a"]);
    let ran = serving.end("-TERM");
    assert_eq!(ran.code, Some(0));
    contains(&ran.err, "recovered 0 commits");
    assert_eq!(bench.files(), ["a"]);
}

/// The kernel takes 107 bytes of a socket's path. All commands reach such a store as any other, by any of its names.
#[test]
fn a_store_with_a_long_path_is_served_as_any_other() {
    let bench = Bench::new();
    let folder = format!("{}/{}", "x".repeat(100), "y".repeat(100));
    std::fs::create_dir_all(bench.path(&folder)).expect("made");
    let long = format!("{folder}/a");
    bench.ok(&[
        "create",
        &long,
        "--size",
        "16MiB",
        "--log-size",
        "8MiB",
        "--no-volume",
    ]);
    std::os::unix::fs::symlink(&long, bench.path("short")).expect("a link");
    let serving = bench.serve(&["short", "--socket", "nbd"]);
    for name in ["short", long.as_str()] {
        bench.json(&["stats", name, "--json"]);
        assert_eq!(bench.json(&["info", name, "--json"])["state"], "served");
        // By the socket of the files.
        bench.ok(&["files", "list", name]);
        contains(&bench.fails(&["serve", name]), "in use by");
    }
    // The next server takes the place of one that was killed.
    serving.kill();
    let serving = bench.serve(&["short"]);
    bench.ok(&["files", "mkdir", "short", "made"]);
    let ran = serving.end("-TERM");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!ran.err.contains("files are not served"), "{ran:?}");
    contains(&bench.ok(&["files", "list", "short"]), "made");
}

#[test]
fn a_command_runs_while_it_is_served_and_gives_its_exit_code() {
    let bench = store();
    let ran = bench.run(&[
        "serve",
        "a",
        "--run",
        "echo \"$uri\"; test -S \"$unixsocket\" && exit 7",
    ]);
    assert_eq!(ran.code, Some(7), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], format!("serving {}", lines[1]));
    assert_eq!(bench.json(&["info", "a", "--json"])["state"], "clean");
}

/// The page of metrics on the socket `m`.
fn metrics(bench: &Bench) -> String {
    let mut client = UnixStream::connect(bench.path("m")).expect("connected");
    client
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("sent");
    let mut page = String::new();
    client.read_to_string(&mut page).expect("a page");
    page
}

#[test]
fn stats_show_the_used_space() {
    let bench = store();
    let _serving = bench.serve(&["a"]);
    let text = bench.ok(&["stats", "a"]);
    let line = text.lines().find(|line| line.starts_with("│ space"));
    let line = line.expect("a line about the space");
    contains(line, "16 MiB of 16 MiB (100 %) in use; ");
    contains(line, " used below the store");
}

#[test]
fn metrics_are_given_on_a_unix_socket() {
    let bench = store();
    let _serving = bench.serve(&["a", "--metrics", "unix:m"]);
    let page = metrics(&bench);
    contains(&page, "HTTP/1.0 200 OK");
    contains(&page, "\ntonearm_log_size_bytes ");
}

#[test]
fn invalid_serve_options_leave_the_store_clean() {
    let bench = store();
    std::fs::write(bench.path("file"), "x").expect("written");
    let long = "x".repeat(200);
    for (arguments, why) in [
        (&["--socket", "file"][..], "file exists and is not a socket"),
        (&["--control", "file"], "file exists and is not a socket"),
        (&["--socket", &long], "File name too long"),
        (&["--listen", "nowhere"], "write an address and a port"),
        (&["--listen", "0.0.0.0:10809"], "use --insecure"),
        (&["--listen", "[::]:10809"], "use --insecure"),
        (&["--metrics", "0.0.0.0:1"], "loopback"),
        (
            &["--tls-cert", "no", "--tls-key", "no"],
            "cannot read TLS file no",
        ),
    ] {
        contains(&bench.fails(&[&["serve", "a"], arguments].concat()), why);
        assert_eq!(
            bench.json(&["info", "a", "--json"])["state"],
            "clean",
            "{arguments:?}"
        );
    }
    let ran = bench.run(&["serve", "a", "--tls-cert", "x"]);
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

/// What the service manager at `socket` receives next.
fn told(socket: &UnixDatagram) -> String {
    let patience = Some(Duration::from_secs(20));
    socket.set_read_timeout(patience).expect("set");
    let mut buf = [0; 200];
    let count = socket.recv(&mut buf).expect("a datagram");
    String::from_utf8_lossy(&buf[..count]).into_owned()
}

#[test]
fn a_service_manager_learns_when_it_serves_and_when_it_stops() {
    let bench = store();
    let manager = UnixDatagram::bind(bench.path("notify")).expect("bound");
    let mut command = bench.command(&["serve", "a"]);
    command.env("NOTIFY_SOCKET", bench.path("notify"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("tonearm runs");
    assert_eq!(told(&manager), "READY=1");
    // Clients are served by then.
    let mut greeting = [0; 8];
    let mut client = UnixStream::connect(bench.path("a.sock")).expect("connected");
    client.read_exact(&mut greeting).expect("a greeting");
    drop(client);
    bench.json(&["stats", "a", "--json"]);
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(kill.expect("kill runs").success());
    assert_eq!(told(&manager), "STOPPING=1");
    assert_eq!(child.wait().expect("an end").code(), Some(0));

    // A server that cannot serve is never ready.
    let mut command = bench.command(&["serve", "missing"]);
    command.env("NOTIFY_SOCKET", bench.path("notify"));
    assert!(!command.output().expect("tonearm runs").status.success());
    manager.set_nonblocking(true).expect("set");
    assert!(manager.recv(&mut [0; 200]).is_err());
}

#[test]
fn a_port_for_all_machines_needs_tls_or_an_option() {
    let bench = store();
    let open = bench.serve(&["a", "--listen", "0.0.0.0:0", "--insecure"]);
    assert_eq!(open.end("-TERM").code, Some(0));
    for loopback in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        // Not every machine has IPv6.
        let ran = bench.run(&["serve", "a", "--listen", loopback, "--run", "true"]);
        assert!(!ran.err.contains("--insecure"), "{loopback}: {ran:?}");
    }
}

#[test]
fn reconnect_warning_comes_with_the_first_client() {
    let bench = store();
    let warning = "serve with --ack write";
    let serving = bench.serve(&["a"]);
    bench.ok(&["stats", "a"]);
    let ran = serving.end("-TERM");
    assert!(!ran.err.contains(warning), "{ran:?}");
    let serving = bench.serve(&["a"]);
    drop((bench.connect("a.sock"), bench.connect("a.sock")));
    let ran = serving.end("-TERM");
    assert_eq!(ran.err.matches(warning).count(), 1, "{ran:?}");
    let serving = bench.serve(&["a", "--ack", "write"]);
    drop(bench.connect("a.sock"));
    let ran = serving.end("-TERM");
    assert!(!ran.err.contains(warning), "{ran:?}");
}

/// Whoever asks for an archive does not look at a server that runs without one.
#[test]
fn a_server_whose_archive_is_refused_ends() {
    let bench = store();
    let url = format!("file://{}", bench.path("x/backup").display());
    let ran = bench.serve(&["a", "--archive", &url]).ended();
    assert_eq!(ran.code, Some(1), "{ran:?}");
    contains(&ran.err, "/x is not there; make it, or mount its disk");
    assert_eq!(bench.files(), ["a"]);
    let serving = bench.serve(&["a"]);
    contains(
        &bench.fails(&["archive", "start", "a", &url]),
        "/x is not there; make it, or mount its disk",
    );
    contains(
        &bench.fails(&["archive", "start", "a", "file:x/backup"]),
        "this is no address of an archive",
    );
    // A server that runs goes on.
    bench.ok(&["stats", "a"]);
    assert_eq!(serving.end("-INT").code, Some(0));
}

#[test]
fn archive_on_an_absent_disk_is_waited_for() {
    let bench = store();
    std::fs::create_dir(bench.path("x")).expect("made");
    let url = format!("file://{}", bench.path("x/backup").display());
    let serving = bench.serve(&["a", "--archive", &url]);
    bench.ok(&["archive", "wait", "a"]);
    assert_eq!(serving.end("-INT").code, Some(0));
    std::fs::rename(bench.path("x"), bench.path("y")).expect("moved");
    std::fs::create_dir(bench.path("x")).expect("made");
    let serving = bench.serve(&["a", "--archive", &url, "--archive-interval", "1s"]);
    let status = || bench.json(&["archive", "status", "a", "--json"]);
    while status()["state"] == "starting" {}
    assert_eq!(status()["state"], "waiting");
    contains(&status()["why"].to_string(), "is its disk mounted?");
    assert_eq!(
        std::fs::read_dir(bench.path("x"))
            .expect("a folder")
            .count(),
        0
    );
    std::fs::remove_dir(bench.path("x")).expect("removed");
    std::fs::rename(bench.path("y"), bench.path("x")).expect("moved");
    bench.ok(&["archive", "wait", "a"]);
    let ran = serving.end("-INT");
    contains(&ran.err, "waits, and tries again until it can go on: ");
    contains(&ran.err, &format!("the archive at {url} goes on"));
}
