use super::*;
use age::secrecy::ExposeSecret;

/// A new identity in a file, and its recipient.
fn identity(name: &str) -> (std::path::PathBuf, String) {
    let identity = x25519::Identity::generate();
    let path = std::env::temp_dir().join(format!("tonearm-{}-{name}", std::process::id()));
    let text = format!("# a comment\n{}\n", identity.to_string().expose_secret());
    std::fs::write(&path, text).unwrap();
    (path, identity.to_public().to_string())
}

/// Keys that read with the identities of these files.
fn reader(paths: &[&std::path::Path]) -> AgeKeys {
    let mut keys = AgeKeys::default();
    for path in paths {
        keys.add_identities(path).unwrap();
    }
    keys
}

#[test]
fn payload_decrypts_only_for_its_recipients() {
    let (one, two, other) = (identity("one"), identity("two"), identity("other"));
    let mut writer = AgeKeys::default();
    assert_eq!(writer.encrypt(b"words"), None);
    writer.add_recipient(&one.1).unwrap();
    writer.add_recipient(&two.1).unwrap();
    for len in [0, 1, 100_000, 64 << 10] {
        let payload: Vec<u8> = (0..len).map(|byte| (byte % 251) as u8).collect();
        let encrypted = writer.encrypt(&payload).unwrap();
        assert!(encrypted.starts_with(b"age-encryption.org/v1\n"));
        assert_ne!(
            writer.encrypt(&payload).unwrap(),
            encrypted,
            "the same key twice"
        );
        for files in [&[&*one.0][..], &[&two.0], &[&other.0, &two.0]] {
            assert_eq!(reader(files).decrypt(&encrypted), Ok(payload.clone()));
        }
        let error = reader(&[&other.0]).decrypt(&encrypted);
        assert_eq!(error, Err(KeyError::OtherIdentity));
        assert_eq!(writer.decrypt(&encrypted), Err(KeyError::NoIdentity));
        let mut damaged = encrypted.clone();
        *damaged.last_mut().unwrap() ^= 1;
        let error = reader(&[&one.0]).decrypt(&damaged);
        assert!(matches!(error, Err(KeyError::Damaged(_))), "{error:?}");
        let cut = &encrypted[..encrypted.len() - 1];
        assert!(matches!(
            reader(&[&one.0]).decrypt(cut),
            Err(KeyError::Damaged(_))
        ));
    }
    for (path, _) in [one, two, other] {
        std::fs::remove_file(path).unwrap();
    }
}

#[test]
fn invalid_recipient_is_an_error() {
    let mut keys = AgeKeys::default();
    for text in ["", "age1xyz", "ssh-ed25519 AAAA", "AGE-SECRET-KEY-1QQQ"] {
        let error = keys.add_recipient(text).unwrap_err();
        let wanted =
            format!("'{text}' is no recipient; give a public key of age: it begins with age1");
        assert_eq!(error, wanted);
    }
    let path = std::env::temp_dir().join(format!("tonearm-{}-none", std::process::id()));
    let mut refused = |part: &str| {
        let error = keys.add_identities(&path).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert!(
            error.contains("a line that begins with AGE-SECRET-KEY-1"),
            "{error}"
        );
    };
    refused("No such file");
    std::fs::write(&path, "# nothing\n").unwrap();
    refused("it has none");
    std::fs::write(&path, "secret\n").unwrap();
    refused("non-identity data on line 1");
    std::fs::remove_file(&path).unwrap();
}
