//! Random operations of several clients against a model, byte for byte, while members fail and are rebuilt.

use crate::common::{CLEAN, Random, World, pattern};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tonearm_base::BufPool;
use tonearm_device::Device;
use tonearm_device::raid::{Raid5, RebuildRate};
use tonearm_rt::Data;

/// Bytes of one place. No two clients use a place at the same time, so the model is exact.
const PLACE: u64 = 512;

#[derive(Clone)]
struct Model {
    bytes: Rc<RefCell<Vec<u8>>>,
    /// Places with an operation under way.
    busy: Rc<RefCell<Vec<bool>>>,
}

impl Model {
    fn new(size: u64) -> Self {
        Self {
            bytes: Rc::new(RefCell::new(vec![0; size as usize])),
            busy: Rc::new(RefCell::new(vec![false; (size / PLACE) as usize])),
        }
    }

    /// Takes a free range near the requested one; it is shorter or empty if other clients have taken a part.
    fn take(&self, first: u64, count: u64) -> (u64, u64) {
        let mut busy = self.busy.borrow_mut();
        let run = &mut busy[first as usize..(first + count) as usize];
        let free = run.iter().take_while(|place| !**place).count();
        run[..free].fill(true);
        (first * PLACE, free as u64 * PLACE)
    }

    fn give_back(&self, offset: u64, len: u64) {
        let places = (offset / PLACE) as usize..((offset + len) / PLACE) as usize;
        self.busy.borrow_mut()[places].fill(false);
    }

    fn set(&self, offset: u64, content: Option<&[u8]>, len: u64) {
        let mut bytes = self.bytes.borrow_mut();
        let part = &mut bytes[offset as usize..(offset + len) as usize];
        match content {
            Some(content) => part.copy_from_slice(content),
            None => part.fill(0),
        }
    }
}

async fn client(device: Rc<dyn Device>, model: Model, mut rng: Random, operations: u64) {
    let places = device.size_bytes() / PLACE;
    let pool = BufPool::new(1 << 20);
    for _ in 0..operations {
        let most = [1, 8, 64, 700][rng.below(4) as usize].min(places / 2);
        let count = 1 + rng.below(most);
        let first = rng.below(places - count + 1);
        let (offset, len) = model.take(first, count);
        match rng.below(20) {
            _ if len == 0 => {}
            0 => device.flush().await.unwrap(),
            1 | 2 => {
                let punched = match rng.below(2) {
                    0 => device.punch(offset, len).await,
                    _ => device.zero(offset, len).await,
                };
                punched.unwrap();
                model.set(offset, None, len);
            }
            3..=8 => {
                let found = device.read(offset, pool.alloc(len as usize)).await.unwrap();
                let bytes = model.bytes.borrow();
                assert!(
                    found[..] == bytes[offset as usize..(offset + len) as usize],
                    "{len} bytes at {offset}"
                );
            }
            way => {
                let content = pattern(len as usize, rng.next());
                model.set(offset, Some(&content), len);
                let written = match way {
                    9..=11 => device.write_durable(offset, Data::whole(content)).await,
                    12..=14 => {
                        let whole = content.share();
                        let slices = (0..len as usize / PLACE as usize)
                            .map(|at| whole.slice(at * 512..(at + 1) * 512))
                            .collect();
                        device.write(offset, Data::Slices(slices)).await
                    }
                    _ => device.write(offset, Data::whole(content)).await,
                };
                written.unwrap();
            }
        }
        model.give_back(offset, len);
    }
}

async fn compare(device: &Rc<dyn Device>, model: &Model, what: &str) {
    let size = device.size_bytes() as usize;
    let found = device.read(0, BufPool::new(0).alloc(size)).await.unwrap();
    let bytes = model.bytes.borrow();
    let differs = found.iter().zip(bytes.iter()).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{what}");
}

/// Runs clients beside `trouble`, then compares all.
async fn run(
    world: &Rc<World>,
    array: &Raid5,
    model: &Model,
    rng: &mut Random,
    trouble: impl Future<Output = ()> + 'static,
) {
    let device: Rc<dyn Device> = Rc::new(array.clone());
    let rt = world.rt.clone();
    let trouble = rt.spawn(trouble);
    let clients: Vec<_> = (0..6)
        .map(|_| {
            let seed = Random(rng.next());
            rt.spawn(client(device.clone(), model.clone(), seed, 40))
        })
        .collect();
    for client in clients {
        client.await;
    }
    trouble.await;
    compare(&device, model, "after the clients").await;
}

async fn wrong_parities(array: &Raid5) -> u64 {
    array.check_parity(|_, _| {}).await.unwrap()
}

fn life(seed: u64) {
    let mut rng = Random(seed);
    let members = 3 + rng.below(4) as usize;
    let unit = [512, 4096, 16 << 10, 64 << 10][rng.below(4) as usize];
    let bytes = 256 * 1024 + rng.below(64) * 512;
    let world = Rc::new(World::new(seed, members + 3, bytes.max(1 << 18)));
    let given = world.members(members);
    let (records, always) = (rng.below(2) == 0, rng.below(4) == 0);
    let array = world
        .open_given(given, unit, CLEAN, records, records && always)
        .unwrap();
    let model = Model::new(array.size_bytes());
    let (rt, world2) = (world.rt.clone(), world.clone());
    rt.clone().block_on(async move {
        let world = world2;
        run(&world, &array, &model, &mut rng, async {}).await;
        assert_eq!(wrong_parities(&array).await, 0);
        for life in 0..2 {
            // A member fails at some moment: it is marked as failed, or its writes fail from then on.
            let (victim, way) = (rng.below(members as u64) as usize, rng.below(3));
            let (after, failing) = (rng.below(8_000_000), array.clone());
            let (plan, timer) = (world.plans[victim].clone(), rt.clone());
            let on_disk = life == 0;
            run(&world, &array, &model, &mut rng, async move {
                timer.sleep(tonearm_base::Nanos(after)).await;
                match way {
                    // The second life's members are not all after a plan of their number.
                    0 if on_disk => plan.on(|a| a.is_write(), crate::failures::EIO),
                    1 if on_disk => plan.on(|_| true, crate::failures::EIO),
                    _ => failing.fail(victim).await.unwrap(),
                }
            })
            .await;
            run(&world, &array, &model, &mut rng, async {}).await;
            if array.state().missing.is_none() {
                array.fail(victim).await.unwrap();
            }
            // A new replacement is rebuilt while the clients continue.
            let replacement = world.devices[members + 1 + life].clone();
            array.replace(replacement).unwrap();
            let (rebuilding, ended) = (array.clone(), Rc::new(Cell::new(false)));
            let done = ended.clone();
            run(&world, &array, &model, &mut rng, async move {
                let rate = RebuildRate::new(30 << 20);
                let mut last = 0;
                let progress = |done, all| {
                    assert!(last < done && done <= all, "progress goes up");
                    last = done;
                };
                rebuilding.rebuild(&rate, progress).await.unwrap();
                done.set(true);
            })
            .await;
            assert!(ended.get() && array.state().missing.is_none());
            assert_eq!(wrong_parities(&array).await, 0, "after the rebuild");
            run(&world, &array, &model, &mut rng, async {}).await;
            assert_eq!(wrong_parities(&array).await, 0);
        }
        assert_eq!(array.failure(), None);
    });
}

#[test]
fn clients_see_no_failure_of_one_member_nor_its_rebuild() {
    for seed in 1..=30 {
        let lived = std::panic::catch_unwind(|| life(seed));
        if lived.is_err() {
            panic!("seed {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let trace = |seed| {
        let world = World::new(seed, 4, 1 << 20);
        let array = world.open(4, 4096, CLEAN, false).unwrap();
        let model = Model::new(array.size_bytes());
        let device: Rc<dyn Device> = Rc::new(array);
        world.rt.block_on(client(device, model, Random(seed), 200));
        world.world.trace_hash()
    };
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}
