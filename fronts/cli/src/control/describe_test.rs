//! The description of an array for users.

use super::{ArrayInfo, HotBlocks};
use tonearm_device::raid::{ArrayStatus, MemberState, MemberStatus, RaidError, Stripes, Trouble};
use tonearm_disk::StoreStats;
use tonearm_format::ArrayLevel;
use tonearm_rt::IoError;

fn status(troubles: [Option<Trouble>; 3], lost: Option<RaidError>) -> ArrayStatus {
    let member = |(index, trouble): (usize, Option<Trouble>)| MemberStatus {
        name: format!("d{index}"),
        state: match trouble {
            Some(_) => MemberState::Missing,
            None => MemberState::InUse,
        },
        trouble,
    };
    ArrayStatus {
        level: ArrayLevel::Raid5,
        stripes: Stripes {
            members: 3,
            unit: 65536,
            rows: 10,
            parity: true,
        },
        member_bytes: 1 << 20,
        members: troubles.into_iter().enumerate().map(member).collect(),
        stats: Default::default(),
        lost,
    }
}

#[test]
fn a_path_with_the_word_stale_makes_no_member_stale() {
    let why = "it cannot be opened: /stale/d1: no such device";
    let missing = Some(Trouble::Missing(why.into()));
    let info = ArrayInfo::of(&status([None, missing, None], None));
    assert_eq!(info.members[1].state, "missing");
    let stale = Some(Trouble::Stale("the array was in use without it".into()));
    let info = ArrayInfo::of(&status([None, stale, None], None));
    assert_eq!(info.members[1].state, "stale");
    let why = info.members[1].trouble.as_deref();
    assert_eq!(why, Some("it is stale: the array was in use without it"));
}

#[test]
fn lost_array_names_both_members_and_their_errors() {
    let lost = RaidError::Lost {
        first: "d1".into(),
        second: "d2".into(),
        error: IoError::EIO,
    };
    let failed = || Some(Trouble::Failed(IoError::EIO));
    let info = ArrayInfo::of(&status([None, failed(), failed()], Some(lost)));
    let warnings = info.warnings("a", true);
    assert_eq!(warnings.len(), 1);
    assert!(
        warnings[0].starts_with("the raid5 array is LOST: the array has lost d2"),
        "{warnings:?}"
    );
    assert_eq!(info.members[2].state, "missing");
    let why = info.members[2].trouble.as_deref().unwrap_or_default();
    assert!(why.starts_with("it has failed while in use: "), "{why}");
}

#[test]
fn advice_for_an_absent_member_is_to_reconnect_it() {
    let missing = || Some(Trouble::Missing("it does not exist".into()));
    let info = ArrayInfo::of(&status([missing(), None, None], None));
    let look = info.warnings("a", false).remove(0);
    assert!(
        look.contains("it does not exist; connect it again before"),
        "{look}"
    );
    // In a store that is open for writing it is stale already.
    let open = info.warnings("a", true).remove(0);
    assert!(open.contains("it does not exist; put a new file"), "{open}");
}

#[test]
fn hot_blocks_are_shown_after_the_first_decision() {
    let mut stats = StoreStats::default();
    assert_eq!(HotBlocks::of(&stats), None);
    stats.hot_share_permille = 103;
    stats.hot_writes_permille = 787;
    stats.hot_threshold = 2;
    stats.efficiency_milli = 3_871;
    stats.write_cost_milli = 3_075;
    stats.overwritten_blocks = 12_345;
    let [hot, cost] = HotBlocks::of(&stats).unwrap().rows();
    assert_eq!(
        hot.1,
        "10.3 % of the blocks get 78.7 % of the writes, from 2 recent writes on; 12,345 blocks overwritten in place"
    );
    assert_eq!(
        cost.1,
        "3.1 expected, 3.9 if all were overwritten (an appended block without cleaning costs 1)"
    );
}
