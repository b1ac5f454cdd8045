//! The drives of the project.

use tonearm_drive::{Drive, DriveOptions, DriveSpec, library};

/// The capacity that a title names, in bytes.
fn named_capacity(title: &str) -> Option<f64> {
    let words: Vec<_> = title
        .split([' ', ','])
        .filter(|word| !word.is_empty())
        .collect();
    words.windows(2).find_map(|pair| {
        let unit = match pair[1] {
            "MB" => 1e6,
            "GB" => 1e9,
            "TB" => 1e12,
            _ => return None,
        };
        pair[0].parse::<f64>().ok().map(|number| number * unit)
    })
}

#[test]
fn each_drive_parses_names_its_sources_and_has_the_capacity_of_its_title() {
    for drive in library() {
        let spec = DriveSpec::parse(drive.name, drive.text).unwrap();
        assert!(spec.source.len() > 20, "{}: {}", drive.name, spec.source);
        let sectors = Drive::new(&spec, &DriveOptions::default()).sectors();
        let bytes = sectors as f64 * 512.0;
        let mut named = named_capacity(&spec.title).unwrap_or_else(|| panic!("{}", spec.title));
        let mut most = 0.011;
        if drive.name == "mimic80" {
            // Its maker sold 82.3 GB as 80.
            named *= 1.029;
        }
        if drive.name.starts_with("hylog") {
            // The paper counts in powers of two, and rounds: 36 GB of its cylinders are 37.04.
            named *= 1.073_741_824;
            most = 0.03;
        }
        let off = (bytes - named).abs();
        assert!(
            off <= named * most,
            "{}: '{}' has {bytes} bytes",
            drive.name,
            spec.title
        );
    }
}

#[test]
fn names_are_unique_and_those_of_the_files() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../drives");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let name = entry.unwrap().file_name().into_string().unwrap();
            name.strip_suffix(".toml").map(str::to_owned)
        })
        .collect();
    files.sort();
    let mut names: Vec<_> = library()
        .iter()
        .map(|drive| drive.name.to_owned())
        .collect();
    names.sort();
    assert_eq!(names, files);
}
