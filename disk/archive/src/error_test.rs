use super::*;

#[test]
fn writer_of_an_object_cannot_write_to_the_terminal() {
    let error = ArchiveError::Fenced {
        url: "s3://b".into(),
        creator: "evil\u{1b}[2J\u{1b}]0;x\u{7}\r\nall is well \u{9b}\u{202e}\u{fc}".into(),
    };
    let text = error.to_string();
    assert!(!text.contains(char::is_control), "{text:?}");
    assert!(!text.contains('\u{202e}'), "{text:?}");
    assert!(text.contains("evil\\u{1b}[2J"), "{text}");
    assert!(text.contains('\u{fc}'), "{text}");
    let long = ArchiveError::Fenced {
        url: "s3://b".into(),
        creator: "x".repeat(1 << 20),
    };
    assert!(long.to_string().len() < 1000);
}
