//! The five transactions, statement by statement as in the standard's Appendix A.

use super::Transaction;
use super::database::{Database, Order, RECENT_ORDERS, choose, key};
use super::input::{Customer, Input, Kind, Line, NewOrder, OrderStatus, Payment};
use super::options::{DISTRICTS, Index, Table};
use super::work::Work;

/// Bytes of an amount of money: 12 digits and a sign, two digits a byte.
const MONEY: u32 = 7;
/// Bytes of a count of at most four digits.
const COUNT: u32 = 2;
/// Bytes of an order's number.
const ORDER: u32 = 4;
/// Bytes of a date and time.
const DATE: u32 = 8;
/// Bytes of a customer's remarks.
const REMARKS: u32 = 500;
/// One customer in ten has bad credit. The loading spreads them at random; here they are those whose number ends in 7.
const BAD_CREDIT: u32 = 7;

/// Does a transaction.
pub(super) fn run(db: &mut Database, work: &mut Work, input: &Input) -> Transaction {
    let (kind, rolled_back) = match input {
        Input::NewOrder(order) => {
            new_order(db, work, order);
            (Kind::NewOrder, order.rollback)
        }
        Input::Payment(input) => {
            payment(db, work, input);
            (Kind::Payment, false)
        }
        Input::OrderStatus(input) => {
            order_status(db, work, input);
            (Kind::OrderStatus, false)
        }
        Input::Delivery { warehouse } => {
            delivery(db, work, *warehouse);
            (Kind::Delivery, false)
        }
        Input::StockLevel {
            warehouse,
            district,
        } => {
            stock_level(db, work, warehouse * DISTRICTS + district);
            (Kind::StockLevel, false)
        }
    };
    if work.records > 0 {
        // The commit, or the end of the rollback.
        work.log(0);
    }
    Transaction {
        kind,
        rolled_back,
        rows_changed: work.rows,
        pages_changed: work.pages_changed(),
        log_records: work.records,
        log_bytes: work.log_bytes,
        deliveries_skipped: work.deliveries_skipped,
    }
}

fn new_order(db: &mut Database, work: &mut Work, input: &NewOrder) {
    let run = input.warehouse * DISTRICTS + input.district;
    // SELECT ... FROM customer, warehouse
    select_warehouse(db, work, input.warehouse);
    select_customer(db, work, run, input.customer);
    // SELECT d_next_o_id, d_tax; UPDATE district
    let district_page = select_district(db, work, run);
    select_district(db, work, run);
    work.write(district_page);
    work.log_update(ORDER);
    // INSERT INTO orders, INSERT INTO new_order
    let order = Order {
        first_line: db.order_line.rows(),
        row: u32::try_from(db.orders.rows()).expect("memory holds fewer than 2^32 orders"),
        customer: input.customer as u16,
        lines: input.lines.len() as u8,
    };
    let number = db.districts[run as usize].orders.len() as u32 + 1;
    let row = db.orders.append(&mut db.space);
    work.write(db.orders.page(row));
    work.log_row(Table::Orders);
    db.orders_key
        .insert(key::order(run, number), &mut db.space, work);
    work.log_entry(Index::Orders);
    let of_customer = key::order_of(run, input.customer, number);
    db.orders_customer.insert(of_customer, &mut db.space, work);
    work.log_entry(Index::OrdersByCustomer);
    let waiting = db.new_order.append(&mut db.space);
    work.write(db.new_order.page(waiting));
    work.log_row(Table::NewOrder);
    db.new_order_key
        .insert(key::order(run, number), &mut db.space, work);
    work.log_entry(Index::NewOrder);
    let (last, lines) = input.lines.split_last().expect("an order has lines");
    for (at, line) in (1..).zip(lines) {
        order_line(db, work, key::line(run, number, at), input.warehouse, line);
    }
    if input.rollback {
        // SELECT ... FROM item finds nothing for the last line.
        db.item_key.find(u64::from(last.item), work);
        roll_back(db, work, input, &order);
        return;
    }
    let at = u32::from(order.lines);
    order_line(db, work, key::line(run, number, at), input.warehouse, last);
    let district = &mut db.districts[run as usize];
    district.push(order, input.lines.iter().map(|line| line.item));
    district.waiting.push_back(waiting);
    district.last_order[input.customer as usize] = number;
}

/// SELECT ... FROM item; SELECT ... FROM stock; UPDATE stock; INSERT INTO order_line.
fn order_line(db: &mut Database, work: &mut Work, key_of_line: u64, home: u32, line: &Line) {
    db.item_key.find(u64::from(line.item), work);
    work.read(db.item.page(u64::from(line.item)));
    let stock_page = select_stock(db, work, line.supplier, line.item);
    select_stock(db, work, line.supplier, line.item);
    work.write(stock_page);
    // S_QUANTITY, S_YTD and S_ORDER_CNT; S_REMOTE_CNT for a remote line.
    let remote = u32::from(line.supplier != home);
    work.log_update(COUNT + ORDER + COUNT + remote * COUNT);
    let row = db.order_line.append(&mut db.space);
    work.write(db.order_line.page(row));
    work.log_row(Table::OrderLine);
    db.order_line_key.insert(key_of_line, &mut db.space, work);
    work.log_entry(Index::OrderLine);
}

/// Undoes a new order whose last line was not found. Each step is logged like the one that it undoes.
fn roll_back(db: &mut Database, work: &mut Work, input: &NewOrder, order: &Order) {
    let rows = work.rows;
    let run = input.warehouse * DISTRICTS + input.district;
    let number = db.districts[run as usize].orders.len() as u32 + 1;
    let done = &input.lines[..input.lines.len() - 1];
    for (index, line) in done.iter().enumerate().rev() {
        db.order_line_key
            .remove(key::line(run, number, index as u32 + 1), work);
        work.log_entry(Index::OrderLine);
        work.write(db.order_line.page(order.first_line + index as u64));
        work.log_row(Table::OrderLine);
        work.write(db.stock.page(Database::stock_row(line.supplier, line.item)));
        let remote = u32::from(line.supplier != input.warehouse);
        work.log_update(COUNT + ORDER + COUNT + remote * COUNT);
    }
    db.order_line.truncate(order.first_line);
    db.new_order_key.remove(key::order(run, number), work);
    work.log_entry(Index::NewOrder);
    let waiting = db.new_order.tail();
    work.write(db.new_order.page(waiting));
    db.new_order.remove(waiting);
    work.log_row(Table::NewOrder);
    let of_customer = key::order_of(run, input.customer, number);
    db.orders_customer.remove(of_customer, work);
    work.log_entry(Index::OrdersByCustomer);
    db.orders_key.remove(key::order(run, number), work);
    work.log_entry(Index::Orders);
    work.write(db.orders.page(u64::from(order.row)));
    db.orders.truncate(u64::from(order.row));
    work.log_row(Table::Orders);
    work.write(db.district.page(u64::from(run)));
    work.log_update(ORDER);
    work.rows = rows;
}

fn payment(db: &mut Database, work: &mut Work, input: &Payment) {
    let run = input.warehouse * DISTRICTS + input.district;
    let customer_run = input.customer_warehouse * DISTRICTS + input.customer_district;
    // UPDATE warehouse; SELECT ... FROM warehouse
    let page = select_warehouse(db, work, input.warehouse);
    work.write(page);
    work.log_update(MONEY);
    select_warehouse(db, work, input.warehouse);
    // UPDATE district; SELECT ... FROM district
    let page = select_district(db, work, run);
    work.write(page);
    work.log_update(MONEY);
    select_district(db, work, run);
    // SELECT ... FROM customer; with bad credit SELECT c_data; UPDATE customer
    let customer = find_customer(db, work, customer_run, input.customer);
    let bad = customer % 10 == BAD_CREDIT;
    if bad {
        select_customer(db, work, customer_run, customer);
    }
    let page = select_customer(db, work, customer_run, customer);
    work.write(page);
    work.log_update(2 * MONEY + COUNT + if bad { REMARKS } else { 0 });
    // INSERT INTO history
    let row = db.history.append(&mut db.space);
    work.write(db.history.page(row));
    work.log_row(Table::History);
}

fn order_status(db: &mut Database, work: &mut Work, input: &OrderStatus) {
    let run = input.warehouse * DISTRICTS + input.district;
    let customer = find_customer(db, work, run, input.customer);
    // SELECT ... FROM orders ORDER BY o_id DESC: the last entry of the customer. Every customer has an order.
    let number = db.districts[run as usize].last_order[customer as usize];
    db.orders_customer
        .find(key::order_of(run, customer, number), work);
    let order = db.districts[run as usize].orders[number as usize - 1];
    work.read(db.orders.page(u64::from(order.row)));
    // SELECT ... FROM order_line
    scan_lines(db, work, run, number, false);
}

fn delivery(db: &mut Database, work: &mut Work, warehouse: u32) {
    for run in warehouse * DISTRICTS..(warehouse + 1) * DISTRICTS {
        let district = &mut db.districts[run as usize];
        let number = district.oldest_waiting();
        let Some(waiting) = district.waiting.pop_front() else {
            work.deliveries_skipped += 1;
            continue;
        };
        let order = district.orders[number as usize - 1];
        // SELECT no_o_id FROM new_order ORDER BY no_o_id; DELETE WHERE CURRENT OF. The removal descends the index.
        db.new_order_key.remove(key::order(run, number), work);
        work.log_entry(Index::NewOrder);
        let page = db.new_order.page(waiting);
        work.read(page);
        work.write(page);
        db.new_order.remove(waiting);
        work.log_row(Table::NewOrder);
        // SELECT o_c_id FROM orders; UPDATE orders
        let page = select_order(db, work, run, number, &order);
        select_order(db, work, run, number, &order);
        work.write(page);
        work.log_update(COUNT);
        // UPDATE order_line; SELECT SUM(ol_amount)
        scan_lines(db, work, run, number, true);
        scan_lines(db, work, run, number, false);
        // UPDATE customer: C_BALANCE and C_DELIVERY_CNT
        let page = select_customer(db, work, run, order.customer.into());
        work.write(page);
        work.log_update(MONEY + COUNT);
    }
}

fn stock_level(db: &mut Database, work: &mut Work, run: u32) {
    // SELECT d_next_o_id
    select_district(db, work, run);
    // SELECT COUNT(DISTINCT s_i_id) FROM order_line, stock: each line of the last 20 orders, and its stock.
    let count = db.districts[run as usize].orders.len();
    let first = count.saturating_sub(RECENT_ORDERS);
    let (from, to) = (
        key::line(run, first as u32 + 1, 1),
        key::line(run, count as u32, 15),
    );
    db.order_line_key.scan(from, to, work);
    for number in first..count {
        let district = &db.districts[run as usize];
        let (order, items) = (district.orders[number], *district.items(number));
        for (row, item) in (order.first_line..).zip(&items[..order.lines.into()]) {
            work.read(db.order_line.page(row));
            select_stock(db, work, run / DISTRICTS, *item);
        }
    }
}

/// Reads the rows of an order's lines; `update` sets their date of delivery.
fn scan_lines(db: &mut Database, work: &mut Work, run: u32, number: u32, update: bool) {
    let order = db.districts[run as usize].orders[number as usize - 1];
    let lines = u32::from(order.lines);
    let (from, to) = (key::line(run, number, 1), key::line(run, number, lines));
    db.order_line_key.scan(from, to, work);
    for line in 0..u64::from(lines) {
        let page = db.order_line.page(order.first_line + line);
        work.read(page);
        if update {
            work.write(page);
            work.log_update(DATE);
        }
    }
}

/// SELECT ... FROM customer, by number or by last name.
fn find_customer(db: &mut Database, work: &mut Work, run: u32, customer: Customer) -> u32 {
    let (number, fetched) = choose(&db.districts[run as usize], customer);
    if fetched.is_empty() {
        select_customer(db, work, run, number);
        return number;
    }
    // SELECT COUNT(*), from the index alone, and then the rows up to the one in the middle.
    let Customer::LastName(name) = customer else {
        unreachable!("rows are fetched by name only");
    };
    let all = db.districts[run as usize].with_name(name);
    let place = |place: usize| key::customer(run, place as u32);
    db.customer_name
        .scan(place(all.start), place(all.end - 1), work);
    db.customer_name
        .scan(place(fetched.start), place(fetched.end - 1), work);
    for at in fetched {
        let row = Database::customer_row(run, db.districts[run as usize].at_place(at));
        work.read(db.customer.page(row));
    }
    number
}

fn select_warehouse(db: &mut Database, work: &mut Work, warehouse: u32) -> u64 {
    db.warehouse_key.find(warehouse.into(), work);
    let page = db.warehouse.page(warehouse.into());
    work.read(page);
    page
}

fn select_district(db: &mut Database, work: &mut Work, run: u32) -> u64 {
    db.district_key.find(run.into(), work);
    let page = db.district.page(run.into());
    work.read(page);
    page
}

fn select_customer(db: &mut Database, work: &mut Work, run: u32, customer: u32) -> u64 {
    db.customer_key.find(key::customer(run, customer), work);
    let page = db.customer.page(Database::customer_row(run, customer));
    work.read(page);
    page
}

fn select_order(db: &mut Database, work: &mut Work, run: u32, number: u32, order: &Order) -> u64 {
    db.orders_key.find(key::order(run, number), work);
    let page = db.orders.page(order.row.into());
    work.read(page);
    page
}

fn select_stock(db: &mut Database, work: &mut Work, warehouse: u32, item: u32) -> u64 {
    db.stock_key.find(key::stock(warehouse, item), work);
    let page = db.stock.page(Database::stock_row(warehouse, item));
    work.read(page);
    page
}
