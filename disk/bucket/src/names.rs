//! Names in the lists of a service.
//!
//! Anybody who can write to a bucket chooses names. The client refuses a whole list when one of its names is no path, because it has an
//! empty part, a part `.` or `..`, or a control character. No object of an archive has such a name. So before the client sees a
//! page, such a name is changed into a path that has a percent sign, which no object has either: it is reported as a stray.

/// The page of a list in XML, with such names changed; `None` when there are none.
pub(crate) fn with_paths(page: &str) -> Option<String> {
    let (mut changed, mut rest, mut has_changed) = (String::new(), page, false);
    while let Some((before, after)) = rest.split_once("<Key>") {
        let Some((name, following)) = after.split_once("</Key>") else {
            break;
        };
        changed.push_str(before);
        changed.push_str("<Key>");
        match as_path(name) {
            None => changed.push_str(name),
            Some(path) => {
                has_changed = true;
                changed.push_str(&path);
            }
        }
        changed.push_str("</Key>");
        rest = following;
    }
    changed.push_str(rest);
    has_changed.then_some(changed)
}

/// A path in the place of a name that is none, both as XML has them.
fn as_path(name: &str) -> Option<String> {
    let name = without_references(name);
    let (own, end) = match name.strip_suffix('/') {
        // The client leaves out a slash at the end: some programs mark folders so.
        Some(own) => (own, "/"),
        None => (&*name, ""),
    };
    if own.is_empty() {
        return Some("%2F".into());
    }
    let parts = own.split('/').map(|part| match part {
        "" => "%2F".to_string(),
        "." => "%2E".to_string(),
        ".." => "%2E%2E".to_string(),
        part => without_controls(part),
    });
    let path = parts.collect::<Vec<_>>().join("/");
    (path != own).then(|| path + end)
}

fn without_controls(part: &str) -> String {
    let mut text = String::new();
    for next in part.chars() {
        match next.is_ascii_control() {
            true => text.push_str(&format!("%{:02X}", u32::from(next))),
            false => text.push(next),
        }
    }
    text
}

/// The name with the dots, slashes and control characters that it has as references by number (`&#x2e;`). Other references stay.
fn without_references(name: &str) -> String {
    let (mut text, mut rest) = (String::new(), name);
    while let Some(at) = rest.find("&#") {
        let found = reference(&rest[at..]);
        let matters = |c: &char| matches!(c, '.' | '/') || c.is_ascii_control();
        let decoded = found.and_then(|(code, _)| char::from_u32(code).filter(matters));
        let next = at + found.map_or(2, |(_, bytes)| bytes);
        text.push_str(&rest[..at]);
        match decoded {
            Some(decoded) => text.push(decoded),
            None => text.push_str(&rest[at..next]),
        }
        rest = &rest[next..];
    }
    text + rest
}

/// The character to which `text` begins with a reference by number, and the bytes of the reference.
fn reference(text: &str) -> Option<(u32, usize)> {
    let (digits, _) = text.strip_prefix("&#")?.split_once(';')?;
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16).ok()?,
        None => digits.parse().ok()?,
    };
    Some((code, digits.len() + 3))
}

#[cfg(test)]
#[path = "names_test.rs"]
mod names_test;
