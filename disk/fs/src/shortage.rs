//! Changes while there is no space below the store.

use crate::fs::Fs;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tonearm_base::Nanos;

/// How often a change that waits looks whether there is no space.
const LOOK: Nanos = Nanos::from_millis(50);

impl Fs {
    /// The result of `change`; `None` when it has waited for `patience`, and there is no space below the store or its log. While
    /// there is none below the log, the change is not begun: it would be made, and its caller would wait for the log.
    pub async fn unless_full<T>(
        &self,
        patience: Nanos,
        change: impl Future<Output = T>,
    ) -> Option<T> {
        let mut change = pin!(change);
        let patience_ends = self.rt().now() + patience.0;
        while self.disk().engine().log_waits_for_space() {
            if self.rt().now() >= patience_ends {
                return None;
            }
            self.rt().sleep(LOOK).await;
        }
        loop {
            let mut look = pin!(self.rt().sleep(LOOK));
            let changed = poll_fn(|context| match change.as_mut().poll(context) {
                Poll::Ready(changed) => Poll::Ready(Some(changed)),
                Poll::Pending => look.as_mut().poll(context).map(|()| None),
            });
            if let Some(changed) = changed.await {
                return Some(changed);
            }
            let is_over = self.rt().now() >= patience_ends;
            if is_over && self.disk().engine().waits_for_space() {
                return None;
            }
        }
    }
}
