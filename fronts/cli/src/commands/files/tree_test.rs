use super::{join, kind, mode_text, name_of, parent, shown};

#[test]
fn paths_are_joined_and_taken_apart() {
    for (dir, name, path) in [
        ("", "a", "a"),
        ("/", "a", "/a"),
        ("a", "b", "a/b"),
        ("a//", "b", "a/b"),
        ("/a/b/", "c", "/a/b/c"),
    ] {
        assert_eq!(join(dir, name), path);
        assert_eq!(name_of(path), Some(name));
    }
    for (path, above) in [("a", ""), ("/a", ""), ("a/b/", "a"), ("/a/b/c", "/a/b")] {
        assert_eq!(parent(path), above);
    }
    for path in ["", "/", ".", "a/..", "a/./"] {
        assert_eq!(name_of(path), None, "{path}");
    }
}

#[test]
fn modes_are_shown_as_ls_shows_them() {
    for (mode, text) in [
        (0o100_644, "-rw-r--r--"),
        (0o040_755, "drwxr-xr-x"),
        (0o120_777, "lrwxrwxrwx"),
        (0o041_777, "drwxrwxrwt"),
        (0o041_776, "drwxrwxrwT"),
        (0o104_755, "-rwsr-xr-x"),
        (0o102_640, "-rw-r-S---"),
        (0o010_600, "prw-------"),
        (0o060_000, "b---------"),
    ] {
        assert_eq!(mode_text(mode), text);
    }
    assert_eq!(kind(0o010_600), "a FIFO");
    assert_eq!(shown("a\n\u{1b}[2Jé"), "a??[2Jé");
}
