use super::*;

#[test]
fn each_change_of_an_archive_is_reported_once() {
    let mut reported = Reported::default();
    let mut info = ArchiveInfo {
        url: "file:///b".into(),
        ..ArchiveInfo::default()
    };
    let mut is = |info: &ArchiveInfo, line: &str| {
        let lines = reported.lines(info);
        assert!(lines.len() == 1 && lines[0].contains(line), "{lines:?}");
        assert_eq!(reported.lines(info), Vec::<String>::new());
    };
    (info.state, info.why) = (ArchiveState::Waiting, Some("no answer".into()));
    is(
        &info,
        "file:///b waits, and tries again until it can go on: no answer",
    );
    info.state = ArchiveState::Running;
    is(&info, "file:///b goes on");
    info.notes.unbased = Some("a block is damaged".into());
    is(
        &info,
        "file:///b cannot make a new base: a block is damaged",
    );
    // The second jump may be as far as the first.
    info.clock = Some("the clock was set back by 60 s".into());
    for jumps in 1..=2 {
        info.clock_jumps = jumps;
        is(&info, "file:///b: the clock was set back by 60 s");
    }
}
