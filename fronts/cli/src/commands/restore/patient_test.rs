use super::*;
use std::sync::Mutex;

/// A bucket that fails so many times before it answers.
struct Busy(Mutex<u32>);

impl Busy {
    fn answer<T>(&self, answer: T) -> Result<T, BucketError> {
        let mut left = self.0.lock().expect("one thread");
        *left = left.saturating_sub(1);
        match *left {
            0 => Ok(answer),
            _ => Err(BucketError::Transient("503 SlowDown".into())),
        }
    }
}

impl Bucket for Busy {
    fn put_new<'a>(&'a self, _: &'a str, _: Bytes) -> Boxed<'a, Result<bool, BucketError>> {
        Box::pin(async { Ok(true) })
    }

    fn get<'a>(&'a self, _: &'a str, _: u64) -> Boxed<'a, Result<Option<Vec<u8>>, BucketError>> {
        Box::pin(async { self.answer(None) })
    }

    fn heads<'a>(
        &'a self,
        _: &'a [String],
        _: usize,
    ) -> Boxed<'a, Result<Vec<Option<Vec<u8>>>, BucketError>> {
        Box::pin(async { self.answer(Vec::new()) })
    }

    fn list<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<Vec<String>, BucketError>> {
        Box::pin(async { self.answer(Vec::new()) })
    }

    fn delete<'a>(&'a self, _: &'a str) -> Boxed<'a, Result<(), BucketError>> {
        Box::pin(async { Ok(()) })
    }

    fn url(&self) -> String {
        "sim://archive".into()
    }
}

/// A patient bucket that fails so many times, with the pauses that it made, and its notes.
struct Rig {
    bucket: Patient<Busy>,
    paused: Arc<Mutex<Vec<Duration>>>,
    notes: Arc<Mutex<Vec<String>>>,
}

fn rig(failures: u32, limit: Duration) -> Rig {
    let (paused, notes) = (
        Arc::<Mutex<Vec<_>>>::default(),
        Arc::<Mutex<Vec<_>>>::default(),
    );
    let (own_paused, own_notes) = (paused.clone(), notes.clone());
    let bucket = Patient::with(
        Busy(Mutex::new(failures + 1)),
        limit,
        move |pause| own_paused.lock().expect("one thread").push(pause),
        move |text| own_notes.lock().expect("one thread").push(text),
    );
    Rig {
        bucket,
        paused,
        notes,
    }
}

/// The result of a future that waits for nothing.
fn now<T>(mut future: Boxed<'_, T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match future.as_mut().poll(&mut context) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn reads_wait_for_minutes_with_growing_pauses() {
    let rig = rig(20, LIMIT);
    assert_eq!(now(rig.bucket.get("chain/1", 9)), Ok(None));
    let paused = rig.paused.lock().expect("one thread");
    assert_eq!(paused.len(), 20);
    assert_eq!(paused[..3], [PAUSE, 2 * PAUSE, 4 * PAUSE]);
    assert_eq!(paused.last(), Some(&PAUSE_MAX));
    assert!(paused.iter().sum::<Duration>() > Duration::from_secs(180));
    let notes = rig.notes.lock().expect("one thread");
    let text = "sim://archive does not answer (503 SlowDown); trying again for up to 15 minutes";
    assert_eq!(*notes, [text, "sim://archive answers again"]);
}

#[test]
fn lists_and_headers_wait_too() {
    assert_eq!(now(rig(3, LIMIT).bucket.list("chain")), Ok(Vec::new()));
    assert_eq!(now(rig(3, LIMIT).bucket.heads(&[], 128)), Ok(Vec::new()));
}

#[test]
fn unreachable_bucket_is_given_up_after_the_limit() {
    let rig = rig(1000, LIMIT);
    let failed = now(rig.bucket.get("chain/1", 9));
    assert_eq!(failed, Err(BucketError::Transient("503 SlowDown".into())));
    let waited: Duration = rig.paused.lock().expect("one thread").iter().sum();
    assert!((LIMIT..LIMIT + PAUSE_MAX).contains(&waited), "{waited:?}");
    assert_eq!(rig.notes.lock().expect("one thread").len(), 1);
}

#[test]
fn nothing_is_waited_for_without_a_limit() {
    let rig = rig(1, Duration::ZERO);
    assert!(now(rig.bucket.get("chain/1", 9)).is_err());
    assert!(rig.paused.lock().expect("one thread").is_empty());
}

#[test]
fn missing_object_is_requested_again_after_pauses() {
    let mut rig = rig(0, LIMIT);
    rig.bucket.again = 3;
    assert_eq!(now(rig.bucket.get("chain/1", 9)), Ok(None));
    let pauses = [1, 2, 4].map(|times| times * PAUSE);
    assert_eq!(*rig.paused.lock().expect("one thread"), pauses);
}
