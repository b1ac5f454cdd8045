use super::{Address, respond};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

#[test]
fn only_loopback_addresses_are_taken() {
    for good in [
        "127.0.0.1:9100",
        "[::1]:9100",
        "localhost:9100",
        "unix:/tmp/m.sock",
    ] {
        assert!(good.parse::<Address>().is_ok(), "{good}");
    }
    for (bad, why) in [
        ("0.0.0.0:9100", "loopback"),
        ("10.0.0.1:1", "loopback"),
        ("9100", "write 127.0.0.1:PORT"),
        ("unix:", "needs a path"),
    ] {
        let error = bad.parse::<Address>().expect_err(bad).to_string();
        assert!(error.contains(why), "{bad}: {error}");
    }
}

fn answer_to(request: &str) -> String {
    let (mut client, server) = UnixStream::pair().expect("a pair");
    client.write_all(request.as_bytes()).expect("sent");
    client.shutdown(std::net::Shutdown::Write).expect("shut");
    respond(OwnedFd::from(server).into(), || Ok("page\n".into())).expect("answered");
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("received");
    answer
}

#[test]
fn pages_and_errors_are_answered() {
    let answer = answer_to("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        answer.starts_with("HTTP/1.0 200 OK\r\n") && answer.ends_with("\r\n\r\npage\n"),
        "{answer}"
    );
    assert!(answer_to("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
    assert!(answer_to("GET / HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 404"));
    assert!(answer_to("POST /metrics HTTP/1.0\r\n\r\n").starts_with("HTTP/1.0 405"));
    assert!(answer_to("rubbish").starts_with("HTTP/1.0 405"));
}
