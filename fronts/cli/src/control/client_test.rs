use crate::control::client::Client;
use crate::control::protocol::Request;
use std::io::{BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

/// The program ends without a word after an error of this kind, because the reader of its results may have gone.
#[test]
fn a_server_that_has_gone_is_no_broken_pipe_of_the_results() {
    let (own, other) = UnixStream::pair().expect("a pair");
    drop(other);
    let mut client = Client {
        stream: BufReader::new(own),
        path: PathBuf::from("s.sock"),
    };
    let error = client.ask(Request::TraceTake, |_, _| {}).expect_err("gone");
    let io = error.downcast_ref::<std::io::Error>();
    assert!(io.is_none_or(|error| error.kind() != ErrorKind::BrokenPipe));
    let text = format!("{error:#}");
    assert!(
        text.starts_with("the server at s.sock has gone away"),
        "{text}"
    );
}
