//! Measures of how well simulated times agree with measured times.

use crate::requests::Request;
use tonearm_base::Nanos;
use tonearm_drive::Demerit;
use tonearm_world::Kind;

/// A request counts as predicted when its error is at most this.
pub const PREDICTED: Nanos = Nanos(500_000);

/// The demerit figure of the requests of one kind, or of all requests. None when there are no such requests.
pub fn demerit_ms(requests: &[Request], times: &[Nanos], kind: Option<Kind>) -> Option<f64> {
    let pairs = requests.iter().zip(times);
    let wanted = pairs.filter(|(request, _)| kind.is_none_or(|kind| request.kind == kind));
    let (measured, simulated): (Vec<Nanos>, Vec<Nanos>) = wanted
        .map(|(request, time)| (request.response, *time))
        .unzip();
    Some(Demerit::of(&measured, &simulated)?.demerit_ms)
}

/// Share of the requests that are predicted, in percent.
pub fn predicted_percent(requests: &[Request], times: &[Nanos]) -> f64 {
    let pairs = requests.iter().zip(times);
    let near = pairs.filter(|(request, time)| request.response.0.abs_diff(time.0) <= PREDICTED.0);
    100.0 * near.count() as f64 / requests.len().max(1) as f64
}

/// Median error of single requests, in ms.
pub fn median_error_ms(requests: &[Request], times: &[Nanos]) -> f64 {
    let pairs = requests.iter().zip(times);
    let mut errors: Vec<u64> = pairs
        .map(|(request, time)| request.response.0.abs_diff(time.0))
        .collect();
    errors.sort_unstable();
    errors
        .get(errors.len() / 2)
        .map_or(0.0, |ns| *ns as f64 / 1e6)
}
