//! Finds the key at a place in a TOML text, for errors.

use std::collections::BTreeMap;

/// The name in a table's header, and whether the table is one of several.
fn header(line: &str) -> Option<(&str, bool)> {
    let line = line.split('#').next().unwrap_or("").trim();
    let several = line.strip_prefix("[[").and_then(|l| l.strip_suffix("]]"));
    let name = several.or_else(|| line.strip_prefix('[').and_then(|l| l.strip_suffix(']')))?;
    // A row of an array of numbers also begins with a bracket.
    let named = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    named.then_some((name.trim(), several.is_some()))
}

/// The bare key at the front of a line.
fn key(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim();
    let bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.chars().all(bare)).then_some(key)
}

/// The line of `offset`, from 1, and the key whose value is there, if any.
pub(crate) fn describe(text: &str, offset: usize) -> String {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let number = 1 + text[..end].matches('\n').count();
    let (mut table, mut found, mut quoted) = (String::new(), String::new(), false);
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for line in text.lines().take(number) {
        if !quoted {
            if let Some((name, several)) = header(line) {
                table = name.to_owned();
                if several {
                    let count = counts.entry(name).or_default();
                    table.push_str(&format!("[{count}]"));
                    *count += 1;
                }
                found.clone_from(&table);
            } else if let Some(key) = key(line) {
                found = match table.as_str() {
                    "" => key.to_owned(),
                    table => format!("{table}.{key}"),
                };
            }
        }
        if line.matches("\"\"\"").count() % 2 == 1 {
            quoted = !quoted;
        }
    }
    match found.as_str() {
        "" => format!("line {number}"),
        found => format!("{found} (line {number})"),
    }
}
