//! The pages: for each, the requests to the API, and the page of its answers.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use gpool_model::{Millis, Timestamp};
use gpool_web::{
    Admin, CostPage, Docs, Filters, Nodes, Overview, PROPERTIES, Projects, Queue, RANGES,
    Reservations, Route, STATES, UsagePage, Wall, admin_orders, cost_orders, gpu_orders,
    job_orders, project_orders, reservation_orders, usage_orders,
};
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::CostRow;
use gpool_wire::usage::{GpuHistory, UsageHistory, UsageRow};
use gpool_wire::{
    Document, Gpu, Job, List, Node, PolicyInfo, QuotaOverview, Reservation, Status, Time,
    UserLimits,
};
use serde_json::Value;

use super::answer::html;
use super::query::{Query, query_string};
use super::{Page, Pages, Visit};
use gpool_api::contract::OPENAPI;

/// Most jobs of a page of the queue, and most rows of the page of costs.
const JOBS: &str = "100";
/// Most jobs in each table of the Overview, and of each kind in the chart.
const SOME: &str = "25";
/// Most own jobs on the Overview, and jobs that are sorted.
const OWN: &str = "25";
const SORTED: &str = "1000";
/// Most users with their limits.
const USERS_MAX: usize = 50;

const WAITING: &str = "pending,waiting,held";
const RUNNING: &str = "starting,running,paused,stopping";

impl Pages {
    pub(super) async fn overview(&self, visit: &Visit<'_>) -> Page {
        let asks = &visit.asks;
        let status: Arc<Document<Status>> = self.ask(asks, "/api/v1/status").await?;
        let gpus: Arc<List<Gpu>> = self.ask(asks, "/api/v1/gpus").await?;
        let running = self.some(visit, RUNNING).await?;
        let waiting = self.some(visit, WAITING).await?;
        let own = query_string(&[("user", &*asks.0.caller.owner.user), ("limit", OWN)]);
        let own: Arc<List<Job>> = self.ask(asks, &format!("/api/v1/jobs?{own}")).await?;
        let failed: Arc<List<Job>> = self.ask_slow(asks, &failed(now())).await?;
        let week = hour(before(now(), 24 * 7));
        let users: Arc<List<UsageRow>> =
            self.ask_slow(asks, &format!("/api/v1/usage?by=user&since={week}")).await?;
        let month = now().month_start();
        let cost: Arc<List<CostRow>> =
            self.ask_slow(asks, &format!("/api/v1/cost?by=project&since={month}")).await?;
        let budgets: Arc<List<BudgetRow>> = self.ask_slow(asks, "/api/v1/budgets").await?;
        let reservations: Arc<List<Reservation>> = self.ask(asks, "/api/v1/reservations").await?;
        let nodes: Arc<List<Node>> = self.ask(asks, "/api/v1/nodes").await?;
        // An hour while the server is new.
        let usual = RANGES[usize::from(status.body.uptime_s >= 7200)];
        let (range, hours) = range(&visit.query, usual)?;
        let course = self.course(visit, hours).await?;
        let since = first(&course.body, before(now(), hours));
        let history = self.history(visit, since, now()).await?;
        let overview = Overview {
            own: &own.items,
            failed: &failed.items,
            users: &users.items,
            cost: &cost.items,
            budgets: &budgets.items,
            reservations: &reservations.items,
            nodes: &nodes.items,
            course: &course.body,
            frame: visit.frame("/"),
            status: &status.body,
            gpus: &gpus.items,
            running: &running.items,
            waiting: &waiting.items,
            history: &history.body,
            range,
            order: visit.query.order(&gpu_orders())?,
            now: now(),
        };
        Ok(html(StatusCode::OK, overview.page()))
    }

    /// The first jobs in some states.
    async fn some(
        &self,
        visit: &Visit<'_>,
        state: &str,
    ) -> Result<Arc<List<Job>>, Box<gpool_wire::Problem>> {
        let query = query_string(&[("state", state), ("limit", SOME)]);
        self.ask(&visit.asks, &format!("/api/v1/jobs?{query}")).await
    }

    /// The utilization of devices in a range, to the last full minute: viewers that ask within it
    /// share the answer.
    async fn history(
        &self,
        visit: &Visit<'_>,
        since: Time,
        until: Time,
    ) -> Result<Arc<Document<GpuHistory>>, Box<gpool_wire::Problem>> {
        let until = Time(Timestamp::new(minute(until).0.get() + 60_000));
        let path = format!("/api/v1/gpus/history?since={}&until={until}", minute(since));
        self.ask_slow(&visit.asks, &path).await
    }

    /// The GPUs of the cluster and of projects in a range. If less is recorded, the points are
    /// those of the recorded time, so that they are closer.
    async fn course(
        &self,
        visit: &Visit<'_>,
        hours: u32,
    ) -> Result<Arc<Document<UsageHistory>>, Box<gpool_wire::Problem>> {
        let since = minute(before(now(), hours));
        let until = minute(now());
        let path = |since| format!("/api/v1/usage/history?since={since}&until={until}");
        let all: Arc<Document<UsageHistory>> = self.ask_slow(&visit.asks, &path(since)).await?;
        match first(&all.body, since) {
            at if at > since => self.ask_slow(&visit.asks, &path(at)).await,
            _ => Ok(all),
        }
    }

    pub(super) async fn queue(&self, visit: &Visit<'_>) -> Page {
        let query = &visit.query;
        let state = Some(query.get("state")).filter(|it| !it.is_empty());
        query.order(&job_orders())?;
        let filters = Filters {
            state: state.unwrap_or(STATES[0].0).to_owned(),
            user: query.get("user").to_owned(),
            project: query.get("project").to_owned(),
            name: query.get("name").to_owned(),
            group: query.get("group").to_owned(),
            sort: query.get("sort").to_owned(),
        };
        // An order of the user is that of all jobs, and not of one page.
        let limit = if filters.sort.is_empty() { JOBS } else { SORTED };
        let mut asked = vec![
            ("state", filters.state.as_str()),
            ("user", &filters.user),
            ("project", &filters.project),
            ("name", &filters.name),
            ("group", &filters.group),
        ];
        let own = asked.len();
        let address = match query_string(&asked) {
            own if own.is_empty() => "/queue".to_owned(),
            own => format!("/queue?{own}"),
        };
        // An order is that of single jobs.
        let folds_groups = filters.group.is_empty() && filters.sort.is_empty();
        let fold_groups = if folds_groups { "true" } else { "" };
        let cursor = query.get("cursor");
        asked.extend([("limit", limit), ("cursor", cursor), ("fold_groups", fold_groups)]);
        let path = format!("/api/v1/jobs?{}", query_string(&asked));
        let jobs: Arc<List<Job>> = self.ask(&visit.asks, &path).await?;
        asked.truncate(own);
        let next = jobs.next_cursor.as_ref().map(|cursor| {
            asked.extend([("sort", filters.sort.as_str()), ("cursor", cursor)]);
            query_string(&asked)
        });
        let is_first = query.get("cursor").is_empty();
        let plan = match is_first && filters.state == STATES[0].0 {
            true => Some((self.some(visit, RUNNING).await?, self.some(visit, WAITING).await?)),
            false => None,
        };
        let page = Queue {
            frame: visit.frame("/queue"),
            filters: &filters,
            jobs: &jobs.items,
            n_rows: jobs.total,
            next: next.as_deref(),
            address: &address,
            plan: plan.as_ref().map(|(running, waiting)| (&running.items[..], &waiting.items[..])),
            now: now(),
        };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn projects(&self, visit: &Visit<'_>) -> Page {
        let quota: Arc<Document<QuotaOverview>> = self.ask(&visit.asks, "/api/v1/quota").await?;
        let frame = visit.frame("/projects");
        let order = visit.query.order(&project_orders())?;
        let page = Projects { frame, quota: &quota.body, order, now: now() };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn nodes(&self, visit: &Visit<'_>) -> Page {
        let nodes: Arc<List<Node>> = self.ask(&visit.asks, "/api/v1/nodes").await?;
        let gpus: Arc<List<Gpu>> = self.ask(&visit.asks, "/api/v1/gpus").await?;
        let frame = visit.frame("/nodes");
        let order = visit.query.order(&gpu_orders())?;
        let page = Nodes { frame, nodes: &nodes.items, gpus: &gpus.items, order, now: now() };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn usage(&self, visit: &Visit<'_>) -> Page {
        let (query, only) = (&visit.query, visit.query.get("only"));
        let (range, hours) = range(query, RANGES[2])?;
        let by = query.choice("by", &PROPERTIES, PROPERTIES[0])?;
        let order = query.order(&usage_orders(by))?;
        let since = minute(before(now(), hours)).to_string();
        let asked = query_string(&[("by", by), ("since", &since), ("only", only), ("limit", JOBS)]);
        let usage: Arc<List<UsageRow>> =
            self.ask_slow(&visit.asks, &format!("/api/v1/usage?{asked}")).await?;
        let course = match by == PROPERTIES[0] && only.is_empty() {
            true => Some(self.course(visit, hours).await?),
            false => None,
        };
        let (rows, course) = (&usage.items[..], course.as_ref().map(|it| &it.body));
        let frame = visit.frame("/usage");
        let page = UsagePage { frame, rows, course, by, only, range, order };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn cost(&self, visit: &Visit<'_>) -> Page {
        let (query, only) = (&visit.query, visit.query.get("only"));
        let by = query.choice("by", &PROPERTIES, PROPERTIES[0])?;
        let order = query.order(&cost_orders())?;
        let range = query.choice("range", &CostPage::RANGES, RANGES[2].0)?;
        let hours = RANGES.into_iter().find(|(known, _)| *known == range).map(|(_, hours)| hours);
        let (since, text) = match hours {
            Some(hours) => (minute(before(now(), hours)), range.to_owned()),
            None => {
                let since = now().month_start();
                (since, since.to_string().chars().take(10).collect())
            }
        };
        let from = since.to_string();
        let asked = query_string(&[("by", by), ("since", &from), ("only", only), ("limit", JOBS)]);
        let rows: Arc<List<CostRow>> =
            self.ask_slow(&visit.asks, &format!("/api/v1/cost?{asked}")).await?;
        let budgets: Arc<List<BudgetRow>> = self.ask(&visit.asks, "/api/v1/budgets").await?;
        let (rows, budgets) = (&rows.items[..], &budgets.items[..]);
        let frame = visit.frame("/cost");
        let page = CostPage { frame, rows, budgets, by, only, range, since: &text, order };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn reservations(&self, visit: &Visit<'_>) -> Page {
        let all: Arc<List<Reservation>> = self.ask(&visit.asks, "/api/v1/reservations").await?;
        let frame = visit.frame("/reservations");
        let order = visit.query.order(&reservation_orders())?;
        let page = Reservations { frame, reservations: &all.items, order, now: now() };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn admin(&self, visit: &Visit<'_>) -> Page {
        let asks = &visit.asks;
        let status: Arc<Document<Status>> = self.ask(asks, "/api/v1/status").await?;
        let policy: Arc<Document<PolicyInfo>> = self.ask(asks, "/api/v1/policies").await?;
        let jobs: Arc<List<Job>> = self.ask(asks, "/api/v1/jobs?limit=1000").await?;
        let mut users: BTreeSet<&str> = jobs.items.iter().map(|job| job.user.as_str()).collect();
        let own = &asks.0.caller.owner.user;
        users.insert(own);
        let mut limits = Vec::new();
        for user in std::iter::once("all").chain(users).take(USERS_MAX) {
            // The API shows other users' limits to admins only.
            let limit = self.ask(asks, &format!("/api/v1/users/{user}")).await;
            limits.extend(limit.map(|it: Arc<Document<UserLimits>>| it.body.clone()));
        }
        let (status, policy, limits) = (&status.body, &policy.body, &limits[..]);
        let order = visit.query.order(&admin_orders())?;
        let page = Admin { frame: visit.frame("/admin"), status, policy, limits, order };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn docs(&self, visit: &Visit<'_>) -> Page {
        static ROUTES: OnceLock<Vec<Route>> = OnceLock::new();
        let status: Arc<Document<Status>> = self.ask(&visit.asks, "/api/v1/status").await?;
        let routes = ROUTES.get_or_init(|| routes(OPENAPI));
        let page = Docs { frame: visit.frame("/docs"), socket: &status.body.socket, routes };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn wall(&self) -> Page {
        let status: Arc<Document<Status>> = self.ask(&self.nobody, "/api/v1/status").await?;
        let gpus: Arc<List<Gpu>> = self.ask(&self.nobody, "/api/v1/gpus").await?;
        let page = Wall { gpus: &gpus.items, status: &status.body };
        Ok(html(StatusCode::OK, page.page()))
    }
}

/// The routes of the API's document.
fn routes(document: &str) -> Vec<Route> {
    let document: Value = serde_json::from_str(document).unwrap_or_default();
    // The texts are Markdown with names in code font.
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('`', "");
    let route = |path: &str, method: &str, it: &Value| {
        let params = it["parameters"].as_array().into_iter().flatten();
        let example = &it["requestBody"]["content"]["application/json"]["example"];
        Route {
            method: method.to_uppercase(),
            path: path.to_owned(),
            summary: text(&it["summary"]),
            params: params.map(|it| (text(&it["name"]), text(&it["description"]))).collect(),
            example: if example.is_null() { String::new() } else { example.to_string() },
        }
    };
    let paths = document["paths"].as_object().into_iter().flatten();
    let methods = |(path, methods): (&String, &Value)| {
        let methods = methods.as_object().into_iter().flatten();
        methods.map(|(method, it)| route(path, method, it)).collect::<Vec<_>>()
    };
    paths.flat_map(methods).collect()
}

/// The range of a page with its hours.
fn range(
    query: &Query,
    usual: (&'static str, u32),
) -> Result<(&'static str, u32), Box<gpool_wire::Problem>> {
    let range = query.choice("range", &RANGES.map(|(name, _)| name), usual.0)?;
    Ok(RANGES.into_iter().find(|(known, _)| *known == range).unwrap_or(usual))
}

/// The list of the jobs that failed in the last day.
fn failed(now: Time) -> String {
    let since = minute(before(now, 24)).to_string();
    let states = ("state", "failed,timed_out,lost");
    let query = query_string(&[states, ("ended_since", &since), ("limit", JOBS)]);
    format!("/api/v1/jobs?{query}")
}

/// The start of its minute: viewers that ask within it share the answer.
fn minute(at: Time) -> Time {
    Time(Timestamp::new(at.0.get() / 60_000 * 60_000))
}

fn hour(at: Time) -> Time {
    Time(Timestamp::new(at.0.get() / 3_600_000 * 3_600_000))
}

/// The first recorded time, or the start of the range.
fn first(course: &UsageHistory, since: Time) -> Time {
    let recorded = course.cluster.allocated.iter().position(Option::is_some).unwrap_or(0);
    let passed = u64::try_from(recorded).unwrap_or(0).saturating_mul(course.step_s);
    let at = course.start.0.after(Millis::new(passed.saturating_mul(1000)));
    Time(at).max(since)
}

fn before(now: Time, hours: u32) -> Time {
    Time(Timestamp::new(now.0.get().saturating_sub(u64::from(hours) * 3_600_000)))
}

pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
