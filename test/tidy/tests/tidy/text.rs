//! Rules for the text of source files: length, unfinished work, `unwrap`, `unsafe`, paths, head comments.

use tidy::{none, sources};

/// A longer file usually holds more than one concept.
const LINES_MAX: usize = 800;

#[test]
fn no_file_is_too_long() {
    let mut faults = Vec::new();
    for source in sources(".rs") {
        let lines = source.text.lines().count();
        if lines > LINES_MAX {
            faults.push(format!("{}: {lines} lines", source.path));
        }
    }
    none("a source file has at most 800 lines", &faults);
}

/// A longer function of the product usually does several things one after the other.
const FUNCTION_LINES_MAX: usize = 80;

/// Lines of each function of `text`, as rustfmt prints it, with its first line and that line's number.
fn functions(text: &str) -> Vec<(usize, &str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &str| {
        let mut words = line.split(' ');
        let before = |word: &&str| {
            word.starts_with("pub")
                || ["const", "async", "unsafe", "extern", "\"C\""].contains(word)
        };
        words.find(|word| !before(word)) == Some("fn")
    };
    let starts = lines.iter().enumerate();
    let starts = starts.filter(|(_, line)| begins(line.trim_start()));
    let function = |(start, line): (usize, &&'_ str)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_outer = |line: &&str| {
            line.strip_prefix(indent)
                .is_some_and(|rest| !rest.starts_with(' '))
        };
        let of_head = lines[start..]
            .iter()
            .position(|line| is_outer(line) && line.ends_with(['{', '}', ';']))?;
        let ends = |line: &&str| line.strip_prefix(indent) == Some("}");
        let of_body = lines[start + of_head..].iter().position(ends);
        let of_body = of_body
            .filter(|_| lines[start + of_head].ends_with('{'))
            .unwrap_or(0);
        Some((start + 1, lines[start].trim(), of_head + of_body + 1))
    };
    starts.filter_map(function).collect()
}

#[test]
fn no_function_of_the_product_is_too_long() {
    let mut faults = Vec::new();
    for source in sources(".rs").iter().filter(|source| !source.is_test()) {
        if source.path.starts_with("disk/") || source.path.starts_with("fronts/") {
            let functions = functions(&source.text).into_iter();
            for (number, line, lines) in
                functions.filter(|(_, _, lines)| *lines > FUNCTION_LINES_MAX)
            {
                faults.push(format!("{}:{number}: {lines} lines: {line}", source.path));
            }
        }
    }
    none("a function of the product has at most 80 lines", &faults);
}

#[test]
fn function_ends_at_its_closing_brace() {
    let text = "fn a() {}\n\npub(crate) async fn b(\n    x: u8,\n) -> u8 {\n    fn c();\n    if x {\n    }\n}\n\nconst D: u8 = 1;\n";
    let found = functions(text).into_iter();
    let found: Vec<_> = found.map(|(number, _, lines)| (number, lines)).collect();
    assert_eq!(found, [(1, 1), (3, 7), (6, 1)]);
}

/// Start of the reason of an ignored test that another test runs in a process of its own.
const CHILD: &str = "= \"runs as a child of ";

#[test]
fn no_mark_of_unfinished_work_and_no_ignored_test() {
    // The words are split so that this file does not contain them.
    let words = [
        ["TO", "DO"],
        ["FIX", "ME"],
        ["XX", "X"],
        ["unimpl", "emented!("],
        ["to", "do!("],
        ["db", "g!("],
    ];
    let words = words.map(|word| word.concat());
    let ignore = ["#[ign", "ore"].concat();
    let mut faults = Vec::new();
    for source in sources("") {
        let is_rust = source.path.ends_with(".rs");
        if !is_rust && !is_text(&source.path) {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            let has = |word: &String| line.contains(word.as_str());
            // The templates of mktemp end in a row of X.
            let marked = words.iter().any(has) && !line.contains("mktemp");
            let left_out = is_rust && line.contains(&ignore) && !line.contains(CHILD);
            if marked || left_out {
                faults.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    none("no mark of unfinished work, and no ignored test", &faults);
}

#[test]
fn production_code_does_not_unwrap() {
    let unwrap = [".unwr", "ap()"].concat();
    let mut faults = Vec::new();
    for source in sources(".rs").iter().filter(|source| !source.is_test()) {
        for (number, line) in source.code_lines() {
            if line.contains(&unwrap) {
                faults.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    none(
        "production code returns an error, or calls expect with the invariant that holds",
        &faults,
    );
}

/// The files and folders that may contain unsafe code: aligned memory, the kernel, threads and C interfaces.
const UNSAFE_IN: &[&str] = &[
    "disk/base/src/buf.rs",
    "disk/uring/",
    "disk/fs/tests/bounds/check.rs",
    "disk/store/src/leader.rs",
    "disk/store/src/monitor.rs",
    "disk/store/src/store.rs",
    "disk/store/tests/store/main.rs",
    "disk/store/tests/store/fork.rs",
    "fronts/capi/",
    "fronts/fuse/src/program.rs",
    "fronts/sqlite/",
    "test/sqlite-suite/",
];

#[test]
fn unsafe_code_is_where_it_must_be() {
    let words = [
        "unsafe {",
        "unsafe fn",
        "unsafe impl",
        "unsafe extern",
        "unsafe trait",
    ];
    let mut faults = Vec::new();
    for source in sources(".rs") {
        if source.path.starts_with("test/tidy/")
            || UNSAFE_IN.iter().any(|place| source.path.starts_with(place))
        {
            continue;
        }
        for (number, line) in source.code_lines() {
            if words.iter().any(|word| line.contains(word)) {
                faults.push(format!("{}:{number}: {}", source.path, line.trim()));
            }
        }
    }
    none("unsafe code only where UNSAFE_IN allows it", &faults);
}

#[test]
fn no_path_of_a_private_machine() {
    let places = [["/wo", "rk/"], ["/ro", "ot/"], ["/home", "/user"]].map(|place| place.concat());
    let mut faults = Vec::new();
    for source in sources("") {
        for (index, line) in source.text.lines().enumerate() {
            if places.iter().any(|place| line.contains(place.as_str())) {
                faults.push(format!("{}:{}: {}", source.path, index + 1, line.trim()));
            }
        }
    }
    none("no file names a path of one developer's machine", &faults);
}

#[test]
fn every_source_begins_with_a_head_comment() {
    let mut faults = Vec::new();
    for source in sources(".rs") {
        let first = source.text.lines().next().unwrap_or_default();
        if !first.starts_with("//!") && !source.is_test() {
            faults.push(source.path);
        }
    }
    none(
        "a file begins with a //! comment that says what the file is",
        &faults,
    );
}

fn is_text(path: &str) -> bool {
    let endings = [".toml", ".md", ".sh", ".py", "Makefile", ".ci/run"];
    endings.iter().any(|ending| path.ends_with(ending))
}
