//! The content to which recovery applies a patch.

use crate::images::{Base, Images};
use crate::pinned::{LogRetention, Moved, Order, Pinned};
use std::cell::RefCell;
use tonearm_base::{BufPool, Lsn, Slice};

/// Commits that were held.
#[derive(Default)]
struct Held(RefCell<Vec<Lsn>>);

impl LogRetention for Held {
    fn hold(&self, lsn: Lsn) {
        self.0.borrow_mut().push(lsn);
    }
    fn release(&self, _: Lsn) {}
}

fn content(value: u8) -> Slice {
    BufPool::new(0).copy_of(&[value; 16]).share()
}

fn write_home(pinned: &mut Pinned, images: &Images) {
    let batch = pinned.start_batch(Lsn(u64::MAX), Order::Sweep(0), 10, |_| false);
    pinned.finish_batch(batch.ranges.len(), &batch.written, images);
}

#[test]
fn a_patch_goes_on_from_the_newest_content() {
    let (mut pinned, images) = (Pinned::default(), Images::default());
    pinned
        .slot(3)
        .put(Lsn(1), Lsn(1), content(7), None, &images);
    let base = images.base(&pinned, 3);
    assert!(matches!(base, Base::Memory(data) if data[..] == [7; 16]));
    write_home(&mut pinned, &images);
    assert!(matches!(images.base(&pinned, 3), Base::Home));
}

#[test]
fn a_patch_whose_image_the_log_has_not_got_is_void() {
    let (mut pinned, images) = (Pinned::default(), Images::default());
    assert!(matches!(images.base(&pinned, 3), Base::None));
    pinned.zero(Lsn(1), 3, 1, false, &images);
    assert!(matches!(images.base(&pinned, 3), Base::None));
    let (block, from, crc) = (4, 9, 0);
    pinned.moved(Lsn(2), Moved { block, from, crc }, &images);
    assert!(matches!(images.base(&pinned, 4), Base::None));
}

#[test]
fn block_written_back_by_recovery_pins_its_image() {
    let (mut pinned, images) = (Pinned::default(), Images::default());
    pinned
        .slot(3)
        .put(Lsn(5), Lsn(5), content(7), None, &images);
    write_home(&mut pinned, &images);
    images.put_patched(&mut pinned, Lsn(8), 3, content(8));
    let held = Held::default();
    pinned.hold_all(&held);
    assert_eq!(*held.0.borrow(), [Lsn(5)]);
}
