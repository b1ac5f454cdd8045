//! Makes a store whose home blocks are on an array.

use super::keeper::{Keeper, Newest};
use super::open::{ArrayAccess, Candidate, open_array};
use crate::create::{CreatePlan, NewMember, clear_member, plan_create};
use crate::error::EngineError;
use crate::params::{CreateParams, MemberSpace};
use crate::superblocks::MemberDevice;
use tonearm_base::BufPool;
use tonearm_format::{
    ARRAY_MEMBERS_MAX, ArrayDescriptor, ArrayLevel, ArrayMember, HEADER_AREA_BYTES, PATH_MAX,
    Roles, SECTOR, STRIPE_MAX, Uuid, bytes_with_trailer, trailer_offset,
};
use tonearm_rt::Rt;

/// Bytes for parity records, as far as that makes enough slots.
const RECORDS_BYTES: u64 = 16 << 20;
/// Fewest and most slots for parity records.
const RECORDS: std::ops::RangeInclusive<u64> = 8..=128;

/// The array of a new store.
#[derive(Clone, Copy, Debug)]
pub struct ArrayParams {
    /// How it spreads its content.
    pub level: ArrayLevel,
    /// Bytes of a stripe unit.
    pub stripe_bytes: u64,
    /// Its identity.
    pub uuid: Uuid,
}

/// The plan of an array.
#[derive(Clone, Debug)]
pub struct ArrayPlan {
    /// The descriptor of the new array.
    pub descriptor: ArrayDescriptor,
    /// Bytes that each of its members needs.
    pub member_bytes: u64,
    /// Bytes that the primary member needs.
    pub primary_bytes: u64,
}

/// Plans a store with its log on `primary`, and its home blocks on an array of `members`. In the plan of the store the
/// array is its second member.
///
/// # Errors
/// When sizes, or the number of members, do not work. The error says which would.
pub fn plan_array(
    params: &CreateParams,
    array: &ArrayParams,
    primary: &MemberSpace,
    members: &[MemberSpace],
) -> Result<(CreatePlan, ArrayPlan), EngineError> {
    check(array, members)?;
    let unit = array.stripe_bytes;
    let parity = array.level == ArrayLevel::Raid5;
    let row_bytes = (members.len() - usize::from(parity)) as u64 * unit;
    let records_bytes = if parity { records_bytes(unit) } else { 0 };
    let logical = logical_members(array, primary, members, row_bytes, records_bytes);
    let mut plan = plan_create(params, &logical)?;
    let superblock = &mut plan.superblock;
    superblock.array = Some(array.level);
    // Where segments are whole stripes, they begin with a stripe.
    let before = superblock.first_segment_offset(1) - superblock.members[1].data_offset;
    let first = (HEADER_AREA_BYTES + before).next_multiple_of(row_bytes);
    superblock.members[1].data_offset = first - before;
    let rows = superblock.member_bytes(1).div_ceil(row_bytes);
    plan.member_bytes[1] = rows * row_bytes;
    let records_offset = superblock.log_range(0).end.next_multiple_of(SECTOR as u64);
    plan.member_bytes[0] = bytes_with_trailer(records_offset + records_bytes);
    let entries = members.iter().map(|member| ArrayMember {
        uuid: member.uuid,
        path: member.path.clone(),
    });
    let descriptor = ArrayDescriptor {
        store: params.store,
        array: array.uuid,
        generation: 0,
        level: array.level,
        clean: true,
        own_index: None,
        stripe_bytes: unit as u32,
        rows,
        missing: None,
        records_offset: if parity { records_offset } else { 0 },
        records_bytes,
        trailer_offset: 0,
        members: entries.collect(),
    };
    descriptor
        .check()
        .map_err(|error| EngineError::Create(error.to_string()))?;
    let of_array = ArrayPlan {
        member_bytes: descriptor.member_bytes(),
        primary_bytes: plan.member_bytes[0],
        descriptor,
    };
    Ok((plan, of_array))
}

/// The members of the store over the array: the primary one, and the array.
fn logical_members(
    array: &ArrayParams,
    primary: &MemberSpace,
    members: &[MemberSpace],
    row_bytes: u64,
    records_bytes: u64,
) -> [MemberSpace; 2] {
    // All members count as large as the smallest. The home may begin up to a stripe later than it would elsewhere, and the
    // trailer area of the array then lies that many whole MiB later.
    let smallest = members.iter().filter_map(|member| member.available_bytes);
    let available = smallest.min().map(|bytes| {
        let rows = trailer_offset(bytes).saturating_sub(HEADER_AREA_BYTES) / array.stripe_bytes;
        let later = row_bytes.next_multiple_of(HEADER_AREA_BYTES);
        (rows * row_bytes).saturating_sub(later)
    });
    // The parity records lie between the log and the trailer area.
    let of_primary = |bytes: u64| {
        let end = trailer_offset(bytes).saturating_sub(records_bytes);
        end / HEADER_AREA_BYTES * HEADER_AREA_BYTES + HEADER_AREA_BYTES
    };
    [
        MemberSpace {
            roles: Roles {
                log: true,
                data: false,
            },
            available_bytes: primary.available_bytes.map(of_primary),
            ..primary.clone()
        },
        MemberSpace {
            roles: Roles {
                log: false,
                data: true,
            },
            available_bytes: available,
            uuid: array.uuid,
            path: "array".into(),
        },
    ]
}

/// Bytes for the parity records of stripe units of `unit` bytes.
fn records_bytes(unit: u64) -> u64 {
    let slot = unit + SECTOR as u64;
    (RECORDS_BYTES / slot).clamp(*RECORDS.start(), *RECORDS.end()) * slot
}

/// Checks what does not depend on the plan.
fn check(array: &ArrayParams, members: &[MemberSpace]) -> Result<(), EngineError> {
    let fail = |why: String| Err(EngineError::Create(why));
    let (least, level) = (array.level.members_min(), array.level.name());
    if !(least..=ARRAY_MEMBERS_MAX).contains(&members.len()) {
        return fail(format!(
            "{level} takes {least} to {ARRAY_MEMBERS_MAX} members, each with its own --data; {} given",
            members.len()
        ));
    }
    if let Some(member) = members.iter().find(|m| m.path.len() > PATH_MAX) {
        let path = &member.path;
        return fail(format!(
            "{path}: a member's path has at most {PATH_MAX} bytes"
        ));
    }
    let unit = array.stripe_bytes;
    if !(SECTOR as u64..=u64::from(STRIPE_MAX)).contains(&unit) || !unit.is_power_of_two() {
        return fail(format!(
            "a stripe unit of {unit} bytes is not possible: it is a power of two from 4 KiB to 64 MiB; 64KiB is a good \
             one"
        ));
    }
    Ok(())
}

/// Makes the array of `members` for a new store, and gives the two members of that store: the primary one, which reads as
/// zeroes but for the descriptor, and the array. `progress` gets members done, and of all.
///
/// # Errors
/// When a member cannot be written.
pub async fn create_array(
    rt: &Rt,
    pool: &BufPool,
    plan: &ArrayPlan,
    primary: NewMember,
    members: &[NewMember],
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<NewMember>, EngineError> {
    let failed = |member: &str, error| EngineError::ArrayState {
        member: member.to_string(),
        error,
    };
    let all = members.len() as u64 + 1;
    let sizes = std::iter::once(plan.primary_bytes).chain(std::iter::repeat(plan.member_bytes));
    let each = std::iter::once(&primary).chain(members).zip(sizes);
    for ((member, bytes), done) in each.zip(1..) {
        // The parity of an array that reads as zeroes is right.
        if !member.blank {
            let cleared = clear_member(&member.device, bytes, |_| {}).await;
            cleared.map_err(|error| failed(member.device.name(), error))?;
        }
        progress(done, all);
    }
    let named = |member: &NewMember| MemberDevice::new(member.device.clone());
    let first = named(&primary);
    let devices: Vec<MemberDevice> = members.iter().map(named).collect();
    let keeper = Keeper::new(
        rt,
        pool,
        first.clone(),
        plan.descriptor.clone(),
        devices.iter().cloned().map(Some).collect(),
        vec![None; members.len()],
        Newest {
            primary: 0,
            members: vec![0; members.len()],
        },
    );
    keeper.save_on_all(plan.descriptor.clone()).await?;
    let candidates = devices.into_iter().enumerate();
    let candidates = candidates.map(|(index, device)| Candidate {
        device,
        expected: Some(index),
    });
    let found = candidates.collect();
    let array = open_array(rt, pool, &first, found, Vec::new(), ArrayAccess::Write).await?;
    let array = NewMember::blank(array.member().device);
    let primary = NewMember {
        blank: true,
        ..primary
    };
    Ok(vec![primary, array])
}
