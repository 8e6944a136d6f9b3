//! Every route with every kind of caller, each a real user on a real connection. The table is the
//! server's own; a test beside it checks that each route has a row.

use gpool_api::routes::{ROUTES, Role, Route};
use gpool_model::JobVerb;
use serde_json::{Value, json};

use crate::harness::Cluster;
use crate::http::Http;
use crate::users::{NOBODY, SOMEBODY, cluster};

/// The caller, relative to the job in the route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    Stranger,
    Owner,
    Admin,
}

impl Who {
    fn http(self, cluster: &Cluster) -> Http {
        match self {
            Self::Stranger => Http::of_user(cluster, NOBODY),
            Self::Owner => Http::of_user(cluster, SOMEBODY),
            Self::Admin => Http::new(cluster),
        }
    }
}

/// A valid body for the route, so that a refusal can only be due to the caller.
fn body_of(route: &Route, job: &str) -> Value {
    let last = route.path.rsplit('/').next().unwrap();
    let by_path = route.path.contains("{id}");
    if !route.has_body {
        return Value::Null;
    }
    match (route.method, last) {
        ("PATCH", "subscription") => json!({"notify": ["digest@https://example.org/x"]}),
        ("PATCH", "policies") => json!({"device_strategy": "pack"}),
        ("PATCH", _) if route.path.contains("/projects/") => json!({"gpus": 2}),
        ("POST", "projects") => json!({"name": "red"}),
        ("POST", "nodes") => json!({"name": "lab2"}),
        ("POST", "apply") => json!({"projects": {"blue": {"gpus": 1}}}),
        ("PATCH", _) if route.path.contains("/network-users/") => json!({"user": null}),
        ("PUT", _) => json!({"value": "x"}),
        ("POST", "tokens") => json!({"scope": "user"}),
        ("PATCH", _) => json!({"note": "n"}),
        (_, "jobs" | "bulk") => json!({"command": ["true"], "directory": "/"}),
        (_, "allow") => json!({"devices": ["all"]}),
        (_, "simulate") => json!({"for": "1m"}),
        (_, "label") => json!({"nodes": ["lab1"], "labels": ["rack=3"]}),
        (_, "move") => json!({"nodes": ["lab1"], "pool": "batch"}),
        (_, "shutdown") => json!({"now": false}),
        (_, "attach" | "mig") => json!({}),
        (_, "missing") => json!({"objects": []}),
        (_, "exec") => json!({"command": ["true"]}),
        (_, "forward" | "link") => json!({"port": 80}),
        (_, "extend") if by_path => json!({"to": "2h"}),
        (_, "extend") => json!({"to": "2h", "jobs": [job]}),
        (_, "signal") if by_path => json!({"signal": "USR1"}),
        (_, "signal") => json!({"signal": "USR1", "jobs": [job]}),
        _ if by_path => Value::Null,
        _ => json!({"jobs": [job]}),
    }
}

/// The status of one cell of the table.
fn status_of(cluster: &Cluster, who: Who, route: &Route, job: &str) -> u16 {
    // The owner is also the user of the routes of a user.
    let path = route.path.replace("/users/{name}/", &format!("/users/{SOMEBODY}/"));
    let mut path = path.replace("{id}", job).replace("{name}", "lab1");
    if path.contains("{token}") {
        let made = Who::Owner.http(cluster).post("/api/v1/tokens", &json!({"scope": "user"}));
        path = path.replace("{token}", made.json()["id"].as_str().unwrap());
    }
    let http = who.http(cluster);
    if path.ends_with("/events") {
        // It panics if the caller is refused, and the stream has no end.
        drop(http.events(None));
        return 200;
    }
    let body = match route.method {
        "GET" => String::new(),
        _ => match body_of(route, job) {
            Value::Null => String::new(),
            body => body.to_string(),
        },
    };
    let kind = [("Content-Type", "application/json")];
    let answer = http.send(route.method, &path, &kind, body.as_bytes());
    if answer.status == 403 {
        assert_eq!(answer.problem_code(), "GP0501", "{who:?} {route:?}");
    }
    answer.status
}

fn becomes_a_line(route: &Route) -> bool {
    ["/attach", "/exec", "/forward"].iter().any(|end| route.path.ends_with(end))
}

/// Whether the route needs an object that this cluster does not have: a reservation, a drain, a job
/// to run again, a node that has left, a listener on the network, an identity provider, results; or
/// bytes in place of JSON.
fn is_of_nothing(route: &Route) -> bool {
    route.path.contains("/reservations")
        || route.path.contains("/login/device")
        || route.path.ends_with("/authority")
        || (route.method == "POST" && route.path.ends_with("/nodes"))
        || route.path.contains("/projects/{name}")
        || [
            "/drain",
            "/undrain",
            "/retry",
            "/resume",
            "/script",
            "/results",
            "/results/object",
            "/files/objects",
        ]
        .iter()
        .any(|end| route.path.ends_with(end))
        || (route.method == "PATCH" && route.path.contains("/users/"))
        || (route.method == "DELETE"
            && ["/network-users/", "/nodes/"].iter().any(|part| route.path.contains(part)))
}

/// A job of the owner in a state that the route's action applies to.
fn job_for(cluster: &Cluster, route: &Route) -> String {
    let last = route.path.rsplit('/').next().unwrap();
    let runs =
        ["signal", "logs", "requeue", "pause", "link"].contains(&last) || becomes_a_line(route);
    let pty = if last == "attach" { json!({"rows": 9, "columns": 9}) } else { Value::Null };
    let line = if runs { "trap : USR1; echo on; sleep 1000" } else { "true" };
    let job = json!({
        "command": ["sh", "-c", line], "directory": "/", "hold": last == "release",
        "after": [], "pty": pty,
        // It waits, so that it can be held, changed and cancelled.
        "gpus": if runs || last == "release" { "0" } else { "2" },
    });
    let answer = Http::of_user(cluster, SOMEBODY).post("/api/v1/jobs", &job);
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    if runs {
        cluster.until_is(&id, "running");
    }
    id
}

#[test]
fn each_route_follows_the_table_for_each_caller() {
    let Some(cluster) = cluster() else { return };
    // Both devices are used, so jobs that need one wait.
    let keeper = cluster.submit(["--gpus", "2", "--", "sleep", "1000"]);
    cluster.until_is(&keeper, "running");
    let is_last = |route: &Route| route.path.ends_with("/shutdown");
    let mut n_cells = 0;
    for route in ROUTES.iter().filter(|route| !is_last(route)) {
        for who in [Who::Stranger, Who::Owner, Who::Admin] {
            let job = if route.role == Role::Owner || route.path.contains("{id}") {
                job_for(&cluster, route)
            } else {
                keeper.clone()
            };
            let before = cluster.job(&job).version;
            let status = status_of(&cluster, who, route, &job);
            n_cells += 1;
            match (route.role, who) {
                // No project has that name, and others are not revealed.
                (Role::ProjectAdmin | Role::AdminOfProject, Who::Stranger | Who::Owner)
                    if route.path.contains("{name}") =>
                {
                    assert_eq!(status, 404, "{who:?} {route:?}");
                }
                (Role::OwnerAlone, Who::Stranger | Who::Admin)
                | (Role::Owner, Who::Stranger)
                | (
                    Role::Admin | Role::ProjectAdmin | Role::AdminOfProject,
                    Who::Stranger | Who::Owner,
                ) => {
                    assert_eq!(status, 403, "{who:?} {route:?}");
                    assert_eq!(cluster.job(&job).version, before, "{who:?} {route:?}");
                }
                // Permitted, then refused, since the request asks for no upgrade.
                _ if becomes_a_line(route) => assert_eq!(status, 400, "{who:?} {route:?}"),
                // Permitted, then refused, since the object does not exist.
                _ if is_of_nothing(route) => {
                    assert!((200..500).contains(&status) && status != 403, "{route:?}: {status}");
                }
                _ => assert!((200..300).contains(&status), "{who:?} {route:?}: {status}"),
            }
            if job != keeper {
                // It may be ending already.
                let _ = cluster.gpool(["cancel", &job]);
            }
        }
    }
    assert_eq!(n_cells, (ROUTES.len() - 1) * 3);
    let last = ROUTES.iter().find(|route| is_last(route)).unwrap();
    for (who, expected) in [(Who::Stranger, 403), (Who::Owner, 403), (Who::Admin, 202)] {
        assert_eq!(status_of(&cluster, who, last, &keeper), expected, "{who:?}");
    }
}

/// Whether an admin of a project may use a route of a job's owner.
fn is_for_project_admins(route: &Route) -> bool {
    let last = route.path.rsplit('/').next().unwrap();
    let verb = JobVerb::named(last).is_some_and(|verb| verb.rules().is_for_project_admins);
    verb || route.method == "PATCH" && route.path.contains("/jobs/")
}

#[test]
fn an_admin_of_a_project_by_group_uses_the_routes_for_its_admins_and_no_other() {
    let Some(cluster) = cluster() else { return };
    let gpool = |words: &[&str]| cluster.gpool(words).ok();
    // User nobody is in this group.
    gpool(&["project", "edit", "default", "--admins", "@nogroup"]);
    let keeper = cluster.submit(["--gpus", "2", "--", "sleep", "1000"]);
    cluster.until_is(&keeper, "running");
    let mut n_allowed = 0;
    for route in ROUTES.iter().filter(|route| matches!(route.role, Role::Owner | Role::Admin)) {
        let is_of_job = route.role == Role::Owner;
        let job = if is_of_job { job_for(&cluster, route) } else { keeper.clone() };
        let before = cluster.job(&job).version;
        let status = status_of(&cluster, Who::Stranger, route, &job);
        if is_of_job && is_for_project_admins(route) {
            n_allowed += 1;
            let is_fine = (200..300).contains(&status) || is_of_nothing(route) && status != 403;
            assert!(is_fine, "{route:?}: {status}");
        } else {
            assert_eq!(status, 403, "{route:?}");
            assert_eq!(cluster.job(&job).version, before, "{route:?}");
        }
        if is_of_job {
            // It may be ending already.
            let _ = cluster.gpool(["cancel", &job]);
        }
    }
    // Six verbs, each for one job and for several, and the change of a job.
    assert_eq!(n_allowed, 13);
    for route in ROUTES.iter().filter(|route| route.role == Role::AdminOfProject) {
        let path = route.path.replace("{name}", "default");
        let body = if route.method == "GET" { Value::Null } else { body_of(route, &keeper) };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        for (uid, status) in [(NOBODY, 200), (SOMEBODY, 403)] {
            let kind = [("Content-Type", "application/json")];
            let http = Http::of_user(&cluster, uid);
            let answer = http.send(route.method, &path, &kind, body.as_bytes());
            assert_eq!(answer.status, status, "{route:?} {answer:?}");
        }
    }
}

#[test]
fn no_route_shows_private_data_of_another_user() {
    let Some(cluster) = cluster() else { return };
    let secret = "canary-2d7f";
    let folder = cluster.path(secret);
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let owner = Http::of_user(&cluster, SOMEBODY);
    let mut events = Http::of_user(&cluster, NOBODY).events(None);
    let job = |more: Value| {
        let mut job = json!({
            "command": ["sh", "-c", format!("echo {secret}; sleep 1000")], "name": secret,
            "note": secret, "directory": folder, "environment": {"A": secret},
        });
        job.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let answer = owner.post("/api/v1/jobs", &job);
        assert!(answer.status == 201 && answer.body.contains(secret), "{answer:?}");
        answer.json()["id"].as_str().unwrap().to_owned()
    };
    // A running job, a pending one, one that could not be started, and one that has ended.
    let running = job(json!({"gpus": "2"}));
    let waiting = job(json!({"gpus": "1", "stdin": format!("/{secret}")}));
    let failed = job(json!({"command": [format!("/no/{secret}")]}));
    let ended = job(json!({"command": ["true"], "stdout": "out", "after": []}));
    cluster.until_is(&running, "running");
    cluster.until_ended(&ended);
    let job = cluster.until_ended(&failed);
    assert!(job.run.cause_text.is_some_and(|text| text.contains(secret)));
    let stranger = Http::of_user(&cluster, NOBODY);
    let open = ROUTES.iter().filter(|row| row.method == "GET" && row.role == Role::Everybody);
    let mut n_asked = 0;
    for route in open.filter(|route| !route.path.ends_with("/events")) {
        for id in [&running, &waiting, &failed, &ended] {
            let path = route.path.replace("{id}", id).replace("{name}", "lab1");
            for query in ["", "?state=all", "?state=all&user=65533"] {
                if !query.is_empty() && route.path != "/api/v1/jobs" {
                    continue;
                }
                let answer = stranger.get(&format!("{path}{query}"));
                let status = if is_of_nothing(route) { answer.status } else { 200 };
                assert_eq!(answer.status, status, "{path}: {answer:?}");
                // The path of the cluster may contain the word; only its contents count.
                let said = answer.body.replace(cluster.path("").to_str().unwrap(), "");
                assert!(!said.contains(secret), "{path}{query}: {said}");
                n_asked += 1;
            }
        }
    }
    assert!(n_asked > 40, "{n_asked}");
    // Not by guessing, in refusals, or in events either.
    let guess = format!("/api/v1/jobs?state=all&name={secret}");
    assert_eq!(stranger.get(&guess).json()["items"], json!([]));
    for action in ["cancel", "hold", "release"] {
        let path = format!("/api/v1/jobs/{running}/{action}");
        let answer = stranger.send("POST", &path, &[], b"");
        assert!(answer.status == 403 && !answer.body.contains(secret), "{answer:?}");
    }
    let last = cluster.submit(["--", "true"]);
    loop {
        let (_, event) = crate::http::next_event(&mut events);
        assert!(!event.to_string().contains(secret), "{event}");
        if event["job"] == *last {
            break;
        }
    }
}

#[test]
fn nothing_in_a_request_changes_the_callers_identity() {
    let Some(cluster) = cluster() else { return };
    let http = Http::of_user(&cluster, NOBODY);
    let headers = [
        ("X-Forwarded-User", "root"),
        ("X-Remote-User", "root"),
        ("Remote-User", "root"),
        ("Authorization", "Basic cm9vdDo="),
        ("From", "root"),
        ("Cookie", "user=root; uid=0"),
        ("X-HTTP-Method-Override", "GET"),
    ];
    let job = json!({"command": ["sh", "-c", "id -u; id -g; id -G"], "directory": "/"});
    let answer = http.post_with("/api/v1/jobs", &headers, &job);
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.stdout_of(&id), "65534\n65534\n65534\n");
    for field in ["user", "uid", "owner", "gid", "run_as", "admin"] {
        let mut job = job.clone();
        job[field] = json!("root");
        assert_eq!(http.post("/api/v1/jobs", &job).problem_code(), "GP0103", "{field}");
        assert_eq!(http.get(&format!("/api/v1/jobs?{field}x=0")).problem_code(), "GP0103");
    }
    let down = [("Content-Type", "application/json"), ("X-Remote-User", "root")];
    let answer = http.send("POST", "/api/v1/shutdown", &down, b"{\"now\":true}");
    assert_eq!((answer.status, answer.problem_code()), (403, "GP0501".to_owned()));
    // Only root's jobs run as root.
    let id = cluster.sh(&[], "id -u");
    cluster.until_ended(&id);
    assert_eq!(cluster.stdout_of(&id), "0\n");
}

#[test]
fn a_server_without_root_takes_jobs_of_its_user_only() {
    use std::os::unix::process::CommandExt as _;
    let Some(cluster) = cluster() else { return };
    // A second server, of a user that is not root, on a socket that others can reach.
    let folder = cluster.path("theirs");
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let (state, socket) = (folder.join("state"), folder.join("api.sock"));
    let own = cluster.command();
    let mut command = std::process::Command::new(cluster.path("gpool"));
    command.env_clear().envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    command.env("GPOOL_STATE_DIR", &state).env("GPOOL_SOCKET", &socket).env("HOME", &folder);
    command.args(["up", "--foreground", "--devices", "none"]).current_dir(&folder);
    let mut server = command
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .spawn()
        .unwrap();
    let client = gpool_client::Client::at(&socket);
    crate::harness::until_so("it answers", || {
        std::os::unix::net::UnixStream::connect(&socket).is_ok() && client.ready().is_ok()
    });
    let job = json!({"command": ["id", "-u"], "directory": "/"});
    for (uid, status) in [(Some(NOBODY), 403), (None, 403), (Some(SOMEBODY), 201)] {
        let answer = Http::at(&socket, uid).post("/api/v1/jobs", &job);
        assert_eq!(answer.status, status, "{uid:?}: {answer:?}");
        if status == 403 {
            let said = answer.json();
            assert_eq!(said["code"], "GP0504", "{said}");
            assert!(said["why"][0].as_str().unwrap().contains("65533"), "{said}");
        }
    }
    server.kill().unwrap();
    server.wait().unwrap();
}
