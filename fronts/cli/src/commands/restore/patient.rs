//! A bucket for commands that read: when it does not answer, they wait and ask again, as an archiver does that writes. A machine
//! is lost at the times at which buckets are busy, too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonearm_archive::{Bucket, BucketError, Bytes, Keys};
use tonearm_bucket::RealBucket;
use tonearm_rt::Boxed;
use tonearm_terminal::report;

/// First and longest pause before a request is repeated, and for how long one request is repeated.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(15);
const LIMIT: Duration = Duration::from_secs(15 * 60);
/// The same for a folder. What fails there mostly fails again: its disk is broken, or nobody has mounted it.
const LIMIT_FOLDER: Duration = Duration::from_secs(10);
/// How often an object is asked for again that a service does not have.
const AGAIN: u32 = 3;

/// A bucket whose requests are repeated while it does not answer. Cheap to clone; the clones note together that they wait.
#[derive(Clone)]
pub(super) struct Patient<B> {
    bucket: B,
    /// How long a request is repeated.
    limit: Duration,
    /// How often an object is asked for again of which it is answered that there is none. Commands ask only for objects that a
    /// list or another object names, and a service that is busy, or was written to just now, may not know it yet.
    again: u32,
    waits: Arc<Waits>,
}

/// How it is waited.
struct Waits {
    sleep: Box<dyn Fn(Duration) + Send + Sync>,
    note: Box<dyn Fn(String) + Send + Sync>,
    /// It is noted that the bucket does not answer.
    is_noted: AtomicBool,
}

/// What commands read archives from.
pub(super) type Reader = Patient<RealBucket>;

impl Reader {
    /// Requests to `bucket` wait for it. The disk or server of a folder may be away for a short time. That a folder has no such
    /// object does not change by waiting.
    pub(super) fn new(bucket: RealBucket) -> Self {
        let (limit, again) = if bucket.url().starts_with("file:") {
            (LIMIT_FOLDER, 0)
        } else {
            (LIMIT, AGAIN)
        };
        let reader = Self::with(bucket, limit, std::thread::sleep, report::note);
        Self { again, ..reader }
    }

    /// Runs requests, on this thread.
    pub(super) fn block_on<T>(&self, requests: impl Future<Output = T>) -> T {
        self.bucket.runtime().block_on(requests)
    }
}

impl<B: Bucket> Patient<B> {
    fn with(
        bucket: B,
        limit: Duration,
        sleep: impl Fn(Duration) + Send + Sync + 'static,
        note: impl Fn(String) + Send + Sync + 'static,
    ) -> Self {
        let waits = Waits {
            sleep: Box::new(sleep),
            note: Box::new(note),
            is_noted: AtomicBool::new(false),
        };
        Self {
            bucket,
            limit,
            again: 0,
            waits: Arc::new(waits),
        }
    }

    /// Repeats a request until the bucket answers. The pauses are those of the calling thread, which has nothing else to do.
    async fn retry<T>(
        &self,
        request: impl AsyncFn(&B) -> Result<T, BucketError>,
    ) -> Result<T, BucketError> {
        let (mut pause, mut waited) = (PAUSE, Duration::ZERO);
        loop {
            let answer = request(&self.bucket).await;
            let reason = match answer {
                Err(BucketError::Transient(reason)) if waited < self.limit => reason,
                answer => {
                    let is_over =
                        answer.is_ok() && self.waits.is_noted.swap(false, Ordering::Relaxed);
                    if is_over {
                        (self.waits.note)(format!("{} answers again", self.bucket.url()));
                    }
                    return answer;
                }
            };
            if !self.waits.is_noted.swap(true, Ordering::Relaxed) {
                (self.waits.note)(format!(
                    "{} does not answer ({reason}); trying again for up to {}",
                    self.bucket.url(),
                    match self.limit.as_secs() {
                        seconds @ 0..60 => format!("{seconds} seconds"),
                        seconds => format!("{} minutes", seconds / 60),
                    }
                ));
            }
            (self.waits.sleep)(pause);
            waited += pause;
            pause = (2 * pause).min(PAUSE_MAX);
        }
    }
}

impl<B: Bucket> Bucket for Patient<B> {
    fn put_new<'a>(&'a self, name: &'a str, object: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        self.bucket.put_new(name, object)
    }

    fn get<'a>(
        &'a self,
        name: &'a str,
        most: u64,
    ) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        Box::pin(async move {
            let mut pause = PAUSE;
            for left in (0..=self.again).rev() {
                let found = self
                    .retry(async |bucket: &B| bucket.get(name, most).await)
                    .await?;
                if found.is_some() || left == 0 {
                    return Ok(found);
                }
                (self.waits.sleep)(pause);
                pause *= 2;
            }
            Ok(None)
        })
    }

    fn heads<'a>(
        &'a self,
        names: &'a [String],
        bytes: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        Box::pin(self.retry(async move |bucket: &B| bucket.heads(names, bytes).await))
    }

    fn list<'a>(&'a self, folder: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        Box::pin(self.retry(async move |bucket: &B| bucket.list(folder).await))
    }

    fn delete<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        self.bucket.delete(name)
    }

    fn url(&self) -> String {
        self.bucket.url()
    }

    fn keys(&self) -> &dyn Keys {
        self.bucket.keys()
    }
}

#[cfg(test)]
#[path = "patient_test.rs"]
mod patient_test;
