//! What requests wait for.

use super::apart;
use tonearm_store::Executor;

#[test]
fn a_request_ends_when_the_thread_that_works_for_it_panics() {
    let executor = Executor::new().unwrap();
    let own = executor.clone();
    let ended = executor.rt.block_on(async move {
        let panics = || -> anyhow::Result<u32> { panic!("a fault of its own") };
        let panicked = apart(&own, "panics", panics).await;
        (panicked, apart(&own, "works", || Ok(7)).await)
    });
    let (panicked, worked) = ended;
    let said = panicked.unwrap_err().to_string();
    assert!(said.contains("has met a fault of the server"), "{said}");
    assert_eq!(worked.unwrap(), 7);
}
