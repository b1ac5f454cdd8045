use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use super::testing::*;
use super::*;
use crate::proto::*;

/// A stream that fails.
struct Broken {
    read: Option<ErrorKind>,
    write: Option<ErrorKind>,
    input: Script,
}

impl Read for Broken {
    fn read(&mut self, space: &mut [u8]) -> io::Result<usize> {
        match self.read {
            Some(kind) => Err(kind.into()),
            None => self.input.read(space),
        }
    }
}

impl Write for Broken {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.write {
            Some(kind) => Err(kind.into()),
            None => Ok(bytes.len()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn drive_broken(read: Option<ErrorKind>, write: Option<ErrorKind>) -> HandshakeError {
    let mut stream = Broken {
        read,
        write,
        input: Script::new(&Client::new()),
    };
    drive(
        &mut stream,
        &mut Negotiation::new(catalog(), TlsPolicy::Off),
    )
    .expect_err("it is broken")
}

#[test]
fn stream_failures_are_distinguished() {
    use HandshakeError as E;
    let read = |kind| drive_broken(Some(kind), None);
    assert!(matches!(read(ErrorKind::TimedOut), E::TimedOut));
    assert!(matches!(read(ErrorKind::ConnectionReset), E::Disconnected));
    assert!(matches!(read(ErrorKind::PermissionDenied), E::Io(_)));
    assert!(matches!(
        drive_broken(None, Some(ErrorKind::BrokenPipe)),
        E::Disconnected
    ));
    assert!(matches!(drive_broken(None, None), E::Disconnected));
}

#[test]
fn an_export_is_negotiated_over_a_socket_in_lock_step() {
    let (mut server, mut client) = UnixStream::pair().expect("pair");
    let worker = thread::spawn(move || {
        drive(
            &mut server,
            &mut Negotiation::new(catalog(), TlsPolicy::Off),
        )
        .expect("success")
    });
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).expect("greeting");
    assert!(after_greeting(&greeting).is_empty());
    client.write_all(&Client::new().0).expect("flags");
    let mut acknowledgement = [0; 20];
    for option in [OPT_STRUCTURED_REPLY, OPT_ABORT + 100] {
        let message = Client::under_tls().option(option, &[]).0;
        for byte in message {
            client.write_all(&[byte]).expect("option");
        }
        client.read_exact(&mut acknowledgement).expect("reply head");
        assert_eq!(be32(&acknowledgement, 8), Some(option));
        let mut message = vec![0; be32(&acknowledgement, 16).expect("length") as usize];
        client.read_exact(&mut message).expect("reply data");
    }
    client
        .write_all(&Client::under_tls().go("frozen").0)
        .expect("go");
    let mut rest = Vec::new();
    let Step::Transmit(selection) = worker.join().expect("worker") else {
        panic!("no transmission");
    };
    assert_eq!(selection.export.name, "frozen");
    client.read_to_end(&mut rest).expect("replies");
    assert_eq!(kinds(&replies(&rest)), [REP_INFO, REP_ACK]);
}
