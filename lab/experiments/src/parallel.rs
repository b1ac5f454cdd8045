//! Work on the threads of the pool. The iterators of rayon stand here once: each type of an item would generate their
//! code again, a quarter of the machine code of this crate.

use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

/// Runs `work` on each of `items`, on all threads of the current pool. The results are in the order of the items, so
/// they do not depend on the number of threads.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    for_each(items.len(), &|index| {
        let result = work(&items[index]);
        *results[index]
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(result);
    });
    results
        .into_iter()
        .filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner))
        .collect()
}

fn for_each(count: usize, work: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().with_max_len(1).for_each(work);
}
