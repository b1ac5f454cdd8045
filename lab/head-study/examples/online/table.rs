//! The full table of the Disk Mimic (Disk Mimic 2.2), measured on the model as the paper does on the drive.

use crate::world::{Model, Random};
use tonearm_drive::DriveOptions;
use tonearm_drive_file::DriveSpec;

/// Steps of the think time, of 0.1 ms: 0 to 9 ms.
pub const THINKS: usize = 91;
const SAMPLES: usize = 25;

/// For each size and think time, the skip of least mean response.
pub struct Table(Vec<u32>);

impl Table {
    /// The table of the region `[start, end)`, for the `sizes` sizes 4 KB, 8 KB and so on (50 in the paper).
    pub fn new(spec: &DriveSpec, start: u64, end: u64, sizes: usize) -> Self {
        let mut model = Model::new(spec, &DriveOptions::default());
        let mut random = Random(77);
        let spt = u64::from(model.track_sectors(start));
        let stride = (spt / 128).max(1);
        let skips = (spt + spt / 4) / stride;
        let mut best = Vec::with_capacity(sizes * THINKS);
        let mut at = 1_000_000_000_u64;
        for size in 0..sizes {
            let sectors = 8 * (size as u32 + 1);
            for think in 0..THINKS {
                let mut sums = vec![0_u64; skips as usize];
                for _ in 0..SAMPLES {
                    let room = end - start - u64::from(sectors) - 2 * spt;
                    let lba = start + 1 + random.below(room);
                    at += random.below(20_000_000);
                    let done = model.behind(lba, at);
                    let now = done + think as u64 * 100_000;
                    for (skip, sum) in sums.iter_mut().enumerate() {
                        *sum += model.response(now, lba + skip as u64 * stride, sectors);
                    }
                    at = now + 100_000_000;
                }
                let least = (0..sums.len())
                    .min_by_key(|k| sums[*k])
                    .expect("there are skips");
                best.push((least as u64 * stride) as u32);
            }
        }
        Self(best)
    }

    pub fn skip(&self, size: usize, think: usize) -> u64 {
        u64::from(self.0[size * THINKS + think])
    }

    pub fn memory_bytes(&self) -> usize {
        self.0.len() * 4
    }
}
