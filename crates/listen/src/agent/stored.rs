//! Files for the jobs of an agent's node, and the results of those jobs.

use std::io::ErrorKind;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::http::{Request, Response};
use axum::response::IntoResponse as _;
use gpool_api::extract::{ApiError, job_id, pairs};
use gpool_files::ObjectId;
use gpool_link::ResultPart;
use gpool_model::job::{BlobId, JobSpec};
use gpool_model::{Allocation, Job, NodeName, Phase, Refusal, TaskId};
use gpool_server::agents::AgentPeer;
use gpool_server::fault::internal;
use gpool_server::files::object_name;
use gpool_wire::files::StoredObjects;
use gpool_wire::{Problem, catalogue};
use hyper::body::Incoming;

use super::{ANSWER_MAX, ANSWER_PATIENCE, AgentCaller, AgentRoutes, bad, body_of, no_such_route};

impl AgentRoutes {
    /// Answers with a blob, or an object of a working folder, of a job that has a place on the
    /// agent's node.
    pub(super) async fn blob(
        &self,
        caller: &AgentCaller,
        blob: &str,
    ) -> Result<Response<Body>, ApiError> {
        let peer = self.agent(caller)?;
        let id = BlobId(blob.into());
        let is_needed = match object_name(blob) {
            Some((uid, object)) => self.needs_object(&peer, uid, object).await?,
            None => self.needs_blob(&peer, id.clone()).await?,
        };
        if !is_needed {
            return Err(no_such_route().into());
        }
        file(move || peer.launch_files().blob(&id)).await
    }

    /// Answers with a secret that a job with a place on the agent's node names.
    pub(super) async fn secret(
        &self,
        caller: &AgentCaller,
        job: &str,
        name: &str,
    ) -> Result<Response<Body>, ApiError> {
        let peer = self.agent(caller)?;
        let (node, job, name) = (peer.node().clone(), job_id(job)?, name.to_owned());
        let wanted = name.clone();
        let owner = move |view: &gpool_server::View<'_>| {
            let row = view.world.job(job)?;
            let is_needed = is_on(&node, row.job.phase.allocations())
                && row.spec.secret_names().any(|name| name == wanted);
            is_needed.then_some(row.spec.owner.uid)
        };
        let uid = self.handle.query(owner).await?.ok_or_else(no_such_route)?;
        file(move || peer.launch_files().secret(uid, &name)).await
    }

    async fn needs_blob(&self, peer: &AgentPeer, id: BlobId) -> Result<bool, Refusal> {
        let node = peer.node().clone();
        let is_needed = move |view: &gpool_server::View<'_>| {
            let uses = |spec: &JobSpec| spec.blobs().any(|blob| *blob == id);
            let mut jobs = view.world.holding();
            jobs.any(|row| is_on(&node, row.job.phase.allocations()) && uses(&row.spec))
        };
        self.handle.query(is_needed).await
    }

    /// Whether the working folder of a job with a place on the node has an object.
    async fn needs_object(
        &self,
        peer: &Arc<AgentPeer>,
        uid: u32,
        id: ObjectId,
    ) -> Result<bool, Refusal> {
        let node = peer.node().clone();
        let uploads = move |view: &gpool_server::View<'_>| -> Vec<ObjectId> {
            let jobs = view.world.holding().filter(|row| row.spec.owner.uid == uid);
            let here = jobs.filter(|row| is_on(&node, row.job.phase.allocations()));
            here.filter_map(|row| row.spec.files.upload.as_deref()?.parse().ok()).collect()
        };
        let (uploads, peer) = (self.handle.query(uploads).await?, peer.clone());
        let look = move || {
            let objects = &peer.launch_files().folders.objects;
            let has = |manifest: &ObjectId| {
                *manifest == id || objects.members(uid, manifest).is_ok_and(|it| it.contains(&id))
            };
            uploads.iter().any(has)
        };
        tokio::task::spawn_blocking(look).await.map_err(internal)
    }

    /// Takes a part of the results of a task that ran on the agent's node.
    pub(super) async fn results(
        &self,
        request: Request<Incoming>,
        caller: &AgentCaller,
        part: &str,
    ) -> Result<Response<Body>, ApiError> {
        let peer = self.agent(caller)?;
        let query = pairs(request.uri())?;
        let value =
            |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, it)| it.clone());
        let task: Option<TaskId> = value("task").and_then(|it| it.parse().ok());
        let owner: Option<u32> = value("owner").and_then(|it| it.parse().ok());
        let (Some(task), Some(owner)) = (task, owner) else {
            return Err(bad("the request needs a task and its owner").into());
        };
        if !self.had_task(peer.node(), task, owner).await? {
            return Err(no_such_route().into());
        }
        let body = body_of(request, ANSWER_MAX, ANSWER_PATIENCE).await?;
        let text = || {
            let text = std::str::from_utf8(&body).map_err(|error| bad(&error.to_string()));
            text.map(str::to_owned)
        };
        let part = match part {
            "missing" => ResultPart::Missing(text()?.lines().map(str::to_owned).collect()),
            "complete" => ResultPart::Complete { manifest: text()? },
            "objects" => ResultPart::Objects(body.to_vec()),
            _ => return Err(no_such_route().into()),
        };
        let take = move || peer.launch_files().folders.take(task, owner, &part);
        match tokio::task::spawn_blocking(take).await.map_err(internal)? {
            Ok(stored) => Ok(Json(StoredObjects { stored }).into_response()),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(bad(&error.to_string()).into())
            }
            Err(error) => Err(Refusal::StorageFull { why: error.to_string() }.into()),
        }
    }

    /// Whether a task of a user runs or ran on a node.
    async fn had_task(&self, node: &NodeName, task: TaskId, owner: u32) -> Result<bool, Refusal> {
        let name = node.clone();
        let living = move |view: &gpool_server::View<'_>| {
            let row = view.world.row_for(task.job)?;
            Some(row.spec.owner.uid == owner && was_on(&name, &row.job))
        };
        if let Some(is_so) = self.handle.query(living).await? {
            return Ok(is_so);
        }
        let ended = self.handle.archived(task.job).await?;
        Ok(ended.is_some_and(|it| it.spec.owner.uid == owner && was_on(node, &it.job)))
    }
}

/// Answers with a file.
async fn file(
    read: impl FnOnce() -> std::io::Result<Vec<u8>> + Send + 'static,
) -> Result<Response<Body>, ApiError> {
    match tokio::task::spawn_blocking(read).await.map_err(internal)? {
        Ok(bytes) => Ok(bytes.into_response()),
        // The path or the reason, which the agent repeats.
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Err(Problem::new(catalogue::NO_SUCH_ROUTE, error.to_string()).into())
        }
        Err(error) => Err(internal(error).into()),
    }
}

fn is_on(node: &NodeName, allocations: &[Allocation]) -> bool {
    allocations.iter().any(|it| it.node == *node)
}

/// Whether the last attempt of a job has or had a place on a node.
fn was_on(node: &NodeName, job: &Job) -> bool {
    match &job.phase {
        Phase::Ended(end) => is_on(node, &end.allocations),
        phase => is_on(node, phase.allocations()),
    }
}
