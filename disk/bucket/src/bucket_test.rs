use super::*;

fn generic(text: &'static str) -> BucketError {
    why(Error::Generic {
        store: "S3",
        source: text.into(),
    })
}

#[test]
fn errors_of_services_are_short_and_tell_what_helps() {
    let denied = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>SignatureDoesNotMatch</Code>\
         <Message>The signature is wrong.</Message><StringToSign>x</StringToSign></Error>";
    let text =
        "access is denied: check the credentials (SignatureDoesNotMatch: The signature is wrong.)";
    assert_eq!(generic(denied), BucketError::Refused(text.into()));
    let missing = "404 Not Found: <Error><Code>NoSuchBucket</Code><Message>None.</Message></Error>";
    let text = "the bucket does not exist (NoSuchBucket: None.)";
    assert_eq!(generic(missing), BucketError::Refused(text.into()));
    let away = "after 3 retries - HTTP error: tcp connect error: Connection refused";
    let text = "it does not answer: tcp connect error: Connection refused";
    assert_eq!(generic(away), BucketError::Transient(text.into()));
}

#[test]
fn addresses_that_cannot_be_used_are_told() {
    for (url, part) in [
        ("backup", "this is no address of an archive"),
        ("ftp://host/x", "not at ftp://"),
        ("file://relative", "write an absolute path"),
        ("file:///does/not/exist", "has no archive"),
    ] {
        let error = RealBucket::open(url, false).err().unwrap().to_string();
        assert!(error.contains(part), "{url}: {error}");
    }
}

/// The library syncs a new object and its folder only when it is told to. A power cut of the machine with the folder must not take
/// back what is called archived. No test can cut that power, so this one looks at what the library was told.
#[test]
fn objects_in_a_folder_are_synced() {
    let folder = std::env::temp_dir();
    let folder = url::Url::from_directory_path(folder).unwrap();
    let bucket = RealBucket::open(folder.as_str(), false).unwrap();
    let told = format!("{:?}", bucket.store);
    assert!(told.contains("fsync: true"), "{told}");
}
