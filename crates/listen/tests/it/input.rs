//! Bad input: each is one clear problem, and nothing is changed.

use serde_json::Value;

use crate::rig::{ANA, Rig, raw, request};

fn problem(answer: &(u16, String, String)) -> (u16, Value) {
    let (status, head, body) = answer;
    assert!(head.contains("content-type: application/problem+json"), "{head}\n{body}");
    let problem: Value = serde_json::from_str(body).unwrap();
    assert_eq!(problem["status"], *status);
    assert_eq!(problem["type"], format!("urn:gpool:problem:{}", problem["code"].as_str().unwrap()));
    (*status, problem)
}

#[test]
fn each_bad_request_is_one_problem() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    for (method, path, body, status, code, words) in [
        ("GET", "/", "", 404, "GP0105", "no path"),
        ("GET", "/api/v1/jbos", "", 404, "GP0105", "no path"),
        ("DELETE", "/api/v1/jobs/1", "", 405, "GP0106", "has no DELETE"),
        ("POST", "/api/v1/jobs", "", 415, "GP0107", "no Content-Type"),
        ("POST", "/api/v1/jobs", "{", 400, "GP0104", "line 1 column 1"),
        ("POST", "/api/v1/jobs", "{\"comand\":[\"a\"]}", 400, "GP0103", "comand"),
        ("POST", "/api/v1/jobs", "{\"command\":\"a\"}", 400, "GP0101", "command: it is the string"),
        ("POST", "/api/v1/jobs", "{}", 400, "GP0101", "command"),
        ("GET", "/api/v1/nothing", "", 404, "GP0105", "no path"),
        ("GET", "/api/v1/jobs/1/../../../etc/passwd", "", 404, "GP0105", "no path"),
        ("GET", "/api/v2/jobs", "", 404, "GP0105", "no path"),
        ("DELETE", "/api/v1/jobs", "", 405, "GP0106", "has no DELETE"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"gpus\":\"-1\"}", 400, "GP0101", "gpus"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"mem\":\"20\"}", 400, "GP0101", "20G"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"gpus\":\"16\"}", 422, "GP0412", "16 GPUs"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"gpus\":\"h100\"}", 422, "GP0412", "h100"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"cpus\":99}", 422, "GP0414", "99 CPU"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"after\":[\"9\"]}", 404, "GP0601", "9"),
        ("POST", "/api/v1/jobs", "{\"command\":[\"a\"],\"project\":\"x\"}", 404, "GP0602", "x"),
        ("POST", "/api/v1/jobs?dry=1", "{\"command\":[\"a\"]}", 400, "GP0103", "dry"),
        ("GET", "/api/v1/jobs?state=pendign", "", 400, "GP0101", "did you mean pending"),
        ("GET", "/api/v1/jobs?limit=0", "", 400, "GP0101", "limit"),
        ("GET", "/api/v1/jobs?limit=-1", "", 400, "GP0101", "limit"),
        ("GET", "/api/v1/jobs?cursor=x", "", 400, "GP0101", "cursor"),
        ("GET", "/api/v1/jobs/..%2f..%2fetc", "", 400, "GP0101", "job id"),
        ("GET", "/api/v1/jobs/1", "", 404, "GP0601", "no job 1"),
        ("GET", "/api/v1/jobs/1/logs?stream=x", "", 404, "GP0601", "no job 1"),
        ("POST", "/api/v1/jobs/1/cancel", "", 404, "GP0601", "no job 1"),
        ("POST", "/api/v1/jobs/cancel", "{\"jobs\":[]}", 400, "GP0101", "has no job"),
        (
            "POST",
            "/api/v1/jobs/signal",
            "{\"signal\":\"USR9\",\"jobs\":[\"1\"]}",
            400,
            "GP0101",
            "USR",
        ),
        ("PATCH", "/api/v1/jobs/1", "{}", 400, "GP0101", "changes nothing"),
        ("GET", "/api/v1/nodes/nowhere", "", 404, "GP0603", "nowhere"),
    ] {
        let (got, problem) = problem(&raw(&socket, &request(method, path, body)));
        assert_eq!((got, problem["code"].as_str().unwrap()), (status, code), "{path} {problem}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(words), "{path} {body}: {detail}");
    }
    let (_, _, body) = raw(&socket, &request("GET", "/api/v1/jobs?state=all", ""));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["total"], 0, "nothing was changed");
}

#[test]
fn each_bad_value_of_a_job_is_one_problem() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let of = |field: &str| format!("{{\"command\":[\"a\"],{field}}}");
    for (body, words) in [
        ("[1]".to_owned(), "it is an array"),
        ("null".to_owned(), "it is null"),
        (of("\"gpus\":1"), "gpus"),
        (of("\"time\":-1"), "time"),
        (of("\"time\":1e300"), "time"),
        (of("\"mem\":18446744073709551616"), "mem"),
        (of("\"directory\":\"relative\""), "directory"),
        (of("\"umask\":99999"), "umask"),
        (of("\"environment\":{\"A=B\":\"x\"}"), "environment"),
        (of("\"after\":[\"what:1\"]"), "after"),
    ] {
        let (status, problem) = problem(&raw(&socket, &request("POST", "/api/v1/jobs", &body)));
        assert_eq!((status, problem["code"].as_str()), (400, Some("GP0101")), "{body} {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{body} {problem}");
    }
    let (_, _, body) = raw(&socket, &request("GET", "/api/v1/jobs?state=all", ""));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap()["total"], 0, "nothing was changed");
}

#[test]
fn a_method_that_a_path_has_not_brings_those_it_has() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let (status, head, _) = raw(&socket, &request("DELETE", "/api/v1/jobs/1", ""));
    assert_eq!(status, 405);
    let allowed = head.lines().find_map(|line| line.strip_prefix("allow: ")).unwrap_or_default();
    assert!(allowed.contains("get") && allowed.contains("patch"), "{head}");
}

#[test]
fn an_empty_a_deep_and_an_untyped_body_are_problems() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let post = |kind: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nhost: gpool\r\nconnection: close\r\n\
             content-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        let (status, problem) = problem(&raw(&socket, &head));
        (status, problem["code"].as_str().unwrap().to_owned())
    };
    assert_eq!(post("application/json", ""), (400, "GP0104".to_owned()));
    assert_eq!(post("application/json", &deep).0, 400);
    assert_eq!(post("text/plain", "hi"), (415, "GP0107".to_owned()));
}

#[test]
fn an_unknown_field_brings_the_nearest() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let body = r#"{"command":["a"],"gpu":"1"}"#;
    let (_, problem) = problem(&raw(&socket, &request("POST", "/api/v1/jobs", body)));
    assert_eq!(problem["try"][0], "did you mean \"gpus\"?");
}

#[test]
fn sizes_are_limited() {
    let mut rig = Rig::new();
    let socket = rig.socket(ANA);
    let body =
        format!(r#"{{"command":["a"],"note":"{}"}}"#, "x".repeat(gpool_wire::BODY_BYTES_MAX));
    let (status, problem) = problem(&raw(&socket, &request("POST", "/api/v1/jobs", &body)));
    assert_eq!((status, problem["code"].as_str()), (413, Some("GP0102")));
    let head = format!("GET /healthz HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(20_000));
    let (status, _, _) = raw(&socket, &head);
    assert_eq!(status, 431);
}

#[test]
fn a_bad_line_names_itself_and_nothing_is_submitted() {
    let mut rig = Rig::new();
    let client = rig.client(ANA);
    for (lines, line, code) in [
        ("{\"command\":[\"true\"]}\n{\"command\":[]}\n", 2, "GP0101"),
        ("\n\n{\"command\":[\"true\"]\n", 3, "GP0104"),
        ("{\"command\":[\"true\"]}\n{\"comand\":[\"true\"]}", 2, "GP0103"),
        ("{\"defaults\":{\"gpuss\":\"1\"}}\n", 1, "GP0103"),
    ] {
        let error = client.submit_many(&mut lines.as_bytes(), None).unwrap_err();
        let gpool_client::Error::Problem(problem) = error else { panic!("{error}") };
        assert_eq!((problem.line, problem.code.as_str()), (Some(line), code), "{lines}");
    }
    let error = client.submit_many(&mut "\n".as_bytes(), None).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{error}");
    assert_eq!(client.status().unwrap().jobs_ended, 0);
    assert!(client.status().unwrap().jobs.is_empty());
}
