//! Which images are recognised, and the messages for their users.

use super::{FORMATS, Format, HEAD_BYTES};

#[test]
fn formats_are_known_by_their_first_bytes() {
    for (at, magic, format) in FORMATS {
        let mut head = vec![0; *at];
        head.extend_from_slice(magic);
        assert!(head.len() <= HEAD_BYTES);
        assert_eq!(Format::of(&head[..head.len() - 1]), None, "{format:?}");
        assert_eq!(Format::of(&head), Some(*format));
        head.resize(HEAD_BYTES, 7);
        assert_eq!(Format::of(&head), Some(*format));
    }
}

#[test]
fn plain_images_have_no_format() {
    let mut boot = vec![0; HEAD_BYTES];
    boot[..3].copy_from_slice(b"\xeb\x63\x90");
    boot[510..].copy_from_slice(b"\x55\xaa");
    for head in [&boot[..], &[0; HEAD_BYTES], b"", b"QFI"] {
        assert_eq!(Format::of(head), None);
    }
}

#[test]
fn advice_has_the_command() {
    let qcow = Format::of(b"QFI\xfb").unwrap();
    let text = qcow.advice("a.qcow2", "s.tn", "main");
    assert!(
        text.contains("`qemu-img convert -f qcow2 -O raw a.qcow2 image.raw`"),
        "{text}"
    );
    assert!(text.contains("--raw"), "{text}");
    let gzip = Format::of(b"\x1f\x8b\x08").unwrap();
    let text = gzip.advice("a.gz", "s.tn", "main");
    assert!(
        text.contains("`zcat a.gz | tonearm volume put s.tn main -`"),
        "{text}"
    );
    assert!(
        qcow.advice("-", "s.tn", "main").contains("qemu-img"),
        "no name"
    );
}
