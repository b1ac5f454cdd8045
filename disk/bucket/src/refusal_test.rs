use super::*;
use BucketError::{Denied, Refused, Transient};

fn answer(status: &str, body: &str) -> Error {
    Error::Generic {
        store: "S3",
        source: format!("Server returned non-2xx status code: {status}: {body}").into(),
    }
}

fn coded(status: &str, code: &str) -> Error {
    answer(
        status,
        &format!("<Error><Code>{code}</Code><Message>m</Message></Error>"),
    )
}

#[test]
fn each_answer_has_one_meaning() {
    use Request::{List, Object, Put};
    const ALL: [Request; 3] = [Put, Object, List];
    let short = |error: &Result<(), BucketError>| match error {
        Ok(()) => "done",
        Err(Transient(_)) => "later",
        Err(Denied(_)) => "denied",
        Err(Refused(_)) => "refused",
    };
    let is = |requests: &[Request], error: Error, meant: &str| {
        for request in requests {
            let found = meaning(*request, &error);
            assert_eq!(short(&found), meant, "{request:?} {error}: {found:?}");
        }
    };
    is(
        &[Put],
        coded("412 Precondition Failed", "PreconditionFailed"),
        "done",
    );
    is(&[Put], answer("304 Not Modified", ""), "done");
    // Of two puts at the same time none may have succeeded.
    is(
        &ALL,
        coded("409 Conflict", "ConditionalRequestConflict"),
        "later",
    );
    is(&[Object], coded("404 Not Found", "NoSuchKey"), "done");
    is(&[Object], answer("404 Not Found", ""), "done");
    is(
        &[Object],
        coded("416 Range Not Satisfiable", "InvalidRange"),
        "done",
    );
    // That of a proxy says nothing about an object.
    is(
        &ALL,
        answer("404 Not Found", "<html>nginx</html>"),
        "denied",
    );
    is(&[Put, List], coded("404 Not Found", "NoSuchKey"), "denied");
    is(&ALL, coded("404 Not Found", "NoSuchBucket"), "refused");
    is(
        &[Put],
        coded("501 Not Implemented", "NotImplemented"),
        "refused",
    );
    is(
        &[Object, List],
        coded("501 Not Implemented", "NotImplemented"),
        "later",
    );
    for status in [
        "408 Request Timeout",
        "429 Too Many Requests",
        "500 Internal",
        "503 SlowDown",
    ] {
        is(&ALL, coded(status, "SlowDown"), "later");
    }
    for status in [
        "301 Moved",
        "307 Elsewhere",
        "400 Bad Request",
        "401 Unauthorized",
        "403 Forbidden",
        "405 No",
    ] {
        is(&ALL, coded(status, "RequestTimeTooSkewed"), "denied");
    }
    let text = "after 3 retries - HTTP error: tcp connect error: Connection refused";
    let away = || Error::Generic {
        store: "S3",
        source: text.into(),
    };
    is(&ALL, away(), "later");
}

#[test]
fn service_errors_are_short_and_give_advice() {
    let text = |error: Error| match meaning(Request::Put, &error) {
        Err(Transient(text) | Denied(text) | Refused(text)) => text,
        Ok(()) => panic!("{error}"),
    };
    assert_eq!(
        text(coded("403 Forbidden", "SignatureDoesNotMatch")),
        "access is denied: check the credentials (SignatureDoesNotMatch: m)"
    );
    assert_eq!(
        text(coded("404 Not Found", "NoSuchBucket")),
        "the bucket does not exist (NoSuchBucket: m)"
    );
    let away = "after 3 retries - HTTP error: tcp connect error: Connection refused";
    let away = Error::Generic {
        store: "S3",
        source: away.into(),
    };
    assert_eq!(
        text(away),
        "it does not answer: tcp connect error: Connection refused"
    );
}

#[test]
fn without_keys_the_variables_are_named() {
    let metadata = Error::Generic {
        store: "S3",
        source: "Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: timed out".into(),
    };
    let Denied(text) = without_keys(&metadata) else {
        panic!("another class");
    };
    assert!(
        text.contains("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        "{text}"
    );
    assert!(!text.contains("169.254"), "{text}");
    let task = Error::Generic {
        store: "S3",
        source: "HTTP error: no route".into(),
    };
    let wanted = "no credentials can be had: it does not answer: no route";
    assert_eq!(without_keys(&task), Denied(wanted.into()));
}
