//! The dashboard, on a loopback address and on the network. Each page asks the API inside this
//! process as the signed-in user, so it shows what that user may see.
//!
//! A user signs in with a link that the API gives them once ([`login`]). The link has a random
//! host name below `localhost`, and the cookie holds for that name only: browsers send cookies to
//! every port of a host, and another user's server on this machine must not get them. Over the
//! network a user signs in with a token ([`sign_in`]), and on both at the identity provider
//! ([`provider`]). Pages of jobs have hosts of their own ([`site`]).

mod act;
mod answer;
mod ask;
mod contents;
mod group;
mod job;
mod provider;
mod query;
mod server;
mod sign_in;
mod site;
mod stream;
mod whatif;

use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::header::{self, HeaderMap};
use axum::http::request::Parts;
use axum::http::{Method, Request, Response, StatusCode, Uri};
use gpool_web::{Frame, MessagePage};
use gpool_wire::Problem;
use tokio::sync::watch;

use self::answer::{file, message, no_page_in, with_headers};
use self::query::Query;
use super::entrance::Entrance;
use gpool_api::api::Api;
use gpool_api::asker::{Asker, Asks, Identify, NOBODY};
use gpool_api::connections::Connections;
use gpool_identity::pool::{Pool, RequestSource};
use gpool_identity::web::sites::PREFIX;
use gpool_identity::web::{At, SessionKey, Web};
use gpool_server::feed::Feed;

/// The most questions at once about the users of connections.
const LOOKUPS_MAX: usize = 2;

pub(crate) struct Pages {
    web: Arc<Web>,
    /// Whether these are the pages on the network.
    is_remote: bool,
    entrance: Arc<Entrance>,
    identify: Arc<dyn Identify>,
    api: Router,
    /// The state of the API, for connections to jobs.
    state: Api,
    /// Idle connections to jobs.
    idle: site::Idle,
    open: Arc<Connections>,
    nobody: Asks,
    feed: Arc<Feed>,
    /// Becomes true when streams must end.
    end: watch::Receiver<bool>,
    /// Places for questions to the kernel about the user of a connection.
    lookups: Pool,
    /// The last answers of the API, for viewers that see the same.
    answers: ask::Answers,
}

/// A request of a signed-in user.
struct Visit<'r> {
    asks: Asks,
    session: SessionKey,
    csrf: String,
    headers: &'r HeaderMap,
    query: Query,
}

#[derive(Debug, Clone, Copy)]
struct RequestOrigin<'h> {
    /// The label below `localhost` in the host.
    label: &'h str,
    /// The address of the browser.
    from: IpAddr,
    /// The user of the browser's process, on the loopback address.
    uid: Option<u32>,
}

impl<'h> RequestOrigin<'h> {
    /// Where sessions are looked for.
    fn at(self) -> At<'h> {
        (self.label, self.uid)
    }
}

/// The parameters of each page, by the first part of its path.
const PARAMETERS: [(&str, &[&str]); 14] = [
    ("", &["range", "sort"]),
    ("queue", &["state", "user", "project", "name", "group", "sort", "cursor"]),
    ("groups", &["sort"]),
    ("jobs", &["stream", "from", "sort"]),
    ("projects", &["sort"]),
    ("nodes", &["sort"]),
    ("usage", &["by", "range", "only", "sort"]),
    ("cost", &["by", "range", "only", "sort"]),
    (
        "whatif",
        &[
            "nodes",
            "gpus",
            "model",
            "preset",
            "project",
            "guaranteed",
            "drain",
            "more",
            "ahead",
            "past",
            "sort",
        ],
    ),
    ("reservations", &["sort"]),
    ("admin", &["sort"]),
    ("docs", &[]),
    ("submit", &[]),
    ("events", &["job"]),
];

/// A page; `Err` says why the API refused.
type Page = Result<Response<Body>, Box<Problem>>;

impl Visit<'_> {
    fn frame<'f>(&'f self, path: &'f str) -> Frame<'f> {
        let colors = cookie(self.headers, "colors");
        let colors = colors.filter(|it| ["light", "dark"].contains(it)).unwrap_or_default();
        Frame { path, user: &self.asks.0.caller.owner.user, csrf: &self.csrf, colors }
    }
}

impl Pages {
    pub fn new(
        (web, is_remote): (Arc<Web>, bool),
        entrance: Arc<Entrance>,
        identify: Arc<dyn Identify>,
        (api, state, open): (Router, Api, Arc<Connections>),
        feed: Arc<Feed>,
        end: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let user = Arc::from("nobody");
        let owner = gpool_model::Owner { uid: NOBODY, gid: NOBODY, user };
        let caller = gpool_model::Caller::new(owner, false);
        let nobody = Asks(Arc::new(Asker::new(caller, "/".to_owned(), None)));
        let answers = ask::Answers::default();
        Arc::new(Self {
            web,
            is_remote,
            entrance,
            identify,
            api,
            state,
            idle: site::Idle::default(),
            open,
            nobody,
            feed,
            end,
            lookups: Pool::new(LOOKUPS_MAX, LOOKUPS_MAX),
            answers,
        })
    }

    /// Answers a request from this address, and on the loopback address of a process of this user.
    pub async fn answer<B>(
        &self,
        request: Request<B>,
        (from, uid): (IpAddr, Option<u32>),
    ) -> Response<Body>
    where
        B: axum::body::HttpBody<Data = Bytes> + Send + 'static,
        B::Error: std::error::Error + Send + Sync + 'static,
    {
        let (head, body) = request.into_parts();
        let label = self.label(&head);
        if let Some(label) = label.filter(|label| label.starts_with(PREFIX)).map(str::to_owned) {
            let request = Request::from_parts(head, Body::new(body));
            return self.site(request, &label, (from, uid)).await;
        }
        let Some(label) = label else {
            let text = "This server answers only by its own address.";
            return message(StatusCode::MISDIRECTED_REQUEST, "Another host name", text, "");
        };
        let path = head.uri.path().to_owned();
        let source = uid.map_or(RequestSource::of(from), RequestSource::Browsers);
        // Until the answer begins.
        let _place = self.open.classes.enter_page(&path, source).await;
        let place = RequestOrigin { label, from, uid };
        let page = match head.method {
            Method::GET if path == "/login/provider" => {
                self.begin_at_provider(place, &head.headers).await
            }
            Method::GET if path == "/login/callback" => {
                let text = head.uri.query().unwrap_or_default();
                self.end_at_provider(place, &head.headers, text).await
            }
            Method::GET | Method::HEAD => {
                match self.public(&head.uri, place, &head.headers).await {
                    Some(page) => page,
                    None => match self.visit(place, &head.headers).await {
                        Some(mut visit) => {
                            visit.query = Query::of(head.uri.query().unwrap_or_default());
                            let page = self.show(&path, &visit).await;
                            Ok(page.unwrap_or_else(|why| refused(visit.frame(""), &why)))
                        }
                        None => Ok(self.sign_in_first(StatusCode::UNAUTHORIZED, "")),
                    },
                }
            }
            Method::POST if head.uri.query().is_some() => {
                let text = "A form has no parameters in its address.";
                Ok(message(StatusCode::BAD_REQUEST, "Not possible", text, ""))
            }
            Method::POST => self.post(&path, place, &head.headers, body).await,
            _ => {
                let text = "Pages have only GET and POST.";
                Ok(message(StatusCode::METHOD_NOT_ALLOWED, "Not possible here", text, ""))
            }
        };
        let page = page.unwrap_or_else(|why| refused(Frame::default(), &why));
        with_headers(page, path.starts_with("/assets/"))
    }

    /// The page of a path that needs no user; `None` for other paths.
    async fn public(
        &self,
        uri: &Uri,
        place: RequestOrigin<'_>,
        headers: &HeaderMap,
    ) -> Option<Page> {
        let parts = uri.path().split('/').skip(1).collect::<Vec<_>>();
        Some(match parts[..] {
            ["wall"] => self.wall().await,
            ["login", code] if !self.is_remote => Ok(self.sign_in(place, code, headers)),
            ["login"] if self.is_remote => Ok(self.sign_in_first(StatusCode::OK, "")),
            ["assets", name] => Ok(file(name)),
            ["healthz" | "readyz" | "metrics" | "openapi.json"] => {
                self.forward(uri.path_and_query().map_or("/", |it| it.as_str())).await
            }
            _ => return None,
        })
    }

    /// The page of a path for its user.
    async fn show(&self, path: &str, visit: &Visit<'_>) -> Page {
        let parts = path.split('/').skip(1).collect::<Vec<_>>();
        if let Some((_, names)) = PARAMETERS.iter().find(|(known, _)| Some(known) == parts.first())
        {
            visit.query.only(names)?;
        }
        match parts[..] {
            [""] => self.overview(visit).await,
            ["queue"] => self.queue(visit).await,
            ["groups", name] => self.group(visit, name).await,
            ["jobs", id] => self.job(visit, id).await,
            ["jobs", id, "output"] => self.output(visit, id).await,
            ["jobs", id, "gpus.csv"] => self.gpus_csv(visit, id).await,
            ["projects"] => self.projects(visit).await,
            ["nodes"] => self.nodes(visit).await,
            ["usage"] => self.usage(visit).await,
            ["cost"] => self.cost(visit).await,
            ["whatif"] => self.whatif(visit).await,
            ["reservations"] => self.reservations(visit).await,
            ["admin"] => self.admin(visit).await,
            ["docs"] => self.docs(visit).await,
            ["submit"] => self.form(visit).await,
            ["events"] => stream::stream(self, visit),
            _ => Ok(no_page_in(visit.frame(""))),
        }
    }

    /// The label below `localhost` in a request's host, if its target names no other host. On the
    /// network the listener has checked the host.
    fn label<'h>(&self, head: &'h Parts) -> Option<&'h str> {
        let mut hosts = head.headers.get_all(header::HOST).iter();
        let host = hosts.next()?.to_str().ok().filter(|_| hosts.next().is_none())?;
        let host = Some(host).filter(|host| head.uri.authority().is_none_or(|it| it == *host))?;
        if self.is_remote { Some("") } else { self.web.label(host) }
    }
}

fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    let mut pairs = cookies.split("; ").filter_map(|cookie| cookie.split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// A refusal of the API as a page.
fn refused(frame: Frame<'_>, problem: &Problem) -> Response<Body> {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let title = match status {
        StatusCode::NOT_FOUND => "Not found",
        status if status.is_server_error() => "The server can't answer now",
        _ => "Not possible",
    };
    let lines: Vec<String> = problem.why.iter().chain(&problem.tries).cloned().collect();
    let page = MessagePage { frame, title, text: &problem.detail, lines: &lines, command: "" };
    answer::html(status, page.page())
}
