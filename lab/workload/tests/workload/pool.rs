//! The buffer pool against a plain list.

use crate::common::all;
use proptest::prelude::*;
use tonearm_workload::{Access, PageIo, Pool, Pooled, Skew, SkewOptions, SkewedPages};

/// Pages from the most to the least recently used one, with their dirt.
#[derive(Default)]
struct List(Vec<(u64, bool)>);

impl List {
    fn access(&mut self, capacity: usize, page: u64, write: bool) -> PageIo {
        let mut io = PageIo::default();
        let dirty = match self.0.iter().position(|slot| slot.0 == page) {
            Some(at) => self.0.remove(at).1,
            None => {
                io.read = (!write).then_some(page);
                if self.0.len() == capacity {
                    let (old, dirty) = self.0.pop().expect("a page");
                    io.write = dirty.then_some(old);
                }
                false
            }
        };
        self.0.insert(0, (page, dirty || write));
        io
    }
}

proptest! {
    #[test]
    fn the_pool_does_what_a_list_does(
        capacity in 1usize..20,
        accesses in proptest::collection::vec((0u64..40, any::<bool>()), 0..400),
    ) {
        let (mut pool, mut list) = (Pool::new(capacity as u64), List::default());
        for (page, write) in accesses {
            prop_assert_eq!(pool.access(page, write), list.access(capacity, page, write));
        }
    }
}

#[test]
fn a_pooled_workload_is_the_io_of_the_pool_in_order() {
    let options = SkewOptions {
        pages: 100,
        accesses: 10_000,
        write_share: 0.4,
        reads: Skew::Uniform,
        writes: Skew::Knuth { p: 0.8 },
        seed: 1,
    };
    let mut pool = Pool::new(30);
    let mut expected = Vec::new();
    for access in all(&mut SkewedPages::new(&options)) {
        let io = pool.access(access.page, access.write);
        expected.extend(io.write.map(Access::write));
        expected.extend(io.read.map(Access::read));
    }
    let found = all(&mut Pooled::new(SkewedPages::new(&options), Pool::new(30)));
    assert_eq!(found, expected);
    assert!(found.len() < 10_000);
}
