//! Names that the field's own words have replaced stay away.

use tidy::{none, sources};

/// Retired names, each with the one in use. A name that other code uses in its usual sense is not here.
const RETIRED: &[(&str, &str)] = &[
    ("Belief", "EstimatedLayout"),
    ("Entrance", "RemoteWaker"),
    ("IsRight", "Verifier"),
    ("Living", "LiveBlocks"),
    ("Mended", "RepairOutcome"),
    ("Occupant", "ExecutorGuard"),
    ("Portion", "CommitBatch"),
    ("RaggedTail", "TornTail"),
    ("RetainedCommits", "PinnedCommits"),
    ("RingAtEnd", "NotifyOnDrop"),
    ("Sought", "SeekResult"),
    ("Unguarded", "UnloggedUpdate"),
    ("archive_told", "archive_changed"),
    ("begin_behind", "begin_after"),
    ("bring_home", "write_back_batch"),
    ("came_home", "written_back"),
    ("check_known", "validate_name"),
    ("do_it", "dispatch"),
    ("doomed", "failed_units"),
    ("for_longer_lived", "for_kernel_client"),
    ("mend", "repair"),
    ("mended", "repaired"),
    ("mends", "repairs"),
    ("outlived", "survives_process"),
    ("rumour", "unconfirmed_skew"),
    ("set_holds", "set_precondition"),
    ("settle_batch", "commit_batch"),
    ("take_down", "shut_down"),
];

#[test]
fn retired_names_are_not_used() {
    let mut faults = Vec::new();
    for source in sources("") {
        let is_read = [".rs", ".md", ".patch"]
            .iter()
            .any(|ending| source.path.ends_with(ending));
        if !is_read || source.path == "test/tidy/tests/tidy/words.rs" {
            continue;
        }
        for (index, line) in source.text.lines().enumerate() {
            let is_of_name = |c: char| c.is_alphanumeric() || c == '_';
            for word in line.split(|c| !is_of_name(c)) {
                if let Some((_, instead)) = RETIRED.iter().find(|(name, _)| *name == word) {
                    let place = format!("{}:{}", source.path, index + 1);
                    faults.push(format!("{place}: {word}, now {instead}"));
                }
            }
        }
    }
    none("retired names are not used", &faults);
}
