//! Circles of imports between the source files of a crate. Who reads a file of a circle has to read all of them.
//!
//! A file imports another one when a `use` or a path in it names something of that file. Re-exports (`pub use`) are followed
//! to the file that has the name, so a parent that only re-exports what its children have is in no circle.

use std::collections::{BTreeMap, BTreeSet};
use tidy::{Source, none, sources};

/// Files that a circle may have.
const FILES_MAX: usize = 3;

/// The names from the root of a crate to a module, or to something in it.
type Path<'a> = Vec<&'a str>;

/// A file, another one that it imports, and by which name.
type Import<'a> = (&'a str, &'a str, String);

/// The words of a line, `::`, and all other characters one by one.
fn tokens(mut line: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    while let Some(first) = line.chars().next() {
        let len = match first {
            ':' if line.starts_with("::") => 2,
            c if is_word(c) => line.find(|c| !is_word(c)).unwrap_or(line.len()),
            c => c.len_utf8(),
        };
        tokens.extend((!first.is_whitespace()).then_some(&line[..len]));
        line = &line[len..];
    }
    tokens
}

/// The paths of the tree of a `use`.
fn tree<'a>(words: &[&'a str]) -> Vec<Path<'a>> {
    let (mut found, mut outer, mut path) = (Vec::new(), vec![Path::new()], Path::new());
    for word in words {
        match *word {
            "::" => {}
            "{" => outer.push(path.clone()),
            "," | "}" | ";" => {
                let given = outer.last().cloned().unwrap_or_default();
                found.extend((path.len() > given.len()).then_some(path));
                outer.truncate(outer.len().saturating_sub(usize::from(*word == "}")));
                path = outer.last().cloned().unwrap_or_default();
            }
            name => path.push(name),
        }
    }
    found
}

/// The files of a crate by module, and what its re-exports stand for.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<Path<'a>, &'a str>,
    exports: BTreeMap<Path<'a>, Path<'a>>,
}

impl<'a> Crate<'a> {
    /// `path` from the root of the crate, as the file of module `own` means it. None when it begins in another crate.
    fn absolute(&self, own: &[&'a str], path: &[&'a str]) -> Option<Path<'a>> {
        let supers = path.iter().take_while(|name| **name == "super").count();
        let (base, rest) = match *path.first()? {
            "crate" => (&[][..], &path[1..]),
            "self" => (own, &path[1..]),
            "super" => (&own[..own.len().checked_sub(supers)?], &path[supers..]),
            child if self.files.contains_key(&[own, &[child]].concat()) => (own, path),
            _ => return None,
        };
        let rest = rest.strip_suffix(&["*"]).unwrap_or(rest);
        Some([base, rest.strip_suffix(&["self"]).unwrap_or(rest)].concat())
    }

    /// The file that has what `path` names.
    fn file_of(&self, path: &[&'a str]) -> &'a str {
        let mut lens = (0..=path.len()).rev();
        let len = lens.find(|len| self.files.contains_key(&path[..*len]));
        let len = len.expect("a crate has a root");
        match path.get(..=len).and_then(|name| self.exports.get(name)) {
            Some(target) => self.file_of(&[target, &path[len + 1..]].concat()),
            None => self.files[&path[..len]],
        }
    }

    /// What its files, each with its path within `src` and its code, import of each other.
    fn imports(files: &[(&'a str, Vec<&'a str>)]) -> BTreeSet<Import<'a>> {
        let module = |file: &'a str| {
            let names = file.trim_end_matches(".rs").split('/');
            let names = names.filter(|name| !["lib", "main", "mod"].contains(name));
            names.collect::<Path>()
        };
        let (mut own, mut named) = (Self::default(), Vec::new());
        own.files = files
            .iter()
            .map(|(file, _)| (module(file), *file))
            .collect();
        for (file, code) in files {
            let (module, mut rest, mut before) = (module(file), &code[..], "");
            while let [first, after @ ..] = rest {
                let is_path = before != "::" && after.first() == Some(&"::");
                let is_exported = ["pub", ")"].contains(&before);
                (rest, before) = (after, first);
                // In a text, no path follows that word.
                if *first == "use" && matches!(after, [_, "::" | ";", ..]) {
                    let end = after.iter().position(|sign| *sign == ";");
                    let (uses, others) = after.split_at(end.map_or(after.len(), |end| end + 1));
                    rest = others;
                    for path in tree(uses) {
                        let Some(target) = own.absolute(&module, &path) else {
                            continue;
                        };
                        match path.last() {
                            Some(name) if is_exported => {
                                own.exports.insert([&module[..], &[*name]].concat(), target);
                            }
                            _ => named.push((*file, target, path.join("::"))),
                        }
                    }
                } else if is_path {
                    let names = after.chunks(2).take_while(|pair| pair[0] == "::");
                    let names = names.filter_map(|pair| pair.get(1));
                    let path: Path = [first].into_iter().chain(names).copied().collect();
                    let target = own.absolute(&module, &path);
                    named.extend(target.map(|target| (*file, target, path.join("::"))));
                }
            }
        }
        let imports = named.into_iter();
        let imports = imports.map(|(file, target, name)| (file, own.file_of(&target), name));
        imports.filter(|(file, other, _)| file != other).collect()
    }
}

/// The files that `from` imports, directly or not.
fn reached<'a>(from: &'a str, imports: &BTreeSet<Import<'a>>) -> BTreeSet<&'a str> {
    let (mut reached, mut work) = (BTreeSet::new(), vec![from]);
    while let Some(next) = work.pop() {
        let others = imports.iter().filter(|(file, ..)| *file == next);
        work.extend(
            others
                .map(|import| import.1)
                .filter(|other| reached.insert(*other)),
        );
    }
    reached
}

/// The circles of more than `most` files, each with what its files import of each other.
fn circles(files: &[Source], most: usize) -> Vec<Vec<String>> {
    let files = files.iter().map(|file| {
        let tokens = file.code_lines().flat_map(|(_, line)| tokens(line));
        (&*file.path, tokens.collect())
    });
    let files: Vec<(&str, Vec<&str>)> = files.collect();
    let imports = Crate::imports(&files);
    let reach = files
        .iter()
        .map(|(file, _)| (*file, reached(file, &imports)));
    let reach: BTreeMap<&str, BTreeSet<&str>> = reach.collect();
    let mut circles = BTreeSet::new();
    for (file, others) in &reach {
        let circle = others.iter().filter(|other| reach[**other].contains(file));
        circles.insert(circle.collect::<BTreeSet<_>>());
    }
    let large = circles.iter().filter(|circle| circle.len() > most);
    let ties = large.map(|circle| {
        let ties = imports.iter();
        let ties = ties.filter(|(file, other, _)| circle.contains(file) && circle.contains(other));
        let ties = ties.map(|(file, other, name)| format!("{file} -> {other}: {name}"));
        ties.collect()
    });
    ties.collect()
}

#[test]
fn no_circle_of_imports_is_large() {
    let mut crates: BTreeMap<String, Vec<Source>> = BTreeMap::new();
    for mut source in sources(".rs")
        .into_iter()
        .filter(|source| !source.is_test())
    {
        let Some((name, file)) = source.path.split_once("/src/") else {
            continue;
        };
        if !file.starts_with("bin/") && file != "fuzzing.rs" {
            let (name, file) = (name.to_owned(), file.to_owned());
            source.path = file;
            crates.entry(name).or_default().push(source);
        }
    }
    let mut faults = Vec::new();
    for (name, files) in crates {
        for ties in circles(&files, FILES_MAX) {
            faults.push(format!("{name}/src:\n    {}", ties.join("\n    ")));
        }
    }
    none(
        "at most 3 files import each other in a circle: move what ties them into a file below them",
        &faults,
    );
}

#[test]
fn circle_is_found_by_uses_paths_and_re_exports() {
    let files = [
        (
            "lib.rs",
            "mod a; mod b; mod c; pub(crate) use a::{self, inner::{A, B}};",
        ),
        (
            "a/mod.rs",
            "pub mod inner; pub use inner::A; use super::{b::{X, Y as Z}, b::y};",
        ),
        (
            "a/inner.rs",
            "fn f() { refuse(\"; use the crate\") }\n// crate::c\nuse crate::b::X;",
        ),
        (
            "b.rs",
            "fn f() { crate::c::f(1) }\n#[cfg(test)]\nmod t {\nuse crate::A; }",
        ),
        ("c.rs", "use crate::B;"),
    ];
    let mut files = files.map(|(path, text)| Source {
        path: path.to_owned(),
        text: text.to_owned(),
    });
    let ties = [
        "a/inner.rs -> b.rs: crate::b::X",
        "b.rs -> c.rs: crate::c::f",
        "c.rs -> a/inner.rs: crate::B",
    ];
    assert_eq!(circles(&files, 2), [ties]);
    assert_eq!(circles(&files, 3).len(), 0);
    files[4].text.clear();
    assert_eq!(circles(&files, 0).len(), 0);
}
