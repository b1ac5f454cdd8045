use super::{lesson, load, open, uri};

#[test]
fn names_with_meaning_in_a_uri_are_escaped() {
    assert_eq!(
        uri("/a b/s&t#.tn", "50% ?.db"),
        "file:50%25%20%3f.db?vfs=tonearm&store=/a%20b/s%26t%23.tn"
    );
}

#[test]
fn words_of_the_shell_are_quoted() {
    assert_eq!(load("/a \"b\"/l.so"), r#".load "/a \"b\"/l.so""#);
    assert_eq!(open(r"c:\d"), r#".open "c:\\d""#);
}

#[test]
fn the_lesson_has_the_database_in_each_language() {
    let lesson = lesson("/l.so", &uri("/s.tn", "app.db"));
    assert_eq!(
        lesson
            .matches("\"file:app.db?vfs=tonearm&store=/s.tn\"")
            .count(),
        3
    );
    assert_eq!(lesson.matches("\"/l.so\"").count(), 3);
}
