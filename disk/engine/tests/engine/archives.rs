//! How far the archive of an open store is.

#![allow(clippy::unwrap_used)]

use crate::common::{SEGMENTS, run, store};
use tonearm_base::{Lsn, Nanos};
use tonearm_engine::{ArchiveState, EngineError, OpenOptions};

#[test]
fn new_archive_starts_with_empty_progress() {
    let options = OpenOptions::default();
    let (waited, _) = run(&store(SEGMENTS), options, async |open| {
        let engine = &open.engine;
        engine.begin_archive("file:///one").unwrap();
        engine.note_archive(|info| info.archived_lsn = 7);
        assert!(engine.wait_archived(Lsn(7), None).await.unwrap());
        engine.note_archive(|info| info.state = ArchiveState::Ended);
        // Until another one begins.
        assert_eq!(engine.archived(), Lsn(7));
        engine.begin_archive("file:///two").unwrap();
        let deadline = Some(open.rt.now() + Nanos::from_secs(1).0);
        let waited = engine.wait_archived(Lsn(7), deadline).await;
        let again = engine.begin_archive("file:///three");
        assert!(matches!(again, Err(EngineError::Archived(url)) if url == "file:///two"));
        (waited.unwrap(), engine.archived())
    });
    assert_eq!(waited, (false, Lsn(0)));
}
