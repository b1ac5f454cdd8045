//! The variables of an environment that a service needs.

use std::collections::BTreeMap;

/// `HOME`, and those that begin with `AWS_`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Those of this process.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::from_iter(std::env::vars_os().filter_map(text))
    }

    /// The value of one; none when it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let value = self.0.get(name).map(String::as_str);
        value.filter(|value| !value.is_empty())
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

impl FromIterator<(String, String)> for Variables {
    /// Takes what it has names for, and leaves out the rest.
    fn from_iter<T: IntoIterator<Item = (String, String)>>(pairs: T) -> Self {
        let pairs = pairs.into_iter();
        let own = pairs.filter(|(name, _)| name == "HOME" || name.starts_with("AWS_"));
        Self(own.collect())
    }
}
