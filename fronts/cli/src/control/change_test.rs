//! Clients in a sentence.

use super::users_text;

#[test]
fn users_are_named_up_to_a_number() {
    let text = |names: &[&str]| {
        let users: Vec<String> = names.iter().map(|name| (*name).to_string()).collect();
        users_text(&users)
    };
    assert_eq!(text(&["a"]), "a");
    assert_eq!(text(&["a", "b"]), "a and b");
    assert_eq!(text(&["a", "b", "c"]), "a, b and c");
    assert_eq!(text(&["a", "b", "c", "d", "e"]), "a, b, c and 2 more");
}
