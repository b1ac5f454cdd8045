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
        let (crash, times) = image.with_disk(opening, async move |world, rt, disk| {
            let start = START_MS + opening * 3_600_000;
            let options = ArchiverOptions {
                interval: Nanos::from_millis(10),
                ..ArchiverOptions::default()
            };
            let bucket = SimBucket::sound(&rt, &shared);
            let (source, archiver) = archive(&disk, &rt, start, bucket, options);
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
        });
        wanted.extend(times);
        image.disks = crash.images(opening);
    }
    let text = check_plans(objects, wanted, |_| {});
    assert!(
        text.contains("nothing that was durable then is kept; times that can be restored: "),
        "{text}"
    );
}

/// What was there before the archive is in no range: the opening of the archive and its base give its time. The machine
/// sleeps for an hour, in which the executor's clock stands still.
#[test]
fn time_before_the_first_range_restores_the_base() {
    const HOUR_MS: u64 = 3_600_000;
    let image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
    let objects = Objects::default();
    let shared = objects.clone();
    let wanted = image.with_disk(9, async move |_, rt, disk| {
        let mut random = ChaCha8Rng::seed_from_u64(9);
        for _ in 0..5 {
            Step::choose(&mut random).make(&disk).await.unwrap();
        }
        disk.flush().await.unwrap();
        let (before, slept_ms) = (disk.engine().marks().durable, Rc::new(Cell::new(0)));
        let (now_ms, slept) = (clock(&rt, START_MS), slept_ms.clone());
        let now_ms = Rc::new(move || now_ms() + slept.get());
        let own_ms = now_ms.clone();
        let source = EngineSource::new(disk.engine(), &rt, move || own_ms());
        let (own, own_rt) = (source.clone(), rt.clone());
        let archiver = rt.spawn(async move {
            let bucket = SimBucket::sound(&own_rt, &shared);
            let options = ArchiverOptions::default();
            Archiver::new(&bucket, &own, options).run().await
        });
        rt.sleep(Nanos::from_secs(3)).await;
        let awake_ms = now_ms();
        slept_ms.set(HOUR_MS);
        Step::choose(&mut random).make(&disk).await.unwrap();
        disk.flush().await.unwrap();
        rt.sleep(Nanos::from_secs(3)).await;
        let after = disk.engine().marks().durable;
        source.end();
        archiver.await.unwrap();
        [
            (awake_ms, before),
            (awake_ms + HOUR_MS / 2, before),
            (now_ms(), after),
        ]
    });
    let before = wanted[0].1;
    check_plans(objects, wanted.to_vec(), move |catalog| {
        let first = catalog.ranges().next().map(|range| range.first);
        assert!(first > Some(before.0), "{first:?}");
    });
}

/// A restore to each of the times must make the state of the commit next to it. `look` looks at the catalog. Returns the
/// error for a time before all of them.
fn check_plans(
    objects: Objects,
    wanted: Vec<(u64, Lsn)>,
    look: impl FnOnce(&Catalog) + 'static,
) -> String {
    with_bucket(&objects, async move |bucket| {
        let catalog = Catalog::load(&bucket).await.unwrap();
        look(&catalog);
        for (unix_ms, lsn) in wanted {
            let plan = Plan::make(&bucket, &catalog, &Target::Time(unix_ms)).await;
            assert_eq!(plan.unwrap().lsn, lsn, "at {unix_ms}");
        }
        let before = Plan::make(&bucket, &catalog, &Target::Time(START_MS - 1)).await;
        before.unwrap_err().to_string()
    })
}
