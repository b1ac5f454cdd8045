use super::parse;
use crate::control::Request;

#[test]
fn requests_of_other_versions_and_garbage_are_refused_by_name() {
    let parse = |text: &str| parse(text.as_bytes());
    assert_eq!(
        parse(r#"{"tonearm":1,"request":{"command":"stats"}}"#),
        Ok(Request::Stats)
    );
    for (text, why) in [
        ("hello", "not JSON"),
        ("{}", "no version"),
        (r#"{"tonearm":2,"request":{"command":"stats"}}"#, "not 2"),
        (r#"{"tonearm":1,"request":{"command":"fly"}}"#, "not known"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(why), "{text}: {error}");
    }
}
