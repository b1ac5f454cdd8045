use super::{Event, EventLine, Request, RequestLine, VERSION};

#[test]
fn requests_look_as_documented() {
    let line = RequestLine {
        tonearm: VERSION,
        request: Request::Scrub,
    };
    let text = serde_json::to_string(&line).expect("plain data");
    assert_eq!(text, r#"{"tonearm":1,"request":{"command":"scrub"}}"#);
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
