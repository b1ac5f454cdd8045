//! The drives that come with the project.

/// A drive of `lab/drives/`.
#[derive(Clone, Copy, Debug)]
pub struct LibraryDrive {
    /// Its name: that of the file, without `.toml`.
    pub name: &'static str,
    /// The file.
    pub text: &'static str,
}

macro_rules! drives {
    ($($name:literal),* $(,)?) => {
        &[$(LibraryDrive {
            name: $name,
            text: include_str!(concat!("../../drives/", $name, ".toml")),
        }),*]
    };
}

/// The drives of today, which are in the library too.
pub const TODAY: [&str; 4] = ["sata8tb", "smr8tb", "nvme_plp", "nvme_consumer"];

/// All drives of the project: those of today, then the others by name.
pub fn library() -> &'static [LibraryDrive] {
    drives![
        "sata8tb",
        "smr8tb",
        "nvme_plp",
        "nvme_consumer",
        "atlas10k",
        "atlas_III",
        "barracuda",
        "cheetah4LP",
        "cheetah9LP",
        "dec_rz26",
        "hp_c2247a",
        "hp_c2490a",
        "hp_c3010",
        "hp_c3323a",
        "hylog2003",
        "hylog2008",
        "ibm18es",
        "mimic80",
        "sata2tb",
        "ssd",
        "st41601n",
        "wd2500jd",
    ]
}
