//! The experiments.

mod aru;
mod aru_overhead;
mod head_history;
mod head_pauses;
mod heads;
mod heads_noise;
mod hylog_array;
mod hylog_cleaning;
mod hylog_drives;
mod hylog_hot_share;
mod hylog_interval;
mod hylog_model;
mod hylog_reads;
mod hylog_throughput;
mod hylog_traces;
mod hylog_validation;
mod log_latency;
mod mimic_policies;
mod mimic_predictors;
mod mimic_skip;
mod mimic_tolerance;
mod read_priority;
#[cfg(feature = "sqlite")]
mod sqlite;
mod trail_batch;
mod trail_drives;
mod trail_latency;
mod trail_raid5;
mod trail_recovery;
mod trail_residual;
mod trail_tpcc;
mod trail_utilisation;
mod wal_product;
mod wal_sync;
mod wal_tpcc;

use crate::experiment::{Experiment, LabError};

/// All experiments, in the order of the papers.
pub static EXPERIMENTS: &[Experiment] = &[
    trail_latency::EXPERIMENT,
    trail_batch::EXPERIMENT,
    trail_residual::EXPERIMENT,
    trail_utilisation::EXPERIMENT,
    trail_recovery::EXPERIMENT,
    trail_tpcc::EXPERIMENT,
    trail_drives::EXPERIMENT,
    trail_raid5::EXPERIMENT,
    read_priority::EXPERIMENT,
    mimic_skip::EXPERIMENT,
    mimic_predictors::EXPERIMENT,
    mimic_tolerance::EXPERIMENT,
    mimic_policies::EXPERIMENT,
    hylog_model::EXPERIMENT,
    hylog_validation::EXPERIMENT,
    hylog_cleaning::EXPERIMENT,
    hylog_throughput::EXPERIMENT,
    hylog_hot_share::EXPERIMENT,
    hylog_array::EXPERIMENT,
    hylog_interval::EXPERIMENT,
    hylog_traces::EXPERIMENT,
    hylog_drives::EXPERIMENT,
    hylog_reads::EXPERIMENT,
    wal_sync::EXPERIMENT,
    wal_tpcc::EXPERIMENT,
    wal_product::EXPERIMENT,
    aru::EXPERIMENT,
    aru_overhead::EXPERIMENT,
    heads::EXPERIMENT,
    heads_noise::EXPERIMENT,
    head_pauses::EXPERIMENT,
    head_history::EXPERIMENT,
    log_latency::EXPERIMENT,
    #[cfg(feature = "sqlite")]
    sqlite::EXPERIMENT,
];

/// The experiment with the name `name`.
///
/// # Errors
/// When there is none.
pub fn find(name: &str) -> Result<&'static Experiment, LabError> {
    EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name)
        .ok_or_else(|| match name {
            "sqlite" => LabError::NotBuilt,
            _ => LabError::UnknownExperiment(name.to_string()),
        })
}
