//! Streams between callers and running jobs. This file checks the caller's rights and then copies
//! bytes both ways. Their meaning is defined by the caller and the job's shepherd, or the job.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, State};
use axum::http::header::{CONNECTION, UPGRADE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Response, StatusCode};
use gpool_identity::web::{SignedIn, Site};
use gpool_link::Connection;
use gpool_model::attach::{NotOpened, Opening};
use gpool_model::refusal::Permitted;
use gpool_model::{JobId, NodeName, PauseCause, Phase, Refusal, TaskId};
use gpool_protocol::{Answer, Question};
use gpool_wire::attach::UPGRADE as PROTOCOL;
use gpool_wire::{AttachJob, Document, ExecInJob, ForwardToJob, Login, Problem, catalogue};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncWriteExt, copy, split};
use tokio::net::UnixStream;

use super::asker::{Asker, Asks};
use super::connections::Seated;
use super::extract::{ApiError, JsonBody, Segment, job_id};
use super::found::{self, FoundJob};
use crate::api::Api;
use gpool_server::agents::Reply;
use gpool_server::fault::internal;

/// How long a job's shepherd may take to open a line.
const OPENING: Duration = Duration::from_secs(10);

/// A connection, which can become a line if that was asked for.
pub(crate) struct Upgrading(Option<(OnUpgrade, Seated)>);

impl<S: Send + Sync> FromRequestParts<S> for Upgrading {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        let is_asked = parts
            .headers
            .get(UPGRADE)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(PROTOCOL.as_bytes()));
        let seat = parts.extensions.get::<Seated>().cloned();
        let upgrade = parts.extensions.remove::<OnUpgrade>();
        Ok(Self(upgrade.filter(|_| is_asked).zip(seat)))
    }
}

/// Attaches to the terminal of a job. The answer begins with its last output.
#[utoipa::path(
    post, path = "/jobs/{id}/attach", operation_id = "jobs_attach", request_body = AttachJob,
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 101, description = "The stream is open; frames follow"),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The job is not running or has no terminal", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn attach(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    upgrading: Upgrading,
    JsonBody(body): JsonBody<AttachJob>,
) -> Result<Response<Body>, ApiError> {
    let window = body.window.map(gpool_wire::launch::checked_window).transpose()?;
    let at = (&*id, body.rank);
    open(&api, &asker, at, "attach to", Opening::Attach { window }, upgrading).await
}

/// Runs another program in a running job, with its environment and GPUs.
#[utoipa::path(
    post, path = "/jobs/{id}/exec", operation_id = "jobs_exec", request_body = ExecInJob,
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 101, description = "The program was started; frames follow"),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The job is not running", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn exec(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    upgrading: Upgrading,
    JsonBody(body): JsonBody<ExecInJob>,
) -> Result<Response<Body>, ApiError> {
    let opening = Opening::Exec(body.check()?);
    open(&api, &asker, (&id, body.rank), "run a program in", opening, upgrading).await
}

/// Connects to a port or socket on which a process of a running job listens.
#[utoipa::path(
    post, path = "/jobs/{id}/forward", operation_id = "jobs_forward", request_body = ForwardToJob,
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 101, description = "The stream is connected; its bytes follow"),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job", body = Problem,
         content_type = "application/problem+json"),
        (status = 409, description = "The job is not running, or none of its processes listens \
                                      there",
         body = Problem, content_type = "application/problem+json"),
    )
)]
pub(crate) async fn forward(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    upgrading: Upgrading,
    JsonBody(body): JsonBody<ForwardToJob>,
) -> Result<Response<Body>, ApiError> {
    let opening = Opening::Forward { to: body.check()? };
    open(&api, &asker, (&id, body.rank), "connect to", opening, upgrading).await
}

/// Makes a link that opens a port or socket of a job in a browser, once. Only for the owner of the
/// job, also where the caller is an admin: the pages act as the owner.
#[utoipa::path(
    post, path = "/jobs/{id}/link", operation_id = "jobs_link", request_body = ForwardToJob,
    params(("id" = String, Path, description = "The job")),
    responses(
        (status = 200, description = "The link", body = Document<Login>),
        (status = 403, description = "The job belongs to another user", body = Problem,
         content_type = "application/problem+json"),
        (status = 404, description = "There is no such job, or the server has no address for \
                                      browsers of the caller",
         body = Problem, content_type = "application/problem+json"),
        (status = 409, description = "The job is not running", body = Problem,
         content_type = "application/problem+json"),
    )
)]
pub(crate) async fn link(
    State(api): State<Api>,
    Asks(asker): Asks,
    Segment(id): Segment,
    JsonBody(body): JsonBody<ForwardToJob>,
) -> Result<Json<Document<Login>>, ApiError> {
    let id = job_id(&id)?;
    let to = body.check()?;
    let rank = body.rank.unwrap_or(0);
    let found = found::find(&api, id).await?;
    let owner = &found.spec.owner;
    if asker.caller.owner.uid != owner.uid {
        let what = format!("open pages of job {id} of user {}", owner.user);
        return Err(Refusal::NotPermitted { what, by: Permitted::Owner }.into());
    }
    place(&found, id, rank, "open pages of")?;
    let site = Site { job: id, rank, to, owner: owner.uid };
    let user = match &asker.way.token {
        Some(token) => SignedIn::Token(Arc::clone(token)),
        None => SignedIn::User { uid: owner.uid, gid: owner.gid },
    };
    let identities = &api.handle.shared.identities;
    let network = identities.network.get();
    let domain = network.and_then(|(tls, at)| Some((tls.notebooks()?, at.port())));
    let dashboard = identities.web.get().filter(|_| !asker.way.is_remote());
    if domain.is_none() && dashboard.is_none() {
        let what = "this server has no address for the pages of jobs";
        let problem = Problem::new(catalogue::NO_SUCH_ROUTE, what);
        return Err(match asker.way.is_remote() {
            true => problem
                .because("over the network they need a domain of their own: notebook_domain")
                .try_this(forward_line(id, &body)),
            false => problem.try_this("set web = \"127.0.0.1:7478\" in gpool.toml"),
        }
        .into());
    }
    let now = Instant::now();
    let (label, path, lasts) = identities.sites.invite(site, &identities.sessions, user, now);
    let base = match (domain, dashboard) {
        (Some((domain, port)), _) => format!("https://{label}.{domain}:{port}"),
        (None, Some(web)) => web.url_of(&label).trim_end_matches('/').to_owned(),
        (None, None) => String::new(),
    };
    let login = Login { url: format!("{base}{path}"), expires_in_s: lasts.as_secs() };
    Ok(Json(Document::new(login)))
}

/// The command that makes a web server of a job reachable on the caller's machine.
fn forward_line(id: JobId, to: &ForwardToJob) -> String {
    let (local, there) = match (&to.socket, to.port) {
        (Some(socket), _) => (8888, format!("8888:{socket}")),
        (None, port) => (port.unwrap_or(8888), port.unwrap_or(8888).to_string()),
    };
    format!("gpool forward {id} {there}   (then http://127.0.0.1:{local})")
}

/// Connects to a site, whose user the caller has checked.
///
/// # Errors
/// The job does not run, or none of its processes listens there.
pub async fn connect(api: &Api, site: &Site) -> Result<(UnixStream, Vec<u8>), Problem> {
    let id = site.job;
    let found = found::find(api, id).await.map_err(|it| *ApiError::from(it).0)?;
    let (node, task) = place(&found, id, site.rank, "connect to").map_err(|it| *it.0)?;
    let Some(node) = node else { return Err(not_opened(id, &NotOpened::NotRunning)) };
    let opening = Opening::Forward { to: site.to.clone() };
    let stream = stream_to(api, &node, task, opening).await.map_err(|it| *it.0)?;
    let opened = stream.map_err(|why| not_opened(id, &why))?;
    let failed = |error: std::io::Error| *ApiError::from(internal(error)).0;
    opened.stream.set_nonblocking(true).map_err(failed)?;
    Ok((UnixStream::from_std(opened.stream).map_err(failed)?, opened.early))
}

/// The node of a task whose program runs, and the task. Released GPUs do not stop it.
fn place(
    found: &FoundJob,
    id: JobId,
    rank: u32,
    action: &str,
) -> Result<(Option<NodeName>, TaskId), ApiError> {
    match &found.job.phase {
        Phase::Ended(end) => Err(Refusal::AlreadyEnded { id, state: end.outcome.state() }.into()),
        Phase::Running { .. } | Phase::Stopping { .. } | Phase::Paused { .. } if runs_on(found) => {
            let task = TaskId { job: id, attempt: found.job.attempt, rank };
            let n_tasks = found.spec.n_tasks();
            if rank >= n_tasks {
                let why = format!("job {id} has no task {rank}; it has {n_tasks}, from 0");
                return Err(Refusal::Invalid { field: "rank".to_owned(), why }.into());
            }
            let mut allocations = found.job.phase.allocations().iter();
            let own = allocations.find(|allocation| allocation.task == task);
            Ok((own.map(|allocation| allocation.node.clone()), task))
        }
        phase => {
            let (state, action) = (phase.state(), action.to_owned());
            Err(Refusal::WrongState { id, state, action }.into())
        }
    }
}

/// Whether its processes run, also without GPUs.
fn runs_on(found: &FoundJob) -> bool {
    match &found.job.phase {
        Phase::Paused { why, .. } => *why == PauseCause::Idle || found.spec.yields().is_some(),
        _ => true,
    }
}

async fn open(
    api: &Api,
    asker: &Asker,
    (id, rank): (&str, Option<u32>),
    action: &str,
    opening: Opening,
    upgrading: Upgrading,
) -> Result<Response<Body>, ApiError> {
    let id = job_id(id)?;
    let found = found::find(api, id).await?;
    let owner = &found.spec.owner;
    if !asker.may_see(owner.uid) {
        let what = format!("{action} job {id} of user {}", owner.user);
        return Err(Refusal::NotPermitted { what, by: Permitted::Owner }.into());
    }
    let (node, task) = place(&found, id, rank.unwrap_or(0), action)?;
    if matches!(opening, Opening::Attach { .. }) && found.spec.pty.is_none() {
        return Err(not_opened(id, &NotOpened::NoTerminal).into());
    }
    let Some((upgrade, seat)) = upgrading.0 else {
        let why = format!("the request needs the header Upgrade: {PROTOCOL}");
        return Err(Refusal::Invalid { field: "Upgrade".to_owned(), why }.into());
    };
    // The user, the action and the job's owner, without the input typed.
    tracing::info!(target: "audit", by = &*asker.caller.owner.user, job = %id,
        of = &*owner.user, "{action} a job");
    let stream = match node {
        Some(node) => stream_to(api, &node, task, opening).await?,
        None => Err(NotOpened::NotRunning),
    };
    let opened = stream.map_err(|why| not_opened(id, &why))?;
    opened.stream.set_nonblocking(true).map_err(internal)?;
    let stream = UnixStream::from_std(opened.stream).map_err(internal)?;
    tokio::spawn(carry(api.clone(), upgrade, seat, stream, opened.early));
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
    response.headers_mut().insert(UPGRADE, HeaderValue::from_static(PROTOCOL));
    Ok(response)
}

/// Has the agent of a node open a stream to a task.
async fn stream_to(
    api: &Api,
    node: &NodeName,
    task: TaskId,
    opening: Opening,
) -> Result<Result<Connection, NotOpened>, ApiError> {
    let agent = api.handle.agent(node);
    let agent = agent.ok_or_else(|| internal(format!("node {node} has no agent here")))?;
    // If the caller has gone, the connection is closed when it comes.
    match agent.ask(Question::Stream { task, opening }, OPENING).await {
        Some(Reply::Connection(connection)) => Ok(Ok(connection)),
        Some(Reply::Answer(Answer::NotOpened(why))) => Ok(Err(why)),
        _ => {
            let why =
                "its shepherd process does not answer; it may have an earlier version".to_owned();
            Ok(Err(NotOpened::Failed { why }))
        }
    }
}

/// Carries bytes until one side has gone, or the server ends.
async fn carry(api: Api, upgrade: OnUpgrade, seat: Seated, mut job: UnixStream, early: Vec<u8>) {
    let Ok(upgraded) = upgrade.await else { return };
    let (mut from_caller, mut to_caller) = split(TokioIo::new(upgraded));
    let (mut from_job, mut to_job) = job.split();
    let mut end = api.end.clone();
    let inward = async {
        // The program may end before it has read its whole input; its output is still sent.
        let _ = copy(&mut from_caller, &mut to_job).await;
        let _ = to_job.shutdown().await;
        std::future::pending::<()>().await;
    };
    let outward = async {
        to_caller.write_all(&early).await?;
        copy(&mut from_job, &mut to_caller).await?;
        to_caller.shutdown().await
    };
    tokio::select! {
        // However it ends, both lines are closed with it.
        _ = outward => {}
        () = inward => {}
        _ = end.wait_for(|end| *end) => {}
    }
    drop(seat);
}

fn not_opened(id: gpool_model::JobId, why: &NotOpened) -> Problem {
    match why {
        NotOpened::NoTerminal => {
            let what = format!("job {id} has no terminal");
            Problem::new(catalogue::NO_TERMINAL, what)
                .because("only jobs of `gpool shell` and `gpool run --pty` have a terminal")
                .try_this(format!("gpool logs -f {id}"))
                .try_this(format!("gpool exec {id} -- bash"))
        }
        NotOpened::NotRunning => {
            let what = format!("job {id} is not running now");
            Problem::new(catalogue::WRONG_STATE, what).try_this(format!("gpool show {id}"))
        }
        NotOpened::NothingListens { ports } => {
            let what = format!("no process of job {id} listens there");
            let problem = Problem::new(catalogue::NOTHING_LISTENS, what);
            match &ports[..] {
                [] => problem.because("none of its processes listens on a port of this machine"),
                ports => {
                    let list: Vec<String> = ports.iter().map(u16::to_string).collect();
                    problem
                        .because(format!("its processes listen on {}", list.join(", ")))
                        .try_this(format!("gpool forward {id} {}", list[0]))
                }
            }
        }
        NotOpened::TooMany { most } => {
            let what = format!("job {id} has {most} open streams, the maximum");
            Problem::new(catalogue::TOO_MANY_CONNECTIONS, what)
        }
        NotOpened::Failed { why } => {
            let what = format!("job {id} could not be reached: {why}");
            Problem::new(catalogue::JOB_NOT_REACHED, what)
        }
    }
}
