//! Restores into simulated stores.

use super::bucket::{Objects, SimBucket};
use super::model::{Content, digest};
use super::{BLOCK, open_options};
use crate::found::contents;
use crate::store::members as members_of;
use tonearm_archive::{ArchiveError, Catalog, Plan, Rebuild, Restorable, Target};
use tonearm_base::{BufPool, Lsn};
use tonearm_disk::Disk;
use tonearm_engine::{
    CreateParams, Engine, EngineError, HomeParams, MemberSpace, NewMember, OpenOptions, plan_create,
};
use tonearm_rt::Rt;
use tonearm_world::{DiskImage, SimOptions, SimWorld};

/// Restores a state into a new store. Returns its commit and the content of its volume.
///
/// # Errors
/// Those of the archive.
pub fn restore(
    objects: &Objects,
    target: Target,
    home: HomeParams,
) -> Result<(Lsn, Content), ArchiveError> {
    restore_with(objects, target, home, During::default())
}

/// What happens during a restore.
#[derive(Default)]
pub struct During {
    /// The bucket does not list the last so many objects of each folder.
    pub lag: usize,
    /// When so many objects have been applied, the bucket changes to another one.
    pub change: Option<(usize, Objects)>,
    /// Entries that are applied after all objects, up to a commit.
    pub more: Option<(Vec<u8>, Lsn)>,
}

/// As [`restore`], with events during it.
///
/// # Errors
/// Those of the archive.
pub fn restore_with(
    objects: &Objects,
    target: Target,
    home: HomeParams,
    during: During,
) -> Result<(Lsn, Content), ArchiveError> {
    let During { lag, change, more } = during;
    let size = 4 << 20;
    let world = SimWorld::new(SimOptions::default(), vec![DiskImage::new(16 << 20)]);
    let rt = Rt::new(world.driver());
    let (own, objects) = (rt.clone(), objects.clone());
    let result = rt.block_on(async move {
        let pool = BufPool::new(1 << 20);
        let mut bucket = SimBucket {
            lag,
            ..SimBucket::sound(&own, &objects)
        };
        let catalog = Catalog::load(&bucket).await?;
        let mut plan = Plan::make(&bucket, &catalog, &target).await?;
        let size_bytes = (plan.shape.size_blocks - tonearm_format::SYSTEM_BLOCKS) * BLOCK;
        let params = CreateParams {
            log_bytes: Some(2 << 20),
            block_size: plan.shape.block_size,
            home,
            ..CreateParams::new(size_bytes, [8; 16])
        };
        assert!(params.size_bytes < size);
        let mut create =
            plan_create(&params, &[MemberSpace::alone([9; 16])]).expect("the size fits");
        create.begin_after(plan.lsn);
        let members = || members_of(&own, [16 << 20].into_iter(), 4096);
        let device = members().remove(0).device;
        let member = NewMember {
            log_written: true,
            ..NewMember::blank(device)
        };
        tonearm_engine::create(&own, &pool, &create, &[member], |_, _| {}).await?;
        let half = Engine::open(&own, &pool, members(), open_options(), |_| {}).await;
        assert!(
            matches!(half, Err(EngineError::Incomplete { .. })),
            "a store that is not restored yet is opened"
        );
        let options = OpenOptions {
            incomplete: true,
            ..open_options()
        };
        let engine = Engine::open(&own, &pool, members(), options, |_| {}).await?;
        let mut rebuild = Rebuild::new(engine.home(), &pool, plan.lsn);
        let mut done = 0;
        while let Some(object) = plan.objects.get(done) {
            if let Some((at, objects)) = &change
                && done == *at
            {
                bucket.objects = objects.clone();
            }
            match object.fetch(&bucket).await {
                Ok(payload) => {
                    rebuild
                        .apply(&payload, "sim://archive", &object.name)
                        .await?;
                    done += 1;
                }
                Err(ArchiveError::Missing { .. }) if change.is_some() => {
                    let catalog = Catalog::load(&bucket).await?;
                    let now = Plan::make(&bucket, &catalog, &Target::Lsn(plan.lsn)).await?;
                    let kept = now.done_after(&plan, done);
                    // With another base the store would have to be created again.
                    assert!(kept > 0 || done == 0, "the base is applied again");
                    done = kept;
                    plan = now;
                }
                Err(error) => return Err(error),
            }
        }
        rebuild.flush().await?;
        if let Some((entries, until)) = more {
            let mut rebuild = Rebuild::new(engine.home(), &pool, until);
            rebuild.apply(&entries, "sim://archive", "more").await?;
            rebuild.flush().await?;
        }
        engine.complete().await?;
        engine.close().await?;
        let disk = Disk::open(&own, &pool, members(), open_options(), |_| {}).await;
        let disk = disk.expect("a restored store is opened");
        assert!(
            disk.engine().marks().appended >= plan.lsn,
            "numbers go back"
        );
        let main = disk.volume("main").expect("it has its first volume");
        Ok((
            plan.lsn,
            digest(&contents(&main).await.expect("a restored volume is read")),
        ))
    });
    rt.shut_down();
    result
}

/// Runs `work` with a reader of these objects.
pub fn with_bucket<T: 'static>(
    objects: &Objects,
    work: impl AsyncFnOnce(SimBucket) -> T + 'static,
) -> T {
    let world = SimWorld::new(SimOptions::default(), Vec::new());
    let rt = Rt::new(world.driver());
    let bucket = SimBucket::sound(&rt, objects);
    rt.block_on(async move { work(bucket).await })
}

/// The commits that can be restored.
///
/// # Panics
/// When the archive cannot be read, or an object of the chain is missing.
pub fn restorable(objects: &Objects) -> Vec<Restorable> {
    with_bucket(objects, async |bucket| {
        let catalog = match Catalog::load(&bucket).await {
            Err(ArchiveError::Empty { .. }) => return Vec::new(),
            loaded => loaded.expect("the archive is read"),
        };
        assert!(catalog.missing.is_empty() && catalog.unlinked.is_empty());
        catalog.restorable()
    })
}
