use super::of;
use tonearm_nbd::listen::ListenAddress;

#[test]
fn uris_name_scheme_export_and_place() {
    let unix = ListenAddress::Unix("/tmp/a b/d.sock".into());
    assert_eq!(
        of(&unix, "main", false).as_deref(),
        Some("nbd+unix:///main?socket=/tmp/a%20b/d.sock")
    );
    assert_eq!(
        of(&unix, "a?b", true).as_deref(),
        Some("nbds+unix:///a%3Fb?socket=/tmp/a%20b/d.sock")
    );
    let tcp = |text: &str| ListenAddress::Tcp(text.parse().expect("an address"));
    assert_eq!(
        of(&tcp("10.0.0.1:10809"), "main", true).as_deref(),
        Some("nbds://10.0.0.1:10809/main")
    );
    assert_eq!(
        of(&tcp("0.0.0.0:99"), "main", false).as_deref(),
        Some("nbd://127.0.0.1:99/main")
    );
    assert_eq!(
        of(&tcp("[::]:99"), "main", false).as_deref(),
        Some("nbd://[::1]:99/main")
    );
    assert_eq!(of(&ListenAddress::Anonymous, "main", false), None);
}
