//! The differences between a state of the model and a found store, updated commit by commit.

use super::state::{State, Touched};
use crate::found::Found;
use std::collections::{BTreeMap, BTreeSet};

/// The volumes and blocks that differ between a state and the found store.
#[derive(Default)]
pub(super) struct Wrong {
    volumes: BTreeSet<u8>,
    blocks: BTreeMap<u8, BTreeSet<u64>>,
}

impl Wrong {
    pub fn is_none(&self) -> bool {
        self.volumes.is_empty() && self.blocks.values().all(BTreeSet::is_empty)
    }

    pub fn count(&self) -> usize {
        self.volumes.len() * 1000 + self.blocks.values().map(BTreeSet::len).sum::<usize>()
    }

    /// Compares the touched part of `volume` again, or the whole volume.
    pub fn look(
        &mut self,
        state: &State,
        found: &Found,
        volume: u8,
        touched: Option<&Touched>,
        block: u64,
    ) {
        let (have, want) = (found.volumes.get(&volume), state.volumes.get(&volume));
        let blocks = self.blocks.entry(volume).or_default();
        let (have, want) = match (have, want) {
            (None, None) => {
                self.volumes.remove(&volume);
                blocks.clear();
                return;
            }
            (Some(have), Some(want)) if have.bytes.len() as u64 == want.size => {
                self.volumes.remove(&volume);
                (have, want)
            }
            _ => {
                self.volumes.insert(volume);
                blocks.clear();
                return;
            }
        };
        let range = match touched {
            Some(touched) => touched.from / block..touched.to.min(want.size).div_ceil(block),
            None => 0..want.size.div_ceil(block),
        };
        let mut expected = vec![0; block as usize];
        for index in range {
            let from = (index * block) as usize;
            let to = (from + block as usize).min(have.bytes.len());
            let expected = &mut expected[..to - from];
            want.content.read(from as u64, expected);
            if have.unreadable.contains(&index) || have.bytes[from..to] == *expected {
                blocks.remove(&index);
            } else {
                blocks.insert(index);
            }
        }
    }

    pub fn describe(&self, state: &State, found: &Found, block: u64) -> String {
        let mut text = String::new();
        for volume in self.volumes.iter().take(3) {
            let size =
                |size: Option<u64>| size.map_or("absent".into(), |size| format!("{size} bytes"));
            let have = found.volumes.get(volume).map(|v| v.bytes.len() as u64);
            let want = state.volumes.get(volume).map(|v| v.size);
            text += &format!(
                " volume {volume} is {} in place of {};",
                size(have),
                size(want)
            );
        }
        for (volume, blocks) in &self.blocks {
            for index in blocks.iter().take(3) {
                let (Some(have), Some(want)) =
                    (found.volumes.get(volume), state.volumes.get(volume))
                else {
                    continue;
                };
                let from = (index * block) as usize;
                let to = (from + block as usize).min(have.bytes.len());
                let mut expected = vec![0; to - from];
                want.content.read(from as u64, &mut expected);
                let have = &have.bytes[from..to];
                let differs = |at: &usize| have[*at] != expected[*at];
                let first = (0..have.len()).find(differs).unwrap_or(0);
                let last = (0..have.len()).rfind(differs).unwrap_or(0);
                text += &format!(
                    " volume {volume} differs in bytes {}..={} ({:02x?} in place of {:02x?});",
                    from + first,
                    from + last,
                    &have[first..(first + 8).min(have.len())],
                    &expected[first..(first + 8).min(have.len())]
                );
            }
        }
        text
    }
}
