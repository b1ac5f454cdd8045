//! Restores to a time.

use super::*;

/// A time between two commits gives the state of the first one, however long the pause was.
#[test]
fn a_time_gives_the_last_commit_that_was_durable_then() {
    let mut image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
    let objects = Objects::default();
    let mut wanted: Vec<(u64, Lsn)> = Vec::new();
    for opening in 0..2 {
        let shared = objects.clone();
        let work = move |world: SimWorld, rt: Rt, image: StoreImage| async move {
            let disk = image.open_disk(&rt, open_options()).await.unwrap();
            let start = START_MS + opening * 3_600_000;
            let source = EngineSource::new(disk.engine(), &rt, start);
            let (own, clock) = (source.clone(), rt.clone());
            let archiver = rt.spawn(async move {
                let bucket = SimBucket::sound(&clock, &shared);
                let options = ArchiverOptions {
                    interval: Nanos::from_millis(10),
                    ..ArchiverOptions::default()
                };
                Archiver::new(&bucket, &own, options).run().await
            });
            let (mut random, mut times) = (ChaCha8Rng::seed_from_u64(opening), Vec::new());
            for _ in 0..6 {
                for _ in 0..5 {
                    Step::choose(&mut random).make(&disk).await.unwrap();
                    rt.sleep(Nanos(random.next_u64() % 200_000_000)).await;
                }
                disk.flush().await.unwrap();
                rt.sleep(Nanos::from_millis(300)).await;
                let now_ms = start + rt.now().0 / 1_000_000;
                times.push((now_ms, disk.engine().marks().durable));
                rt.sleep(Nanos::from_millis(300)).await;
            }
            source.end();
            archiver.await.unwrap();
            (world.crash(), times)
        };
        let ((crash, times), _) = image.run(opening, work);
        wanted.extend(times);
        image.disks = crash.images(opening);
    }
    let world = SimWorld::new(SimOptions::default(), Vec::new());
    let rt = Rt::new(world.driver());
    let own = rt.clone();
    rt.block_on(async move {
        let bucket = SimBucket::sound(&own, &objects);
        let catalog = Catalog::load(&bucket).await.unwrap();
        for (unix_ms, lsn) in wanted {
            let plan = Plan::make(&bucket, &catalog, &Target::Time(unix_ms)).await;
            assert_eq!(plan.unwrap().lsn, lsn, "at {unix_ms}");
        }
        let before = Plan::make(&bucket, &catalog, &Target::Time(START_MS - 1)).await;
        let text = before.unwrap_err().to_string();
        assert!(
            text.contains("of that time, nothing that was durable is kept"),
            "{text}"
        );
    });
}
