//! A driver without devices, in which only virtual time passes.

use crate::driver::{Completion, Driver, Request};
use tonearm_base::Nanos;

/// A clock that jumps to each deadline. It accepts no requests.
#[derive(Default)]
pub struct IdleDriver {
    now: Nanos,
}

impl Driver for IdleDriver {
    fn now(&self) -> Nanos {
        self.now
    }

    fn submit(&mut self, _: u64, request: Request) {
        panic!("a driver without devices got {request:?}");
    }

    fn wait(&mut self, deadline: Option<Nanos>, _: &mut Vec<Completion>) {
        self.now = self.now.max(deadline.unwrap_or_default());
    }
}
