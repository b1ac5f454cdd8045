//! Encrypted archives. An archiver continues one without an identity. A restore needs one.

use super::{BLOCK, Counts, Model, Objects, Run, check, restore, run, shape, with_bucket};
use tonearm_archive::{ArchiveError, Catalog, KeyError, Plan, Target};
use tonearm_format::{ARCHIVE_HEADER_BYTES, ArchiveHeader, ArchiveKind};
use tonearm_sim::Layout;
use tonearm_sim::archives::ENCRYPTED;

/// What a compressed payload begins with.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

#[test]
fn encrypted_archive_hides_content_across_restarts() {
    let mut counts = Counts::default();
    let mut image = shape(Layout::Overwrite, 32).create_with_spare(1 << 20);
    let (objects, model) = (Objects::default(), Model::default());
    for opening in 0..8 {
        let one = Run {
            object_bytes: 100 << 10,
            keep_ms: 6 * 3_600_000,
            in_order: opening % 2 == 0,
            // An hour later each time. Old bases are deleted, so the archiver reads what is kept.
            ..Run::of(4000 + 2 * opening, 60)
        };
        image.disks = run(&image, &objects, &model, one, &mut counts);
    }
    let mut encrypted = 0;
    for (name, object) in objects.borrow().iter().filter(|(name, _)| *name != "probe") {
        let header = ArchiveHeader::decode(object).unwrap();
        let has_content = matches!(header.kind, ArchiveKind::Range | ArchiveKind::BasePart);
        assert_eq!(header.encrypted, has_content, "{name}");
        let payload = &object[ARCHIVE_HEADER_BYTES..];
        assert_eq!(payload.starts_with(ENCRYPTED), has_content, "{name}");
        assert!(
            !has_content || !payload.windows(4).any(|part| part == ZSTD),
            "{name}"
        );
        encrypted += u64::from(has_content);
    }
    assert!(encrypted > 30, "{encrypted}");
    assert!(counts.bases > 5 && counts.gaps == 0, "{counts:?}");
    let home = Layout::Overwrite.home(BLOCK as u32, 10);
    check(&objects, &model, &mut counts, home);
    assert!(counts.restored > 100, "{counts:?}");
    assert!(restore(&objects, Target::Latest, home).is_ok());

    with_bucket(&objects, async |mut bucket| {
        bucket.keys.decrypts = false;
        // The catalog and the plan need no key, the content does.
        let catalog = Catalog::load(&bucket).await.unwrap();
        let plan = Plan::make(&bucket, &catalog, &Target::Latest)
            .await
            .unwrap();
        for object in &plan.objects {
            let refused = object.fetch(&bucket).await.unwrap_err();
            assert!(
                matches!(
                    &refused,
                    ArchiveError::Key {
                        error: KeyError::NoIdentity,
                        ..
                    }
                ),
                "{refused}"
            );
            let text = refused.to_string();
            assert!(text.contains("it is encrypted; give an identity"), "{text}");
        }
    });
}
