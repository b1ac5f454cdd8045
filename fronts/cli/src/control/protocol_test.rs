use super::{Answer, Event, EventLine, Request, RequestLine, VERSION};
use crate::control::{TraceBatch, TraceOp, TraceRequest};

#[test]
fn requests_look_as_documented() {
    let line = RequestLine {
        tonearm: VERSION,
        request: Request::Scrub {
            no_repair: false,
            bytes_per_second: 0,
        },
    };
    let text = serde_json::to_string(&line).expect("plain data");
    assert_eq!(text, r#"{"tonearm":1,"request":{"command":"scrub"}}"#);
    let read: RequestLine = serde_json::from_str(&text).expect("as written");
    assert_eq!(read.request, line.request);
    let text =
        r#"{"tonearm":1,"request":{"command":"volume-create","name":"a","size_bytes":5,"new":0}}"#;
    let line: RequestLine = serde_json::from_str(text).expect("an unknown field is ignored");
    assert_eq!(
        line.request,
        Request::VolumeCreate {
            name: "a".into(),
            size_bytes: 5
        }
    );
}

#[test]
fn recorded_requests_look_as_documented() {
    let batch = TraceBatch {
        requests: vec![TraceRequest {
            volume: 0,
            op: TraceOp::Write,
            fua: true,
            offset: 4096,
            bytes: 512,
            arrival_ns: 12_345_678,
            response_ns: 98_765,
        }],
        volumes: vec!["main".into()],
        lost: 1,
        failed: 2,
        until_ns: 20_000_000,
    };
    let line = EventLine {
        tonearm: VERSION,
        event: Event::Done(Answer::Trace(batch.clone())),
    };
    let text = serde_json::to_string(&line).expect("plain data");
    assert_eq!(
        text,
        r#"{"tonearm":1,"event":{"done":{"trace":{"requests":[[0,"W",true,4096,512,12345678,98765]],"volumes":["main"],"lost":1,"failed":2,"until_ns":20000000}}}}"#
    );
    let read: EventLine = serde_json::from_str(&text).expect("as written");
    let Event::Done(Answer::Trace(read)) = read.event else {
        panic!("another event: {text}");
    };
    assert_eq!(read, batch);
    let all: RequestLine =
        serde_json::from_str(r#"{"tonearm":1,"request":{"command":"trace-start"}}"#)
            .expect("all volumes");
    assert_eq!(all.request, Request::TraceStart { volume: None });
}

#[test]
fn events_look_as_documented() {
    let line = EventLine {
        tonearm: VERSION,
        event: Event::Progress {
            done: 10,
            total: 80,
        },
    };
    let text = serde_json::to_string(&line).expect("plain data");
    assert_eq!(
        text,
        r#"{"tonearm":1,"event":{"progress":{"done":10,"total":80}}}"#
    );
    let line = EventLine {
        tonearm: VERSION,
        event: Event::Failed("why".into()),
    };
    let text = serde_json::to_string(&line).expect("plain data");
    assert_eq!(text, r#"{"tonearm":1,"event":{"failed":"why"}}"#);
}
