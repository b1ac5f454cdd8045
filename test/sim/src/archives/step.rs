//! Operations on the volume of a store that is archived.

use super::{BLOCK, MAIN};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;
use tonearm_base::BufPool;
use tonearm_disk::{Disk, DiskError};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Write,
    Trim,
    Zeroes,
    Flush,
    Unit,
}

/// One operation.
pub struct Step {
    way: Way,
    /// Byte offset and new bytes of each part.
    parts: Vec<(u64, Vec<u8>)>,
}

impl Step {
    /// A random operation.
    pub fn choose(random: &mut ChaCha8Rng) -> Self {
        let blocks = MAIN / BLOCK;
        let first = random.next_u64() % (blocks - 8) * BLOCK;
        let data = |random: &mut ChaCha8Rng, bytes: u64| {
            let mut content = vec![0; bytes as usize];
            random.fill_bytes(&mut content);
            content
        };
        let zeroes = |count: u64| vec![0; (count * BLOCK) as usize];
        let (way, parts) = match random.next_u32() % 40 {
            0..16 => {
                let count = 1 + random.next_u64() % 8;
                (Way::Write, vec![(first, data(random, count * BLOCK))])
            }
            16..28 => {
                // A few words of a block that was written just before: a patch.
                let hot = random.next_u64() % 4 * BLOCK;
                let at = hot + random.next_u64() % 500 * 8;
                (Way::Write, vec![(at, data(random, 8))])
            }
            28..31 => (Way::Trim, vec![(first, zeroes(3))]),
            31..33 => (Way::Zeroes, vec![(first, zeroes(5))]),
            33..35 => (Way::Flush, Vec::new()),
            35 => {
                // Too large for memory: its content is spilled, and moved by the commit.
                let chosen = (0..blocks).filter_map(|block| {
                    let is_written = random.next_u32().is_multiple_of(2);
                    is_written.then(|| (block * BLOCK, data(random, BLOCK)))
                });
                (Way::Unit, chosen.collect())
            }
            _ => {
                let part = |_| {
                    let at = random.next_u64() % (MAIN - 2000);
                    let bytes = 1 + random.next_u32() as usize % 1999;
                    (at, data(random, bytes as u64))
                };
                (Way::Unit, (0..3).map(part).collect())
            }
        };
        Self { way, parts }
    }

    /// Changes the content of the volume as the operation does.
    pub fn apply(&self, content: &mut [u8]) {
        for (at, bytes) in &self.parts {
            content[*at as usize..][..bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Carries it out.
    ///
    /// # Errors
    /// Those of the disk.
    pub async fn make(self, disk: &Disk) -> Result<(), DiskError> {
        let volume = disk.volume("main")?;
        if self.way == Way::Flush {
            return disk.flush().await;
        }
        if self.way == Way::Unit {
            let mut unit = disk.begin();
            for (at, bytes) in &self.parts {
                unit.write(&volume, *at, bytes).await?;
            }
            return unit.end().await.map(drop);
        }
        for (at, bytes) in self.parts {
            let count = bytes.len() as u64;
            match self.way {
                Way::Trim => volume.trim(at, count, false).await?,
                Way::Zeroes => volume.write_zeroes(at, count, true, false).await?,
                _ => {
                    let data = BufPool::new(0).copy_of(&bytes).share();
                    volume.write(at, data, false).await?;
                }
            }
        }
        Ok(())
    }
}
