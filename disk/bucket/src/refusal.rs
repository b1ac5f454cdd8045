//! What the answers of a service mean: an object is there or not; a request may be repeated; somebody has to change something.
//!
//! | answer | to | means |
//! | --- | --- | --- |
//! | 412, 304 | put where there is none | there is one |
//! | 409 | put where there is none | two puts at the same time, or there is one: it is looked for |
//! | 404 `NoSuchKey`, or without a text | get, delete | there is none |
//! | 416 | get of a part | the object is shorter, which is as good as none |
//! | 404 `NoSuchBucket` | all | refused |
//! | 501 | put where there is none | refused |
//! | no answer, 408, 429, 5xx | all | later |
//! | else 3xx, 4xx | all | denied |

use object_store::Error;
use tonearm_archive::BucketError;

/// A request, as far as the meaning of an answer depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Request {
    /// Puts an object where there is none.
    Put,
    /// Reads or deletes an object.
    Object,
    /// Lists objects.
    List,
}

/// What to do without keys.
pub(crate) const KEYS: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE for a profile in ~/.aws/credentials";
/// Where machines of Amazon get keys. The client asks there when it has none.
const METADATA: &str = "169.254.169.254";

/// What the error of `request` says of the object: `Ok` that it is there after a put, or is not there for other requests.
pub(crate) fn meaning(request: Request, error: &Error) -> Result<(), BucketError> {
    let text = match error {
        // The text of the cause, without the name of the implementation.
        Error::Generic { source, .. } => chain(source.as_ref()),
        other => chain(other),
    };
    let (code, short) = (between(&text, "Code"), shortened(&text));
    let later = || Err(BucketError::Transient(short.clone()));
    let denied = |why: &str| Err(BucketError::Denied(format!("{why} ({short})")));
    let refused = |why: &str| Err(BucketError::Refused(format!("{why} ({short})")));
    if code == Some("NoSuchBucket") {
        return refused("the bucket does not exist");
    }
    match (status_of(&text), request) {
        (Some(304 | 412), Request::Put) => Ok(()),
        (Some(404), Request::Object) if code == Some("NoSuchKey") || is_bare(&text) => Ok(()),
        (Some(416), Request::Object) => Ok(()),
        (Some(501), Request::Put) => refused(
            "this place does not know puts that succeed only where there is no object (If-None-Match), so two servers could \
             write one archive; use another service, or a folder",
        ),
        (Some(401 | 403), _) => denied("access is denied: check the credentials"),
        (Some(404), _) => denied("there is no such place: check the address and AWS_ENDPOINT_URL"),
        (Some(408 | 409 | 429 | 500..), _) => later(),
        (Some(300..), _) => {
            denied("the request is refused: check the address, AWS_REGION and AWS_ENDPOINT_URL")
        }
        // Of a redirection to another region only the text is left.
        (None, _) if text.contains("redirect") => denied("check AWS_REGION and AWS_ENDPOINT_URL"),
        _ => later(),
    }
}

/// True for the answer that another request for the object was under way.
pub(crate) fn is_conflict(error: &Error) -> bool {
    status_of(&chain(error)) == Some(409)
}

/// Why there are no keys for a request.
pub(crate) fn without_keys(error: &Error) -> BucketError {
    let text = match error {
        Error::Generic { source, .. } | Error::Unauthenticated { source, .. } => {
            chain(source.as_ref())
        }
        other => chain(other),
    };
    BucketError::Denied(match text.contains(METADATA) {
        true => format!(
            "there are no credentials: {KEYS}, in the environment of the server or of `tonearm archive reload`"
        ),
        false => format!("no credentials can be had: {}", shortened(&text)),
    })
}

/// The status of the answer, if there was one.
fn status_of(text: &str) -> Option<u16> {
    let (_, rest) = text.split_once("status code: ")?;
    rest.get(..3)?.parse().ok()
}

/// True when the answer had no text, as that of a service that does not say more than 404.
fn is_bare(text: &str) -> bool {
    let body = text.split_once("status code: ");
    let body = body.and_then(|(_, rest)| rest.split_once(':'));
    body.is_some_and(|(_, body)| body.trim().is_empty())
}

fn between<'a>(text: &'a str, tag: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{tag}>"))?;
    let (inner, _) = rest.split_once(&format!("</{tag}>"))?;
    Some(inner)
}

/// What people need of an error: of an answer in XML, code and message; of a failed connection, its end.
fn shortened(text: &str) -> String {
    if let (Some(code), Some(message)) = (between(text, "Code"), between(text, "Message")) {
        return format!("{code}: {message}");
    }
    match text.split_once("HTTP error: ") {
        Some((_, end)) => format!("it does not answer: {end}"),
        None => text.to_string(),
    }
}

/// An error and its causes, each once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
#[path = "refusal_test.rs"]
mod refusal_test;
