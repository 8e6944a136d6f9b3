//! Requests for reservations, maintenance windows and drains; checks each field separately.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::gpu::GpuRequest;
use gpool_model::reservation::DeviceRequest;
use gpool_model::{
    Beneficiary, Consent, DeviceRef, Displace, DrainTarget, JobId, Millis, NewReservation,
    NodeName, ProjectName, Refusal, ReservationName, ReservationPatch, ReserveAsk, ReserveEnd,
    ReserveWhen,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Quantity;
use crate::check::span;
use crate::time::Time;

/// A reservation to create, or changes to one. Omitted fields keep their values in a change.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct ReserveRequest {
    /// Name of the reservation. Default: a generated name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// User that can use it: a name or a user ID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Project that can use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// ID of the job that can use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// If true, creates a maintenance window: no job can use it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nobody: bool,
    /// Devices to reserve, in the syntax of job requests: `h100:4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// If true, the devices for `gpus` may be on several nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
    /// Named devices to reserve: `lab1:0,1`, `lab1:2-5`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// Whole nodes to reserve.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// If true, reserves all current nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_nodes: bool,
    /// Start time. Default: now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// End time. Default: until released.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Duration instead of `until`: seconds, or text (`4h`).
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<Quantity>,
    /// Interval of a recurring reservation: seconds, or text (`1d`). 0 ends the recurrence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Quantity>,
    /// Reason, as text for users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What happens to other jobs that still run at the start: `let_finish`, `requeue` or `cancel`.
    /// Without it, the server refuses a request that affects other jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_begin: Option<String>,
    /// If true, returns the effects without applying the request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Nodes and devices to drain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct DrainRequest {
    /// Nodes and devices: `lab2`, `lab1:0,3`. If the path names a node: devices of the node (`0`,
    /// `2-5`), or empty for the whole node.
    pub targets: Vec<String>,
    /// Deadline for the running jobs to end. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Time>,
    /// Reason, as text for users.
    pub reason: String,
    /// What happens to jobs that still run at the deadline: `let_finish`, `requeue` or `cancel`.
    /// Without it, the server refuses a request that affects other jobs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<String>,
    /// If true, returns the effects without applying the request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// Nodes and devices to undrain.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct UndrainRequest {
    /// Nodes and devices, as for a drain.
    pub targets: Vec<String>,
}

fn invalid(field: &str, why: impl Into<String>) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why: why.into() }
}

/// Reads what happens to affected jobs.
///
/// # Errors
/// Returns an error for an unknown word.
pub fn displace(field: &str, word: &str) -> Result<Displace, Refusal> {
    let known = Displace::ALL.into_iter().find(|(name, _)| *name == word);
    known.map(|(_, choice)| choice).ok_or_else(|| {
        let shown: String = word.chars().take(40).collect();
        invalid(field, format!("{shown:?} is not one of let_finish, requeue and cancel"))
    })
}

/// Finds a user by name or number; returns the user ID and name.
pub type FindUser<'a> = &'a dyn Fn(&str) -> Option<(u32, String)>;

/// Finds named devices and nodes: `lab1:0,1` or `lab2`.
pub type FindTargets<'a> = &'a dyn Fn(&str) -> Result<Vec<DrainTarget>, Refusal>;

impl ReserveRequest {
    /// Checks each field and returns the reservation.
    ///
    /// # Errors
    /// The first invalid field, or two contradicting fields.
    pub fn create(
        &self,
        user: FindUser<'_>,
        targets: FindTargets<'_>,
    ) -> Result<NewReservation, Refusal> {
        let whom = self.beneficiary(user)?.ok_or_else(|| {
            invalid(
                "for",
                "the beneficiary is missing: give user, project or job, or nobody for maintenance",
            )
        })?;
        let ask = self.ask(targets)?.ok_or_else(|| {
            invalid(
                "gpus",
                "the capacity is missing: give gpus (a number), devices (lab1:0,1) or nodes",
            )
        })?;
        Ok(NewReservation {
            name: self.name.as_deref().map(ReservationName::new),
            beneficiary: whom,
            ask,
            when: ReserveWhen {
                from: self.from.map(|from| from.0),
                end: self.end()?,
                every: self.every()?.filter(|every| !every.is_zero()),
            },
            reason: Arc::from(self.reason.as_deref().unwrap_or_default()),
        })
    }

    /// Checks each field and returns the changes to a reservation.
    ///
    /// # Errors
    /// The first invalid field, or two contradicting fields.
    pub fn patch(
        &self,
        user: FindUser<'_>,
        targets: FindTargets<'_>,
    ) -> Result<ReservationPatch, Refusal> {
        if self.name.is_some() {
            return Err(invalid("name", "the name of a reservation can't change"));
        }
        Ok(ReservationPatch {
            beneficiary: self.beneficiary(user)?,
            ask: self.ask(targets)?,
            from: self.from.map(|from| from.0),
            end: self.end()?,
            every: self.every()?,
            reason: self.reason.as_deref().map(Arc::from),
        })
    }

    /// Returns whether the request may affect other jobs.
    ///
    /// # Errors
    /// Returns an error for an unknown word.
    pub fn consent(&self) -> Result<Consent, Refusal> {
        consent("at_begin", self.dry_run, self.at_begin.as_deref())
    }

    fn beneficiary(&self, user: FindUser<'_>) -> Result<Option<Beneficiary>, Refusal> {
        let n_said = [self.user.is_some(), self.project.is_some(), self.job.is_some(), self.nobody];
        if n_said.into_iter().filter(|said| *said).count() > 1 {
            return Err(invalid("for", "give only one of user, project, job and nobody"));
        }
        if self.nobody {
            return Ok(Some(Beneficiary::Nobody));
        }
        if let Some(name) = &self.user {
            let shown: String = name.chars().take(80).collect();
            let (uid, name) = user(name)
                .ok_or_else(|| invalid("user", format!("this system has no user {shown:?}")))?;
            return Ok(Some(Beneficiary::User { uid, name: Arc::from(name) }));
        }
        if let Some(job) = &self.job {
            let id: JobId = job.parse().map_err(|error| invalid("job", format!("{error}")))?;
            return Ok(Some(Beneficiary::Job { id }));
        }
        Ok(self.project.as_ref().map(|name| Beneficiary::Project { name: ProjectName::new(name) }))
    }

    fn ask(&self, targets: FindTargets<'_>) -> Result<Option<ReserveAsk>, Refusal> {
        let said =
            [self.gpus.is_some(), !self.devices.is_empty(), !self.nodes.is_empty(), self.all_nodes];
        if said.into_iter().filter(|said| *said).count() > 1 {
            return Err(invalid("gpus", "give only one of gpus, devices, nodes and all"));
        }
        if self.spread && self.gpus.is_none() {
            return Err(invalid(
                "spread",
                "it is only for gpus: it allows devices of several nodes",
            ));
        }
        if let Some(gpus) = &self.gpus {
            let gpus =
                GpuRequest::parse(gpus).map_err(|error| invalid("gpus", error.to_string()))?;
            return Ok(Some(ReserveAsk::Counted(DeviceRequest { gpus, spread: self.spread })));
        }
        if !self.devices.is_empty() {
            let mut devices = Vec::new();
            for text in &self.devices {
                for target in targets(text)? {
                    let device = target.device.ok_or_else(|| {
                        let why = format!("{text:?} is not a device; write, for example, lab1:0,1");
                        invalid("devices", why)
                    })?;
                    devices.push(DeviceRef { node: target.node, device });
                }
            }
            return Ok(Some(ReserveAsk::Devices { devices }));
        }
        if !self.nodes.is_empty() {
            let nodes: BTreeSet<NodeName> = self.nodes.iter().map(NodeName::new).collect();
            return Ok(Some(ReserveAsk::Nodes { nodes }));
        }
        Ok(self.all_nodes.then_some(ReserveAsk::AllNodes))
    }

    fn end(&self) -> Result<Option<ReserveEnd>, Refusal> {
        match (&self.until, &self.length) {
            (Some(_), Some(_)) => Err(invalid("for", "give an end or a duration, not both")),
            (Some(until), None) => Ok(Some(ReserveEnd::At(until.0))),
            (None, Some(length)) => {
                let length = span("for", length)?;
                if length.is_zero() {
                    return Err(invalid("for", "the duration must be more than 0"));
                }
                Ok(Some(ReserveEnd::After(length)))
            }
            (None, None) => Ok(None),
        }
    }

    fn every(&self) -> Result<Option<Millis>, Refusal> {
        self.every.as_ref().map(|every| span("every", every)).transpose()
    }
}

impl DrainRequest {
    /// Returns whether the request may affect other jobs.
    ///
    /// # Errors
    /// Returns an error for an unknown word.
    pub fn consent(&self) -> Result<Consent, Refusal> {
        consent("at_deadline", self.dry_run, self.at_deadline.as_deref())
    }
}

fn consent(field: &str, dry_run: bool, choice: Option<&str>) -> Result<Consent, Refusal> {
    Ok(Consent { dry_run, choice: choice.map(|word| displace(field, word)).transpose()? })
}
