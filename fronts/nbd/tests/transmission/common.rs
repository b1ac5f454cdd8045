//! Worlds and payloads.

use tonearm_nbd::transmission::TransmissionOptions;
use tonearm_nbd::transmission::testing::TestWorld;

pub const SIZE: usize = 4 << 20;
pub const MEMORY: u64 = 64 << 20;

pub fn world() -> TestWorld {
    TestWorld::new(SIZE, MEMORY, TransmissionOptions::default())
}

/// Bytes that depend on their position.
pub fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Runs `test` in the executor of `world`, and checks that it leaves no memory and no connection behind.
pub fn run<F: Future<Output = ()> + 'static>(world: TestWorld, test: impl FnOnce(TestWorld) -> F) {
    let (rt, connections, target) = (
        world.rt.clone(),
        world.connections.clone(),
        world.target.clone(),
    );
    rt.block_on(test(world));
    let end = connections.clone();
    rt.block_on(async move { end.shutdown(tonearm_base::Nanos::from_secs(1)).await });
    assert!(connections.is_empty());
    assert_eq!(connections.metrics().connections_open.get(), 0);
    assert_eq!(target.memory().used(), 0, "payload memory is given back");
}
