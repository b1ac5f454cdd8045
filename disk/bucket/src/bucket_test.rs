use super::*;
use std::sync::mpsc::channel;

fn folder() -> (Arc<Folder>, Arc<Hung>) {
    let folder = Folder::new("file:///x", "/x".into(), User::Reader);
    (Arc::new(folder), Arc::default())
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn unusable_addresses_are_an_error() {
    for (url, part) in [
        ("backup", "this is no address of an archive"),
        ("ftp://host/x", "not at ftp://"),
        ("file://relative", "write an absolute path"),
        ("file:///does/not/exist", "has no archive"),
    ] {
        let error = RealBucket::open(url).err().unwrap().to_string();
        assert!(error.contains(part), "{url}: {error}");
    }
}

#[test]
fn an_operation_of_a_folder_that_hangs_is_given_up() {
    let (runtime, (folder, hung)) = (runtime(), folder());
    let stall = Duration::from_millis(20);
    let (release, held) = channel::<()>();
    let (ended, end) = channel::<()>();
    let first = runtime.block_on(on_disk(folder.clone(), hung.clone(), stall, move |_, _| {
        held.recv().ok();
        drop(ended);
        Ok(1)
    }));
    assert!(matches!(first, Err(BucketError::Transient(_))), "{first:?}");
    // Nothing new begins while it hangs.
    let next = || runtime.block_on(on_disk(folder.clone(), hung.clone(), stall, |_, _| Ok(2)));
    assert!(matches!(next(), Err(BucketError::Transient(_))));
    drop(release);
    end.recv().unwrap_err();
    while hung.0.load(Ordering::SeqCst) > 0 {
        std::thread::yield_now();
    }
    assert_eq!(next(), Ok(2));
}

#[test]
fn an_operation_of_a_folder_may_take_long_if_it_goes_forward() {
    let (runtime, (folder, hung)) = (runtime(), folder());
    let done = runtime.block_on(on_disk(
        folder,
        hung,
        Duration::from_millis(200),
        |_, beat| {
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(20));
                beat();
            }
            Ok(3)
        },
    ));
    assert_eq!(done, Ok(3));
}
