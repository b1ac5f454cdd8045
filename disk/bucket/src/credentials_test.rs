use super::*;

/// Files of credentials and settings that are deleted at the end.
struct Home(PathBuf);

impl Home {
    fn new(name: &str) -> Self {
        let home = std::env::temp_dir().join(format!("tonearm-home-{}-{name}", std::process::id()));
        std::fs::create_dir_all(home.join(".aws")).unwrap();
        Self(home)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(".aws").join(file), text).unwrap();
    }

    fn profile(&self, variables: &[(&str, &str)]) -> Option<Profile> {
        let pairs = variables
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let home = ("HOME".to_string(), self.0.display().to_string());
        Profile::of(&pairs.chain([home]).collect())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

fn key_id(profile: &Profile) -> String {
    profile.keys().unwrap().key_id
}

const FILE: &str = "# keys\n[default]\naws_access_key_id = one\naws_secret_access_key=s=1/+\n\n[ other ]\n\
    aws_access_key_id=two\naws_secret_access_key=s2\naws_session_token=t2\n";

#[test]
fn a_profile_has_its_own_keys() {
    let home = Home::new("profiles");
    assert!(home.profile(&[]).is_none());
    home.write("credentials", FILE);
    home.write("config", "[profile other]\nregion = eu-central-1\n; region = no\n[other]\nregion=no\n[default]\nregion=no\n");
    let keys = home.profile(&[]).unwrap().keys().unwrap();
    assert_eq!(
        (keys.key_id.as_str(), keys.secret_key.as_str(), keys.token),
        ("one", "s=1/+", None)
    );
    let other = home.profile(&[("AWS_PROFILE", "other")]).unwrap();
    let keys = other.keys().unwrap();
    assert_eq!(
        (keys.key_id.as_str(), keys.token.as_deref()),
        ("two", Some("t2"))
    );
    assert_eq!(other.get("region").as_deref(), Some("eu-central-1"));
    let elsewhere = home.0.join("keys");
    std::fs::write(&elsewhere, FILE.replace("one", "three")).unwrap();
    let file = [("AWS_SHARED_CREDENTIALS_FILE", elsewhere.to_str().unwrap())];
    assert_eq!(key_id(&home.profile(&file).unwrap()), "three");
}

#[test]
fn keys_are_read_again_when_the_file_has_changed() {
    let home = Home::new("again");
    home.write("credentials", FILE);
    let profile = home.profile(&[]).unwrap();
    assert_eq!(key_id(&profile), "one");
    home.write("credentials", &FILE.replace("one", "new"));
    let read = futures_util::FutureExt::now_or_never(profile.get_credential());
    assert_eq!(read.unwrap().unwrap().key_id, "new");
}

#[test]
fn profile_without_keys_names_the_missing_key() {
    let home = Home::new("none");
    let why = |profile: &Profile| profile.keys().unwrap_err();
    let named = home.profile(&[("AWS_PROFILE", "gone")]).unwrap();
    assert!(
        why(&named).contains("profile gone has no aws_access_key_id"),
        "{}",
        why(&named)
    );
    for followed in FOLLOWED {
        home.write("config", &format!("[profile gone]\n{followed} = x\n"));
        assert!(why(&named).contains(&format!("by {followed}, which tonearm does not follow")));
        assert!(why(&named).contains("AWS_ACCESS_KEY_ID"));
    }
}
