mod company_test;
mod decide_test;
mod durability_test;
mod geometry_test;
mod heads_test;
mod log_test;
mod ring_test;
mod search_test;
