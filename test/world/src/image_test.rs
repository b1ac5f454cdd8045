use crate::DiskImage;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Against a plain array of bytes, with clones that must not change.
#[test]
fn an_image_keeps_any_bytes() {
    const SIZE: usize = 3 << 20;
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let (mut image, mut model) = (DiskImage::new(SIZE as u64), vec![0u8; SIZE]);
    let mut kept = Vec::new();
    for round in 0..3000 {
        let from = match rng.next_u32() % 3 {
            0 => rng.next_u64() as usize % (SIZE / 4096) * 4096,
            _ => rng.next_u64() as usize % SIZE,
        };
        let most = (SIZE - from).min([16, 600, 4096, 20_000, 1 << 20][round % 5]);
        let len = 1 + rng.next_u64() as usize % most;
        let range = from..from + len;
        match rng.next_u32() % 6 {
            0 => {
                image.zero(from as u64, len as u64);
                model[range].fill(0);
            }
            // A stamp: a few bytes, and zeroes.
            1 => {
                let mut data = vec![0; len];
                rng.fill_bytes(&mut data[..len.min(16)]);
                image.write(from as u64, &data);
                model[range].copy_from_slice(&data);
            }
            // Copies of a few bytes.
            2 => {
                let mut copied = [0; 16];
                rng.fill_bytes(&mut copied);
                let data: Vec<u8> = copied.iter().copied().cycle().take(len).collect();
                image.write(from as u64, &data);
                model[range].copy_from_slice(&data);
            }
            3 => {
                let mut data = vec![0; len];
                rng.fill_bytes(&mut data);
                image.write(from as u64, &data);
                model[range].copy_from_slice(&data);
            }
            _ => {
                let mut found = vec![0xaa; len];
                image.read(from as u64, &mut found);
                assert!(found == model[range], "round {round}");
            }
        }
        if round % 500 == 0 {
            kept.push((image.clone(), model.clone()));
        }
    }
    kept.push((image, model));
    for (image, model) in kept {
        let mut found = vec![0xaa; SIZE];
        image.read(0, &mut found);
        assert!(found == model);
        let used = |page: &&[u8]| page.iter().any(|byte| *byte != 0);
        assert_eq!(
            image.used_pages().len(),
            model.chunks(4096).filter(used).count()
        );
    }
}
