use super::Permutation;
use crate::random::Random;

#[test]
fn every_number_has_one_place() {
    for numbers in (1..200).chain([1_000, 4_096, 65_537, 100_000]) {
        let permutation = Permutation::new(numbers, &mut Random::new(numbers, 0));
        let mut taken = vec![false; numbers as usize];
        for number in 0..numbers {
            let place = permutation.at(number) as usize;
            assert!(!taken[place], "{numbers} numbers: {place} is taken twice");
            taken[place] = true;
        }
    }
}

#[test]
fn neighbours_are_scattered() {
    let numbers = 1 << 20;
    let permutation = Permutation::new(numbers, &mut Random::new(7, 0));
    // The mean distance of two random numbers below n is n / 3.
    let distance = |number: u64| permutation.at(number).abs_diff(permutation.at(number + 1));
    let mean = (0..100_000).map(distance).sum::<u64>() as f64 / 100_000.0;
    let expected = numbers as f64 / 3.0;
    assert!(
        (mean / expected - 1.0).abs() < 0.02,
        "{mean} instead of {expected}"
    );
}

#[test]
fn a_hot_range_spreads_over_all_parts() {
    let numbers = 100_000;
    let permutation = Permutation::new(numbers, &mut Random::new(3, 0));
    let mut parts = [0u32; 10];
    for number in 0..10_000 {
        parts[(permutation.at(number) * 10 / numbers) as usize] += 1;
    }
    // Binomial with 10,000 trials and p = 0.1: the standard deviation is 30.
    for part in parts {
        assert!((850..1_150).contains(&part), "{parts:?}");
    }
}
