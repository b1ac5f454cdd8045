//! Places where an archive may lie.

use super::*;

/// The place of an archive must refuse a second object of one name.
#[test]
fn a_bucket_that_replaces_objects_is_refused() {
    let image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
    image.with_disk(6, async |_, rt, disk| {
        let source = EngineSource::new(disk.engine(), &rt, clock(&rt, START_MS));
        let objects = Objects::default();
        let bucket = SimBucket {
            replaces: true,
            ..SimBucket::sound(&rt, &objects)
        };
        let refused = Archiver::new(&bucket, &source, ArchiverOptions::default())
            .run()
            .await;
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("two servers could write one archive"),
            "{text}"
        );
        assert!(
            !objects
                .borrow()
                .keys()
                .any(|name| name.starts_with("chain/"))
        );
        source.end();
    });
}
