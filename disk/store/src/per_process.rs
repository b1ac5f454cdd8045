//! A value for each process. A child by fork(2) begins with a value of its own and never touches its parent's: a thread
//! that does not exist in the child may hold the parent's lock, and only the parent may use and close the stores behind
//! it.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// A `T` for each process, to be kept in a static.
pub struct PerProcess<T> {
    first: OnceLock<Link<T>>,
}

struct Link<T> {
    process: u32,
    value: Mutex<T>,
    /// The value of a child process.
    next: OnceLock<Box<Link<T>>>,
}

impl<T: Default> Link<T> {
    fn new() -> Self {
        Self {
            process: std::process::id(),
            value: Mutex::default(),
            next: OnceLock::new(),
        }
    }
}

impl<T: Default> PerProcess<T> {
    /// An empty chain.
    #[expect(clippy::new_without_default, reason = "for statics alone")]
    pub const fn new() -> Self {
        Self {
            first: OnceLock::new(),
        }
    }

    /// The value of this process, locked.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let process = std::process::id();
        let mut link = self.first.get_or_init(Link::new);
        while link.process != process {
            link = link.next.get_or_init(|| Box::new(Link::new()));
        }
        link.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
