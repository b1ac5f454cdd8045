//! The home on an array of simulated drives, with the log on a drive of its own.

use anyhow::ensure;
use tonearm_base::BufPool;
use tonearm_disk::{CreateParams, MemberDevice, MemberSpace, NewMember};
use tonearm_engine::{
    ArrayAccess, ArrayParams, Candidate, EngineError, create_array, open_array, plan_array,
};
use tonearm_format::{ARRAY_MEMBERS_MAX, ArrayLevel, Roles, SECTOR};
use tonearm_rt::Rt;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Bytes of a stripe unit, as `tonearm create` chooses it.
const STRIPE_BYTES: u32 = 64 << 10;

/// How a home is spread over several drives.
#[derive(Clone, Copy)]
pub struct Array {
    level: ArrayLevel,
    drives: usize,
}

impl Array {
    /// # Errors
    /// When the level does not work with so many drives.
    pub fn new(level: ArrayLevel, drives: usize) -> anyhow::Result<Self> {
        let least = level.members_min();
        ensure!(
            (least..=ARRAY_MEMBERS_MAX).contains(&drives),
            "--redundancy {} takes {least} to {ARRAY_MEMBERS_MAX} --disks; {drives} given",
            level.name()
        );
        Ok(Self { level, drives })
    }

    /// Data bytes of a stripe.
    fn row_bytes(self) -> u32 {
        let parity = usize::from(self.level == ArrayLevel::Raid5);
        (self.drives - parity) as u32 * STRIPE_BYTES
    }

    /// `segment_bytes` rounded down to whole stripes, at least one, so that a segment shares no stripe with another.
    pub fn segment_bytes(self, segment_bytes: u32) -> u32 {
        let row = self.row_bytes();
        (segment_bytes / row).max(1) * row
    }

    /// In words.
    pub fn describe(self) -> String {
        format!(
            "{} of {} drives, {} KiB of data in a stripe",
            self.level.name(),
            self.drives,
            self.row_bytes() >> 10
        )
    }

    /// The contents of an empty store's drives: that of the log, then those of the array.
    ///
    /// # Errors
    /// When the parameters are invalid.
    pub fn create(self, params: &CreateParams) -> anyhow::Result<Vec<DiskImage>> {
        let space = |index: usize| MemberSpace {
            roles: Roles {
                log: index == 0,
                data: index > 0,
            },
            available_bytes: None,
            uuid: [index as u8; 16],
            path: format!("member-{index}"),
        };
        let homes: Vec<MemberSpace> = (1..=self.drives).map(space).collect();
        let array = ArrayParams {
            level: self.level,
            stripe_bytes: u64::from(STRIPE_BYTES),
            uuid: *b"array of drives!",
        };
        let (plan, array) = plan_array(params, &array, &space(0), &homes)?;
        let homes = std::iter::repeat_n(array.member_bytes, self.drives);
        let sizes: Vec<u64> = std::iter::once(array.primary_bytes).chain(homes).collect();
        let disks = sizes.iter().copied().map(DiskImage::new).collect();
        let world = SimWorld::new(SimOptions::default(), disks);
        let rt = Rt::new(world.driver());
        let members = tonearm_sim::members(&rt, sizes.into_iter(), SECTOR);
        let (own, volume_bytes) = (rt.clone(), params.size_bytes);
        rt.block_on(async move {
            let pool = BufPool::new(1 << 20);
            let mut members = members
                .into_iter()
                .map(|member| NewMember::blank(member.device));
            let log = members.next().expect("the log has a drive");
            let homes: Vec<NewMember> = members.collect();
            let members = create_array(&own, &pool, &array, log, &homes, |_, _| {}).await?;
            tonearm_disk::create(
                &own,
                &pool,
                &plan,
                members,
                volume_bytes,
                [2; 16],
                |_, _| {},
            )
            .await?;
            anyhow::Ok(())
        })?;
        rt.shut_down();
        Ok(world.images())
    }
}

/// The members of a store with an array, out of its drives: that of the log, and the array.
///
/// # Errors
/// The errors of the engine.
pub async fn open(
    rt: &Rt,
    pool: &BufPool,
    mut drives: Vec<MemberDevice>,
) -> Result<Vec<MemberDevice>, EngineError> {
    let log = drives.remove(0);
    let candidates = drives.into_iter().enumerate();
    let candidates = candidates.map(|(index, device)| Candidate {
        device,
        expected: Some(index),
    });
    let (candidates, access) = (candidates.collect(), ArrayAccess::Write);
    let array = open_array(rt, pool, &log, candidates, Vec::new(), access).await?;
    Ok(vec![log, array.member()])
}
