//! Modules of a crate that is divided into layers.

use std::collections::BTreeMap;
use tidy::sources;

/// A crate whose lib.rs says this lists its modules in layers: groups of `mod` lines, with an empty line between them.
const IN_LAYERS: &str = "Each imports only from layers above its own in the list.";

/// The layer of each module of production code.
fn layers(lib: &str) -> BTreeMap<String, usize> {
    let code = lib.split("#[cfg(test)]").next().unwrap_or_default();
    let mut layers = BTreeMap::new();
    for (layer, group) in code.split("\n\n").enumerate() {
        let names = group.lines().filter_map(|line| line.strip_prefix("mod "));
        layers.extend(names.map(|name| (name.trim_end_matches(';').to_owned(), layer)));
    }
    layers
}

/// Modules that `code` imports: of `use crate::name::...` and of `use crate::{name, ...}`.
fn imports(code: &str) -> impl Iterator<Item = &str> {
    let lists = code.split("use crate::").skip(1).flat_map(|rest| {
        let end = rest.find(';').unwrap_or(rest.len());
        match rest[..end].strip_prefix('{') {
            Some(list) => list.trim_end_matches('}').split(',').collect(),
            None => vec![&rest[..end]],
        }
    });
    lists.filter_map(|path| path.trim().split("::").next())
}

#[test]
fn modules_import_only_from_layers_below() {
    let mut crates = 0;
    let mut faults = Vec::new();
    for lib in sources("/src/lib.rs") {
        if !lib.text.contains(IN_LAYERS) || lib.is_test() {
            continue;
        }
        crates += 1;
        let layers = layers(&lib.text);
        let folder = lib.path.trim_end_matches("lib.rs");
        for source in sources(".rs") {
            let Some(path) = source.path.strip_prefix(folder) else {
                continue;
            };
            let module = path.trim_end_matches(".rs").split('/').next().unwrap();
            let Some(own) = layers.get(module) else {
                continue;
            };
            let code: Vec<&str> = source.code_lines().map(|(_, line)| line).collect();
            for name in imports(&code.join("\n")) {
                if name != module && layers.get(name).is_none_or(|layer| layer >= own) {
                    faults.push(format!("{}: {name} is in no lower layer", source.path));
                }
            }
        }
    }
    assert!(crates > 0, "a crate in layers is found");
    assert_eq!(faults, [""; 0], "{faults:#?}");
}
