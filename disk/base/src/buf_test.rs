use super::{ALIGN, BufPool, LooseBuf};
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

#[test]
fn memory_that_a_pool_adopts_is_not_copied() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let pool = BufPool::new(1 << 20);
    let page: Vec<u8> = (0..8000).map(|byte| byte as u8).collect();
    let loose = is_send(LooseBuf::copy_of(&page));
    assert_eq!(loose[..], page);
    let address = loose.as_ptr();
    let buf = pool.adopt(loose);
    assert_eq!((buf.as_ptr(), buf.capacity()), (address, 8192));
    assert_eq!(buf[..], page);
    assert_eq!(pool.in_use_bytes(), 8192);
    drop(buf);
    assert_eq!((pool.in_use_bytes(), pool.cached_bytes()), (0, 8192));
    assert_eq!(pool.alloc(8192)[8000..], [0; 192], "initialised memory");
}

#[test]
fn a_few_loose_bytes_take_no_page() {
    let pool = BufPool::new(0);
    let loose = LooseBuf::copy_of(b"few");
    assert!(matches!(loose, LooseBuf::Short(_)));
    assert_eq!(pool.adopt(loose)[..], *b"few");
    drop(LooseBuf::copy_of(&[7; ALIGN]));
    assert_eq!(pool.in_use_bytes(), 0);
}

#[test]
fn free_memory_of_a_pool_can_be_filled_on_another_thread() {
    let pool = BufPool::new(1 << 20);
    assert!(pool.spare(ALIGN).is_none());
    let buf = pool.copy_of(&[7; ALIGN]);
    let address = buf.as_ptr();
    drop(buf);
    let spare = pool.spare(100);
    assert_eq!(pool.cached_bytes(), 0);
    let loose = LooseBuf::copy_to(spare, &[1; ALIGN]);
    assert_eq!((loose.as_ptr(), &loose[..]), (address, &[1; ALIGN][..]));
    // Memory of another size is not used.
    drop(pool.alloc(ALIGN));
    let loose = LooseBuf::copy_to(pool.spare(ALIGN), &[2; 2 * ALIGN]);
    assert_eq!(loose[..], [2; 2 * ALIGN]);
    assert_eq!(pool.adopt(loose).capacity(), 2 * ALIGN);
}
