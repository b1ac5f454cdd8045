//! Files through a server's socket, and what hostile clients do to it.

use crate::Place;
use crate::files::{self, CREATE};
use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tonearm_base::{BufPool, Nanos};
use tonearm_rt::{Completion, Data, DeviceId, Driver, Op, Request, Rt};
use tonearm_store::FileSystem;
use tonearm_store::files::{Files, FilesErrorKind, Level, Open};
use tonearm_store::remote::{FileServer, FileServerLimits, RemoteFiles};
use tonearm_store::{
    ArchiveState, Executor, Members, Store, StoreOptions, files_socket, open_disk, open_files,
};

use tonearm_uring::UringDriver;

/// A server as `tonearm serve` has it: an acceptor, and the engine's thread.
struct Server {
    engine: Option<JoinHandle<()>>,
    stop: Box<dyn FnMut() + Send>,
    place: Place,
}

impl Server {
    fn start() -> Self {
        Self::with(Place::new(), FileServerLimits::default())
    }

    fn with(place: Place, limits: FileServerLimits) -> Self {
        Self::with_faults(place, limits, &Arc::default())
    }

    /// The session whose number is `panics` has a fault of its own when it receives next. They count from 1.
    fn with_faults(place: Place, limits: FileServerLimits, panics: &Arc<AtomicU32>) -> Self {
        let (path, (ready, is_ready)) = (place.path.clone(), channel());
        let panics = panics.clone();
        let engine = std::thread::spawn(move || {
            let driver = UringDriver::new().unwrap();
            let handle = driver.handle();
            let sessions = Rc::new(RefCell::new(Vec::new()));
            let driver = Faulty {
                driver,
                panics,
                sessions: sessions.clone(),
            };
            let executor = Executor {
                rt: Rt::new(Box::new(driver)),
                handle,
                pool: BufPool::new(64 << 20),
                loads: Default::default(),
            };
            let disk = open_disk(
                &executor,
                &path,
                &Members::default(),
                Default::default(),
                |_| {},
            );
            let disk = disk.unwrap();
            // Of an archive whose bucket never answers.
            disk.engine().begin_archive("file:///nowhere").unwrap();
            let (bell, sender) = executor.handle.add_event().unwrap();
            let (clients, arrivals) = channel::<Option<OwnedFd>>();
            let (ring, stopper) = (sender.clone(), clients.clone());
            let listener = UnixListener::bind(files_socket(&path)).unwrap();
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if clients.send(Some(stream.unwrap().into())).is_err() {
                        return;
                    }
                    ring.notify();
                }
            });
            let stop = move || {
                stopper.send(None).unwrap();
                sender.notify();
            };
            ready
                .send(Box::new(stop) as Box<dyn FnMut() + Send>)
                .unwrap();
            let (rt, pool) = (&executor.rt, &executor.pool);
            let server =
                FileServer::with_limits(rt, pool, &disk, &FileSystem::new(rt, &disk), limits);
            let rt = executor.rt.clone();
            let handle = executor.handle.clone();
            executor.rt.block_on(async move {
                let arrived = |arrivals: &Receiver<_>| arrivals.try_recv().ok();
                loop {
                    match arrived(&arrivals) {
                        Some(Some(stream)) => {
                            let stream = handle.add_stream(stream);
                            sessions.borrow_mut().push(stream);
                            server.accept(stream);
                        }
                        Some(None) => break,
                        None => {
                            let buf = BufPool::new(0).alloc(8);
                            rt.stream(bell, Op::Recv, Data::whole(buf))
                                .done()
                                .await
                                .unwrap();
                        }
                    }
                }
                assert!(server.shut_down(Nanos::from_secs(2)).await);
                assert_eq!(server.sessions(), 0);
                disk.close().await.unwrap();
            });
            executor.rt.shut_down();
        });
        let stop = is_ready.recv().unwrap();
        Self {
            engine: Some(engine),
            stop,
            place,
        }
    }

    fn connect(&self) -> RemoteFiles {
        RemoteFiles::connect(&files_socket(&self.place.path)).unwrap()
    }

    fn raw(&self) -> UnixStream {
        let stream = UnixStream::connect(files_socket(&self.place.path)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream
    }

    fn end(&mut self) {
        (self.stop)();
        self.engine.take().unwrap().join().unwrap();
    }
}

/// A driver with which a session panics.
struct Faulty {
    driver: UringDriver,
    panics: Arc<AtomicU32>,
    sessions: Rc<RefCell<Vec<DeviceId>>>,
}

impl Driver for Faulty {
    fn now(&self) -> Nanos {
        self.driver.now()
    }

    fn submit(&mut self, token: u64, request: Request) {
        let (device, op, number) = (request.device, request.op, self.panics.load(Relaxed));
        // What has begun ends, with an error.
        self.driver.submit(token, request);
        if op == Op::Recv && number > 0 {
            let faulty = self.sessions.borrow().get(number as usize - 1) == Some(&device);
            assert!(!faulty, "a fault of the session");
        }
    }

    fn wait(&mut self, deadline: Option<Nanos>, completions: &mut Vec<Completion>) {
        self.driver.wait(deadline, completions);
    }
}

/// Tries until `ready`: the server learns of the end of a client a little later.
fn eventually(mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn panic_of_a_session_ends_it_alone() {
    let panics = Arc::default();
    let mut server = Server::with_faults(Place::new(), FileServerLimits::default(), &panics);
    let (lost, other) = (server.connect(), server.connect());
    let [file, same] = [&lost, &other].map(|files| files.open("f", CREATE).unwrap());
    let locks = |files: &RemoteFiles, file| {
        let levels = [Level::Shared, Level::Reserved, Level::Exclusive];
        levels.iter().all(|level| files.lock(file, *level).unwrap())
    };
    assert!(locks(&lost, file));
    let unit = lost.begin().unwrap();
    lost.write(file, Some(unit), 0, b"never").unwrap();
    panics.store(1, Relaxed);
    eventually(|| lost.size(file, None).is_err());
    eventually(|| locks(&other, same));
    assert_eq!(other.size(same, None).unwrap(), 0);
    server.end();
}

/// Neither the end of the server nor that of a client waits for a bucket that is away.
#[test]
fn a_wait_for_the_archive_ends_with_the_server() {
    let mut server = Server::start();
    let files = Arc::new(server.connect());
    files.open("f", CREATE).unwrap();
    let lsn = files.marks().unwrap().appended;
    let archive = files.archive().unwrap().unwrap();
    assert_eq!(archive.state, ArchiveState::Starting);
    let (waiting, waits) = (files.clone(), channel());
    let thread = std::thread::spawn(move || {
        waits.0.send(()).unwrap();
        waiting.wait_archived(lsn)
    });
    waits.1.recv().unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(!thread.is_finished());
    let began = Instant::now();
    server.end();
    assert!(began.elapsed() < Duration::from_millis(1500));
    let error = thread.join().unwrap().unwrap_err();
    assert!(error.text.contains("shutting down"), "{error}");
}

#[test]
fn remote_files_keep_the_rules() {
    let mut server = Server::start();
    files::check(&server.connect(), &server.connect());
    server.end();
}

#[test]
fn a_forked_child_has_its_own_session() {
    let mut server = Server::start();
    let open = || open_files(&server.place.path, StoreOptions::default());
    let files = open().unwrap();
    let file = files.open("kept", CREATE).unwrap();
    assert!(
        files.lock(file, Level::Shared).unwrap() && files.lock(file, Level::Exclusive).unwrap()
    );
    let child = crate::fork::child(|| {
        let refused = files.begin().is_err() && files.lock(file, Level::Shared).is_err();
        let own = open().unwrap();
        let own_file = own.open("kept", Open::default()).unwrap();
        refused && !own.lock(own_file, Level::Shared).unwrap()
    });
    assert!(child);
    // The session ends with its parent, although a child still has the connection.
    let sleepers = crate::fork::Sleepers::new();
    let killed = crate::fork::child(|| {
        let own = open().unwrap();
        let own_file = own.open("other", CREATE).unwrap();
        let locked = own.lock(own_file, Level::Shared).unwrap();
        let locked = locked && own.lock(own_file, Level::Exclusive).unwrap();
        sleepers.add();
        std::mem::forget(own);
        locked
    });
    assert!(killed);
    let other = files.open("other", CREATE).unwrap();
    eventually(|| files.lock(other, Level::Shared).unwrap());
    drop((sleepers, files));
    server.end();
}

#[test]
fn a_unit_that_does_not_fit_fails_while_it_is_written() {
    let mut server = Server::start();
    let files = server.connect();
    let file = files.open("large", CREATE).unwrap();
    files.write(file, None, 0, &[1; 4096]).unwrap();
    let unit = files.begin().unwrap();
    let part = vec![7; 1 << 20];
    let write = |at: u64| files.write(file, Some(unit), at << 20, &part);
    // The store has 64 MiB.
    let failed = (0..80).find_map(|at| write(at).err()).expect("it is told");
    assert_eq!(failed.kind, FilesErrorKind::NoSpace, "{failed}");
    // A read in the unit does not return content that the unit could not write.
    let read = files.read(file, Some(unit), 0, &mut [0; 10]);
    assert_eq!(read.unwrap_err(), failed);
    assert_eq!(files.size(file, Some(unit)).unwrap_err(), failed);
    assert_eq!(files.end(unit, true).unwrap_err(), failed);
    assert_eq!(files.size(file, None).unwrap(), 4096);
    let unit = files.begin().unwrap();
    files.write(file, Some(unit), 4096, &[2; 4096]).unwrap();
    files.end(unit, true).unwrap();
    assert_eq!(files.size(file, None).unwrap(), 8192);
    drop(files);
    server.end();
}

fn waiting(time: Duration) -> StoreOptions {
    StoreOptions {
        server_wait: time,
        ..StoreOptions::default()
    }
}

#[test]
fn former_client_does_not_open_the_store_itself() {
    let mut server = Server::start();
    let path = server.place.path.clone();
    let open = |time| open_files(&path, waiting(time));
    drop(open(Duration::from_secs(60)).unwrap());
    server.end();
    for left_behind in [true, false] {
        let away = open(Duration::from_millis(100)).map(drop).unwrap_err();
        assert_eq!(away.kind, FilesErrorKind::Away, "{left_behind} {away}");
        assert!(away.text.contains("tonearm serve"), "{away}");
        let _ = std::fs::remove_file(files_socket(&path));
    }
    // The server may open the store.
    drop(server.place.open());
    open(Duration::ZERO).unwrap().list_all("").unwrap();
}

/// The file system gives the inode of a removed store to the next one.
#[test]
fn a_new_store_is_not_taken_for_a_removed_one_that_was_served() {
    let mut server = Server::start();
    drop(open_files(&server.place.path, waiting(Duration::from_secs(60))).unwrap());
    server.end();
    let path = &server.place.path;
    std::fs::remove_file(files_socket(path)).unwrap();
    for _ in 0..8 {
        std::fs::remove_file(path).unwrap();
        server.place.make(16 << 20);
        open_files(path, waiting(Duration::from_millis(100))).unwrap();
    }
}

#[test]
fn server_of_a_stale_socket_is_waited_for() {
    let place = Place::new();
    drop(UnixListener::bind(files_socket(&place.path)).unwrap());
    let (started, wait) = (Instant::now(), Duration::from_millis(300));
    let first = open_files(&place.path, waiting(wait)).unwrap();
    assert!(started.elapsed() >= wait);
    // Sessions share a store that this process has open, without a wait.
    let second = open_files(&place.path, waiting(Duration::from_secs(600))).unwrap();
    files::check(&*first, &*second);
}

#[test]
fn paths_lead_to_the_server_or_to_the_store_itself() {
    let mut server = Server::start();
    let open = || open_files(&server.place.path, StoreOptions::default());
    let (one, two) = (open().unwrap(), open().unwrap());
    files::check(&*one, &*two);
    one.open("kept", CREATE).unwrap();
    server.end();
    assert_eq!(one.flush().unwrap_err().kind, FilesErrorKind::Failed);
    let open = || open_files(&server.place.path, waiting(Duration::ZERO));
    let (three, four) = (open().unwrap(), open().unwrap());
    assert!(three.exists("kept").unwrap());
    three.delete("kept").unwrap();
    files::check(&*three, &*four);
    drop((three, four));
    // Closed with its last session, and opened again.
    assert!(!open().unwrap().exists("kept").unwrap());
    let missing = open_files(
        &server.place.path.with_extension("none"),
        StoreOptions::default(),
    );
    assert_eq!(missing.err().unwrap().kind, FilesErrorKind::NotFound);
}

#[test]
fn the_end_of_a_client_aborts_and_unlocks() {
    let mut server = Server::start();
    let two = server.connect();
    for _ in 0..50 {
        let one = server.connect();
        let (a, b) = (
            one.open("f", CREATE).unwrap(),
            two.open("f", CREATE).unwrap(),
        );
        for level in [Level::Shared, Level::Reserved, Level::Exclusive] {
            assert!(one.lock(a, level).unwrap());
        }
        let unit = one.begin().unwrap();
        one.write(a, Some(unit), 0, &[1; 300_000]).unwrap();
        assert!(!two.lock(b, Level::Shared).unwrap());
        drop(one);
        eventually(|| two.lock(b, Level::Shared).unwrap());
        assert_eq!(two.size(b, None).unwrap(), 0);
        two.close(b);
    }
    server.end();
}

#[test]
fn errors_within_a_unit_come_at_its_end() {
    let mut server = Server::start();
    let files = server.connect();
    let file = files.open("f", CREATE).unwrap();
    let unit = files.begin().unwrap();
    files.write(file, Some(unit), 0, b"fine").unwrap();
    files
        .write(file, Some(unit), u64::MAX - 1, b"beyond")
        .unwrap();
    assert!(files.end(unit, true).is_err());
    assert_eq!(files.size(file, None).unwrap(), 0);
    let unit = files.begin().unwrap();
    files.abort(unit);
    assert!(files.write(file, Some(unit), 0, b"late").is_err());
    assert!(files.end(unit, false).is_err());
    assert_eq!(files.size(file, None).unwrap(), 0);
    server.end();
}

#[test]
fn threads_share_a_session() {
    let mut server = Server::start();
    let files = Arc::new(server.connect());
    let threads: Vec<_> = (0..6u8)
        .map(|number| {
            let files = files.clone();
            std::thread::spawn(move || {
                let file = files.open(&format!("f{number}"), CREATE).unwrap();
                for round in 0..200u64 {
                    let byte = (round % 250) as u8 + 1;
                    let unit = files.begin().unwrap();
                    files
                        .write(file, Some(unit), round * 100, &[byte; 100])
                        .unwrap();
                    files.write(file, Some(unit), 0, &[byte]).unwrap();
                    files.end(unit, round % 20 == 0).unwrap();
                    let mut seen = [0; 100];
                    assert_eq!(files.read(file, None, round * 100, &mut seen).unwrap(), 100);
                    assert_eq!(seen[1..], [byte; 99]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    server.end();
}

#[test]
fn hostile_clients_get_an_error_and_are_closed() {
    let mut server = Server::start();
    let good = server.connect();
    let hello = raw::HELLO;
    let with_hello = |frame: &[u8]| [&hello[..], frame].concat();
    let other_version = [b"tonearmF".as_slice(), &[9, 0, 0, 0, 0, 0, 0, 0]].concat();
    let begin = |number: u8| [6, 0, 0, 0, number, 0, 0, 0, 8, 1];
    for (bytes, why) in [
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "does not speak"),
        (other_version, "another version"),
        (with_hello(&[255; 40]), "too short or too long"),
        (with_hello(&[5, 0, 0, 0, 1, 0, 0, 0, 99]), "no request of"),
        (with_hello(&[5, 0, 0, 0, 0, 0, 0, 0, 2]), "number 0"),
        (
            with_hello(&[&begin(1)[..], &begin(2)].concat()),
            "one twice",
        ),
    ] {
        let mut stream = server.raw();
        stream.write_all(&bytes).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let text = String::from_utf8_lossy(&answer);
        assert!(text.contains(why), "{text:?} names {why:?}");
    }
    // Clients that send nothing more, or half of a message, and disconnect.
    for bytes in [&b""[..], &hello[..7], &with_hello(&[5, 0, 0])] {
        server.raw().write_all(bytes).unwrap();
    }
    // One that asks much and never reads.
    let mut deaf = server.raw();
    deaf.set_write_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    deaf.write_all(hello).unwrap();
    let list = [7, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0];
    while deaf.write_all(&list.repeat(1000)).is_ok() {}
    assert!(good.list_all("").unwrap().is_empty());
    server.end();
}

#[test]
fn a_server_of_another_version_is_refused_and_named() {
    let place = Place::new();
    let socket = files_socket(&place.path);
    let listener = UnixListener::bind(&socket).unwrap();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 16]).unwrap();
        stream.write_all(b"tonearmF\x09\0\0\0\0\0\0\0").unwrap();
    });
    let refused = RemoteFiles::connect(&socket).err().unwrap();
    assert_eq!(refused.kind, FilesErrorKind::Failed);
    assert!(refused.text.contains("speaks version 9"), "{refused}");
    server.join().unwrap();
}

/// Frames of the protocol, from a program that otherwise does not keep to it.
mod raw {
    pub const HELLO: &[u8; 16] = b"tonearmF\x06\0\0\0\0\0\0\0";

    fn frame(fields: &[&[u8]]) -> Vec<u8> {
        let fields = fields.concat();
        let len = (fields.len() as u32 + 4).to_le_bytes();
        [&len, &[1, 0, 0, 0], &fields[..]].concat()
    }

    pub fn open(name: &str) -> Vec<u8> {
        frame(&[&[0, name.len() as u8], name.as_bytes(), &[0, 0]])
    }

    /// A read of 1 MiB, of the first file that a session has opened.
    pub fn read() -> Vec<u8> {
        frame(&[&[7, 1, 0, 0, 0x80, 0x80, 0x40]])
    }
}

#[test]
fn sessions_that_never_read_are_cut_when_memory_is_short() {
    let limits = FileServerLimits {
        stall_timeout: Nanos::from_secs(40),
        shortage_timeout: Nanos::from_secs(2),
        total_reply_bytes_max: 4 << 20,
        ..FileServerLimits::default()
    };
    let mut server = Server::with(Place::new(), limits);
    let good = server.connect();
    let file = good.open("f", CREATE).unwrap();
    good.write(file, None, 0, &vec![7; 1 << 20]).unwrap();
    let mut deaf = Vec::new();
    for _ in 0..8 {
        let mut stream = server.raw();
        let reads = raw::read().repeat(32);
        let bytes = [&raw::HELLO[..], &raw::open("f"), &reads].concat();
        stream.write_all(&bytes).unwrap();
        deaf.push(stream);
    }
    let mut page = [0; 4096];
    let started = Instant::now();
    for _ in 0..100 {
        assert_eq!(good.read(file, None, 0, &mut page).unwrap(), 4096);
    }
    // They wait for no other client, and no client is cut for them.
    assert!(started.elapsed() < Duration::from_millis(1500));
    let mut whole = vec![0; 1 << 20];
    assert_eq!(good.read(file, None, 0, &mut whole).unwrap(), 1 << 20);
    assert!(whole == vec![7; 1 << 20]);
    // Some clients were cut for that, long before the stall timeout: the bytes that they receive end.
    assert!(started.elapsed() < Duration::from_secs(25));
    let ended = |stream: &mut UnixStream| {
        stream.set_nonblocking(true).unwrap();
        let mut sink = vec![0; 1 << 20];
        loop {
            match stream.read(&mut sink) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
    };
    assert!(deaf.iter_mut().any(ended), "none was cut");
    drop(deaf);
    server.end();
}

#[test]
fn clients_that_stall_are_cut_and_idle_ones_are_not() {
    let limits = FileServerLimits {
        stall_timeout: Nanos::from_millis(400),
        shortage_timeout: Nanos::from_millis(400),
        ..FileServerLimits::default()
    };
    let mut server = Server::with(Place::new(), limits);
    let idle = server.connect();
    let file = idle.open("f", CREATE).unwrap();
    idle.write(file, None, 0, &vec![7; 1 << 20]).unwrap();
    let half = raw::open("f");
    for bytes in [
        Vec::new(),
        raw::HELLO[..7].to_vec(),
        [&raw::HELLO[..], &half[..6]].concat(),
        [&raw::HELLO[..], &half, &raw::read().repeat(4)].concat(),
    ] {
        let mut stream = server.raw();
        stream.write_all(&bytes).unwrap();
        // It takes what has come when the end has come, too.
        std::thread::sleep(Duration::from_millis(800));
        let mut rest = Vec::new();
        // Cut in the middle of a reply, or before any.
        let read = stream.read_to_end(&mut rest);
        assert!(read.is_ok(), "{read:?} after {} bytes", bytes.len());
        assert!(rest.len() < 4 << 20);
    }
    assert!(idle.exists("f").unwrap(), "who owes nothing may be silent");
    server.end();
}

/// The byte that the unit of this number writes.
fn mark(unit: u64) -> u8 {
    (unit + 1) as u8
}

#[test]
fn an_end_answers_what_was_begun_and_leaves_nothing_under_way() {
    for round in 0..6u64 {
        let mut server = Server::with(Place::with_log(512 << 10), FileServerLimits::default());
        let ends = std::thread::scope(|scope| {
            let mut ends = Vec::new();
            for number in 0..6u8 {
                let files = server.connect();
                ends.push(scope.spawn(move || {
                    let file = files.open(&format!("f{number}"), CREATE).unwrap();
                    let mut done = 0u64;
                    loop {
                        let unit = files.begin().unwrap();
                        let bytes = vec![mark(done); 60_000];
                        let written = files.write(file, Some(unit), done % 8 * 60_000, &bytes);
                        if let Err(error) = written
                            .and_then(|()| files.end(unit, done.is_multiple_of(3)).map(|_| ()))
                        {
                            return (done, error);
                        }
                        done += 1;
                    }
                }));
            }
            std::thread::sleep(Duration::from_millis(50 + 37 * round));
            server.end();
            ends.into_iter()
                .map(|end| end.join().unwrap())
                .collect::<Vec<_>>()
        });
        let mut options = StoreOptions::default();
        options.open.read_only = true;
        let clean = Store::open(&server.place.path, options);
        let store = clean.unwrap_or_else(|error| panic!("round {round}: {error}"));
        for (number, (done, error)) in ends.into_iter().enumerate() {
            assert_eq!(error.kind, FilesErrorKind::Failed, "{done}: {error}");
            // Each unit that was reported as done is there, and no other unit is.
            let name = format!("f{number}");
            let has = |unit: u64| match store.read(&name, unit % 8 * 60_000, 1) {
                Ok(byte) => byte == [mark(unit)],
                Err(_) => false,
            };
            assert!(done == 0 || has(done - 1), "round {round}: {name} {done}");
            assert!(!has(done), "round {round}: {name} {done}: {error}");
        }
    }
}
