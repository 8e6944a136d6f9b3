//! Measures how many submissions per second the server accepts; each is durable before the answer.

use gpool_cli::cluster::Cluster;
use gpool_cli::failure::{Failure, Result};
use gpool_wire::JobCreate;

use super::Options;
use super::figure::Figure;
use super::load::{Ask, carry};

/// Measures one client and many clients while every GPU is busy; then the same load on a route that
/// does nothing, which is the limit of clients and connections.
///
/// # Errors
/// The server refuses a submission.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let cluster = super::cluster(&options.devices)?;
    occupy(&cluster)?;
    let socket = cluster.socket();
    let n_few = options.submissions.div_ceil(5);
    carry(socket, Ask::Submit, 1, n_few.div_ceil(10))?;
    let one = carry(socket, Ask::Submit, 1, n_few)?;
    let many = carry(socket, Ask::Submit, options.clients, options.submissions)?;
    let nothing = carry(socket, Ask::Health, options.clients, options.submissions)?;
    cluster.end()?;
    let n = options.clients;
    Ok(vec![
        Figure::new("submit_1_per_s", "durable submissions, 1 client", one.per_s, "jobs/s"),
        Figure::new(
            "submit_many_per_s",
            format!("durable submissions, {n} clients"),
            many.per_s,
            "jobs/s",
        )
        .above(5000.0),
        Figure::new(
            "submit_load_cores",
            "CPU of the clients, on the same machine",
            many.own_cores,
            "cores",
        ),
        Figure::new(
            "submit_load_ceiling_per_s",
            format!("{n} clients that request /healthz instead"),
            nothing.per_s,
            "1/s",
        ),
    ])
}

/// Occupies every GPU, so that submitted jobs wait.
///
/// # Errors
/// The server refuses the job.
pub fn occupy(cluster: &Cluster) -> Result<()> {
    let n_gpus = cluster.client().gpus().map_err(Failure::from)?.items.len();
    let create = JobCreate {
        command: vec!["sleep".to_owned(), "1d".to_owned()],
        gpus: Some(n_gpus.to_string()),
        directory: Some("/".to_owned()),
        environment: [("PATH".to_owned(), "/usr/bin:/bin".to_owned())].into(),
        ..JobCreate::default()
    };
    cluster.client().submit(&create, None).map(drop).map_err(Failure::from)
}
