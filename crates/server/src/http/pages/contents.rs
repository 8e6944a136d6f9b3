//! The pages: for each, the requests to the API, and the page of its answers.

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::StatusCode;
use gpool_model::Timestamp;
use gpool_web::{
    Admin, CostPage, Course, Docs, Filters, Nodes, Overview, PROPERTIES, Projects, Queue, RANGES,
    Reservations, Route, STATES, UsagePage, Wall,
};
use gpool_wire::budget::BudgetRow;
use gpool_wire::cost::CostRow;
use gpool_wire::usage::{GpuHistory, UsageRow};
use gpool_wire::{
    Document, Gpu, Job, List, Node, PolicyInfo, QuotaOverview, Reservation, Status, Time,
    UserLimits,
};
use serde_json::Value;

use super::answer::html;
use super::query::{Query, written};
use super::{Page, Pages, Visit};

/// Most jobs of a page of the queue, and most rows of the page of costs.
const JOBS: &str = "100";
/// Most jobs in each table of the Overview, and of each kind in the chart.
const SOME: &str = "25";
/// Longer ranges have a point for each day.
const HOURS_MAX: u32 = 168;
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
        // An hour while the server is new.
        let usual = RANGES[usize::from(status.body.uptime_s >= 7200)];
        let (range, hours) = range(&visit.query).unwrap_or(usual);
        let history = self.history(visit, before(now(), hours), now(), "").await?;
        let overview = Overview {
            frame: visit.frame("/"),
            status: &status.body,
            gpus: &gpus.items,
            running: &running.items,
            waiting: &waiting.items,
            history: &history.body,
            range,
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
        let query = written(&[("state", state), ("limit", SOME)]);
        self.ask(&visit.asks, &format!("/api/v1/jobs?{query}")).await
    }

    /// The utilization of devices in a range, to the last full minute: viewers that ask within it
    /// share the answer. `more` is the rest of the query.
    pub(super) async fn history(
        &self,
        visit: &Visit<'_>,
        since: Time,
        until: Time,
        more: &str,
    ) -> Result<Arc<Document<GpuHistory>>, Box<gpool_wire::Problem>> {
        let minute = |at: Time| Time(Timestamp::new(at.0.get() / 60_000 * 60_000));
        let until = Time(Timestamp::new(minute(until).0.get() + 60_000));
        let path = format!("/api/v1/gpus/history?since={}&until={until}{more}", minute(since));
        self.ask(&visit.asks, &path).await
    }

    pub(super) async fn queue(&self, visit: &Visit<'_>) -> Page {
        let query = &visit.query;
        let state = STATES.into_iter().find(|(value, _)| *value == query.get("state"));
        let filters = Filters {
            state: state.unwrap_or(STATES[0]).0.to_owned(),
            user: query.get("user").to_owned(),
            project: query.get("project").to_owned(),
            name: query.get("name").to_owned(),
        };
        let mut asked = vec![
            ("state", filters.state.as_str()),
            ("user", &filters.user),
            ("project", &filters.project),
            ("name", &filters.name),
        ];
        let own = asked.len();
        asked.extend([("limit", JOBS), ("cursor", query.get("cursor"))]);
        let path = format!("/api/v1/jobs?{}", written(&asked));
        let jobs: Arc<List<Job>> = self.ask(&visit.asks, &path).await?;
        asked.truncate(own);
        let next = jobs.next_cursor.as_ref().map(|cursor| {
            asked.push(("cursor", cursor));
            written(&asked)
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
            n_jobs: jobs.total,
            next: next.as_deref(),
            plan: plan.as_ref().map(|(running, waiting)| (&running.items[..], &waiting.items[..])),
            now: now(),
        };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn projects(&self, visit: &Visit<'_>) -> Page {
        let quota: Arc<Document<QuotaOverview>> = self.ask(&visit.asks, "/api/v1/quota").await?;
        let frame = visit.frame("/projects");
        let page = Projects { frame, quota: &quota.body, now: now() };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn nodes(&self, visit: &Visit<'_>) -> Page {
        let nodes: Arc<List<Node>> = self.ask(&visit.asks, "/api/v1/nodes").await?;
        let gpus: Arc<List<Gpu>> = self.ask(&visit.asks, "/api/v1/gpus").await?;
        let frame = visit.frame("/nodes");
        let page = Nodes { frame, nodes: &nodes.items, gpus: &gpus.items, now: now() };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn usage(&self, visit: &Visit<'_>) -> Page {
        let (range, hours) = range(&visit.query).unwrap_or(RANGES[2]);
        let asked = visit.query.get("by");
        let by = PROPERTIES.into_iter().find(|it| *it == asked).unwrap_or(PROPERTIES[0]);
        let since = before(now(), hours);
        let usage: Arc<List<UsageRow>> =
            self.ask(&visit.asks, &format!("/api/v1/usage?by={by}&since={since}")).await?;
        let (step, step_s) = if hours <= HOURS_MAX { ("hour", 3600) } else { ("day", 86_400) };
        let course = match by == PROPERTIES[0] {
            true => {
                let path = format!("/api/v1/usage?by={by}&since={since}&step={step}");
                Some(self.ask::<List<UsageRow>>(&visit.asks, &path).await?)
            }
            false => None,
        };
        let course =
            course.as_ref().map(|course| Course { rows: &course.items, step_s, now: now() });
        let frame = visit.frame("/usage");
        let page = UsagePage { frame, rows: &usage.items, course, by, range };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn cost(&self, visit: &Visit<'_>) -> Page {
        let (range, hours) = range(&visit.query).unwrap_or(RANGES[2]);
        let asked = visit.query.get("by");
        let all = CostPage::PROPERTIES;
        let by = all.into_iter().find(|it| *it == asked).unwrap_or(all[0]);
        let since = before(now(), hours);
        let path = format!("/api/v1/cost?by={by}&since={since}&limit={JOBS}");
        let rows: Arc<List<CostRow>> = self.ask(&visit.asks, &path).await?;
        let budgets: Arc<List<BudgetRow>> = self.ask(&visit.asks, "/api/v1/budgets").await?;
        let (rows, budgets) = (&rows.items[..], &budgets.items[..]);
        let page = CostPage { frame: visit.frame("/cost"), rows, budgets, by, range };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn reservations(&self, visit: &Visit<'_>) -> Page {
        let all: Arc<List<Reservation>> = self.ask(&visit.asks, "/api/v1/reservations").await?;
        let frame = visit.frame("/reservations");
        let page = Reservations { frame, reservations: &all.items, now: now() };
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
        let page = Admin { frame: visit.frame("/admin"), status, policy, limits };
        Ok(html(StatusCode::OK, page.page()))
    }

    pub(super) async fn docs(&self, visit: &Visit<'_>) -> Page {
        static ROUTES: OnceLock<Vec<Route>> = OnceLock::new();
        let status: Arc<Document<Status>> = self.ask(&visit.asks, "/api/v1/status").await?;
        let routes = ROUTES.get_or_init(|| routes(&super::super::openapi_json()));
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

/// The range of a page with its hours, if the query has one.
fn range(query: &Query) -> Option<(&'static str, u32)> {
    RANGES.into_iter().find(|(known, _)| *known == query.get("range"))
}

fn before(now: Time, hours: u32) -> Time {
    Time(Timestamp::new(now.0.get().saturating_sub(u64::from(hours) * 3_600_000)))
}

pub(super) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(Timestamp::new(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)))
}
