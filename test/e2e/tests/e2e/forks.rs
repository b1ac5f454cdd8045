//! Programs that fork: Python's `multiprocessing`, and a server that forks its workers.

use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, Stdio};
use std::time::Duration;
use tonearm_tests::sqlite::{python, sql};
use tonearm_tests::{Background, Bench, Ran, wait_until};

const POOL: &str = "
db = connect()
db.execute('CREATE TABLE t(worker, n)')
def work(n):
    own = connect()
    for more in range(10):
        own.execute('INSERT INTO t VALUES (?, ?)', (os.getpid(), 10 * n + more))
    own.close()
    try:
        db.execute('SELECT count(*) FROM t')
        return 'the connection of the parent works in the child'
    except sqlite3.OperationalError:
        return None
with multiprocessing.get_context('fork').Pool(4) as pool:
    print(set(pool.map(work, range(12))))
db.execute('INSERT INTO t VALUES (0, 120)')
print(db.execute('SELECT count(DISTINCT n), min(n), max(n) FROM t').fetchall())
";

const REOPENS: &str = "
db = connect()
db.execute('CREATE TABLE t(x)')
asleep, wake = os.pipe()
if os.fork() == 0:
    os.close(wake)
    os.read(asleep, 1)
    os._exit(0)
for n in range(3):
    db.execute('INSERT INTO t VALUES (?)', (n,))
    db.close()
    db = connect()
print(db.execute('SELECT count(*) FROM t').fetchall())
child = os.fork()
if child == 0:
    try:
        connect()
        os._exit(1)
    except sqlite3.OperationalError:
        os._exit(0)
print(os.waitpid(child, 0)[1])
db.close()
";

const LEAVES_A_CHILD: &str = "
db = connect()
db.execute('BEGIN EXCLUSIVE')
if os.fork() == 0:
    sys.stdin.read()
    os._exit(0)
print(os.getpid(), flush=True)
sys.stdin.read()
";

fn store() -> Bench {
    Bench::created(&["--size", "64MiB", "--no-volume"])
}

fn printed(bench: &Bench, program: &str) -> String {
    let output = python(bench, "app.db", program).output();
    let ran = Ran::of(&output.expect("timeout runs"));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.out
}

#[test]
fn a_pool_of_forked_workers_shares_a_served_store() {
    let bench = store();
    let server = bench.serve_store();
    assert_eq!(printed(&bench, POOL), "{None}\n[(121, 0, 120)]\n");
    assert_eq!(sql(&bench, "app.db", "PRAGMA integrity_check"), "ok");
    server.end_ok();
}

#[test]
fn store_reopens_while_a_forked_child_sleeps() {
    let bench = store();
    assert_eq!(printed(&bench, REOPENS), "[(3,)]\n0\n");
}

/// A program whose child survives when the program is killed.
struct Parent {
    _program: Background,
    _wake: ChildStdin,
    pid: rustix::process::Pid,
}

impl Parent {
    fn start(bench: &Bench) -> Self {
        let mut command = python(bench, "app.db", LEAVES_A_CHILD);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut program = Background::start(&mut command);
        let mut wake = program.child().stdin.take().expect("piped");
        wake.flush().expect("a pipe");
        let mut said = BufReader::new(program.child().stdout.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("a line");
        let pid = line.trim().parse().ok();
        let pid = pid.and_then(rustix::process::Pid::from_raw);
        Self {
            _program: program,
            _wake: wake,
            pid: pid.expect("the number of a process"),
        }
    }

    fn kill9(&self) {
        rustix::process::kill_process(self.pid, rustix::process::Signal::KILL).expect("killed");
    }
}

#[test]
fn store_of_a_killed_process_is_free_despite_its_child() {
    for served in [false, true] {
        let bench = store();
        let server = served.then(|| bench.serve_store());
        let parent = Parent::start(&bench);
        parent.kill9();
        wait_until("the store or its lock", Duration::from_secs(20), || {
            let ran = tonearm_tests::sqlite::shell(&bench, "app.db", "CREATE TABLE t(x)");
            ran.code == Some(0)
        });
        drop(parent);
        drop(server);
    }
}
