use crate::{SocketPath, bind_unix, connect_unix};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

#[test]
fn a_socket_in_a_folder_with_a_long_path_is_bound_and_reached() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("x".repeat(100)).join("y".repeat(100));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("s.tn.files");
    let missing = connect_unix(&path).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    let listener = bind_unix(&path).unwrap();
    assert!(path.exists());
    let used = bind_unix(&path).unwrap_err();
    assert_eq!(used.kind(), ErrorKind::AddrInUse);
    let mut client = connect_unix(&path).unwrap();
    client.write_all(b"hello").unwrap();
    let mut got = [0; 5];
    listener.accept().unwrap().0.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"hello");
    drop(listener);
    let left = connect_unix(&path).unwrap_err();
    assert_eq!(left.kind(), ErrorKind::ConnectionRefused);
    let no_folder = connect_unix(&folder.join("none/s.tn.files")).unwrap_err();
    assert_eq!(no_folder.kind(), ErrorKind::NotFound);
}

#[test]
fn short_paths_and_long_names_are_passed_unchanged() {
    let given = |path: &str| {
        SocketPath::of(Path::new(path))
            .unwrap()
            .as_path()
            .to_owned()
    };
    assert_eq!(given("/run/s.tn.sock"), Path::new("/run/s.tn.sock"));
    assert_eq!(given("s.tn.sock"), Path::new("s.tn.sock"));
    let name = "n".repeat(200);
    assert_eq!(given(&name), Path::new(&name));
    assert!(bind_unix(&std::env::temp_dir().join(name)).is_err());
}
