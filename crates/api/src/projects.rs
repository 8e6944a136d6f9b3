//! Projects: their settings, quotas and usage.

use std::collections::{BTreeMap, BTreeSet};

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::ETAG;
use axum::response::{IntoResponse, Response};
use gpool_control::project_tree::{self, Projects};
use gpool_model::job::StopCause;
use gpool_model::{
    AllocationState, Amount, Command, GpuTime, JobId, PauseCause, Phase, Project, ProjectChange,
    ProjectChangeHow, ProjectName, ProjectsAsk, Refusal, Reply, ResourceKind, Resources,
};
use gpool_sched::{Loan, ProjectShare};
use gpool_wire::{
    Document, List, ProjectFacts, ProjectSet, ProjectSettings, ProjectsAnswer, QuotaLoan,
    QuotaOverview, QuotaPart, QuotaReturn, QuotaRow, ReturnedGpu, Time, project_amount,
    project_words,
};
use gpool_world::{JobRow, ProjectIx, Snapshot, World};

use super::asker::Asks;
use super::audit::entered;
use super::extract::{ApiError, JsonBody, Segment, header, unexpected};
use super::jobs::version_of;
use crate::api::Api;
use gpool_server::handle::Age;
use gpool_server::view::View;

/// Lists all projects, each department before the projects below it.
#[utoipa::path(
    get, path = "/projects", operation_id = "projects_list",
    responses((status = 200, description = "The tree", body = List<gpool_wire::Project>))
)]
pub(crate) async fn list(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<List<gpool_wire::Project>>, ApiError> {
    let ask = |view: &View<'_>| {
        let facts = facts(view.world);
        let shown = |it: &Project| gpool_wire::Project::new(it, &facts[&it.name]);
        in_tree(view.world.projects()).into_iter().map(|(it, _)| shown(it)).collect()
    };
    Ok(Json(List::new(api.handle.look(asker.caller.owner.uid, Age::New, ask).await?)))
}

/// Returns a project.
#[utoipa::path(
    get, path = "/projects/{name}", operation_id = "projects_get",
    params(("name" = String, Path, description = "The name")),
    responses(
        (status = 200, description = "The project", body = Document<gpool_wire::Project>,
         headers(("ETag" = String, description = "The version, for If-Match"))),
        (status = 404, description = "There is no such project", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn get(
    State(api): State<Api>,
    Segment(name): Segment,
) -> Result<Response, ApiError> {
    let name = ProjectName::new(name);
    let ask = move |view: &View<'_>| match view.world.projects().get(&name) {
        Some(it) => Ok(gpool_wire::Project::new(it, &facts(view.world)[&it.name])),
        None => Err(absent(view.world, name)),
    };
    let shown = api.handle.query(ask).await??;
    let tag = format!("\"{}\"", shown.version);
    Ok(([(ETAG, tag)], Json(Document::new(shown))).into_response())
}

/// Creates a project.
#[utoipa::path(
    post, path = "/projects", operation_id = "projects_create", request_body = ProjectSettings,
    responses(
        (status = 200, description = "The changes, with warnings",
         body = Document<ProjectsAnswer>),
        (status = 400, description = "A setting is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for admins of the server or of a project above it",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 409, description = "It would not form a tree, or the project exists",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn create(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<ProjectSettings>,
) -> Result<Response, ApiError> {
    change(&api, &asker, one(asked.create()?, asked.dry_run)).await
}

/// Applies a set of project definitions, all or none.
#[utoipa::path(
    post, path = "/projects/apply", operation_id = "projects_apply", request_body = ProjectSet,
    responses(
        (status = 200, description = "The changes; with dry_run, those that would be made",
         body = Document<ProjectsAnswer>),
        (status = 400, description = "A setting is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for admins of the server or of a project above",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 409, description = "The projects would not form a tree",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 412, description = "Another request changed it first", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn apply(
    State(api): State<Api>,
    Asks(asker): Asks,
    JsonBody(asked): JsonBody<ProjectSet>,
) -> Result<Response, ApiError> {
    change(&api, &asker, asked.ask()?).await
}

/// Changes a project; absent fields stay.
#[utoipa::path(
    patch, path = "/projects/{name}", operation_id = "projects_edit",
    params(
        ("name" = String, Path, description = "The name"),
        ("If-Match" = Option<String>, Header, description = "The version that it must have"),
    ),
    request_body = ProjectSettings,
    responses(
        (status = 200, description = "The changes, with warnings",
         body = Document<ProjectsAnswer>),
        (status = 400, description = "A setting is not valid", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 403, description = "Only for admins of the server or of a project above it",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such project", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The projects would not form a tree",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 412, description = "Another request changed it first", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn edit(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    headers: HeaderMap,
    JsonBody(asked): JsonBody<ProjectSettings>,
) -> Result<Response, ApiError> {
    let version = header(&headers, "if-match").map(version_of).transpose()?.flatten();
    change(&api, &asker, one(asked.edit(&name, version)?, asked.dry_run)).await
}

/// Deletes a project that has no jobs and nothing below it.
#[utoipa::path(
    delete, path = "/projects/{name}", operation_id = "projects_delete",
    params(
        ("name" = String, Path, description = "The name"),
        ("If-Match" = Option<String>, Header, description = "The version that it must have"),
    ),
    responses(
        (status = 200, description = "The changes", body = Document<ProjectsAnswer>),
        (status = 403, description = "Only for admins of the server or of a project above it",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 404, description = "There is no such project", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The project has jobs, or projects below it",
         body = gpool_wire::Problem, content_type = "application/problem+json"),
        (status = 412, description = "Another request changed it first", body = gpool_wire::Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn delete(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(name): Segment,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let version = header(&headers, "if-match").map(version_of).transpose()?.flatten();
    let name = ProjectName::new(name);
    let how = ProjectChangeHow::Delete { version };
    change(&api, &asker, one(ProjectChange { name, how }, false)).await
}

/// Returns quota, usage and loans of each project.
#[utoipa::path(
    get, path = "/quota", operation_id = "quota_get",
    responses((status = 200, description = "All projects", body = Document<QuotaOverview>))
)]
pub(crate) async fn quota(
    State(api): State<Api>,
    Asks(asker): Asks,
) -> Result<Json<Document<QuotaOverview>>, ApiError> {
    let overview = api.handle.look(asker.caller.owner.uid, Age::New, overview);
    Ok(Json(Document::new(overview.await?)))
}

fn one(change: ProjectChange, dry_run: bool) -> ProjectsAsk {
    ProjectsAsk { changes: vec![change], dry_run, ..ProjectsAsk::default() }
}

async fn change(
    api: &Api,
    asker: &super::asker::Asker,
    ask: ProjectsAsk,
) -> Result<Response, ApiError> {
    let (is_dry_run, command) = (ask.dry_run, Command::ChangeProjects(ask));
    match api.handle.command(asker.caller.clone(), command).await? {
        Reply::Projects(outcome) => {
            let answer: ProjectsAnswer = (&*outcome).into();
            Ok(entered(Json(Document::new(answer)), is_dry_run))
        }
        other => Err(unexpected(&other)),
    }
}

fn absent(world: &World, name: ProjectName) -> Refusal {
    Refusal::NoSuchProject { name, projects: world.projects().keys().cloned().collect() }
}

/// Returns departments before the projects below them, siblings by name, each with its depth.
fn in_tree(projects: &Projects) -> Vec<(&Project, u32)> {
    let children = project_tree::children(projects);
    let tops = projects.values().rev().filter(|it| it.parent.is_none());
    let mut next: Vec<(&Project, u32)> = tops.map(|it| (it, 0)).collect();
    let mut found = Vec::with_capacity(projects.len());
    while let Some((project, depth)) = next.pop() {
        found.push((project, depth));
        let below = children.get(&project.name).into_iter().flatten().rev();
        next.extend(below.filter_map(|name| projects.get(name)).map(|it| (it, depth + 1)));
    }
    found
}

/// Returns the facts shown with each project.
fn facts(world: &World) -> BTreeMap<ProjectName, ProjectFacts> {
    let projects = world.projects();
    let mut facts: BTreeMap<ProjectName, ProjectFacts> =
        projects.keys().map(|name| (name.clone(), ProjectFacts::default())).collect();
    for (name, children) in project_tree::children(projects) {
        facts.entry(name).or_default().children = children;
    }
    for row in world.project_rows() {
        let Some(project) = projects.get(&row.name) else { continue };
        for above in project_tree::upwards(projects, project) {
            let fact = facts.entry(above.name.clone()).or_default();
            fact.n_jobs += row.n_jobs;
            fact.held += row.sum.held.get(&ResourceKind::Gpu);
        }
    }
    for warning in project_tree::warnings(world, projects) {
        if let Some(fact) = warning.project().and_then(|name| facts.get_mut(name)) {
            fact.warnings.push(warning);
        }
    }
    facts
}

/// What waits for room in a project: jobs, and GPUs that they ask for.
#[derive(Debug, Clone, Copy, Default)]
struct WaitingDemand {
    n_jobs: u64,
    gpus: u64,
}

pub(crate) fn overview(view: &View<'_>) -> QuotaOverview {
    let world = view.world;
    let projects = world.projects();
    let snapshot = Snapshot { world, now: view.now };
    let shares = gpool_sched::project_shares(&snapshot, world.policy());
    let shares: BTreeMap<&ProjectName, &ProjectShare> =
        shares.iter().map(|share| (&share.project, share)).collect();
    let facts = facts(world);
    let waiting = waiting(world);
    let used = used(view);
    let children = project_tree::children(projects);
    let parts = Parts::of(world);
    let row = |(it, depth): (&Project, u32)| {
        let guaranteed = project_tree::guaranteed(projects, &children, it, &ResourceKind::Gpu);
        let facts = &facts[&it.name];
        let waiting = waiting.get(&it.name).copied().unwrap_or_default();
        let used = used.get(&it.name).copied().unwrap_or_default();
        let share = shares.get(&it.name).copied();
        let row = row(it, depth, guaranteed, facts, share, (waiting, used));
        QuotaRow { parts: parts.with(world, it, share), ..row }
    };
    let warnings = project_tree::warnings(world, projects);
    QuotaOverview {
        projects: in_tree(projects).into_iter().map(row).collect(),
        gpus: gpus(world.capacity().get(&ResourceKind::Gpu)),
        shared: !shares.is_empty(),
        returns: returns(world),
        warnings: warnings
            .iter()
            .map(project_words::warning)
            .chain(gpool_server::lost::shortfall(world).map(|lost| {
                format!("{lost}; projects together are guaranteed more GPUs than the others")
            }))
            .collect(),
    }
}

/// Jobs that give back GPUs because another job is to have them.
fn returns(world: &World) -> Vec<QuotaReturn> {
    // The first job, by id, that claims the devices of a victim; without a claim, the job that
    // the victim was evicted for.
    let mut claimed = BTreeMap::<JobId, JobId>::new();
    for claimant in world.claimants() {
        let allocations = world.job(claimant).map(|row| row.job.phase.allocations());
        for allocation in allocations.into_iter().flatten() {
            if let AllocationState::Claimed { after } = &allocation.state {
                for task in after {
                    claimed.entry(task.job).or_insert(claimant);
                }
            }
        }
    }
    let row = |row: &JobRow| {
        let beneficiary = claimed.get(&row.job.id).copied().or(match &row.job.phase {
            Phase::Stopping { cause: StopCause::TakenBack { beneficiary, .. }, .. }
            | Phase::Paused { why: PauseCause::TakenBack { beneficiary, .. }, .. } => {
                Some(*beneficiary)
            }
            _ => None,
        })?;
        let mut until = None;
        let mut gpus = Vec::new();
        for allocation in row.job.phase.allocations() {
            if let AllocationState::Releasing { deadline } = allocation.state {
                until = until.max(Some(deadline));
                gpus.extend(allocation.held_slots().iter().map(|slot| ReturnedGpu {
                    node: allocation.node.to_string(),
                    gpu: slot.index,
                }));
            }
        }
        let project = world.job(beneficiary).map(|row| row.spec.project.to_string());
        Some(QuotaReturn {
            job: row.job.id.to_string(),
            user: row.spec.owner.user.to_string(),
            project: row.spec.project.to_string(),
            gpus,
            beneficiary: beneficiary.to_string(),
            beneficiary_project: project,
            until: Time(until?),
        })
    };
    world.leaving().filter_map(row).filter(|it| !it.gpus.is_empty()).collect()
}

fn gpus(milli: u64) -> f64 {
    gpool_wire::node::cores(milli)
}

/// Returns the recent usage of each project, with the projects below it.
fn used(view: &View<'_>) -> BTreeMap<ProjectName, GpuTime> {
    let (world, projects) = (view.world, view.world.projects());
    let mut used = BTreeMap::<ProjectName, GpuTime>::new();
    for (ix, row) in world.project_rows().iter().enumerate() {
        let Some(project) = projects.get(&row.name) else { continue };
        let here = world.used_in(ProjectIx(ix), view.now);
        for above in project_tree::upwards(projects, project) {
            let sum = used.entry(above.name.clone()).or_default();
            *sum = sum.saturating_add(here);
        }
    }
    used
}

/// Returns the waiting jobs of each project, with the projects below it.
fn waiting(world: &World) -> BTreeMap<ProjectName, WaitingDemand> {
    let mut waiting = BTreeMap::<ProjectName, WaitingDemand>::new();
    for (_, queue) in world.shapes() {
        let n = queue.n_jobs();
        let asked = queue.shape.fit.gpus.size().get().saturating_mul(n);
        let projects = world.projects();
        let Some(project) = projects.get(&queue.shape.project) else { continue };
        for above in project_tree::upwards(projects, project) {
            let here = waiting.entry(above.name.clone()).or_default();
            here.n_jobs += n;
            here.gpus = here.gpus.saturating_add(asked);
        }
    }
    waiting
}

/// The resource flavors that quotas name, and the use of each by every project with all below it.
struct Parts<'a> {
    kinds: BTreeSet<&'a ResourceKind>,
    held: BTreeMap<&'a ProjectName, Resources>,
}

impl<'a> Parts<'a> {
    fn of(world: &'a World) -> Self {
        let projects = world.projects();
        let named = projects.values().flat_map(|it| it.quotas.iter().map(|(kind, _)| kind));
        let kinds: BTreeSet<&ResourceKind> = named.filter(|it| it.is_part_of_gpus()).collect();
        let mut held = BTreeMap::<&ProjectName, Resources>::new();
        for row in world.project_rows().iter().filter(|_| !kinds.is_empty()) {
            let Some(project) = projects.get(&row.name) else { continue };
            for above in project_tree::upwards(projects, project) {
                let sum = held.entry(&above.name).or_default();
                for (kind, amount) in row.sum.held.iter() {
                    sum.add(kind.clone(), amount);
                }
            }
        }
        Self { kinds, held }
    }

    /// What a project may have and has of them: those that it has a word on, or holds of what
    /// others are promised.
    fn with(&self, world: &World, it: &Project, share: Option<&ProjectShare>) -> Vec<QuotaPart> {
        let part = |kind: &ResourceKind| {
            let held = self.held.get(&it.name).map_or(0, |held| held.counted_as(kind));
            let is_promised = world.promises(kind);
            let is_shown = it.quotas.get(kind).is_some() || held > 0 && is_promised;
            let (model, pool) = match kind {
                ResourceKind::GpuModel(model) => (Some(model.clone()), None),
                ResourceKind::GpuPool(pool) => (None, Some(pool.to_string())),
                _ => return None,
            };
            let account = share.and_then(|share| share.parts.iter().find(|(part, _)| part == kind));
            let account = account.filter(|_| is_promised).map(|(_, account)| account);
            let said = it.quotas.get(kind).and_then(|it| it.guaranteed);
            let guaranteed = said.or_else(|| account.map(|account| account.for_good()));
            let limit = it.quota(kind).limit;
            is_shown.then(|| QuotaPart {
                model,
                pool,
                guaranteed: guaranteed.map(project_amount::in_thousandths),
                limit: (!limit.is_unlimited()).then(|| project_amount::in_thousandths(limit)),
                share: account.map(|it| gpus(it.share.finite().unwrap_or(held))),
                held: gpus(held),
            })
        };
        self.kinds.iter().filter_map(|kind| part(kind)).collect()
    }
}

fn row(
    it: &Project,
    depth: u32,
    guaranteed: Amount,
    facts: &ProjectFacts,
    share: Option<&ProjectShare>,
    (WaitingDemand { n_jobs, gpus: pending }, used): (WaitingDemand, GpuTime),
) -> QuotaRow {
    let gpu = ResourceKind::Gpu;
    let account = share.map(|share| share.account);
    let held = account.map_or(facts.held, |account| account.held);
    let on_loan = account
        .and_then(|account| account.for_good().finite())
        .map_or(0, |guaranteed| held.saturating_sub(guaranteed));
    let lent = |all: &[Loan]| -> Vec<QuotaLoan> {
        let loan = |it: &Loan| QuotaLoan {
            project: it.project.as_ref().map(ToString::to_string),
            gpus: gpus(it.amount),
            when_asked: it.is_reclaimable,
            until: it.ends.map(|end| Time(end.at)),
            basis: it.ends.map(|end| end.basis.as_str().to_owned()),
        };
        all.iter().map(loan).collect()
    };
    let limit = it.quota(&gpu).limit;
    QuotaRow {
        project: it.name.to_string(),
        parent: it.parent.as_ref().map(ToString::to_string),
        depth,
        department: !facts.children.is_empty(),
        guaranteed: project_amount::in_thousandths(guaranteed),
        limit: (!limit.is_unlimited()).then(|| project_amount::in_thousandths(limit)),
        share: account.map(|account| gpus(account.share.finite().unwrap_or(held))),
        held: gpus(held),
        in_quota: gpus(held - on_loan),
        on_loan: gpus(on_loan),
        used: gpus(used.get() / (GpuTime::HOUR.get() / 1000)),
        for_good: gpus(account.map_or(0, |account| account.held_for_good)),
        borrows: share.map(|share| lent(&share.borrows)).unwrap_or_default(),
        lends: share.map(|share| lent(&share.lends)).unwrap_or_default(),
        parts: Vec::new(),
        n_pending: n_jobs,
        pending: gpus(pending),
    }
}
