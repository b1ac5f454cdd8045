//! The database: its tables and indexes, and what transactions must know of its rows.

use super::names;
use super::new_order_rows::NewOrderRows;
use super::nurand::NuRand;
use super::options::{
    CUSTOMERS, DISTRICTS, ITEMS, Index, NEW_ORDERS_LOADED, ORDERS_LOADED, Table as Name,
    TpccOptions,
};
use super::space::Space;
use super::table::Table;
use super::tree::{Loader, Tree};
use super::{Customer, Size};
use crate::random::Random;
use std::collections::VecDeque;

/// Stream of random numbers for the loading.
const STREAM: u64 = 1;
/// Orders of a district that a stock level looks at.
pub(super) const RECENT_ORDERS: usize = 20;
/// Most lines of an order.
const LINES_MAX: usize = 15;
/// Different last names.
const NAMES: usize = 1000;

/// A row of ORDERS.
#[derive(Clone, Copy)]
pub(super) struct Order {
    /// Number of the first of its rows in ORDER-LINE.
    pub first_line: u64,
    /// Number of its row in ORDERS.
    pub row: u32,
    pub customer: u16,
    pub lines: u8,
}

/// What a row of DISTRICT leads to.
pub(super) struct District {
    /// All orders. The order with number `o` of the standard, from 1, is at `o - 1`.
    pub orders: Vec<Order>,
    /// The last orders of `orders`, which wait for delivery: the page of each in NEW-ORDER.
    pub waiting: VecDeque<u32>,
    /// The last order of each customer, from 1.
    pub last_order: Vec<u32>,
    /// Customers in the order of last and first name.
    by_name: Vec<u16>,
    /// Where each last name begins and ends in `by_name`.
    names: Vec<(u16, u16)>,
    /// The items of the recent orders: those of order `o` at `(o - 1) % RECENT_ORDERS`.
    recent: Vec<[u32; LINES_MAX]>,
}

impl District {
    /// Adds an order with its items.
    pub fn push(&mut self, order: Order, items: impl Iterator<Item = u32>) {
        let place = self.orders.len() % RECENT_ORDERS;
        for (slot, item) in self.recent[place].iter_mut().zip(items) {
            *slot = item;
        }
        self.orders.push(order);
    }

    /// The items of the recent order at `number` in `orders`.
    pub fn items(&self, number: usize) -> &[u32; LINES_MAX] {
        &self.recent[number % RECENT_ORDERS]
    }

    /// The customers with this last name, in the order of their first names: their places in the index by name.
    pub fn with_name(&self, name: u32) -> std::ops::Range<usize> {
        let (begin, end) = self.names[name as usize];
        begin.into()..end.into()
    }

    /// The customer at a place in the index by name.
    pub fn at_place(&self, place: usize) -> u32 {
        self.by_name[place].into()
    }

    /// The oldest order that waits for delivery, from 1.
    pub fn oldest_waiting(&self) -> u32 {
        (self.orders.len() - self.waiting.len()) as u32 + 1
    }
}

/// Keys of the indexes. They have the order of the columns.
pub(super) mod key {
    pub fn customer(district: u32, customer: u32) -> u64 {
        u64::from(district) << 12 | u64::from(customer)
    }

    pub fn order(district: u32, order: u32) -> u64 {
        u64::from(district) << 32 | u64::from(order)
    }

    pub fn order_of(district: u32, customer: u32, order: u32) -> u64 {
        customer_prefix(district, customer) | u64::from(order)
    }

    fn customer_prefix(district: u32, customer: u32) -> u64 {
        (u64::from(district) << 12 | u64::from(customer)) << 32
    }

    pub fn line(district: u32, order: u32, line: u32) -> u64 {
        order_prefix(district, order) | u64::from(line)
    }

    fn order_prefix(district: u32, order: u32) -> u64 {
        (u64::from(district) << 32 | u64::from(order)) << 4
    }

    pub fn stock(warehouse: u32, item: u32) -> u64 {
        u64::from(warehouse) << 17 | u64::from(item)
    }
}

/// All of it.
pub(super) struct Database {
    pub space: Space,
    loaded: u64,
    pub districts: Vec<District>,
    pub warehouse: Table,
    pub district: Table,
    pub customer: Table,
    pub history: Table,
    pub new_order: NewOrderRows,
    pub orders: Table,
    pub order_line: Table,
    pub item: Table,
    pub stock: Table,
    pub warehouse_key: Tree,
    pub district_key: Tree,
    pub customer_key: Tree,
    pub customer_name: Tree,
    pub new_order_key: Tree,
    pub orders_key: Tree,
    pub orders_customer: Tree,
    pub order_line_key: Tree,
    pub item_key: Tree,
    pub stock_key: Tree,
}

impl Database {
    /// Loads it as clause 4.3.3 demands.
    pub fn load(options: &TpccOptions, last_name: NuRand) -> Self {
        let mut random = Random::new(options.seed, STREAM);
        let ranks = names::ranks();
        let warehouses = options.warehouses;
        let runs = warehouses * DISTRICTS;
        let mut lines = 0;
        let districts: Vec<District> = (0..runs)
            .map(|run| load_district(run, options, &ranks, last_name, &mut lines, &mut random))
            .collect();
        let mut space = Space::new(options.extent_pages);
        let rows = |count: u32| u64::from(runs) * u64::from(count);
        let items = u64::from(warehouses) * u64::from(ITEMS);
        let space_of = &mut space;
        let mut table = |name, rows| Table::load(options, name, rows, space_of);
        let warehouse = table(Name::Warehouse, warehouses.into());
        let district = table(Name::District, runs.into());
        let customer = table(Name::Customer, rows(CUSTOMERS));
        let history = table(Name::History, rows(CUSTOMERS));
        let orders = table(Name::Orders, rows(ORDERS_LOADED));
        let order_line = table(Name::OrderLine, lines);
        let item = table(Name::Item, ITEMS.into());
        let stock = table(Name::Stock, items);
        let new_order = NewOrderRows::load(options, rows(NEW_ORDERS_LOADED), &mut space);
        let tree = |index, space: &mut Space, fill: &dyn Fn(&mut Loader)| {
            let mut loader = Loader::new(options, index);
            fill(&mut loader);
            loader.finish(space)
        };
        // Calls `each` with every district, and begins a leaf at each.
        let by_district = |loader: &mut Loader, each: &dyn Fn(&mut Loader, u32, &District)| {
            for (run, district) in (0..).zip(&districts) {
                each(loader, run, district);
                loader.end_run();
            }
        };
        let warehouse_key = tree(Index::Warehouse, &mut space, &|loader| {
            (0..warehouses).for_each(|w| loader.push(w.into()));
        });
        let district_key = tree(Index::District, &mut space, &|loader| {
            (0..runs).for_each(|run| loader.push(run.into()));
        });
        let customers = |loader: &mut Loader| {
            for run in 0..runs {
                (0..CUSTOMERS).for_each(|c| loader.push(key::customer(run, c)));
            }
        };
        let customer_key = tree(Index::Customer, &mut space, &customers);
        let customer_name = tree(Index::CustomerByName, &mut space, &customers);
        let new_order_key = tree(Index::NewOrder, &mut space, &|loader| {
            by_district(loader, &|loader, run, district| {
                let oldest = district.oldest_waiting();
                (oldest..=ORDERS_LOADED).for_each(|o| loader.push(key::order(run, o)));
            });
        });
        let orders_key = tree(Index::Orders, &mut space, &|loader| {
            by_district(loader, &|loader, run, _| {
                (1..=ORDERS_LOADED).for_each(|o| loader.push(key::order(run, o)));
            });
        });
        let orders_customer = tree(Index::OrdersByCustomer, &mut space, &|loader| {
            by_district(loader, &|loader, run, district| {
                for (c, order) in (0..).zip(&district.last_order) {
                    loader.push(key::order_of(run, c, *order));
                }
            });
        });
        let order_line_key = tree(Index::OrderLine, &mut space, &|loader| {
            by_district(loader, &|loader, run, district| {
                for (o, order) in (1..).zip(&district.orders) {
                    (1..=u32::from(order.lines)).for_each(|l| loader.push(key::line(run, o, l)));
                }
            });
        });
        let item_key = tree(Index::Item, &mut space, &|loader| {
            (0..ITEMS).for_each(|i| loader.push(i.into()));
        });
        let stock_key = tree(Index::Stock, &mut space, &|loader| {
            for w in 0..warehouses {
                (0..ITEMS).for_each(|i| loader.push(key::stock(w, i)));
            }
        });
        Self {
            loaded: space.end(),
            space,
            districts,
            warehouse,
            district,
            customer,
            history,
            new_order,
            orders,
            order_line,
            item,
            stock,
            warehouse_key,
            district_key,
            customer_key,
            customer_name,
            new_order_key,
            orders_key,
            orders_customer,
            order_line_key,
            item_key,
            stock_key,
        }
    }

    /// Pages after the loading.
    pub fn loaded(&self) -> u64 {
        self.loaded
    }

    pub fn allocated(&self) -> u64 {
        self.space.end()
    }

    /// The number of the row of a customer.
    pub fn customer_row(run: u32, customer: u32) -> u64 {
        u64::from(run) * u64::from(CUSTOMERS) + u64::from(customer)
    }

    /// The number of the row of an item's stock in a warehouse.
    pub fn stock_row(warehouse: u32, item: u32) -> u64 {
        u64::from(warehouse) * u64::from(ITEMS) + u64::from(item)
    }

    pub fn sizes(&self) -> Vec<Size> {
        let table = |name: Name, table: &Table| Size {
            name: name.name(),
            rows: table.rows(),
            pages: table.pages(),
            levels: 0,
        };
        let mut sizes = vec![
            table(Name::Warehouse, &self.warehouse),
            table(Name::District, &self.district),
            table(Name::Customer, &self.customer),
            table(Name::History, &self.history),
            Size {
                name: Name::NewOrder.name(),
                rows: self.new_order.rows(),
                pages: self.new_order.pages(),
                levels: 0,
            },
            table(Name::Orders, &self.orders),
            table(Name::OrderLine, &self.order_line),
            table(Name::Item, &self.item),
            table(Name::Stock, &self.stock),
        ];
        sizes.extend(self.trees().map(|(index, tree)| Size {
            name: index.name(),
            rows: tree.entries(),
            pages: tree.pages(),
            levels: tree.levels(),
        }));
        sizes
    }

    pub fn check(&self) -> Result<(), String> {
        for (index, tree) in self.trees() {
            tree.check()
                .map_err(|error| format!("{}: {error}", index.name()))?;
        }
        let districts = || self.districts.iter();
        let orders: usize = districts().map(|district| district.orders.len()).sum();
        let waiting: usize = districts().map(|district| district.waiting.len()).sum();
        let all = districts().flat_map(|district| &district.orders);
        let lines: u64 = all.map(|order| u64::from(order.lines)).sum();
        for (what, rows, expected) in [
            ("orders", self.orders.rows(), orders as u64),
            (
                "entries of orders",
                self.orders_key.entries(),
                orders as u64,
            ),
            (
                "entries of orders by customer",
                self.orders_customer.entries(),
                orders as u64,
            ),
            ("new orders", self.new_order.rows(), waiting as u64),
            (
                "entries of new orders",
                self.new_order_key.entries(),
                waiting as u64,
            ),
            ("order lines", self.order_line.rows(), lines),
            (
                "entries of order lines",
                self.order_line_key.entries(),
                lines,
            ),
        ] {
            if rows != expected {
                return Err(format!("there are {rows} {what}, and should be {expected}"));
            }
        }
        Ok(())
    }

    fn trees(&self) -> impl Iterator<Item = (Index, &Tree)> {
        [
            (Index::Warehouse, &self.warehouse_key),
            (Index::District, &self.district_key),
            (Index::Customer, &self.customer_key),
            (Index::CustomerByName, &self.customer_name),
            (Index::NewOrder, &self.new_order_key),
            (Index::Orders, &self.orders_key),
            (Index::OrdersByCustomer, &self.orders_customer),
            (Index::OrderLine, &self.order_line_key),
            (Index::Item, &self.item_key),
            (Index::Stock, &self.stock_key),
        ]
        .into_iter()
    }
}

/// The customer's number, and how many rows a program fetches to find it: with a last name, half of the customers of
/// that name, rounded up, of which the last one is taken (clauses 2.5.2.2 and 2.6.2.2).
pub(super) fn choose(district: &District, customer: Customer) -> (u32, std::ops::Range<usize>) {
    match customer {
        Customer::Number(number) => (number, 0..0),
        Customer::LastName(name) => {
            let places = district.with_name(name);
            let fetched = places.start..places.start + places.len().div_ceil(2);
            (district.at_place(fetched.end - 1), fetched)
        }
    }
}

fn load_district(
    run: u32,
    options: &TpccOptions,
    ranks: &[u16],
    last_name: NuRand,
    lines: &mut u64,
    random: &mut Random,
) -> District {
    // The first thousand customers have the thousand names in turn, the others random ones. A random number stands for
    // the first name.
    let mut named: Vec<(u16, u64, u16)> = (0..CUSTOMERS as u16)
        .map(|customer| {
            let name = match u32::from(customer) {
                number if (number as usize) < NAMES => number,
                _ => last_name.draw(random),
            };
            (ranks[name as usize], random.number(), customer)
        })
        .collect();
    named.sort_unstable();
    let begins = ranks
        .iter()
        .map(|rank| named.partition_point(|one| one.0 < *rank) as u16);
    let ends = ranks
        .iter()
        .map(|rank| named.partition_point(|one| one.0 <= *rank) as u16);
    let names = begins.zip(ends).collect();
    let mut customers: Vec<u16> = (0..CUSTOMERS as u16).collect();
    random.shuffle(&mut customers);
    let first = u64::from(run) * u64::from(NEW_ORDERS_LOADED);
    let waiting =
        (0..u64::from(NEW_ORDERS_LOADED)).map(|row| NewOrderRows::loaded_row(options, first + row));
    let mut district = District {
        orders: Vec::with_capacity(ORDERS_LOADED as usize),
        waiting: waiting.collect(),
        last_order: vec![0; CUSTOMERS as usize],
        by_name: named.iter().map(|one| one.2).collect(),
        names,
        recent: vec![[0; LINES_MAX]; RECENT_ORDERS],
    };
    for (number, customer) in (0..ORDERS_LOADED).zip(customers) {
        district.last_order[usize::from(customer)] = number + 1;
        let count = random.between(5, 15) as u8;
        let order = Order {
            first_line: *lines,
            row: run * ORDERS_LOADED + number,
            customer,
            lines: count,
        };
        *lines += u64::from(count);
        let items = (0..count).map(|_| random.below(u64::from(ITEMS)) as u32);
        district.push(order, items);
    }
    district
}
