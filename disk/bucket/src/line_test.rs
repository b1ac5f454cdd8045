use super::*;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant as Time;

const STALL: Duration = Duration::from_millis(300);
/// Longer than nothing may go forward, in steps that are shorter.
const STEPS: u32 = 8;
const PAUSE: Duration = Duration::from_millis(60);

/// Gives the address of a server that handles one connection.
fn server(handle: impl FnOnce(TcpStream) -> Option<()> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || handle(listener.accept().unwrap().0));
    format!("http://{address}/object")
}

/// Sends a body of so many bytes and reads the answer. Returns the bytes of the answer.
fn ask(url: &str, bytes: usize) -> Result<usize, HttpErrorKind> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = Line { stall: STALL }.connect(&ClientOptions::new().with_allow_http(true));
        let mut request = HttpRequest::new(HttpRequestBody::from(vec![7; bytes]));
        *request.uri_mut() = url.parse().unwrap();
        *request.method_mut() = "PUT".parse().unwrap();
        let answer = client
            .unwrap()
            .execute(request)
            .await
            .map_err(|error| error.kind())?;
        let body = answer
            .into_body()
            .bytes()
            .await
            .map_err(|error| error.kind())?;
        Ok(body.len())
    })
}

/// Reads the head of a request.
fn head(stream: &mut TcpStream) -> Option<()> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    Some(())
}

#[test]
fn an_answer_may_take_long_if_it_goes_forward() {
    let url = server(|mut stream| {
        head(&mut stream)?;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {STEPS}\r\n\r\n").ok()?;
        for _ in 0..STEPS {
            std::thread::sleep(PAUSE);
            stream.write_all(b"x").ok()?;
        }
        Some(())
    });
    assert_eq!(ask(&url, 0), Ok(STEPS as usize));
}

#[test]
fn a_request_may_take_long_if_it_goes_forward() {
    const BYTES: usize = 64 << 20;
    let url = server(|mut stream| {
        head(&mut stream)?;
        let mut part = vec![0; BYTES / STEPS as usize];
        for _ in 0..STEPS {
            std::thread::sleep(PAUSE);
            stream.read_exact(&mut part).ok()?;
        }
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").ok()
    });
    let begin = Time::now();
    assert_eq!(ask(&url, BYTES), Ok(2));
    assert!(begin.elapsed() > STALL);
}

#[test]
fn stalled_request_times_out() {
    let silent = server(|mut stream| {
        head(&mut stream)?;
        stream.read_to_end(&mut Vec::new()).ok().map(drop)
    });
    assert_eq!(ask(&silent, 0), Err(HttpErrorKind::Timeout));
    let half = server(|mut stream| {
        head(&mut stream)?;
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf").ok()?;
        stream.read_to_end(&mut Vec::new()).ok().map(drop)
    });
    assert_eq!(ask(&half, 0), Err(HttpErrorKind::Timeout));
    let full = server(|mut stream| {
        head(&mut stream)?;
        std::thread::sleep(10 * STALL);
        Some(())
    });
    assert_eq!(ask(&full, 64 << 20), Err(HttpErrorKind::Timeout));
}
