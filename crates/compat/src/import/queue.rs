//! The part of gflow's HTTP API that an import needs.
//!
//! Source: the answers of gflow 0.4.18 (GET /jobs, POST /jobs/ID/hold, release and cancel).

use std::time::Duration;

use gpool_cli::errors;
use gpool_cli::failure::{Failure, Result};
use ureq::Agent;

use super::job::TheirJob;

/// Time limit for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Largest list of jobs, in bytes.
const LIST_MAX: u64 = 256 * 1024 * 1024;

/// The queue of a running gflow.
pub struct GflowQueue {
    agent: Agent,
    pub url: String,
}

impl GflowQueue {
    /// The queue at an address.
    ///
    /// # Errors
    /// It is not an HTTP address.
    pub fn at(url: &str) -> Result<Self> {
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("http://") {
            let what = format!("{url:?} is not an address of gflow");
            return Err(Failure::new(errors::INVALID, what).tip("--url http://localhost:59000"));
        }
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .proxy(None)
            .build();
        Ok(Self { agent: config.into(), url })
    }

    /// All its jobs.
    pub fn jobs(&self) -> Result<Vec<TheirJob>> {
        let answer = self.agent.get(format!("{}/jobs", self.url)).call();
        let mut answer = answer.map_err(|error| self.silent(&error))?;
        let status = answer.status().as_u16();
        let body = answer.body_mut().with_config().limit(LIST_MAX).read_to_vec();
        let body = body.map_err(|error| self.silent(&error))?;
        if status != 200 {
            return Err(self.odd(&format!("it answers with status {status}")));
        }
        serde_json::from_slice(&body).map_err(|error| self.odd(&error.to_string()))
    }

    /// Changes a job; returns false if gflow refuses, such as holding a job that has started.
    pub fn act(&self, id: u64, verb: &str) -> Result<bool> {
        let answer = self.agent.post(format!("{}/jobs/{id}/{verb}", self.url)).send_empty();
        let answer = answer.map_err(|error| self.silent(&error))?;
        Ok(answer.status().is_success())
    }

    fn silent(&self, error: &ureq::Error) -> Failure {
        Failure::new(errors::IMPORT_FAILED, format!("gflow does not answer at {}", self.url))
            .why(error.to_string())
            .tip("gflowd status")
            .tip("gpool import gflow --url http://HOST:PORT")
    }

    fn odd(&self, why: &str) -> Failure {
        let what = format!("the server at {} is not a known version of gflow", self.url);
        Failure::new(errors::IMPORT_FAILED, what).why(why)
    }
}
