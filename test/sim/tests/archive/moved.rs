//! Blocks that large units have moved.

use super::*;
use tonearm_base::BufPool;
use tonearm_disk::{Disk, OpenOptions};

const BLOCKS: u64 = tonearm_sim::archives::MAIN / BLOCK;

/// Writes a unit that does not fit in memory to the blocks from `first` on.
async fn write(disk: &Disk, first: u64, byte: u8) {
    let main = disk.volume("main").unwrap();
    let mut unit = disk.begin();
    for block in first..BLOCKS {
        let data = [byte; BLOCK as usize];
        unit.write(&main, block * BLOCK, &data).await.unwrap();
    }
    assert!(unit.spilled_blocks() > 0);
    unit.end().await.unwrap();
}

/// A second unit takes the space from which the first one's blocks were moved. So the archive has the content that a write
/// gives such a block later, and makes that write durable first. Otherwise a power cut would take back what the archive has.
#[test]
fn changed_block_is_durable_before_it_is_archived() {
    for seed in 0..20 {
        let mut image = shape(Layout::Overwrite, 32).create_with_spare(SPARE[1]);
        let objects = Objects::default();
        let own = objects.clone();
        let (crash, _) = image.run(
            seed,
            move |world: SimWorld, rt: Rt, image: StoreImage| async move {
                let options = OpenOptions {
                    // The write-back of the last write would make it durable.
                    write_back_after: Nanos::from_secs(60),
                    ..open_options()
                };
                let disk = image.open_disk(&rt, options).await.unwrap();
                let (bucket, options) = (SimBucket::sound(&rt, &own), ArchiverOptions::default());
                let (source, _archiver) = archive(&disk, &rt, START_MS, bucket, options);
                rt.sleep(Nanos::from_secs(3)).await;
                write(&disk, 0, 1).await;
                write(&disk, 1, 2).await;
                disk.flush().await.unwrap();
                let data = BufPool::new(0).copy_of(&[3; BLOCK as usize]).share();
                let main = disk.volume("main").unwrap();
                main.write(0, data, false).await.unwrap();
                rt.sleep(Nanos::from_secs(2)).await;
                let before = disk.engine().archived();
                assert!(before > Lsn(0), "it is archived");
                source.end();
                world.crash()
            },
        );
        image.disks = crash.images(seed);
        let shared = objects.clone();
        let content = image.with_disk(seed, async move |_, rt, disk| {
            let source = EngineSource::new(disk.engine(), &rt, clock(&rt, START_MS));
            source.end();
            let bucket = SimBucket::sound(&rt, &shared);
            let ended = Archiver::new(&bucket, &source, ArchiverOptions::default());
            { ended }.run().await.unwrap();
            let main = disk.volume("main").unwrap();
            contents(&main).await.unwrap()
        });
        assert_eq!(
            content[0], 3,
            "seed {seed}: the archiver has made the write durable"
        );
        let home = Layout::Overwrite.home(BLOCK as u32, 10);
        let (_, found) = restore(&objects, Target::Latest, home).unwrap();
        assert!(
            found == digest(&content),
            "seed {seed}: the archive has another state than the store"
        );
    }
}
