//! What terminals enter, against the standard's distributions.

use crate::common::{chi_square_deviations, near};
use tonearm_workload::Random;
use tonearm_workload::tpcc::{Customer, Input, Inputs, Kind, NuRand, last_name};

const WAREHOUSES: u32 = 50;
const INPUTS: u64 = 400_000;

fn inputs(seed: u64) -> Vec<Input> {
    let mut inputs = Inputs::new(WAREHOUSES, seed);
    (0..INPUTS).map(|_| inputs.next_input()).collect()
}

fn kind(input: &Input) -> Kind {
    match input {
        Input::NewOrder(_) => Kind::NewOrder,
        Input::Payment(_) => Kind::Payment,
        Input::OrderStatus(_) => Kind::OrderStatus,
        Input::Delivery { .. } => Kind::Delivery,
        Input::StockLevel { .. } => Kind::StockLevel,
    }
}

/// The exact probability of each number from `low` to `high`. Each number b of the second draw meets all 2^k numbers of
/// the first one. a | b = v has 2^(ones of b's low bits) solutions a if the low bits of b are among those of v; the sum
/// over all such b is taken bit by bit.
fn probabilities(numbers: NuRand) -> Vec<f64> {
    let low_values = (numbers.a + 1) as usize;
    assert!(low_values.is_power_of_two());
    let range = (numbers.high - numbers.low + 1) as usize;
    let mut ways = vec![0.0; range];
    for block in 0..=numbers.high as usize / low_values {
        let mut sums: Vec<f64> = (0..low_values)
            .map(|low| {
                let b = (block * low_values + low) as u32;
                let drawn = (numbers.low..=numbers.high).contains(&b);
                if drawn {
                    f64::from(1u32 << low.count_ones())
                } else {
                    0.0
                }
            })
            .collect();
        let mut bit = 1;
        while bit < low_values {
            for value in 0..low_values {
                if value & bit != 0 {
                    sums[value] += sums[value ^ bit];
                }
            }
            bit *= 2;
        }
        for (low, sum) in sums.iter().enumerate() {
            ways[(block * low_values + low + numbers.c as usize) % range] += sum;
        }
    }
    let all = low_values as f64 * range as f64;
    ways.iter().map(|ways| ways / all).collect()
}

#[test]
fn nurand_has_its_exact_probabilities() {
    let mut random = Random::new(5, 5);
    for (a, low, high) in [(255, 0, 999), (1023, 1, 3000), (8191, 1, 100_000)] {
        let numbers = NuRand::new(a, low, high, &mut random);
        let expected = probabilities(numbers);
        let sum: f64 = expected.iter().sum();
        assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        let mut counts = vec![0u64; expected.len()];
        for _ in 0..3_000_000 {
            counts[(numbers.draw(&mut random) - low) as usize] += 1;
        }
        let deviations = chi_square_deviations(&counts, &expected);
        assert!(
            deviations.abs() < 5.0,
            "NURand({a}): {deviations} standard deviations"
        );
        // Even numbers, and those of another constant, are far off.
        let even = vec![1.0 / expected.len() as f64; expected.len()];
        assert!(chi_square_deviations(&counts, &even) > 100.0);
        let c = (numbers.c + 1) % (a + 1);
        let other = probabilities(NuRand { c, ..numbers });
        assert!(chi_square_deviations(&counts, &other) > 100.0);
    }
}

#[test]
fn the_mix_is_45_43_4_4_4() {
    let inputs = inputs(1);
    for wanted in Kind::ALL {
        let count = inputs.iter().filter(|input| kind(input) == wanted).count() as u64;
        let share = f64::from(wanted.percent()) / 100.0;
        assert!(near(count, INPUTS, share), "{}: {count}", wanted.name());
    }
}

#[test]
fn orders_have_the_standard_lines_and_rollbacks() {
    let mut counts = [0u64; 11];
    let (mut orders, mut lines, mut remote, mut rollbacks) = (0, 0, 0, 0);
    let mut suppliers = [0u64; WAREHOUSES as usize];
    let mut quantities = [0u64; 10];
    for input in inputs(2) {
        let Input::NewOrder(order) = input else {
            continue;
        };
        orders += 1;
        counts[order.lines.len() - 5] += 1;
        rollbacks += u64::from(order.rollback);
        for line in order.lines {
            lines += 1;
            quantities[line.quantity as usize - 1] += 1;
            assert!(line.item < 100_000);
            if line.supplier != order.warehouse {
                remote += 1;
                suppliers[line.supplier as usize] += 1;
            }
        }
    }
    assert!(
        chi_square_deviations(&counts, &[1.0 / 11.0; 11]).abs() < 5.0,
        "{counts:?}"
    );
    assert!(
        chi_square_deviations(&quantities, &[0.1; 10]).abs() < 5.0,
        "{quantities:?}"
    );
    assert!(near(rollbacks, orders, 0.01), "{rollbacks} of {orders}");
    assert!(near(remote, lines, 0.01), "{remote} of {lines}");
    let even = [1.0 / f64::from(WAREHOUSES); WAREHOUSES as usize];
    assert!(
        chi_square_deviations(&suppliers, &even).abs() < 5.0,
        "{suppliers:?}"
    );
}

#[test]
fn payments_have_the_standard_remote_and_name_shares() {
    let (mut payments, mut remote, mut asked, mut by_name) = (0, 0, 0, 0);
    let mut homes = [0u64; WAREHOUSES as usize];
    let mut districts = [0u64; 10];
    for input in inputs(3) {
        let customer = match input {
            Input::Payment(payment) => {
                payments += 1;
                homes[payment.warehouse as usize] += 1;
                districts[payment.customer_district as usize] += 1;
                if payment.customer_warehouse == payment.warehouse {
                    assert_eq!(payment.customer_district, payment.district);
                } else {
                    remote += 1;
                }
                payment.customer
            }
            Input::OrderStatus(status) => status.customer,
            _ => continue,
        };
        asked += 1;
        by_name += u64::from(matches!(customer, Customer::LastName(_)));
    }
    assert!(near(remote, payments, 0.15), "{remote} of {payments}");
    assert!(near(by_name, asked, 0.6), "{by_name} of {asked}");
    let even = [1.0 / f64::from(WAREHOUSES); WAREHOUSES as usize];
    assert!(
        chi_square_deviations(&homes, &even).abs() < 5.0,
        "{homes:?}"
    );
    assert!(
        chi_square_deviations(&districts, &[0.1; 10]).abs() < 5.0,
        "{districts:?}"
    );
}

#[test]
fn customers_and_items_of_orders_are_nurand() {
    let mut inputs = Inputs::new(WAREHOUSES, 4);
    let (customer, item, name) = (inputs.customer(), inputs.item(), inputs.last_name_run());
    let mut counts = [vec![0u64; 3_000], vec![0; 100_000], vec![0; 1_000]];
    for _ in 0..INPUTS {
        match inputs.next_input() {
            Input::NewOrder(order) => {
                counts[0][order.customer as usize] += 1;
                for line in order.lines {
                    counts[1][line.item as usize] += 1;
                }
            }
            Input::Payment(payment) => {
                if let Customer::LastName(name) = payment.customer {
                    counts[2][name as usize] += 1;
                }
            }
            _ => {}
        }
    }
    for (counts, numbers) in counts.iter().zip([customer, item, name]) {
        let deviations = chi_square_deviations(counts, &probabilities(numbers));
        assert!(
            deviations.abs() < 5.0,
            "NURand({}): {deviations}",
            numbers.a
        );
    }
}

#[test]
fn last_name_constants_keep_the_standard_distance() {
    for seed in 0..500 {
        let inputs = Inputs::new(1, seed);
        let distance = inputs.last_name_run().c.abs_diff(inputs.last_name_load().c);
        assert!(
            (65..=119).contains(&distance) && distance != 96 && distance != 112,
            "{distance}"
        );
    }
}

#[test]
fn with_one_warehouse_nothing_is_remote() {
    let mut inputs = Inputs::new(1, 0);
    for _ in 0..10_000 {
        match inputs.next_input() {
            Input::NewOrder(order) => assert!(order.lines.iter().all(|line| line.supplier == 0)),
            Input::Payment(payment) => assert_eq!(payment.customer_warehouse, 0),
            _ => {}
        }
    }
}

#[test]
fn last_names_are_made_of_the_standards_syllables() {
    // The example of clause 4.3.2.3.
    assert_eq!(last_name(371), "PRICALLYOUGHT");
    assert_eq!(last_name(40), "BARPRESBAR");
    let mut names: Vec<String> = (0..1_000).map(last_name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1_000);
}

/// For the test of pages.
pub fn item_probabilities(numbers: NuRand) -> Vec<f64> {
    probabilities(numbers)
}
