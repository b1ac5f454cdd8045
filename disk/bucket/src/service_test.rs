//! A service on this machine that gives scripted answers.

use super::*;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use tokio::runtime::Runtime;

/// What a service was asked: the first line of the request, the key that has signed it, and the length of the body.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Asked(String, String, usize);

struct Server {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Answers each request with what `answer` makes of it.
    fn new(answer: impl Fn(&Asked) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, answer) = (Arc::new(Mutex::new(Vec::new())), Arc::new(answer));
        let own = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (asked, answer, stream) = (own.clone(), answer.clone(), stream.unwrap());
                std::thread::spawn(move || while serve(&stream, &asked, &*answer).is_some() {});
            }
        });
        Self { port, asked }
    }

    fn variables(&self, key: &str) -> Variables {
        let endpoint = format!("http://127.0.0.1:{}", self.port);
        let pairs = [
            ("AWS_ENDPOINT_URL", endpoint.as_str()),
            ("AWS_ALLOW_HTTP", "true"),
            ("AWS_ACCESS_KEY_ID", key),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ];
        pairs
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into_iter()
            .collect()
    }

    fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

fn serve(
    stream: &TcpStream,
    asked: &Mutex<Vec<Asked>>,
    answer: &dyn Fn(&Asked) -> String,
) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_string()),
        }
    }
    let after = |begin: &str| {
        let mut found = lines
            .iter()
            .filter(|line| line.to_ascii_lowercase().starts_with(begin))
            .map(|line| line[begin.len()..].to_string());
        found.next().unwrap_or_default()
    };
    let length = after("content-length: ").parse().unwrap_or(0);
    std::io::copy(&mut reader.take(length), &mut std::io::sink()).ok()?;
    let key = after("authorization: aws4-hmac-sha256 credential=");
    let key = key.split('/').next().unwrap_or_default().to_string();
    let request = Asked(
        lines[0].trim_end_matches(" HTTP/1.1").to_string(),
        key,
        length as usize,
    );
    let answer = answer(&request);
    asked.lock().unwrap().push(request);
    (&*stream).write_all(answer.as_bytes()).ok()
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"x\"\r\nLast-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n{body}",
        body.len()
    )
}

fn error(status: &str, code: &str) -> String {
    answer(
        status,
        &format!("<Error><Code>{code}</Code><Message>m</Message></Error>"),
    )
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn names_of_objects_are_to_the_letter() {
    let server = Server::new(|_| answer("200 OK", ""));
    let service = Service::new(
        "b".into(),
        "a#1 c%41\u{fc}?+".into(),
        &server.variables("key"),
    );
    let put = service.unwrap();
    let put = runtime().block_on(put.put_new("chain/1", Bytes::from_static(b"object")));
    assert_eq!(put, Ok(true));
    let line = "PUT /b/a%231%20c%2541%C3%BC%3F%2B/chain/1".to_string();
    assert_eq!(server.asked(), [Asked(line, "key".into(), 6)]);
}

#[test]
fn object_exists_only_when_the_service_confirms_it() {
    let server = Server::new(|Asked(line, ..)| match line.rsplit('/').next() {
        Some("taken") => error("412 Precondition Failed", "PreconditionFailed"),
        Some("conflict") => error("409 Conflict", "ConditionalRequestConflict"),
        Some("unknown") => error("501 Not Implemented", "NotImplemented"),
        Some("gone") => error("404 Not Found", "NoSuchKey"),
        Some("proxy") => answer("404 Not Found", "<html>no</html>"),
        _ => error("404 Not Found", "NoSuchBucket"),
    });
    let service = Service::new("b".into(), String::new(), &server.variables("key")).unwrap();
    let runtime = runtime();
    let put = |name| runtime.block_on(service.put_new(name, Bytes::from_static(b"object")));
    assert_eq!(put("taken"), Ok(false));
    assert!(matches!(put("conflict"), Err(BucketError::Transient(_))));
    assert!(matches!(put("unknown"), Err(BucketError::Refused(_))));
    let get = |name| runtime.block_on(service.get(name, 9));
    assert_eq!(get("gone"), Ok(None));
    assert!(matches!(get("proxy"), Err(BucketError::Denied(_))));
    assert!(matches!(get("bucket"), Err(BucketError::Refused(_))));
    let list = runtime.block_on(service.list("chain"));
    assert!(matches!(list, Err(BucketError::Refused(_))), "{list:?}");
    let heads = ["gone".to_string(), "proxy".to_string()];
    let heads = runtime.block_on(service.heads(&heads, 4));
    assert!(matches!(heads, Err(BucketError::Denied(_))), "{heads:?}");
}

#[test]
fn truncated_object_has_no_head() {
    let part = |range: &str, body| {
        answer(
            &format!("206 Partial Content\r\nContent-Range: bytes {range}"),
            body,
        )
    };
    let server = Server::new(move |Asked(line, ..)| match line.rsplit('/').next() {
        Some("empty") => error("416 Range Not Satisfiable", "InvalidRange"),
        Some("empty-as-a-whole") => answer("200 OK", ""),
        Some("short") => part("0-2/3", "abc"),
        Some("as-a-whole") => answer("200 OK", "abcdefg"),
        _ => part("0-3/7", "abcd"),
    });
    let service = Service::new("b".into(), String::new(), &server.variables("key")).unwrap();
    let names = ["empty", "good", "empty-as-a-whole", "short", "as-a-whole"];
    let heads = runtime().block_on(service.heads(&names.map(str::to_string), 4));
    let good = || Some(b"abcd".to_vec());
    assert_eq!(heads, Ok(vec![None, good(), None, None, good()]));
}

#[test]
fn other_keys_are_used_from_a_reload_on() {
    let server = Server::new(|Asked(_, key, _)| match key.as_str() {
        "new" => answer("200 OK", ""),
        _ => error("403 Forbidden", "InvalidAccessKeyId"),
    });
    let service = Service::new("b".into(), String::new(), &server.variables("old")).unwrap();
    let runtime = runtime();
    let put = || runtime.block_on(service.put_new("probe", Bytes::from_static(b"object")));
    assert!(matches!(put(), Err(BucketError::Denied(_))));
    service.reload(&server.variables("new")).unwrap();
    assert_eq!(put(), Ok(true));
    let half = server
        .variables("half")
        .iter()
        .filter(|(name, _)| *name != "AWS_SECRET_ACCESS_KEY")
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect();
    assert!(service.reload(&half).is_err());
    assert_eq!(put(), Ok(true));
    let keys: Vec<String> = server.asked().into_iter().map(|asked| asked.1).collect();
    assert_eq!(keys, ["old", "new", "new"]);
}

#[test]
fn an_answer_that_is_too_long_is_not_read_to_its_end() {
    // It says that it has a tebibyte, sends a few bytes, and then nothing more.
    let server = Server::new(|_| {
        let head = "HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\nETag: \"x\"\r\n\
             Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n";
        format!("{head}0123456789")
    });
    let service = Service::new("b".into(), String::new(), &server.variables("key")).unwrap();
    let found = runtime().block_on(service.get("chain/1", 5));
    assert_eq!(found, Ok(Some(b"012345".to_vec())));
}

#[test]
fn conflict_with_an_existing_object_is_reported() {
    let server = Server::new(|Asked(line, ..)| match line.as_str() {
        "PUT /b/there" | "PUT /b/none" => error("409 Conflict", "OperationAborted"),
        "GET /b/there" => answer("200 OK", "object"),
        _ => error("404 Not Found", "NoSuchKey"),
    });
    let service = Service::new("b".into(), String::new(), &server.variables("key")).unwrap();
    let runtime = runtime();
    let put = |name| runtime.block_on(service.put_new(name, Bytes::from_static(b"object")));
    assert_eq!(put("there"), Ok(false));
    assert!(matches!(put("none"), Err(BucketError::Transient(_))));
}

/// The variables of `server`, without those whose names begin with `left_out`, and with this one more.
fn other_variables(server: &Server, left_out: &str, more: (&str, &str)) -> Variables {
    let variables = server.variables("key");
    let kept = variables.iter().chain([more]);
    kept.filter(|(name, _)| !name.starts_with(left_out))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

#[test]
fn requests_without_signature_need_no_keys() {
    let server = Server::new(|_| answer("200 OK", "object"));
    let keys = ["AWS_ACCESS", "AWS_SECRET"];
    let variables = other_variables(&server, keys[0], ("AWS_SKIP_SIGNATURE", "true"));
    let variables = variables
        .iter()
        .filter(|(name, _)| !name.starts_with(keys[1]));
    let variables = variables.map(|(name, value)| (name.to_string(), value.to_string()));
    let service = Service::new("b".into(), String::new(), &variables.collect()).unwrap();
    let found = runtime().block_on(service.get("probe", 99));
    assert_eq!(found, Ok(Some(b"object".to_vec())));
    assert_eq!(server.asked()[0].1, "");
}

#[test]
fn reload_without_keys_keeps_the_old_keys() {
    let server = Server::new(|_| answer("200 OK", "object"));
    let service = Service::new("b".into(), String::new(), &server.variables("key")).unwrap();
    // As below `sudo`.
    let error = service.reload(&Variables::default()).unwrap_err();
    assert!(error.contains("sudo -E"), "{error}");
    let found = runtime().block_on(service.get("probe", 99));
    assert_eq!(found, Ok(Some(b"object".to_vec())));
    assert_eq!(server.asked()[0].1, "key");
}

#[test]
fn stray_names_that_are_no_paths_do_not_end_a_list() {
    let server = Server::new(|_| {
        let names = [
            "a/chain/1",
            "a/chain//x",
            "a/chain/../x",
            "a/chain/b\u{7f}c",
        ];
        let entries = names.map(|name| {
            format!(
                "<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00Z</LastModified><Size>1</Size></Contents>"
            )
        });
        let page = format!("<ListBucketResult>{}</ListBucketResult>", entries.concat());
        answer("200 OK", &page)
    });
    let service = Service::new("b".into(), "a".into(), &server.variables("key")).unwrap();
    let names = runtime().block_on(service.list("chain")).unwrap();
    assert_eq!(
        names,
        ["chain/1", "chain/%2F/x", "chain/%2E%2E/x", "chain/b%7Fc"]
    );
}
