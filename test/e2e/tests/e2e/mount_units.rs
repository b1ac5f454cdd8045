//! Units of programs on a mount: `tonearm exec --atomic`, the requests by ioctl(2) from Python and C, kills, conflicts.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tonearm_tests::mount::fuse_possible;
use tonearm_tests::{Bench, TreeMount, binary, contains, kill_rounds, skipped, tool};

/// A bench with a store that has only files, mounted; `None` when this machine cannot mount.
fn mounted(more: &[&str]) -> Option<(Bench, TreeMount)> {
    if let Err(why) = fuse_possible() {
        skipped("the mounted file system", &why);
        return None;
    }
    let sizes = ["--size", "256MiB", "--log-size", "16MiB", "--no-volume"];
    let bench = Bench::created(&sizes);
    let mount = TreeMount::start(&bench, more).expect("mounted");
    Some((bench, mount))
}

/// `tonearm exec --atomic` of a shell script in the root of the mount.
fn exec(root: &Path, script: &str) -> Command {
    let mut command = Command::new(binary());
    command
        .args(["exec", "--atomic", "--", "sh", "-c", script])
        .current_dir(root)
        .stdin(Stdio::null());
    command
}

/// Exit code and standard error.
fn run(root: &Path, script: &str) -> (Option<i32>, String) {
    let ran = exec(root, script).output().expect("it runs");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    (ran.status.code(), said)
}

fn text(root: &Path, name: &str) -> String {
    fs::read_to_string(root.join(name)).unwrap_or_else(|error| format!("{error:?}"))
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// Starts a script that makes `flag` outside of the mount and waits until it is gone.
fn start(bench: &Bench, root: &Path, script: &str) -> Child {
    let flag = bench.path("flag");
    let script = script.replace(
        "WAIT",
        &format!(
            "touch {0}; while [ -e {0} ]; do sleep 0.01; done",
            flag.display()
        ),
    );
    let child = exec(root, &script).spawn().expect("it runs");
    wait_until("the script has come to its pause", || flag.exists());
    child
}

fn go_on(bench: &Bench) {
    fs::remove_file(bench.path("flag")).expect("removed");
}

/// Members see the unit, others what is committed, also of files that they have open and names that they have looked up.
#[test]
fn a_command_happens_at_once_or_not_at_all() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    fs::create_dir(root.join("dir")).expect("a directory");
    for name in ["a", "b", "gone", "log"] {
        fs::write(root.join(name), format!("old {name}\n")).expect("written");
    }
    let looked = || {
        let names = ["a", "b", "c", "gone", "new", "dir/new", "log"];
        names.map(|name| text(root, name))
    };
    let script = "echo new a > a && mv b c && rm gone && echo new > new && cp new dir/new && ln -s a link \
                  && echo more >> log && echo last >> log && truncate -s 1000 a && truncate -s 6 a \
                  && cat a c new dir/new log > all && chmod 600 log && [ ! -e gone ] && [ $(ls | wc -l) = 7 ] \
                  && [ $(stat -c %s a) = 6 ] && WAIT";
    for (end, code) in [("false", 1), ("kill -9 $$", 137), ("true", 0)] {
        let before = looked();
        let opened = fs::File::open(root.join("log")).expect("opened");
        let mut child = start(&bench, root, &format!("{script}; {end}"));
        assert_eq!(looked(), before, "during the unit");
        assert_eq!(opened.metadata().expect("there").len(), 8);
        assert_eq!(fs::read_dir(root).expect("a directory").count(), 5);
        go_on(&bench);
        assert_eq!(child.wait().expect("ended").code(), Some(code), "{end}");
        if code != 0 {
            assert_eq!(looked(), before, "after {end}");
        }
    }
    let expected = [
        "new a\n",
        "",
        "old b\n",
        "",
        "new\n",
        "new\n",
        "old log\nmore\nlast\n",
    ];
    for (found, expected) in looked().iter().zip(expected) {
        assert!(
            found == expected || expected.is_empty() && found.contains("NotFound"),
            "{found}"
        );
    }
    assert_eq!(
        text(root, "all"),
        "new a\nold b\nnew\nnew\nold log\nmore\nlast\n"
    );
    // What comes after the unit is durable and ordinary.
    fs::write(root.join("a"), "later").expect("written");
    let stats = bench.ok(&["stats", "s.tn"]);
    let counts =
        "units of programs: 0 open, 3 begun, 1 committed, 2 aborted, 0 of them in conflict";
    contains(&stats, counts);
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// Exit codes of the command that runs another one.
#[test]
fn a_conflict_has_an_exit_code_of_its_own() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    fs::write(root.join("a"), "old").expect("written");
    let mut child = start(&bench, root, "cat a > b; WAIT");
    fs::write(root.join("a"), "new").expect("written");
    go_on(&bench);
    assert_eq!(child.wait().expect("ended").code(), Some(75));
    assert!(!root.join("b").exists());
    // An append goes to the end that its program sees.
    let mut child = start(&bench, root, "echo inside >> a; WAIT");
    let append = tool(root, "sh").args(["-c", "printf X >> a"]).status();
    assert!(append.expect("it runs").success());
    assert_eq!(text(root, "a"), "newX");
    go_on(&bench);
    assert_eq!(child.wait().expect("ended").code(), Some(75));
    assert_eq!(text(root, "a"), "newX");
    // Another name in the same directory is no conflict.
    let mut child = start(&bench, root, "echo inside > c; WAIT");
    fs::write(root.join("d"), "other").expect("written");
    go_on(&bench);
    assert_eq!(child.wait().expect("ended").code(), Some(0));
    assert_eq!(
        (text(root, "c"), text(root, "d")),
        ("inside\n".into(), "other".into())
    );

    assert_eq!(run(root, "exit 9").0, Some(9));
    assert_eq!(run(root, "kill -TERM $$").0, Some(143));
    let mut missing = Command::new(binary());
    missing
        .args(["exec", "--atomic", "--on"])
        .arg(root)
        .args(["--", "no-such-program"]);
    assert_eq!(missing.status().expect("it runs").code(), Some(127));
    let (code, said) = run(&bench.path(""), "true");
    assert!(
        code == Some(125) && said.contains("--on"),
        "{code:?} {said}"
    );
    // A unit has no units in it.
    let nested = format!("{} exec --atomic -- true", binary().display());
    let (code, said) = run(root, &nested);
    assert!(
        code == Some(125) && said.contains("already"),
        "{code:?} {said}"
    );
    // A child that outlives its parent belongs to the unit.
    let (code, said) = run(root, "(sleep 0.3; echo late > late) & exit 0");
    assert_eq!(
        (code, text(root, "late")),
        (Some(0), "late\n".into()),
        "{said}"
    );
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// The process that holds the unit is killed. What runs on below it changes nothing.
#[test]
fn a_unit_ends_with_its_process_and_leaves_nothing() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    fs::write(root.join("a"), "old").expect("written");
    let script = "exec 3> a; echo one >&3; echo 1 > made; WAIT; echo two >&3; echo 2 > made; rm a; touch FLAG";
    let done = bench.path("done");
    let script = script.replace("FLAG", &done.display().to_string());
    let mut child = start(&bench, root, &script);
    child.kill().expect("killed");
    assert_eq!(child.wait().expect("ended").signal(), Some(9));
    wait_until("the unit is aborted", || {
        let stats = bench.ok(&["stats", "s.tn"]);
        stats.contains("0 open, 1 begun, 0 committed, 1 aborted")
    });
    assert_eq!(text(root, "a"), "old");
    go_on(&bench);
    wait_until("the rest of the script has ended", || done.exists());
    assert_eq!(text(root, "a"), "old");
    assert!(!root.join("made").exists());
    // A later unit has nothing to do with it.
    assert_eq!(run(root, "echo new > a").0, Some(0));
    assert_eq!(text(root, "a"), "new\n");
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// A unit that is open for too long is aborted, and its command learns it.
#[test]
fn a_unit_may_be_open_for_a_time() {
    let Some((bench, mount)) = mounted(&["-o", "unit_time=1"]) else {
        return;
    };
    let root = mount.root();
    let (code, said) = run(root, "echo 1 > a; sleep 2; echo 2 > b; exit 0");
    assert!(
        code == Some(75) && said.contains("unit_time"),
        "{code:?} {said}"
    );
    assert!(!root.join("a").exists() && !root.join("b").exists());
    assert_eq!(run(root, "echo 1 > a").0, Some(0));
    // Once the descriptor is closed, the process is like others again.
    let script = "import fcntl, os, struct, time\n\
                  unit = os.open('.', os.O_RDONLY)\n\
                  fcntl.ioctl(unit, 0xc008e701, struct.pack('=Q', 1))\n\
                  time.sleep(2)\n\
                  try:\n    open('late', 'w')\n    raise SystemExit('it was open for too long')\n\
                  except OSError: pass\n\
                  os.close(unit)\n\
                  time.sleep(.2)\n\
                  open('after', 'w').close()\n";
    let ran = tool(root, "python3").args(["-c", script]).output();
    let ran = ran.expect("it runs");
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stderr)
    );
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// The server is killed at any moment of units that rename and write several files. The files are those of one unit.
#[test]
fn kills_of_the_server_leave_whole_units() {
    let Some((bench, mut mount)) = mounted(&[]) else {
        return;
    };
    let script = "for n in 1 2 3 4; do echo $V > new$n; mv new$n f$n; done; printf %-9000s $V > large; \
                  mkdir d$V; mv f5 d$V/f5; echo $V > f5; rm -rf d$((V - 1))";
    fs::write(mount.path("f5"), "").expect("written");
    fs::create_dir(mount.path("d0")).expect("a directory");
    let (mut version, mut acknowledged) = (0, 0);
    let mut round = 0;
    // On a loaded machine a round may be shorter than a unit.
    while round < kill_rounds(8) || version <= 8 && round < 100 {
        let stop = AtomicBool::new(false);
        let root = mount.root().to_path_buf();
        let reached = std::thread::scope(|scope| {
            let units = scope.spawn(|| {
                let (mut version, mut acknowledged) = (version, acknowledged);
                while !stop.load(Ordering::Acquire) {
                    version += 1;
                    let ended = exec(&root, script)
                        .env("V", version.to_string())
                        .stderr(Stdio::null())
                        .status();
                    if !ended.is_ok_and(|status| status.success()) {
                        break;
                    }
                    acknowledged = version;
                }
                (version, acknowledged)
            });
            sleep(Duration::from_millis(100 + round * 37 % 150));
            mount.kill9();
            stop.store(true, Ordering::Release);
            units.join().expect("units")
        });
        (version, acknowledged) = reached;
        mount = TreeMount::new(&bench);
        let root = mount.root();
        let found: u64 = text(root, "f5").trim().parse().unwrap_or(0);
        assert!(
            (acknowledged..=version).contains(&found),
            "{acknowledged} {found} {version}"
        );
        if found > 0 {
            let names = ["f1", "f2", "f3", "f4"].map(|name| text(root, name));
            assert_eq!(names, [(); 4].map(|()| format!("{found}\n")));
            assert_eq!(text(root, "large"), format!("{found:<9000}"));
        }
        let folders = fs::read_dir(root).expect("a directory").count();
        assert_eq!(
            folders,
            if found > 0 { 7 } else { 2 },
            "only d{found} is left"
        );
        (version, acknowledged) = (found, found);
        round += 1;
    }
    println!("{version} units");
    assert!(version > 8, "{version} units are too few for a test");
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// Readers that see a file of a unit see all others, through pages and names that the kernel keeps, too.
#[test]
fn readers_see_all_of_a_unit_or_nothing() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    let set = "for n in a b c; do printf %-5000s $V > $n; done; echo $V > new; mv new d";
    let first = exec(root, set).env("V", "0").status();
    assert!(first.expect("it runs").success());
    let done = AtomicBool::new(false);
    let seen = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut last = 0;
                    while !done.load(Ordering::Acquire) {
                        // Each file is at least as new as the one that was read before it.
                        for name in ["d", "c", "b", "a"] {
                            let found = text(root, name);
                            let found: u64 = found
                                .trim()
                                .parse()
                                .unwrap_or_else(|_| panic!("{name}: {found:?}"));
                            assert!(
                                found >= last,
                                "{name} is of {found}, and another file of {last}"
                            );
                            last = found;
                        }
                    }
                    last
                })
            })
            .collect();
        for version in 1..40 {
            let ended = exec(root, set).env("V", version.to_string()).status();
            assert!(ended.expect("it runs").success());
        }
        done.store(true, Ordering::Release);
        readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader"))
            .max()
    });
    assert!(seen.is_some_and(|seen| seen > 10), "{seen:?}");
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// What a unit reads through the kernel's page cache: files that it has made, and those that it has not changed.
#[test]
fn mapped_files_of_a_unit() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    for name in ["same", "changed", "stored"] {
        fs::write(root.join(name), "old").expect("written");
    }
    let map = |mode: &str, file: &str, then: &str| {
        format!(
            "python3 -c 'import mmap, os; f = os.open(\"{file}\", os.O_RDWR); \
             m = mmap.mmap(f, 3, mmap.{mode}); {then}'"
        )
    };
    let is = |text: &str| format!("assert m[:3] == b\"{text}\", m[:3]");
    let made = format!(
        "printf new > made && {}",
        map("MAP_SHARED", "made", &is("new"))
    );
    let same = map("MAP_PRIVATE", "same", &is("old"));
    let changed = map("MAP_PRIVATE", "changed", "print(m[:3])");
    // The signal of a mapped page that cannot be read.
    let script = format!("{made} && {same} && printf new > changed && {changed}; [ $? = 135 ]");
    let (code, said) = run(root, &script);
    assert_eq!(
        (code, text(root, "changed")),
        (Some(0), "new".into()),
        "{said}"
    );
    assert_eq!(text(root, "made"), "new");
    // A store to a mapping is no part of the unit, which conflicts if it has read the file.
    let store = map("MAP_SHARED", "stored", "m[:3] = b\"now\"; m.flush()");
    assert_eq!(run(root, &format!("cat stored && {store}")).0, Some(75));
    assert_eq!(text(root, "stored"), "now");
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// The example in Python, by several processes at once. No amount is lost.
#[test]
fn the_example_in_python_moves_amounts() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    for name in ["a", "b", "c"] {
        fs::write(root.join(name), "100").expect("written");
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fronts/fuse/examples/units.py");
    std::thread::scope(|scope| {
        for (from, to) in [("a", "b"), ("b", "c"), ("c", "a")] {
            let example = &example;
            scope.spawn(move || {
                for _ in 0..8 {
                    let ran = tool(root, "python3")
                        .arg(example)
                        .args([from, to, "3"])
                        .output()
                        .expect("it runs");
                    assert!(
                        ran.status.success(),
                        "{}",
                        String::from_utf8_lossy(&ran.stderr)
                    );
                }
            });
        }
    });
    let amounts =
        ["a", "b", "c"].map(|name| text(root, name).trim().parse::<u64>().expect("an amount"));
    assert_eq!(amounts, [100; 3]);
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// The example in C with the header, and how the requests refuse what they must.
#[test]
fn the_example_in_c_and_what_is_refused() {
    let Some((bench, mount)) = mounted(&[]) else {
        return;
    };
    let root = mount.root();
    let front = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fronts/fuse");
    let program = bench.path("units");
    let built = tool(&bench.path(""), "cc")
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(front.join("../capi/include"))
        .arg(front.join("examples/units.c"))
        .arg("-o")
        .arg(&program)
        .status();
    assert!(built.expect("it runs").success());
    for name in ["a", "b"] {
        fs::write(root.join(name), "old text").expect("written");
    }
    let ran = Command::new(&program)
        .args(["new", "a", "b"])
        .current_dir(root)
        .output()
        .expect("it runs");
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(
        (text(root, "a"), text(root, "b")),
        ("new text".into(), "new text".into())
    );
    let refused = tool(root, "python3")
        .args(["-c", REFUSED])
        .output()
        .expect("it runs");
    assert!(
        refused.status.success(),
        "{}",
        String::from_utf8_lossy(&refused.stderr)
    );
    mount.unmount();
    bench.ok(&["check", "s.tn"]);
}

/// What a program must not do, and what others see of it.
const REFUSED: &str = r#"
import errno, fcntl, os, struct, time
BEGIN, ENLIST, COMMIT, ABORT = 0xC008E701, 0x4008E702, 0xE703, 0xE704
def fails(code, function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        assert error.errno == code, error
    else:
        raise AssertionError(f"{function} {arguments}")
number = lambda value: struct.pack("Q", value)
root, plain = os.open(".", os.O_RDONLY), os.open("a", os.O_RDWR)
fails(errno.ENOTTY, fcntl.ioctl, root, 0x5401)
fails(errno.ECANCELED, fcntl.ioctl, root, COMMIT)
fails(errno.EINVAL, fcntl.ioctl, root, BEGIN, number(2))
unit = fcntl.ioctl(root, BEGIN, number(0))
fails(errno.EINVAL, fcntl.ioctl, root, BEGIN, number(0))
fails(errno.EINVAL, fcntl.ioctl, plain, ENLIST, unit)
fails(errno.ENOENT, fcntl.ioctl, plain, ENLIST, number(1 << 40))
file = os.open("a", os.O_RDWR | os.O_DIRECT | os.O_APPEND)
fcntl.ioctl(file, ENLIST, unit)
fcntl.ioctl(file, ENLIST, unit)
other = os.open(".", os.O_RDONLY)
fails(errno.EEXIST, fcntl.ioctl, file, ENLIST, fcntl.ioctl(other, BEGIN, number(0)))
os.write(file, b" and more")
os.fsync(file)
assert os.pread(file, 100, 0) == b"new text and more"
assert os.pread(plain, 100, 0) == b"new text", os.pread(plain, 100, 0)
assert os.stat("a").st_size == 8
os.ftruncate(file, 3)
assert os.pread(file, 100, 0) == b"new"
assert os.pread(plain, 100, 0) == b"new text"
# Without O_DIRECT the kernel would keep what others must not see.
flags = fcntl.fcntl(file, fcntl.F_GETFL)
fcntl.fcntl(file, fcntl.F_SETFL, flags & ~os.O_DIRECT)
fails(errno.EINVAL, os.write, file, b"x")
fcntl.fcntl(file, fcntl.F_SETFL, flags)
fcntl.ioctl(root, COMMIT)
assert open("a").read() == "new" and os.pread(plain, 100, 0) == b"new"
# After its unit the descriptor is like any other, and can belong to the next one.
os.write(file, b"!")
assert open("a").read() == "new!"
unit = fcntl.ioctl(root, BEGIN, number(0))
fcntl.ioctl(file, ENLIST, unit)
os.write(file, b"?")
fcntl.ioctl(root, ABORT)
assert open("a").read() == "new!"
# A unit ends with its descriptor, soon after that is closed.
unit = fcntl.ioctl(root, BEGIN, number(1))
open("made", "w").write("x")
os.close(root)
time.sleep(0.5)
open("a", "a").write("+")
assert open("a").read() == "new!+" and not os.path.exists("made")
"#;
