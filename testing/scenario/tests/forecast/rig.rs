//! Forecasts of scenarios as text.

use std::fmt::Write as _;

use gpool_control::forecast::{self, Calibrator, ForecastInput};
use gpool_model::{Eta, JobId, Timestamp};
use gpool_scenario::{Cluster, Situation};
use gpool_world::World;

/// Returns the cluster of a scenario after one cycle.
pub fn cluster(scenario: &str) -> Cluster {
    let situation = Situation::parse(scenario).unwrap_or_else(|error| panic!("{error}"));
    let mut cluster = Cluster::of(&situation);
    cluster.cycle();
    cluster
}

pub fn part(cluster: &Cluster) -> ForecastInput {
    ForecastInput::of(&cluster.snapshot(), forecast::JOBS_MAX, None)
}

/// Returns when each waiting job will start, from now, one per line.
pub fn etas(scenario: &str) -> String {
    let cluster = cluster(scenario);
    let part = part(&cluster);
    let made = forecast::forecast(&part, forecast::JOBS_MAX, &Calibrator::default());
    assert!(!made.is_broken, "a plan was refused: {scenario}");
    let mut text = String::new();
    for row in part.excerpt.jobs.values().filter(|row| row.job.phase.allocations().is_empty()) {
        let eta = made.etas.get(&row.job.id);
        let shown = eta.map_or_else(|| "unknown".to_owned(), |eta| words(eta, part.now));
        let _ = writeln!(text, "{} {shown}", row.spec.name);
    }
    text
}

pub fn words(eta: &Eta, now: Timestamp) -> String {
    let from_now = |at: Option<Timestamp>| {
        at.map_or_else(|| "beyond".to_owned(), |at| at.since(now).to_string())
    };
    format!(
        "{} {} {} by {}",
        from_now(eta.p10),
        from_now(eta.p50),
        from_now(eta.p90),
        eta.basis.as_str()
    )
}

pub fn id_of(world: &World, name: &str) -> JobId {
    let row = world.job_rows().find(|row| &*row.spec.name == name);
    row.unwrap_or_else(|| panic!("no job {name}")).job.id
}
