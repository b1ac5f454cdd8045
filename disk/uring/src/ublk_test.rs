use crate::UblkDescriptors;
use std::io::Write;

/// A file stands for the device.
#[test]
fn a_description_is_the_one_of_its_tag() {
    let mut file = tempfile::tempfile().unwrap();
    let words = |tag: u64| [tag, tag << 32, !tag];
    #[expect(clippy::host_endian_bytes, reason = "the kernel's order")]
    for word in (0..4).flat_map(words) {
        file.write_all(&word.to_ne_bytes()).unwrap();
    }
    file.set_len(4096).unwrap();
    let descriptors = UblkDescriptors::map(&file.into(), 4).unwrap();
    for tag in 0..4 {
        assert_eq!(descriptors.read(tag), words(tag.into()));
    }
    let beyond = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| descriptors.read(4)));
    assert!(beyond.is_err());
}
