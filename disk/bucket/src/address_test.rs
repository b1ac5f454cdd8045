use super::*;
use std::collections::BTreeMap;

/// Names that other programs read as something else than their letters.
const NAMES: [&str; 16] = [
    "a#1",
    "a#2",
    "b?x",
    "b?y",
    "100%",
    "c%41",
    "cA",
    "a blank",
    "ablank",
    "\u{fc}ml",
    "u\u{308}ml",
    "p+q",
    "p q",
    "%ff",
    "%C3%BC",
    "back\\slash",
];

#[test]
fn each_address_is_to_the_letter_or_refused() {
    let mut places = BTreeMap::new();
    for name in NAMES {
        let url = format!("file:///backup/{name}");
        match Address::parse(&url) {
            Ok(Address::Folder(path)) => {
                assert_eq!(path.to_str().unwrap(), format!("/backup/{name}"));
                assert_eq!(places.insert(path, url), None);
            }
            Ok(other) => panic!("{url} is {other:?}"),
            Err(why) => assert!(why.contains("may stand for"), "{url}: {why}"),
        }
        let Ok(Address::Service { bucket, prefix }) = Address::parse(&format!("s3://b/x/{name}/"))
        else {
            panic!("{name} is refused in a bucket");
        };
        assert_eq!((bucket.as_str(), prefix), ("b", format!("x/{name}")));
    }
    let is_refused = |name: &&&str| Address::parse(&format!("file:///{name}")).is_err();
    let refused: Vec<_> = NAMES.iter().filter(is_refused).collect();
    assert_eq!(refused, [&"c%41", &"%ff", &"%C3%BC"]);
}

#[test]
fn a_slash_at_the_end_names_the_same_place() {
    for (url, other) in [
        ("file:///a/b", "file:///a/b/"),
        ("s3://b/a", "s3://b/a/"),
        ("s3://b", "s3://b/"),
    ] {
        assert_eq!(Address::parse(url), Address::parse(other));
    }
}

#[test]
fn invalid_addresses_are_refused() {
    for (url, part) in [
        ("backup", "this is no address of an archive"),
        ("", "this is no address of an archive"),
        ("/backup", "this is no address of an archive"),
        ("file:x/y", "this is no address of an archive"),
        ("file:/x/y", "this is no address of an archive"),
        ("ftp://host/x", "not at ftp://"),
        ("FILE:///x", "not at FILE://"),
        ("file://relative", "write an absolute path"),
        ("file://", "write an absolute path"),
        ("file:///", "the root folder"),
        ("file:///a//b", "without empty parts"),
        ("file:///a//", "without empty parts"),
        ("file:///a/../b", "without empty parts"),
        ("file:///./b", "without empty parts"),
        ("file:///a\nb", "control characters"),
        ("file:///a\tb", "control characters"),
        ("file:///a\n", "control characters"),
        ("s3:///x", "no name of a bucket"),
        ("s3://", "no name of a bucket"),
        ("s3://b#1/x", "no name of a bucket"),
        ("s3://user@b/x", "no name of a bucket"),
        ("s3://b?x/y", "no name of a bucket"),
        ("s3://b:9000/y", "no name of a bucket"),
        ("s3://b/x/../y", "without empty parts"),
        ("s3://b/x\r\ny", "control characters"),
    ] {
        let why = Address::parse(url).expect_err(url);
        assert!(why.contains(part), "{url:?}: {why}");
    }
}
