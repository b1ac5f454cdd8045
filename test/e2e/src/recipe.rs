//! Commands of the documents, which tests run as they are printed there.
//!
//! A test names a document, a heading and how the command begins. So a command that is changed in the document is changed in the test,
//! and one that is removed fails it.

use std::path::Path;

/// Where the commands of the documents have their files. Tests run them in their own folder.
const PLACE: &str = "/srv/tonearm/";

/// The words of the only command below a heading that begins with `start` and contains `part`. Paths in `/srv/tonearm` become paths in
/// the current folder, the words `...` (what the reader has to add) and `&` are left out.
///
/// # Panics
/// When there is no such command or more than one, or when it has quotes, which this function does not understand.
#[track_caller]
pub fn command(document: &str, heading: &str, start: &str, part: &str) -> Vec<String> {
    let found: Vec<String> = commands(document, heading)
        .into_iter()
        .filter(|command| command.starts_with(start) && command.contains(part))
        .collect();
    assert_eq!(
        found.len(),
        1,
        "{document} has one command below {heading:?} that begins with {start:?} and contains {part:?}: {found:?}"
    );
    assert!(
        !found[0].contains(['\'', '"', '$']),
        "plain words: {}",
        found[0]
    );
    let words = found[0].replace(PLACE, "");
    words
        .split_whitespace()
        .filter(|word| !["...", "&"].contains(word))
        .map(str::to_owned)
        .collect()
}

/// The commands in the code blocks below a heading, up to the next heading: without comments, and with continued lines joined.
#[track_caller]
fn commands(document: &str, heading: &str) -> Vec<String> {
    let mut commands = Vec::new();
    let mut continued = String::new();
    for line in blocks(document, heading)
        .iter()
        .flat_map(|block| block.lines())
    {
        let line = line.split(" # ").next().unwrap_or(line).trim();
        if let Some(line) = line.strip_suffix('\\') {
            continued.push_str(line);
        } else {
            continued.push_str(line);
            commands.push(std::mem::take(&mut continued));
        }
    }
    commands
}

/// The fenced code blocks below a heading, up to the next heading.
///
/// # Panics
/// When the document does not have the heading exactly once.
#[track_caller]
pub fn blocks(document: &str, heading: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(document);
    let text = std::fs::read_to_string(&path).expect("a document");
    let (mut blocks, mut fenced, mut below, mut times) = (Vec::<String>::new(), false, false, 0);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            if fenced && below {
                blocks.push(String::new());
            }
        } else if fenced && below {
            let block = blocks.last_mut().expect("a block has begun");
            block.push_str(line);
            block.push('\n');
        } else if !fenced && line.starts_with('#') {
            below = line.trim_start_matches('#').trim() == heading;
            times += u32::from(below);
        }
    }
    assert_eq!(times, 1, "{document} has one heading {heading:?}");
    blocks
}
