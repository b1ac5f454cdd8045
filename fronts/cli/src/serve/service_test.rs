use super::{ServiceManager, send};
use std::ffi::OsString;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

fn received(socket: &UnixDatagram) -> String {
    let patience = Some(Duration::from_secs(10));
    socket.set_read_timeout(patience).expect("set");
    let mut buf = [0; 100];
    let count = socket.recv(&mut buf).expect("a datagram");
    String::from_utf8_lossy(&buf[..count]).into_owned()
}

#[test]
fn states_are_sent_to_path_and_abstract_sockets() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("notify");
    let name = format!("tonearm-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).expect("a name");
    for (socket, name) in [
        (UnixDatagram::bind(&path), path.into_os_string()),
        (UnixDatagram::bind_addr(&address), format!("@{name}").into()),
    ] {
        let socket = socket.expect("bound");
        let manager = ServiceManager(Some(name));
        manager.ready();
        assert_eq!(received(&socket), "READY=1");
        manager.stopping();
        assert_eq!(received(&socket), "STOPPING=1");
    }
}

#[test]
fn absent_manager_is_ignored_and_a_lost_one_is_an_error() {
    ServiceManager(None).ready();
    let name = OsString::from("/nonexistent/notify");
    assert!(send(&name, "READY=1").is_err());
}
