//! The permissions for each route: the users, and what a token needs over the network. A test
//! compares the table with the router, so every new route needs a row.

use std::collections::HashMap;
use std::sync::LazyLock;

use gpool_model::JobVerb;
use gpool_wire::{API_PREFIX, Scope, VERBS, VerbRow, verb::One};

pub(super) const BULK: &str = "/api/v1/jobs/bulk";

/// The users that may use a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// All users that can connect to the socket. The answer omits private data of other users.
    Everybody,
    /// The owner of the job or token, or the user in the request, and admins.
    Owner,
    /// The owner of the job, and no admin.
    OwnerAlone,
    /// Admins of a project above the one in the request, and server admins.
    ProjectAdmin,
    /// Admins of the project in the request or of one above it, and server admins.
    AdminOfProject,
    /// Admins: root, and the user that runs the server.
    Admin,
}

/// What a request over the network needs beside the rights of its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Least {
    /// Nothing: it needs no token.
    Anyone,
    /// A token with at least this scope.
    Scope(Scope),
    /// It is refused over the network.
    Local,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The HTTP method in capitals.
    pub method: &'static str,
    /// The path, in the form of the router.
    pub path: &'static str,
    pub role: Role,
    /// Its need over the network.
    pub least: Least,
    /// The task, for the refusal of a caller that is not an admin; empty for other roles.
    pub task: &'static str,
    /// Whether it is refused once its user has changed too much. What ends something is not.
    pub is_counted: bool,
    /// Whether the handler reads a body. Other routes refuse one, because they would ignore it.
    pub has_body: bool,
}

impl Route {
    /// Whether it submits jobs.
    #[must_use]
    pub fn is_of_new_jobs(&self) -> bool {
        self.method == "POST" && ["/api/v1/jobs", BULK].contains(&self.path)
    }
}

const fn route(method: &'static str, path: &'static str, role: Role) -> Route {
    let least = match (method.as_bytes(), role) {
        (_, Role::Admin) => Scope::Admin,
        (b"GET", _) => Scope::Viewer,
        (_, Role::ProjectAdmin | Role::AdminOfProject) => Scope::ProjectAdmin,
        (_, Role::Everybody | Role::Owner | Role::OwnerAlone) => Scope::User,
    };
    let is_counted = !matches!(method.as_bytes(), b"GET" | b"DELETE");
    let has_body = !matches!(method.as_bytes(), b"GET" | b"DELETE");
    Route { method, path, role, least: Least::Scope(least), task: "", is_counted, has_body }
}

const fn admin(method: &'static str, path: &'static str, task: &'static str) -> Route {
    Route { task, ..route(method, path, Role::Admin) }
}

/// The same route with another need over the network.
const fn needs(least: Least, route: Route) -> Route {
    Route { least, ..route }
}

/// The same route for requests without a body.
const fn bodiless(route: Route) -> Route {
    Route { has_body: false, ..route }
}

/// The same route, never refused for the budget of changes.
const fn uncounted(route: Route) -> Route {
    Route { is_counted: false, ..route }
}

/// Every route: the fixed ones, and those of the verbs on jobs.
pub static ROUTES: LazyLock<Vec<Route>> = LazyLock::new(|| {
    // Leaked once and used until the process ends.
    let of_verb = |before: &str, verb: &VerbRow| {
        let path = format!("{API_PREFIX}/jobs/{before}{}", verb.verb.name());
        let of_one = verb.params.as_ref().is_some_and(|it| matches!(it.one, One::Body));
        let has_body = before.is_empty() || of_one;
        let row = Route { has_body, ..route("POST", path.leak(), Role::Owner) };
        if matches!(verb.verb, JobVerb::Cancel) { uncounted(row) } else { row }
    };
    let of_verbs = VERBS.iter().flat_map(|verb| [of_verb("", verb), of_verb("{id}/", verb)]);
    FIXED.iter().copied().chain(of_verbs).collect()
});

/// The row of a method and a path in the form of the router.
#[must_use]
pub fn find(method: &str, path: &str) -> Option<&'static Route> {
    static ROWS: LazyLock<HashMap<&str, Vec<&'static Route>>> = LazyLock::new(|| {
        let mut rows: HashMap<&str, Vec<&Route>> = HashMap::new();
        ROUTES.iter().for_each(|row| rows.entry(row.path).or_default().push(row));
        rows
    });
    ROWS.get(path)?.iter().find(|row| row.method == method).copied()
}

const FIXED: &[Route] = &[
    route("GET", "/api/v1/jobs", Role::Everybody),
    route("POST", "/api/v1/jobs", Role::Everybody),
    route("POST", "/api/v1/jobs/bulk", Role::Everybody),
    route("GET", "/api/v1/jobs/{id}", Role::Everybody),
    route("PATCH", "/api/v1/jobs/{id}", Role::Owner),
    route("GET", "/api/v1/jobs/{id}/elements", Role::Everybody),
    route("GET", "/api/v1/jobs/{id}/elements/metrics", Role::Everybody),
    bodiless(route("POST", "/api/v1/jobs/{id}/retry", Role::Owner)),
    route("GET", "/api/v1/jobs/{id}/why", Role::Everybody),
    route("GET", "/api/v1/jobs/{id}/events", Role::Everybody),
    route("GET", "/api/v1/jobs/{id}/report", Role::Everybody),
    route("GET", "/api/v1/jobs/{id}/script", Role::Owner),
    route("GET", "/api/v1/jobs/{id}/metrics", Role::Everybody),
    route("GET", "/api/v1/history/totals", Role::Everybody),
    route("GET", "/api/v1/gpus/history", Role::Everybody),
    route("GET", "/api/v1/usage", Role::Everybody),
    route("GET", "/api/v1/usage/history", Role::Everybody),
    route("GET", "/api/v1/cost", Role::Everybody),
    route("GET", "/api/v1/budgets", Role::Everybody),
    route("GET", "/api/v1/waste", Role::Everybody),
    route("GET", "/api/v1/forecast", Role::Everybody),
    route("GET", "/api/v1/jobs/{id}/logs", Role::Owner),
    route("GET", "/api/v1/jobs/{id}/results", Role::Owner),
    route("GET", "/api/v1/jobs/{id}/results/object", Role::Owner),
    // The bytes of files have a limit of their own.
    uncounted(route("POST", "/api/v1/files/missing", Role::Everybody)),
    uncounted(route("POST", "/api/v1/files/objects", Role::Everybody)),
    route("POST", "/api/v1/jobs/{id}/attach", Role::Owner),
    route("POST", "/api/v1/jobs/{id}/exec", Role::Owner),
    route("POST", "/api/v1/jobs/{id}/forward", Role::Owner),
    route("POST", "/api/v1/jobs/{id}/link", Role::OwnerAlone),
    route("GET", "/api/v1/gpus", Role::Everybody),
    admin("POST", "/api/v1/gpus/allow", "choose the GPUs for new jobs"),
    admin("POST", "/api/v1/mig", "list or change MIG instances"),
    admin("GET", "/api/v1/mig/plan", "list or change MIG instances"),
    route("GET", "/api/v1/nodes", Role::Everybody),
    admin("POST", "/api/v1/nodes", "add nodes"),
    route("GET", "/api/v1/nodes/{name}", Role::Everybody),
    admin("DELETE", "/api/v1/nodes/{name}", "remove nodes"),
    route("GET", "/api/v1/pools", Role::Everybody),
    admin("POST", "/api/v1/pools/move", "move nodes between pools"),
    admin("POST", "/api/v1/nodes/drain", "drain nodes"),
    admin("POST", "/api/v1/nodes/label", "change labels of nodes"),
    admin("POST", "/api/v1/nodes/undrain", "undrain nodes"),
    admin("POST", "/api/v1/nodes/{name}/drain", "drain nodes"),
    admin("POST", "/api/v1/nodes/{name}/undrain", "undrain nodes"),
    route("GET", "/api/v1/reservations", Role::Everybody),
    admin("POST", "/api/v1/reservations", "reserve GPUs or nodes"),
    route("GET", "/api/v1/reservations/{name}", Role::Everybody),
    admin("PATCH", "/api/v1/reservations/{name}", "change reservations"),
    admin("DELETE", "/api/v1/reservations/{name}", "cancel reservations"),
    route("GET", "/api/v1/projects", Role::Everybody),
    route("POST", "/api/v1/projects", Role::ProjectAdmin),
    route("POST", "/api/v1/projects/apply", Role::ProjectAdmin),
    route("GET", "/api/v1/projects/{name}", Role::Everybody),
    route("PATCH", "/api/v1/projects/{name}", Role::ProjectAdmin),
    route("GET", "/api/v1/projects/{name}/subscription", Role::AdminOfProject),
    route("PATCH", "/api/v1/projects/{name}/subscription", Role::AdminOfProject),
    route("GET", "/api/v1/projects/{name}/digest", Role::AdminOfProject),
    route("DELETE", "/api/v1/projects/{name}", Role::ProjectAdmin),
    route("GET", "/api/v1/quota", Role::Everybody),
    route("GET", "/api/v1/policies", Role::Everybody),
    admin("PATCH", "/api/v1/policies", "change the policy"),
    route("GET", "/api/v1/users/{name}", Role::Everybody),
    admin("PATCH", "/api/v1/users/{name}", "set limits of users"),
    route("GET", "/api/v1/users/{name}/subscription", Role::Owner),
    route("PATCH", "/api/v1/users/{name}/subscription", Role::Owner),
    route("GET", "/api/v1/users/{name}/digest", Role::Owner),
    route("GET", "/api/v1/events", Role::Everybody),
    route("GET", "/api/v1/notifications", Role::Everybody),
    needs(Least::Scope(Scope::User), route("GET", "/api/v1/notifications/secret", Role::Everybody)),
    route("GET", "/api/v1/audit", Role::Everybody),
    route("GET", "/api/v1/authority", Role::Everybody),
    route("GET", "/api/v1/me", Role::Everybody),
    needs(Least::Anyone, bodiless(route("POST", "/api/v1/login/device", Role::Everybody))),
    needs(Least::Anyone, bodiless(route("POST", "/api/v1/login/device/{handle}", Role::Everybody))),
    route("GET", "/api/v1/tokens", Role::Everybody),
    // A stolen token must not create others.
    needs(Least::Local, route("POST", "/api/v1/tokens", Role::Everybody)),
    route("DELETE", "/api/v1/tokens/{token}", Role::Owner),
    needs(Least::Scope(Scope::User), route("GET", "/api/v1/secrets", Role::Everybody)),
    route("PUT", "/api/v1/secrets/{name}", Role::Everybody),
    route("DELETE", "/api/v1/secrets/{name}", Role::Everybody),
    admin("GET", "/api/v1/network-users", "list network users"),
    needs(
        Least::Local,
        admin("PATCH", "/api/v1/network-users/{name}", "set the system users of network users"),
    ),
    needs(Least::Local, admin("DELETE", "/api/v1/network-users/{name}", "forget network users")),
    route("DELETE", "/api/v1/sessions", Role::Everybody),
    route("GET", "/api/v1/version", Role::Everybody),
    route("GET", "/api/v1/status", Role::Everybody),
    route("GET", "/api/v1/recovery", Role::Everybody),
    admin("POST", "/api/v1/simulate", "simulate changes"),
    admin("GET", "/api/v1/dump", "read the server's state"),
    // The link is for a loopback address.
    needs(Least::Local, bodiless(route("POST", "/api/v1/logins", Role::Everybody))),
    admin("POST", "/api/v1/shutdown", "stop this server"),
    needs(Least::Anyone, route("GET", "/healthz", Role::Everybody)),
    needs(Least::Anyone, route("GET", "/readyz", Role::Everybody)),
    needs(Least::Scope(Scope::Metrics), route("GET", "/openapi.json", Role::Everybody)),
    needs(Least::Scope(Scope::Metrics), route("GET", "/metrics", Role::Everybody)),
];
