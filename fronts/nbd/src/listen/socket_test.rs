use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::net::{UnixListener, UnixStream};

use rustix::io::Errno;

use super::*;

#[test]
fn a_unix_socket_goes_with_its_listener() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    let listener = Listener::unix(&path).expect("listener");
    assert_eq!(*listener.address(), ListenAddress::Unix(path.clone()));
    assert_eq!(listener.accept().err(), Some(Errno::AGAIN));
    let _client = UnixStream::connect(&path).expect("connected");
    assert!(listener.accept().is_ok());
    drop(listener);
    assert!(!path.exists());
}

#[test]
fn the_socket_of_a_dead_server_is_replaced() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    drop(UnixListener::bind(&path).expect("bound"));
    assert!(path.exists(), "the standard library leaves the file");
    let _listener = Listener::unix(&path).expect("replaced");
    UnixStream::connect(&path).expect("connected");
}

#[test]
fn the_socket_of_a_live_server_stays() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    let live = UnixListener::bind(&path).expect("bound");
    let error = Listener::unix(&path).expect_err("in use").to_string();
    assert!(error.ends_with("is in use by a running server"), "{error}");
    assert!(error.contains(&path.display().to_string()));
    UnixStream::connect(&path).expect("still there");
    drop(live);
}

#[test]
fn a_file_that_is_no_socket_stays() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("data");
    fs::write(&path, "precious").expect("written");
    let error = Listener::unix(&path).expect_err("not a socket").to_string();
    assert!(error.contains("exists and is not a socket"), "{error}");
    assert_eq!(fs::read(&path).expect("read"), b"precious");
}

#[test]
fn a_file_that_was_replaced_is_not_removed() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    let first = Listener::unix(&path).expect("listener");
    let aside = folder.path().join("aside");
    fs::rename(&path, aside).expect("moved");
    let _second = Listener::unix(&path).expect("listener");
    drop(first);
    UnixStream::connect(&path).expect("the second one's file is there");
}

#[test]
fn errors_name_the_address() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("no/such/folder/socket");
    let error = Listener::unix(&path).expect_err("no folder").to_string();
    assert!(error.contains("no/such/folder/socket"), "{error}");
    let long = folder.path().join("n".repeat(200));
    let error = Listener::unix(&long).expect_err("too long").to_string();
    assert!(error.contains("nnnn"), "{error}");
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = taken.local_addr().expect("address");
    let error = Listener::tcp(address).expect_err("taken").to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

#[test]
fn inherited_sockets_are_served_and_left_in_place() {
    let folder = tempfile::tempdir().expect("folder");
    let path = folder.path().join("socket");
    let unix = UnixListener::bind(&path).expect("bound");
    let listener = Listener::inherited(unix.into()).expect("listener");
    assert_eq!(*listener.address(), ListenAddress::Unix(path.clone()));
    let _client = UnixStream::connect(&path).expect("connected");
    assert!(listener.accept().is_ok());
    drop(listener);
    assert!(path.exists());

    let tcp = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
    let address = tcp.local_addr().expect("address");
    let listener = Listener::inherited(tcp.into()).expect("listener");
    assert_eq!(*listener.address(), ListenAddress::Tcp(address));
}

#[test]
fn other_descriptors_are_refused() {
    let file = File::open("/dev/null").expect("file");
    let (stream, _other) = UnixStream::pair().expect("pair");
    for fd in [file.into(), stream.into()] {
        let error = Listener::inherited(fd).expect_err("not a listener");
        assert!(matches!(error, ListenError::Inherited));
    }
}
