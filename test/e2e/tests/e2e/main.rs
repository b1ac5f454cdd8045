//! End-to-end tests: the program with real clients, real file systems and real kills.

mod arrays;
mod bad_stores;
mod clients;
mod crash;
mod databases;
mod extension;
mod features;
mod files;
mod filesystems;
mod forks;
mod front_ends;
mod full_host;
mod golden;
mod heads;
mod hostile;
mod nbdsh;
mod reconnect;
mod run_script;
mod scrub;
mod served_databases;
mod sessions;
mod shutdown;
mod traces;
mod two_names;
mod volume_images;
