//! HTTP requests that end when nothing goes forward any more, however long they take: a slow line may need minutes for an
//! object.

use crate::names::with_paths;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body::{Body, Frame};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody,
    HttpResponse, HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};
use reqwest::header::{CONTENT_LENGTH, HeaderMap};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout};

/// Bytes of a request that are given to the connection at once.
const STEP: usize = 64 << 10;
/// The kernel and the network may hold this many bytes of a request when all of it has been given to them. On a slow line they
/// go forward, and nobody sees it.
const HELD: u64 = 16 << 20;
/// Most bytes of a page of a list, which has at most 1000 names of at most 1024 bytes.
const PAGE_BYTES: usize = 64 << 20;
/// The slowest line that is thought of, in bytes a second.
const SLOWEST: u64 = 32 << 10;

/// Makes clients whose requests end when they do not go forward for `stall`.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) stall: Duration,
}

#[derive(Debug)]
struct Service {
    client: reqwest::Client,
    stall: Duration,
}

/// Nothing went forward.
#[derive(Debug, thiserror::Error)]
#[error("nothing went forward for {} s", .0.as_secs())]
struct Stalled(Duration);

impl HttpConnector for Line {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let has = |key| {
            options
                .get_config_value(&key)
                .is_some_and(|value| value == "true")
        };
        let mut builder = reqwest::ClientBuilder::new()
            .http1_only()
            .https_only(!has(ClientConfigKey::AllowHttp))
            .tls_danger_accept_invalid_certs(has(ClientConfigKey::AllowInvalidCertificates))
            .connect_timeout(connect_timeout(options));
        let failed = |error: reqwest::Error| object_store::Error::Generic {
            store: "S3",
            source: Box::new(error),
        };
        if let Some(proxy) = options.get_config_value(&ClientConfigKey::ProxyUrl) {
            builder = builder.proxy(reqwest::Proxy::all(proxy).map_err(failed)?);
        }
        Ok(HttpClient::new(Service {
            client: builder.build().map_err(failed)?,
            stall: self.stall,
        }))
    }
}

/// As the options have it. That of the service which gives keys to machines of Amazon is short, because other machines have none.
fn connect_timeout(options: &ClientOptions) -> Duration {
    let text = options.get_config_value(&ClientConfigKey::ConnectTimeout);
    let digits: Option<String> =
        text.map(|text| text.chars().take_while(char::is_ascii_digit).collect());
    let seconds = digits.and_then(|digits| digits.parse().ok());
    Duration::from_secs(seconds.filter(|seconds| *seconds > 0).unwrap_or(5))
}

impl HttpService for Service {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> BoxFuture<'b, Result<HttpResponse, HttpError>>
    where
        'a: 'b,
        Self: 'b,
    {
        Box::pin(self.execute(request))
    }
}

impl Service {
    async fn execute(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (head, body) = request.into_parts();
        let is_list = is_list(&head.uri.to_string());
        let url = head.uri.to_string().parse();
        let url = url.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let mut request = reqwest::Request::new(head.method, url);
        *request.headers_mut() = head.headers;
        let bytes = body.content_length() as u64;
        let sent = Arc::new(AtomicU64::new(0));
        if bytes > 0 {
            let length = request.headers_mut().entry(CONTENT_LENGTH);
            length.or_insert(bytes.into());
            *request.body_mut() = Some(counted(pieces(body).await?, sent.clone()));
        }
        let answer = self.client.execute(request);
        let answer = self.watch(answer, bytes, &sent).await?;
        let mut answer = answer.map_err(error_of)?;
        let (status, mut headers) = (answer.status(), std::mem::take(answer.headers_mut()));
        let body = Watched {
            body: answer.into(),
            stall: self.stall,
            until: None,
        };
        let body = HttpResponseBody::new(body);
        let body = match is_list && status.is_success() {
            true => read_list(body, &mut headers).await?,
            false => body,
        };
        let mut answer = HttpResponse::new(body);
        (*answer.status_mut(), *answer.headers_mut()) = (status, headers);
        Ok(answer)
    }

    /// Waits for the answer to a request of `bytes` bytes, as long as some are sent.
    async fn watch<T>(
        &self,
        answer: impl Future<Output = T>,
        bytes: u64,
        sent: &AtomicU64,
    ) -> Result<T, HttpError> {
        let mut answer = std::pin::pin!(answer);
        loop {
            let before = sent.load(Ordering::Relaxed);
            let patience = match before >= bytes {
                false => self.stall,
                true => self.stall + Duration::from_secs(bytes.min(HELD) / SLOWEST),
            };
            match timeout(patience, &mut answer).await {
                Ok(answer) => return Ok(answer),
                Err(_) if sent.load(Ordering::Relaxed) > before => {}
                Err(_) => return Err(stalled(patience)),
            }
        }
    }
}

/// True for a request that lists objects.
fn is_list(uri: &str) -> bool {
    let (_, query) = uri.split_once('?').unwrap_or_default();
    query.split('&').any(|part| part == "list-type=2")
}

/// A page of a list, whose names all can be paths of the client.
async fn read_list(
    body: HttpResponseBody,
    headers: &mut HeaderMap,
) -> Result<HttpResponseBody, HttpError> {
    let too_large = || {
        HttpError::new(
            HttpErrorKind::Decode,
            std::io::Error::other("a page of a list is too large"),
        )
    };
    let (mut body, mut page) = (std::pin::pin!(body), Vec::new());
    while let Some(frame) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        if let Ok(data) = frame?.into_data() {
            page.extend_from_slice(&data);
        }
        if page.len() > PAGE_BYTES {
            return Err(too_large());
        }
    }
    if let Some(changed) = std::str::from_utf8(&page).ok().and_then(with_paths) {
        page = changed.into_bytes();
    }
    headers.insert(CONTENT_LENGTH, page.len().into());
    Ok(HttpResponseBody::from(Bytes::from(page)))
}

fn stalled(patience: Duration) -> HttpError {
    HttpError::new(HttpErrorKind::Timeout, Stalled(patience))
}

/// As `object_store` has it for its own client: which errors may be repeated at once.
fn error_of(error: reqwest::Error) -> HttpError {
    let kind = match () {
        () if error.is_timeout() => HttpErrorKind::Timeout,
        () if error.is_connect() => HttpErrorKind::Connect,
        () if error.is_decode() => HttpErrorKind::Decode,
        () => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error.without_url())
}

/// The pieces of a request's body.
async fn pieces(mut body: HttpRequestBody) -> Result<Vec<Bytes>, HttpError> {
    let mut pieces = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        if let Ok(mut data) = frame?.into_data() {
            while data.len() > STEP {
                pieces.push(data.split_to(STEP));
            }
            pieces.push(data);
        }
    }
    Ok(pieces)
}

/// A body that counts in `sent` what the connection has taken of it.
fn counted(pieces: Vec<Bytes>, sent: Arc<AtomicU64>) -> reqwest::Body {
    let pieces = pieces.into_iter().map(move |piece| {
        sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok::<_, HttpError>(piece)
    });
    reqwest::Body::wrap_stream(stream::iter(pieces))
}

/// The body of an answer. It fails when nothing comes for `stall`.
struct Watched {
    body: reqwest::Body,
    stall: Duration,
    until: Option<Pin<Box<Sleep>>>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        let own = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut own.body).poll_frame(context) {
            own.until = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(error_of)));
        }
        let stall = own.stall;
        let until = own
            .until
            .get_or_insert_with(|| Box::pin(sleep_until(Instant::now() + stall)));
        until
            .as_mut()
            .poll(context)
            .map(|()| Some(Err(stalled(stall))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[path = "line_test.rs"]
mod line_test;
