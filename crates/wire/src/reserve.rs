//! Reservations, maintenance windows and drains as they are asked for, each field made valid by
//! itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use gpool_model::gpu::GpuRequest;
use gpool_model::reservation::Counted;
use gpool_model::{
    Consent, DeviceRef, Displace, DrainTarget, JobId, Millis, NewReservation, NodeName,
    ProjectName, Refusal, ReservationName, ReservationPatch, ReserveAsk, ReserveEnd, ReserveWhen,
    Whom,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::amount::Written;
use crate::check::span;
use crate::time::Time;

/// A reservation to make, or changes to one; what is absent of changes stays.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct ReserveRequest {
    /// What it is called; the next free one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// For the jobs of that user: a name or a user id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// For the jobs of that project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// For that job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// For nobody: a maintenance window.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nobody: bool,
    /// So many devices, as jobs ask for them: `h100:4`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus: Option<String>,
    /// The devices that `gpus` asks for may be on several nodes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub spread: bool,
    /// These devices: `lab1:0,1`, `lab1:2-5`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<String>,
    /// These nodes, whole.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Every node that there is now.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub all_nodes: bool,
    /// From when on; now if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Time>,
    /// Until when; until it is released if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// For how long, instead of `until`: seconds, or text (`4h`).
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub length: Option<Written>,
    /// After how long it recurs: seconds, or text (`1d`); 0 for no more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<Written>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What becomes of work of others that still runs when it begins: `let_finish`, `requeue` or
    /// `cancel`. Without it nothing is done if the work of others is touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_begin: Option<String>,
    /// Answer what would happen, and do nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What is to be emptied.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct DrainRequest {
    /// Nodes and devices: `lab2`, `lab1:0,3`; where the path names a node, devices of it
    /// (`0`, `2-5`), or none for all of it.
    pub targets: Vec<String>,
    /// When they are to be empty; absent: whenever what runs has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Time>,
    /// Why, for people.
    pub reason: String,
    /// What becomes of work that still runs then: `let_finish`, `requeue` or `cancel`. Without it
    /// nothing is done if the work of others is touched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_deadline: Option<String>,
    /// Answer what would happen, and do nothing.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// What is to get work again.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[serde(default)]
pub struct UndrainRequest {
    /// As of a drain.
    pub targets: Vec<String>,
}

fn invalid(field: &str, why: impl Into<String>) -> Refusal {
    Refusal::Invalid { field: field.to_owned(), why: why.into() }
}

/// The choice of what becomes of work in the way.
///
/// # Errors
/// It is none.
pub fn displace(field: &str, word: &str) -> Result<Displace, Refusal> {
    let known = Displace::ALL.into_iter().find(|(name, _)| *name == word);
    known.map(|(_, choice)| choice).ok_or_else(|| {
        let shown: String = word.chars().take(40).collect();
        invalid(field, format!("{shown:?} is none of let_finish, requeue and cancel"))
    })
}

/// Finds a user by name or number: the id and what the user is called.
pub type FindUser<'a> = &'a dyn Fn(&str) -> Option<(u32, String)>;

/// Reads the devices and nodes that somebody named: `lab1:0,1` or `lab2`.
pub type FindTargets<'a> = &'a dyn Fn(&str) -> Result<Vec<DrainTarget>, Refusal>;

impl ReserveRequest {
    /// A reservation whose every field is valid by itself.
    ///
    /// # Errors
    /// The first field that is not, or two that contradict each other.
    pub fn create(
        &self,
        user: FindUser<'_>,
        targets: FindTargets<'_>,
    ) -> Result<NewReservation, Refusal> {
        let whom = self.whom(user)?.ok_or_else(|| {
            invalid("for", "say for whom: user, project, job, or nobody for maintenance")
        })?;
        let ask = self.ask(targets)?.ok_or_else(|| {
            invalid("gpus", "say what: gpus (a number), devices (lab1:0,1), or nodes")
        })?;
        Ok(NewReservation {
            name: self.name.as_deref().map(ReservationName::new),
            whom,
            ask,
            when: ReserveWhen {
                from: self.from.map(|from| from.0),
                end: self.end()?,
                every: self.every()?.filter(|every| !every.is_zero()),
            },
            reason: Arc::from(self.reason.as_deref().unwrap_or_default()),
        })
    }

    /// Changes to a reservation.
    ///
    /// # Errors
    /// The first field that is not valid, or two that contradict each other.
    pub fn patch(
        &self,
        user: FindUser<'_>,
        targets: FindTargets<'_>,
    ) -> Result<ReservationPatch, Refusal> {
        if self.name.is_some() {
            return Err(invalid("name", "a reservation keeps its name"));
        }
        Ok(ReservationPatch {
            whom: self.whom(user)?,
            ask: self.ask(targets)?,
            from: self.from.map(|from| from.0),
            end: self.end()?,
            every: self.every()?,
            reason: self.reason.as_deref().map(Arc::from),
        })
    }

    /// Whether others may be affected.
    ///
    /// # Errors
    /// The choice is none.
    pub fn consent(&self) -> Result<Consent, Refusal> {
        consent("at_begin", self.dry_run, self.at_begin.as_deref())
    }

    fn whom(&self, user: FindUser<'_>) -> Result<Option<Whom>, Refusal> {
        let n_said = [self.user.is_some(), self.project.is_some(), self.job.is_some(), self.nobody];
        if n_said.into_iter().filter(|said| *said).count() > 1 {
            return Err(invalid("for", "it is for one: a user, a project, a job, or nobody"));
        }
        if self.nobody {
            return Ok(Some(Whom::Nobody));
        }
        if let Some(name) = &self.user {
            let shown: String = name.chars().take(80).collect();
            let (uid, name) = user(name)
                .ok_or_else(|| invalid("user", format!("the system knows no user {shown:?}")))?;
            return Ok(Some(Whom::User { uid, name: Arc::from(name) }));
        }
        if let Some(job) = &self.job {
            let id: JobId = job.parse().map_err(|error| invalid("job", format!("{error}")))?;
            return Ok(Some(Whom::Job { id }));
        }
        Ok(self.project.as_ref().map(|name| Whom::Project { name: ProjectName::new(name) }))
    }

    fn ask(&self, targets: FindTargets<'_>) -> Result<Option<ReserveAsk>, Refusal> {
        let said =
            [self.gpus.is_some(), !self.devices.is_empty(), !self.nodes.is_empty(), self.all_nodes];
        if said.into_iter().filter(|said| *said).count() > 1 {
            return Err(invalid("gpus", "say one: gpus, devices, nodes, or all nodes"));
        }
        if self.spread && self.gpus.is_none() {
            return Err(invalid("spread", "it says where the devices of gpus may be"));
        }
        if let Some(gpus) = &self.gpus {
            let gpus =
                GpuRequest::parse(gpus).map_err(|error| invalid("gpus", error.to_string()))?;
            return Ok(Some(ReserveAsk::Counted(Counted { gpus, spread: self.spread })));
        }
        if !self.devices.is_empty() {
            let mut devices = Vec::new();
            for text in &self.devices {
                for target in targets(text)? {
                    let device = target.device.ok_or_else(|| {
                        let why = format!("{text:?} names no device; write, for example, lab1:0,1");
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
            (Some(_), Some(_)) => Err(invalid("for", "say until when or for how long, not both")),
            (Some(until), None) => Ok(Some(ReserveEnd::At(until.0))),
            (None, Some(length)) => {
                let length = span("for", length)?;
                if length.is_zero() {
                    return Err(invalid("for", "it would end when it begins"));
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
    /// Whether others may be affected.
    ///
    /// # Errors
    /// The choice is none.
    pub fn consent(&self) -> Result<Consent, Refusal> {
        consent("at_deadline", self.dry_run, self.at_deadline.as_deref())
    }
}

fn consent(field: &str, dry_run: bool, choice: Option<&str>) -> Result<Consent, Refusal> {
    Ok(Consent { dry_run, choice: choice.map(|word| displace(field, word)).transpose()? })
}
