//! Indirect writes: the home takes the blocks of large commits before the log names their places
//! ([`IndirectHome`](tonearm_layout::IndirectHome)).

use crate::engine::Inner;
use std::rc::{Rc, Weak};
use tonearm_layout::{HomeBlock, HomeError, PlacedBlock};
use tonearm_rt::Boxed;
use tonearm_trail::{IndirectBlock, IndirectSink};

/// The home of a store, for its log.
pub(crate) struct Sink(Weak<Inner>);

impl Sink {
    /// Lets the log of a store with such a home use it.
    pub fn install(engine: &Rc<Inner>) {
        if engine.home.indirect().is_some() {
            engine
                .trail
                .set_indirect(Rc::new(Self(Rc::downgrade(engine))));
        }
    }
}

impl IndirectSink for Sink {
    fn append(&self, blocks: Rc<[IndirectBlock]>) -> Boxed<'static, Option<Vec<u64>>> {
        let engine = self.0.upgrade();
        Box::pin(async move { engine?.append_indirect(&blocks).await })
    }

    fn flush(&self) -> Boxed<'static, Result<(), String>> {
        let engine = self.0.upgrade();
        Box::pin(async move {
            let Some(engine) = engine else {
                return Err("the store is gone".to_string());
            };
            let home = engine.home.indirect().expect("the home took blocks");
            let flushed = home.flush().await;
            flushed.map_err(|error| engine.fail(error.into()).to_string())
        })
    }
}

impl Inner {
    async fn append_indirect(&self, blocks: &[IndirectBlock]) -> Option<Vec<u64>> {
        // An archive takes the content of commits from the log.
        let _no_archive = self.archived.ended()?;
        let home = self.home.indirect()?;
        self.release_indirect();
        let last = blocks.last()?.lsn;
        let of_home = blocks.iter().map(|block| HomeBlock {
            block: block.block,
            data: block.data.clone(),
            crc: block.crc,
        });
        match home.append(last, of_home.collect()).await {
            Ok(Some(places)) => {
                let mut pinned = self.pinned.borrow_mut();
                for (appended, place) in blocks.iter().zip(&places) {
                    let placed = PlacedBlock {
                        block: appended.block,
                        place: *place,
                        crc: appended.crc,
                    };
                    pinned.placed(appended.lsn, placed);
                }
                Some(places)
            }
            Ok(None) | Err(HomeError::NoSpace { .. } | HomeError::Full { .. }) => None,
            Err(error) => {
                self.fail(error.into());
                None
            }
        }
    }
}
