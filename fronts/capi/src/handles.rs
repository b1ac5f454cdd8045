//! The caller's open stores and units, by number.

use crate::OpenAru;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tonearm_store::Store;

/// Open stores.
pub static STORES: Table<Store> = Table::new();
/// Open units.
pub(crate) static ARUS: Table<OpenAru> = Table::new();

/// The number of a handle. A process uses each number once.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Number(usize);

impl Number {
    /// Of a handle of the caller's.
    pub fn of<T>(handle: *mut T) -> Self {
        Self(handle.addr())
    }

    /// The number as a handle, an address that is never dereferenced.
    pub fn as_handle<T>(self) -> *mut T {
        std::ptr::without_provenance_mut(self.0)
    }
}

/// Things by number.
pub struct Table<T>(Mutex<BTreeMap<Number, Arc<T>>>);

impl<T> Table<T> {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Adds `thing`. Returns its number, which no other table uses.
    pub fn insert(&self, thing: Arc<T>) -> Number {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let number = Number(NEXT.fetch_add(1, Ordering::Relaxed));
        self.locked().insert(number, thing);
        number
    }

    /// The one with `number`.
    pub fn get(&self, number: Number) -> Option<Arc<T>> {
        self.locked().get(&number).cloned()
    }

    /// Takes the one with `number` out.
    pub fn remove(&self, number: Number) -> Option<Arc<T>> {
        self.locked().remove(&number)
    }

    /// Takes those out that are `chosen`.
    pub fn remove_where(&self, chosen: impl Fn(&T) -> bool) -> Vec<Arc<T>> {
        let mut table = self.locked();
        let taken = table.extract_if(.., |_, thing| chosen(thing));
        taken.map(|(_, thing)| thing).collect()
    }

    fn locked(&self) -> MutexGuard<'_, BTreeMap<Number, Arc<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
