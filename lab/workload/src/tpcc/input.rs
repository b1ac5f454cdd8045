//! What terminals enter: kinds of transactions and their values (clauses 2.4.1, 2.5.1, 2.6.1, 2.7.1, 2.8.1 and
//! 5.2.4.1).
//!
//! Numbers of warehouses, districts, customers and items begin with 0, not with 1. A terminal's warehouse, and the
//! district of a terminal's stock levels, are drawn for each transaction, because the requests of all terminals are one
//! stream here.

use super::nurand::NuRand;
use super::options::{CUSTOMERS, DISTRICTS, ITEMS};
use crate::random::Random;

/// Stream of random numbers for the values.
const STREAM: u64 = 0;

/// The kind of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// A customer orders 5 to 15 items.
    NewOrder,
    /// A customer pays.
    Payment,
    /// A customer asks for the last order.
    OrderStatus,
    /// The oldest undelivered order of each district of a warehouse is delivered.
    Delivery,
    /// A district's recently sold items with a low stock are counted.
    StockLevel,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::NewOrder,
        Self::Payment,
        Self::OrderStatus,
        Self::Delivery,
        Self::StockLevel,
    ];

    /// Its share of the transactions, in percent: the minimum of clause 5.2.3, and the rest for new orders.
    pub const fn percent(self) -> u32 {
        match self {
            Self::NewOrder => 45,
            Self::Payment => 43,
            Self::OrderStatus | Self::Delivery | Self::StockLevel => 4,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewOrder => "new-order",
            Self::Payment => "payment",
            Self::OrderStatus => "order-status",
            Self::Delivery => "delivery",
            Self::StockLevel => "stock-level",
        }
    }
}

/// How a customer is named.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Customer {
    /// By the customer's number, 0 to 2999.
    Number(u32),
    /// By the number of the last name, 0 to 999.
    LastName(u32),
}

/// A line of an order.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Line {
    /// 0 to 99,999.
    pub item: u32,
    /// The warehouse that supplies it.
    pub supplier: u32,
    /// 1 to 10.
    pub quantity: u32,
}

/// A new order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewOrder {
    /// The terminal's warehouse.
    pub warehouse: u32,
    /// 0 to 9.
    pub district: u32,
    /// 0 to 2999.
    pub customer: u32,
    /// 5 to 15 lines.
    pub lines: Vec<Line>,
    /// The last line has an unused item number, so the transaction is rolled back.
    pub rollback: bool,
}

/// A payment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Payment {
    /// The terminal's warehouse.
    pub warehouse: u32,
    /// 0 to 9.
    pub district: u32,
    /// The customer's warehouse.
    pub customer_warehouse: u32,
    /// The customer's district.
    pub customer_district: u32,
    /// The customer.
    pub customer: Customer,
}

/// A question about a customer's last order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderStatus {
    /// The terminal's warehouse.
    pub warehouse: u32,
    /// 0 to 9.
    pub district: u32,
    /// The customer.
    pub customer: Customer,
}

/// What a terminal enters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// Clause 2.4.
    NewOrder(NewOrder),
    /// Clause 2.5.
    Payment(Payment),
    /// Clause 2.6.
    OrderStatus(OrderStatus),
    /// Clause 2.7, executed at once.
    Delivery {
        /// The terminal's warehouse.
        warehouse: u32,
    },
    /// Clause 2.8.
    StockLevel {
        /// The terminal's warehouse.
        warehouse: u32,
        /// The terminal's district.
        district: u32,
    },
}

/// Draws inputs.
pub struct Inputs {
    random: Random,
    warehouses: u32,
    customer: NuRand,
    item: NuRand,
    last_name: NuRand,
    last_name_load: NuRand,
}

impl Inputs {
    /// Inputs for a database of `warehouses` warehouses, at least 1.
    pub fn new(warehouses: u32, seed: u64) -> Self {
        let mut random = Random::new(seed, STREAM);
        let last_name_load = NuRand::new(255, 0, 999, &mut random);
        Self {
            customer: NuRand::new(1023, 1, CUSTOMERS, &mut random),
            item: NuRand::new(8191, 1, ITEMS, &mut random),
            last_name: last_name_of_run(last_name_load, &mut random),
            last_name_load,
            warehouses,
            random,
        }
    }

    /// Numbers of last names while the database is loaded.
    pub fn last_name_load(&self) -> NuRand {
        self.last_name_load
    }

    /// Numbers of last names in transactions.
    pub fn last_name_run(&self) -> NuRand {
        self.last_name
    }

    /// Numbers of customers, from 1 as in the standard.
    pub fn customer(&self) -> NuRand {
        self.customer
    }

    /// Numbers of items, from 1 as in the standard.
    pub fn item(&self) -> NuRand {
        self.item
    }

    /// The next transaction.
    pub fn next_input(&mut self) -> Input {
        let mut card = self.random.below(100) as u32;
        let kind = Kind::ALL.into_iter().find(|kind| {
            let drawn = card < kind.percent();
            card = card.wrapping_sub(kind.percent());
            drawn
        });
        let warehouse = self.random.below(u64::from(self.warehouses)) as u32;
        let district = self.random.below(u64::from(DISTRICTS)) as u32;
        match kind.expect("the percentages add up to 100") {
            Kind::NewOrder => Input::NewOrder(self.new_order(warehouse, district)),
            Kind::Payment => Input::Payment(self.payment(warehouse, district)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus {
                warehouse,
                district,
                customer: self.named(),
            }),
            Kind::Delivery => Input::Delivery { warehouse },
            Kind::StockLevel => Input::StockLevel {
                warehouse,
                district,
            },
        }
    }

    fn new_order(&mut self, warehouse: u32, district: u32) -> NewOrder {
        let customer = self.customer.draw(&mut self.random) - 1;
        let lines = self.random.between(5, 15);
        let rollback = self.random.percent(1);
        let lines = (0..lines).map(|_| Line {
            item: self.item.draw(&mut self.random) - 1,
            supplier: if self.random.percent(1) {
                self.another(warehouse)
            } else {
                warehouse
            },
            quantity: self.random.between(1, 10),
        });
        NewOrder {
            warehouse,
            district,
            customer,
            lines: lines.collect(),
            rollback,
        }
    }

    fn payment(&mut self, warehouse: u32, district: u32) -> Payment {
        let (customer_warehouse, customer_district) = if self.random.percent(15) {
            let district = self.random.below(u64::from(DISTRICTS)) as u32;
            (self.another(warehouse), district)
        } else {
            (warehouse, district)
        };
        Payment {
            warehouse,
            district,
            customer_warehouse,
            customer_district,
            customer: self.named(),
        }
    }

    /// A customer by the last name in 60 % of all cases.
    fn named(&mut self) -> Customer {
        if self.random.percent(60) {
            Customer::LastName(self.last_name.draw(&mut self.random))
        } else {
            Customer::Number(self.customer.draw(&mut self.random) - 1)
        }
    }

    /// A warehouse that is not `home`, if there is one.
    fn another(&mut self, home: u32) -> u32 {
        if self.warehouses == 1 {
            return home;
        }
        let other = self.random.below(u64::from(self.warehouses) - 1) as u32;
        other + u32::from(other >= home)
    }
}

/// Clause 2.1.6.1: the distance of both constants is from 65 to 119, and neither 96 nor 112.
fn last_name_of_run(load: NuRand, random: &mut Random) -> NuRand {
    loop {
        let run = NuRand::new(load.a, load.low, load.high, random);
        let distance = run.c.abs_diff(load.c);
        if (65..=119).contains(&distance) && distance != 96 && distance != 112 {
            return run;
        }
    }
}
