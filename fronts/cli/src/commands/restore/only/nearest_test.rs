use super::{MOST, Nearest, likeness};

#[test]
fn few_names_are_listed_in_order() {
    assert_eq!(Nearest::new(b"x").text("u"), "there is none at all");
    let mut nearest = Nearest::new(b"x");
    nearest.add(b"main");
    assert_eq!(nearest.text("u"), "there is main");
    let mut nearest = Nearest::new(b"x");
    for name in [&b"x.db"[..], b"main", b"\xff"] {
        nearest.add(name);
    }
    assert_eq!(nearest.text("u"), r"there are main, x.db, \xff");
}

#[test]
fn most_similar_of_many_names_are_listed() {
    let mut nearest = Nearest::new(b"logs/app.bd");
    for number in 0..1000 {
        nearest.add(format!("logs/{number}").as_bytes());
    }
    nearest.add(b"logs/app.db");
    let text = nearest.text("file:///a");
    let told = text.strip_prefix("the names most like it are logs/app.db, ");
    let (names, rest) = told.and_then(|told| told.split_once(" (")).expect(&text);
    assert_eq!(names.split(", ").count(), MOST - 1);
    assert_eq!(rest, "`tonearm history file:///a --names` lists all)");
}

#[test]
fn likeness_counts_bytes_once() {
    for (one, other, expected) in [
        ("aaa", "aa", 2),
        ("app.db", "bpp.db", 5),
        ("app.db", "app.bd", 4),
        ("app.db", "app.db", 6),
        ("", "x", 0),
        ("a", "b", 0),
    ] {
        assert_eq!(
            likeness(one.as_bytes(), other.as_bytes()),
            expected,
            "{one}"
        );
    }
}
