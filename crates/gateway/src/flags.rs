//! The flags of a service.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::Args;
use gpool_cli::failure::Result;
use gpool_model::{Millis, parse};

use crate::failure::invalid;
use crate::scale::{Metric, ScaleRules};
use crate::service::{Entrance, ReplicaRules, RequestRules, Revision, Service, TlsFiles};

/// Fewest and most replicas.
type Bounds = (u32, u32);

/// The flags of the size of a service.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Scale")]
pub struct ScaleFlags {
    /// Fewest and most replicas (default: 1), e.g. 0..4 or 2
    #[arg(long, value_name = "N..M", value_parser = bounds)]
    replicas: Option<Bounds>,
    /// Load of a replica (default: 8), in the unit of --scale-by
    #[arg(long, value_name = "N", value_parser = target)]
    target: Option<f64>,
    /// Load to scale by: concurrency, rate (requests/s) or queue-time (ms)
    #[arg(long, value_name = "LOAD", value_enum, hide_possible_values = true)]
    scale_by: Option<Metric>,
    /// Time over which the load is averaged (default: 60s)
    #[arg(long, value_name = "TIME", value_parser = span)]
    window: Option<Millis>,
    /// Time before unneeded replicas end (default: 5m)
    #[arg(long, value_name = "TIME", value_parser = span)]
    cooldown: Option<Millis>,
}

/// The flags of a service beside those of its jobs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Service")]
pub struct ServiceFlags {
    #[command(flatten)]
    scale: ScaleFlags,
    /// Port of the service
    #[arg(long, value_name = "PORT", help_heading = "Service")]
    port: Option<u16>,
    /// Address to listen on (default: 127.0.0.1), e.g. 0.0.0.0 for other machines
    #[arg(long, value_name = "ADDRESS", help_heading = "Service")]
    bind: Option<IpAddr>,
    /// Certificate chain in PEM, for HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Service")]
    tls_cert: Option<PathBuf>,
    /// Key of --tls-cert in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Service")]
    tls_key: Option<PathBuf>,
    /// Most requests of a replica at once (default: no limit)
    #[arg(long, value_name = "N", help_heading = "Service")]
    max_concurrency: Option<u32>,
    /// Most requests to hold while no replica can take them (default: 1000)
    #[arg(long, value_name = "N", help_heading = "Service")]
    max_held: Option<u32>,
    /// Longest time to hold a request (default: 5m)
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Service")]
    hold_time: Option<Millis>,
    /// Do not repeat POST requests if their replica dies before it answers
    #[arg(long, help_heading = "Service")]
    no_repeat: bool,
    /// Path that answers with success once a replica is ready (default: its port is open)
    #[arg(long, value_name = "PATH", value_parser = path, help_heading = "Service")]
    ready: Option<String>,
    /// Longest time until a replica is ready (default: 10m)
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Service")]
    ready_timeout: Option<Millis>,
    /// Time for running requests before a replica ends (default: 30s)
    #[arg(long, value_name = "TIME", value_parser = span, help_heading = "Service")]
    drain: Option<Millis>,
    /// Percentage of the requests for the new revision, until it is promoted
    #[arg(long, value_name = "PERCENT", value_parser = percent, help_heading = "Service")]
    canary: Option<u32>,
    /// Node of the gateway (default: this machine)
    #[arg(long, value_name = "NODE", help_heading = "Service")]
    pub gateway_node: Option<String>,
}

impl ScaleFlags {
    /// Changes rules.
    ///
    /// # Errors
    /// The rules are not valid together.
    pub fn set(&self, rules: &mut ScaleRules) -> Result<()> {
        if let Some((min, max)) = self.replicas {
            (rules.min, rules.max) = (min, max);
        }
        if let Some(metric) = self.scale_by {
            if metric != rules.metric && self.target.is_none() {
                return Err(invalid("--scale-by needs a target in its unit")
                    .tip("--scale-by rate --target 20   (requests/s of a replica)"));
            }
            rules.metric = metric;
        }
        rules.target = self.target.unwrap_or(rules.target);
        rules.window_ms = self.window.map_or(rules.window_ms, Millis::get);
        rules.cooldown_ms = self.cooldown.map_or(rules.cooldown_ms, Millis::get);
        if rules.window_ms < 1000 {
            return Err(invalid("--window must be at least one second").tip("--window 60s"));
        }
        Ok(())
    }
}

impl ServiceFlags {
    /// The service with a new revision; flags that are not set keep their values of `before`.
    ///
    /// # Errors
    /// A flag is missing or not valid.
    pub fn service(
        &self,
        name: &str,
        current: Revision,
        before: Option<&Service>,
    ) -> Result<Service> {
        let mut scale = before.map_or(
            ScaleRules {
                min: 1,
                max: 1,
                metric: Metric::Concurrency,
                target: 8.0,
                window_ms: 60_000,
                cooldown_ms: 300_000,
            },
            |it| it.scale,
        );
        self.scale.set(&mut scale)?;
        if self.canary.is_some() && before.is_none() {
            return Err(invalid("--canary needs a revision to compare with")
                .why(format!("the service {name} does not run yet")));
        }
        Ok(Service {
            name: name.to_owned(),
            current,
            // The revision that serves now, not one that was only tried.
            previous: before.map(|it| match (&it.canary, &it.previous) {
                (Some(_), Some(previous)) => previous.clone(),
                _ => it.current.clone(),
            }),
            canary: self.canary,
            entrance: self.entrance(before)?,
            scale,
            requests: self.requests(before.map(|it| it.requests)),
            replicas: self.replicas(before.map(|it| &it.replicas)),
        })
    }

    fn entrance(&self, before: Option<&Service>) -> Result<Entrance> {
        let before = before.map(|it| &it.entrance);
        let Some(port) = self.port.or(before.map(|it| it.port)).filter(|port| *port > 0) else {
            return Err(invalid("a service needs a port").tip("--port 8000"));
        };
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let tls = self.tls_cert.as_ref().zip(self.tls_key.as_ref());
        let tls = tls.map(|(chain, key)| TlsFiles { chain: absolute(chain), key: absolute(key) });
        if let Some(files) = &tls {
            crate::check_tls(files).map_err(|error| invalid(error.to_string()))?;
        }
        let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Ok(Entrance {
            bind: self.bind.or(before.map(|it| it.bind)).unwrap_or(local),
            port,
            tls: tls.or_else(|| before.and_then(|it| it.tls.clone())),
        })
    }

    fn requests(&self, before: Option<RequestRules>) -> RequestRules {
        let before = before.unwrap_or(RequestRules {
            max_concurrency: None,
            max_held: 1000,
            hold_ms: 300_000,
            is_post_repeated: true,
        });
        RequestRules {
            max_concurrency: self.max_concurrency.or(before.max_concurrency),
            max_held: self.max_held.unwrap_or(before.max_held),
            hold_ms: self.hold_time.map_or(before.hold_ms, Millis::get),
            is_post_repeated: before.is_post_repeated && !self.no_repeat,
        }
    }

    fn replicas(&self, before: Option<&ReplicaRules>) -> ReplicaRules {
        let ready = before.and_then(|it| it.ready.clone());
        ReplicaRules {
            ready: self.ready.clone().or(ready),
            ready_timeout_ms: self
                .ready_timeout
                .map_or(before.map_or(600_000, |it| it.ready_timeout_ms), Millis::get),
            port_seed: before.map_or_else(random, |it| it.port_seed),
            drain_ms: self.drain.map_or(before.map_or(30_000, |it| it.drain_ms), Millis::get),
        }
    }
}

/// The standard library seeds each `RandomState` from the system's randomness.
fn random() -> u32 {
    let hash = RandomState::new().hash_one(std::process::id());
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or(0)
}

fn bounds(text: &str) -> std::result::Result<Bounds, String> {
    let bad = || format!("{text:?} is not a number of replicas; write 2 or 0..4");
    let (min, max) = text.split_once("..").unwrap_or((text, text));
    let min = min.parse().map_err(|_| bad())?;
    let max = max.parse().map_err(|_| bad())?;
    match min <= max && (1..=1000).contains(&max) {
        true => Ok((min, max)),
        false => Err(format!("{text:?}: the most is 1 to 1000, and the fewest not above it")),
    }
}

fn target(text: &str) -> std::result::Result<f64, String> {
    let target = text.parse().ok().filter(|it: &f64| it.is_finite() && *it > 0.0 && *it < 1e9);
    target.ok_or_else(|| format!("{text:?} is not a load; write, for example, 8"))
}

fn percent(text: &str) -> std::result::Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let percent = number.filter(|it| (1..100).contains(it));
    percent.ok_or_else(|| format!("{text:?} is not a percentage; write, for example, 10%"))
}

fn path(text: &str) -> std::result::Result<String, String> {
    let is_path = text.starts_with('/') && text.bytes().all(|it| it.is_ascii_graphic());
    is_path.then(|| text.to_owned()).ok_or_else(|| format!("{text:?} is no path like /health"))
}

fn span(text: &str) -> std::result::Result<Millis, String> {
    parse::span(text).map_err(|error| error.to_string())
}
