//! A job and its end.

use crate::store::Context;
use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// What a job has returned, or the panic that ended it.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// Runs `job`, and catches its panics: they are its caller's.
pub(crate) async fn outcome_of<T, F>(job: impl FnOnce(Context) -> F, context: Context) -> Outcome<T>
where
    F: Future<Output = T>,
{
    let future = catch_unwind(AssertUnwindSafe(|| job(context)))?;
    let mut future = pin!(future);
    poll_fn(|task| {
        // A future that has panicked is not polled again.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(task))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(result)) => Poll::Ready(Ok(result)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    })
    .await
}
