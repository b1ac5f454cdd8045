use super::{ALIGN, BufPool};
use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;

#[test]
fn buffers_are_aligned_and_have_the_requested_length() {
    let pool = BufPool::new(1 << 20);
    for len in [0, 1, 511, 4096, 4097, 1 << 20] {
        let buf = pool.alloc(len);
        assert_eq!(buf.len(), len);
        assert_eq!(buf.as_ptr() as usize % ALIGN, 0);
    }
}

#[test]
fn a_dropped_buffer_is_reused_and_the_cache_is_bounded() {
    let pool = BufPool::new(2 * ALIGN);
    let first = pool.alloc(100);
    let address = first.as_ptr();
    drop(first);
    assert_eq!(pool.cached_bytes(), ALIGN);
    assert_eq!(pool.alloc(4096).as_ptr(), address);
    drop((pool.alloc(1), pool.alloc(1), pool.alloc(1)));
    assert_eq!(pool.cached_bytes(), 2 * ALIGN);
}

#[test]
fn a_reused_buffer_of_zeroes_keeps_no_old_content() {
    let pool = BufPool::new(1 << 20);
    let mut first = pool.alloc(8192);
    let address = first.as_ptr();
    first.fill(7);
    drop(first);
    let zeroes = pool.alloc_zeroed(8000);
    assert_eq!(zeroes.as_ptr(), address);
    assert!(zeroes.iter().all(|byte| *byte == 0));
}

#[test]
fn a_lease_ends_with_the_last_slice() {
    struct Lease(Rc<Cell<bool>>);
    impl Drop for Lease {
        fn drop(&mut self) {
            self.0.set(true);
        }
    }
    let ended = Rc::new(Cell::new(false));
    let pool = BufPool::new(0);
    let mut buf = pool.alloc(8192);
    buf.attach(Rc::new(Lease(ended.clone())));
    let whole = buf.share();
    assert!(whole.has_own_lease(|_: &Lease| true));
    assert!(!whole.has_own_lease(|_: &Lease| false) && !whole.has_own_lease(|_: &u64| true));
    let other = pool.alloc(1).share();
    let shared: Rc<dyn Any> = Rc::new(1u64);
    other.attach(shared.clone());
    assert!(other.has_lease() && !other.has_own_lease(|_: &u64| true));
    drop(shared);
    assert!(other.has_own_lease(|_: &u64| true));
    let (first, second) = (whole.slice(0..4096), whole.slice(4096..8192));
    drop(whole);
    assert!(first.is_followed_by(&second) && !second.is_followed_by(&first));
    assert_eq!(first.joined(&second).len(), 8192);
    drop(first);
    assert!(!ended.get());
    drop(second);
    assert!(ended.get());
}
