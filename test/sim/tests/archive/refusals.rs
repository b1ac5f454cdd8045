//! What a bucket refuses: later it may take it again; from the start on, for minutes or with a proof, the archive ends.

use super::merging::Gate;
use super::*;
use tonearm_archive::MergeLevel;
use tonearm_engine::ArchiveState;

/// What a bucket answers to a request, in place of carrying it out.
type Says = Rc<RefCell<Option<BucketError>>>;

fn transient() -> BucketError {
    BucketError::Transient("it is away".into())
}

fn denied() -> BucketError {
    BucketError::Denied("the keys are old".into())
}

fn refused() -> BucketError {
    BucketError::Refused("there is no bucket".into())
}

/// An archived store, for a test.
struct Scene {
    rt: Rt,
    disk: tonearm_disk::Disk,
    source: EngineSource,
    /// To all requests.
    all: Says,
    /// To those that read or delete objects. A bucket without permission to read knows at least which objects there are.
    but_puts: Says,
    ended: tonearm_rt::JoinHandle<Result<(), ArchiveError>>,
    random: ChaCha8Rng,
}

impl Scene {
    fn state(&self) -> ArchiveState {
        self.disk.engine().archive().unwrap_or_default().state
    }

    fn why(&self) -> String {
        let info = self.disk.engine().archive().unwrap_or_default();
        info.why.unwrap_or_default()
    }

    async fn sleep(&self, seconds: u64) {
        self.rt.sleep(Nanos::from_secs(seconds)).await;
    }

    /// Makes a durable commit.
    async fn commit(&mut self) -> Lsn {
        let before = self.disk.engine().marks().appended;
        while self.disk.engine().marks().appended == before {
            Step::choose(&mut self.random)
                .make(&self.disk)
                .await
                .unwrap();
        }
        self.disk.flush().await.unwrap();
        self.disk.engine().marks().durable
    }

    /// The archive has all commits, and has not ended.
    fn is_complete(&self) -> bool {
        let engine = self.disk.engine();
        self.state() == ArchiveState::Running && engine.archived() == engine.marks().durable
    }
}

/// Runs `test` on a store that is archived in a bucket that answers as `first` from the start on.
fn with_archive<F: Future<Output = ()> + 'static>(
    first: Option<BucketError>,
    options: ArchiverOptions,
    test: impl FnOnce(Scene) -> F + 'static,
) {
    let image = shape(Layout::Overwrite, 64).create_with_spare(1 << 20);
    image.with_disk(7, async move |_, rt, disk| {
        let (all, but_puts) = (Rc::new(RefCell::new(first)), Says::default());
        let mut bucket = Gate::new(SimBucket::sound(&rt, &Objects::default()));
        let (of_all, of_some) = (all.clone(), but_puts.clone());
        bucket.refuses = Box::new(move |kind| {
            let says = of_some.borrow().clone();
            let says = says.filter(|_| matches!(kind, "get" | "delete"));
            of_all.borrow().clone().or(says)
        });
        let (source, ended) = archive(&disk, &rt, START_MS, bucket, options);
        let scene = Scene {
            rt: rt.clone(),
            disk,
            source: source.clone(),
            all,
            but_puts,
            ended,
            random: ChaCha8Rng::seed_from_u64(7),
        };
        test(scene).await;
        source.end();
    });
}

#[test]
fn an_archive_that_has_begun_waits_for_whatever_refuses_it() {
    with_archive(None, ArchiverOptions::default(), |mut scene| async move {
        scene.commit().await;
        scene.sleep(30).await;
        assert!(scene.is_complete());
        for error in [transient(), denied(), refused()] {
            *scene.all.borrow_mut() = Some(error.clone());
            scene.commit().await;
            scene.sleep(1000).await;
            assert_eq!(
                (scene.state(), scene.why()),
                (ArchiveState::Waiting, error.to_string())
            );
            *scene.all.borrow_mut() = None;
            scene.sleep(12).await;
            assert!(scene.is_complete(), "{error:?}: {}", scene.why());
        }
    });
}

#[test]
fn definite_error_at_the_start_ends_the_archive() {
    with_archive(
        Some(refused()),
        ArchiverOptions::default(),
        |scene| async move {
            scene.sleep(2).await;
            assert_eq!(scene.state(), ArchiveState::Ended);
            let ended = scene.ended.take().unwrap().unwrap_err();
            assert!(ended.to_string().contains("there is no bucket"), "{ended}");
        },
    );
}

#[test]
fn archive_denied_at_the_start_waits_before_ending() {
    with_archive(
        Some(denied()),
        ArchiverOptions::default(),
        |scene| async move {
            scene.sleep(100).await;
            assert_eq!(
                (scene.state(), scene.why()),
                (ArchiveState::Waiting, denied().to_string())
            );
            scene.sleep(100).await;
            assert_eq!(scene.state(), ArchiveState::Ended);
            assert!(scene.why().contains("the keys are old"), "{}", scene.why());
        },
    );
    for (error, seconds) in [(denied(), 100), (transient(), 10_000)] {
        let first = Some(error.clone());
        with_archive(
            first,
            ArchiverOptions::default(),
            move |mut scene| async move {
                scene.sleep(seconds).await;
                assert_eq!(scene.state(), ArchiveState::Waiting, "{error}");
                *scene.all.borrow_mut() = None;
                scene.commit().await;
                scene.sleep(40).await;
                assert!(scene.is_complete(), "{error}: {}", scene.why());
            },
        );
    }
}

#[test]
fn the_end_tries_for_thirty_seconds() {
    for (away, is_archived) in [(25, true), (40, false)] {
        with_archive(
            None,
            ArchiverOptions::default(),
            move |mut scene| async move {
                scene.commit().await;
                scene.sleep(30).await;
                *scene.all.borrow_mut() = Some(transient());
                let last = scene.commit().await;
                // By now the pauses are the longest ones.
                scene.sleep(60).await;
                scene.source.end();
                scene.sleep(away).await;
                *scene.all.borrow_mut() = None;
                scene.sleep(12).await;
                let ended = scene.ended.take().expect("an end");
                match is_archived {
                    true => assert!(ended.is_ok(), "{ended:?}"),
                    false => assert!(
                        matches!(ended, Err(ArchiveError::Unfinished { .. })),
                        "{ended:?}"
                    ),
                }
                assert_eq!(scene.disk.engine().archived() == last, is_archived);
            },
        );
    }
}

/// Keys may allow to put objects and nothing else.
#[test]
fn commits_do_not_wait_for_the_merging_of_others() {
    let options = ArchiverOptions {
        interval: Nanos::from_millis(100),
        keep_every_commit_ms: 1000,
        levels: [100, 2000, 4000].map(|span_ms| MergeLevel {
            after_ms: 0,
            span_ms: 20 * span_ms,
        }),
        ..ArchiverOptions::default()
    };
    with_archive(None, options, |mut scene| async move {
        *scene.but_puts.borrow_mut() = Some(denied());
        for _ in 0..60 {
            scene.commit().await;
            scene.sleep(1).await;
        }
        assert!(scene.is_complete(), "{}", scene.why());
        let info = || scene.disk.engine().archive().unwrap_or_default();
        let why = info().unmerged.unwrap_or_default();
        assert!(why.contains("the keys are old"), "{why}");
        *scene.but_puts.borrow_mut() = None;
        scene.sleep(60).await;
        assert_eq!(info().unmerged, None);
        assert!(info().merged > 0, "{:?}", info());
    });
}
