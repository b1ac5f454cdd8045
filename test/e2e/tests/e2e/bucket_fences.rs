//! Two servers archive copies of one store at one place of a real S3 server. Each has a folder of its own, as on two machines.

use crate::archives::{archived, insert, rows};
use rustix::process::{Pid, Signal, kill_process};
use std::time::Duration;
use tonearm_tests::s3::S3;
use tonearm_tests::sqlite::{python, sql};
use tonearm_tests::{Background, Bench, Server, contains, wait_until};

const LIMIT: Duration = Duration::from_secs(30);
/// After how many milliseconds of writes a server is stopped. Objects are put every second.
const STOPS_MS: [u64; 3] = [300, 650, 1000];
/// How often two servers begin at once.
const RACES: u64 = 6;

/// Inserts numbered rows, each in a transaction, while the file `go` exists.
const CLIENT: &str = "
db, n = connect(), 0
db.execute('CREATE TABLE u(n INTEGER PRIMARY KEY, x)')
while os.path.exists('go'):
    n += 1
    db.execute('INSERT INTO u VALUES (?, randomblob(200))', (n,))
";

/// A machine that can reach the bucket.
fn machine(s3: &S3, mut bench: Bench) -> Bench {
    s3.known_to(&mut bench);
    bench
}

fn serve(bench: &Bench, url: &str) -> Server {
    bench.serve(&["s.tn", "--archive", url, "--archive-base-rate", "1GiB"])
}

fn copy_store(from: &Bench, to: &Bench) {
    std::fs::copy(from.path("s.tn"), to.path("s.tn")).expect("copied");
}

fn signal(server: &Server, signal: Signal) {
    let pid = i32::try_from(server.pid()).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("an id"), signal).expect("sent");
}

fn has_ended(bench: &Bench) -> bool {
    bench.json(&["archive", "status", "s.tn", "--json"])["state"] == "ended"
}

/// Why the archive of the server of `bench` has ended, in one line.
fn why(bench: &Bench) -> String {
    let status = bench.ok(&["archive", "status", "s.tn"]);
    status.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The content of the database `app.db`, which must be whole.
fn content(bench: &Bench) -> String {
    rows(bench);
    sql(bench, "app.db", "SELECT * FROM t; SELECT * FROM u")
}

/// The archive has no fault, and gives the content of the store of `writer`.
fn gives_the_state_of(s3: &S3, url: &str, writer: &Bench) {
    writer.ok(&["archive", "verify", url]);
    let restored = machine(s3, Bench::new());
    restored.ok(&["restore", url, "s.tn"]);
    restored.ok(&["check", "s.tn"]);
    assert!(content(&restored) == content(writer), "other content");
}

/// A server stands still while clients write. Another machine goes on with a copy of the store, then the first one wakes.
#[test]
fn suspended_server_stops_archiving_after_a_takeover() {
    let mut bucket = Bench::new();
    let s3 = S3::start(&mut bucket);
    for stop_ms in STOPS_MS {
        let url = s3.url(&format!("stop-{stop_ms}"));
        let first = machine(&s3, Bench::with_small_store(&[]));
        let second = machine(&s3, Bench::new());
        let server = serve(&first, &url);
        insert(&first, 100);
        archived(&first);
        first.write("go", b"");
        let mut client = Background::start(&mut python(&first, "app.db", CLIENT));
        std::thread::sleep(Duration::from_millis(stop_ms));
        signal(&server, Signal::STOP);
        copy_store(&first, &second);

        let next = serve(&second, &url);
        insert(&second, 200);
        archived(&second);
        signal(&server, Signal::CONT);
        wait_until("an end", LIMIT, || has_ended(&first));
        contains(
            &why(&first),
            "another opening of the store has taken over (process ",
        );
        contains(
            &first.fails(&["archive", "wait", "s.tn"]),
            "is not archived",
        );
        let stats = first.json(&["stats", "s.tn", "--json"]);
        assert_eq!(stats["store"]["archive_state"], 4);
        // Its clients go on without the archive.
        std::fs::remove_file(first.path("go")).expect("removed");
        wait_until("the client's end", LIMIT, || !client.runs());
        insert(&first, 150);
        let ended = server.end();
        assert_eq!(ended.code, Some(0), "{ended:?}");
        contains(&ended.err, "the archive has ended: ");
        contains(&ended.err, "this one does not archive any more");

        insert(&second, 300);
        archived(&second);
        next.end_ok();
        gives_the_state_of(&s3, &url, &second);
    }
}

/// Two copies of a store, each with commits of its own, are archived from the same moment on. One of them goes on; it does not
/// matter which.
#[test]
fn of_two_servers_that_begin_to_archive_at_once_one_goes_on() {
    let mut bucket = Bench::new();
    let s3 = S3::start(&mut bucket);
    let url = s3.url("race");
    let machines = [
        machine(&s3, Bench::with_small_store(&[])),
        machine(&s3, Bench::new()),
    ];
    sql(&machines[0], "app.db", "CREATE TABLE u(n)");
    let server = serve(&machines[0], &url);
    insert(&machines[0], 10);
    archived(&machines[0]);
    server.end_ok();
    let (mut winner, mut wins, mut fenced) = (0, [0, 0], 0);
    for race in 1..=RACES {
        copy_store(&machines[winner], &machines[1 - winner]);
        for (bench, more) in machines.iter().zip([1, 2]) {
            insert(bench, 10 * race + more);
        }
        let servers = machines.each_ref().map(|bench| bench.serve(&["s.tn"]));
        std::thread::scope(|scope| {
            for (bench, more) in machines.iter().zip([3, 4]) {
                let url = &url;
                scope.spawn(move || {
                    // One of them may be refused at once.
                    bench.run(&["archive", "start", "s.tn", url]);
                    insert(bench, 10 * race + more);
                });
            }
        });
        wait_until("an end", LIMIT, || machines.iter().any(has_ended));
        winner = machines
            .iter()
            .position(|bench| !has_ended(bench))
            .expect("one archives");
        wins[winner] += 1;
        let why = why(&machines[1 - winner]);
        let is_fenced = why.contains("another opening of the store has taken over");
        assert!(
            is_fenced || why.contains("gone its own way") || why.contains("is an older copy"),
            "{why}"
        );
        fenced += u64::from(is_fenced);
        insert(&machines[winner], 10 * race + 9);
        archived(&machines[winner]);
        for server in servers {
            server.end_ok();
        }
        gives_the_state_of(&s3, &url, &machines[winner]);
    }
    println!("{wins:?} wins; {fenced} of the others had put an object");
    assert_eq!(wins[0] + wins[1], RACES);
}
