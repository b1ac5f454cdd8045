use super::*;
use object_store::path::Path;

fn page(name: &str) -> String {
    format!(
        "<R><Contents><Key>a/chain/1</Key></Contents><Contents><Key>{name}</Key></Contents></R>"
    )
}

#[test]
fn name_that_is_no_path_becomes_a_path_that_no_object_has() {
    for (name, path) in [
        ("a/chain//x", "a/chain/%2F/x"),
        ("a/chain/../x", "a/chain/%2E%2E/x"),
        ("a/chain/./x", "a/chain/%2E/x"),
        ("a/chain//", "a/chain/%2F/"),
        ("a/chain/b\u{7f}c", "a/chain/b%7Fc"),
        ("a/chain/b&#x1;c", "a/chain/b%01c"),
        ("a/chain/b&#10;c", "a/chain/b%0Ac"),
        ("a/chain/&#x2e;&#46;/x", "a/chain/%2E%2E/x"),
        ("a&#39;b/chain&#47;/x", "a&#39;b/chain/%2F/x"),
        ("/", "%2F"),
    ] {
        assert_eq!(with_paths(&page(name)), Some(page(path)), "{name}");
        assert!(Path::parse(path).is_ok(), "{path}");
    }
}

#[test]
fn name_that_is_a_path_stays() {
    for name in [
        "a/chain/2",
        "a/chain/",
        "a b/%41/\u{fc}",
        "a/&amp;&lt;b&#39;&#xfc;&#y",
        ".a/b.",
    ] {
        assert_eq!(with_paths(&page(name)), None, "{name}");
    }
    assert_eq!(with_paths("<Key>a//b"), None);
    assert_eq!(with_paths(""), None);
}
