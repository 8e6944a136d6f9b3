//! The dashboard: signing in, pages, and requests that a browser must not be able to make.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use crate::harness::{Cluster, Running, until_so};

/// The port of a cluster's dashboard.
pub fn port(cluster: &Cluster) -> u16 {
    let status = cluster.gpool(["status", "--json"]).json();
    let web = status["web"].as_str().expect("there is a dashboard").trim_end_matches('/');
    web.rsplit_once(':').expect("an address with port").1.parse().expect("a port")
}

/// The status code, the head and the body of an answer.
pub fn ask(port: u16, first: &str, host: &str, cookie: &str) -> (u16, String, String) {
    ask_with(port, first, host, cookie, "\r\n\r\n")
}

/// The same with an end of the request after the headers.
pub fn ask_with(
    port: u16,
    first: &str,
    host: &str,
    cookie: &str,
    end: &str,
) -> (u16, String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let head = format!(
        "{first} HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\ncookie: {cookie}{end}"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer");
    let code = head.split(' ').nth(1).unwrap().parse().unwrap();
    (code, head.to_ascii_lowercase(), body.to_owned())
}

/// A signed-in browser.
pub struct Browser<'c> {
    pub cluster: &'c Cluster,
    pub port: u16,
    pub host: String,
    pub cookie: String,
}

impl<'c> Browser<'c> {
    pub fn new(cluster: &'c Cluster) -> Self {
        let port = port(cluster);
        let (host, path) = link(cluster, port);
        let (_, head, _) = ask(port, &format!("GET {path}"), &host, "");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        Self { cluster, port, host, cookie }
    }

    pub fn get(&self, path: &str) -> (u16, String) {
        let (code, _, body) = ask(self.port, &format!("GET {path}"), &self.host, &self.cookie);
        (code, body)
    }

    /// Sends a form; the other headers are lines.
    pub fn post(&self, path: &str, headers: &str, form: &str) -> (u16, String, String) {
        let more = format!(
            "{}\r\n{headers}content-type: application/x-www-form-urlencoded\r\ncontent-length: {}",
            self.cookie,
            form.len()
        );
        let body = format!("\r\n\r\n{form}");
        ask_with(self.port, &format!("POST {path}"), &self.host, &more, &body)
    }

    /// The headers of a form from a page of the server, and the token of the session.
    pub fn own(&self) -> (String, String) {
        let page = self.get("/submit").1;
        let token = page.split("name=\"csrf\" value=\"").nth(1).expect("a token");
        let token = token.split('"').next().unwrap().to_owned();
        (format!("origin: http://{}:{}\r\n", self.host, self.port), token)
    }
}

/// Gets a link, and returns its host and its path.
fn link(cluster: &Cluster, port: u16) -> (String, String) {
    let url = cluster.gpool(["open", "--print"]).ok();
    let rest = url.trim().strip_prefix("http://").expect("a link");
    let (host, path) = rest.split_once('/').expect("a path");
    let host = host.strip_suffix(&format!(":{port}")).expect("the port of the dashboard");
    (host.to_owned(), format!("/{path}"))
}

#[test]
fn a_link_signs_in_once_and_only_by_its_own_host_name() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let port = port(&cluster);
    let (code, _, body) = ask(port, "GET /", "127.0.0.1", "");
    assert_eq!(code, 401);
    assert!(body.contains("gpool open"), "{body}");
    let (host, path) = link(&cluster, port);
    let enter = format!("GET {path}");
    assert_eq!(ask(port, &enter, "127.0.0.1", "").0, 403, "by another name");
    let (host, enter) = match ask(port, &enter, &host, "").0 {
        // A wrong name does not use it up.
        303 => {
            assert_eq!(ask(port, &enter, &host, "").0, 403, "it works once");
            let (host, path) = link(&cluster, port);
            (host, format!("GET {path}"))
        }
        code => panic!("{code}"),
    };
    let (code, head, _) = ask(port, &enter, &host, "");
    assert_eq!(code, 303);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly; samesite=strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap();
    assert_eq!(ask(port, "GET /", "127.0.0.1", cookie).0, 401, "by another name");
    assert_eq!(ask(port, "GET /", &host, "gpool=0").0, 401, "another secret");
    let (code, head, page) = ask(port, "GET /", &host, cookie);
    assert_eq!(code, 200, "{page}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(page.contains("<b>1</b> free"), "{page}");
}

#[test]
fn the_overview_shows_what_waits_and_escapes_what_users_wrote() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let port = port(&cluster);
    let hostile = "<script>alert(1)</script>";
    let runs = cluster.sh(&["--gpus", "1", "--time", "1h", "--name", hostile], "sleep 1000");
    cluster.until_is(&runs, "running");
    let waits = cluster.sh(&["--gpus", "1", "--time", "1h"], "true");
    let (host, path) = link(&cluster, port);
    let (_, head, _) = ask(port, &format!("GET {path}"), &host, "");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let page = || ask(port, "GET /", &host, &cookie).2;
    let reason = "It needs 1 GPU, and none is free";
    until_so("the job waits", || page().contains(reason));
    until_so("a start is expected", || page().contains("class=\"wait\" x="));
    let page = page();
    assert!(page.contains(&format!("<a href=\"/jobs/{waits}\">")), "{page}");
    assert!(!page.contains(hostile) && page.contains("&#60;script&#62;"), "{page}");
    let of_job = |id: &str| ask(port, &format!("GET /jobs/{id}"), &host, &cookie);
    let waiting = of_job(&waits).2;
    assert!(waiting.contains(&format!("<li>{reason}")), "{waiting}");
    let prints = cluster.sh(&[], "printf '\\033[31mred\\033[0m <b>\\n'");
    cluster.until_ended(&prints);
    let (code, _, ended) = of_job(&prints);
    assert_eq!(code, 200);
    assert!(
        ended.contains(
            "<pre class=\"log\" tabindex=\"0\" aria-labelledby=\"output\">red &#60;b&#62;"
        ),
        "{ended}"
    );
    assert!(ended.contains("<dt>Exit code</dt><dd>0</dd>"), "{ended}");
    for wrong in ["999", "1%2flogs", "x"] {
        assert_eq!(of_job(wrong).0, 404, "{wrong}");
    }
    for query in ["", "?by=user&range=30d"] {
        let (code, _, usage) = ask(port, &format!("GET /usage{query}"), &host, &cookie);
        assert_eq!((code, usage.contains("<h1>GPU time by ")), (200, true), "{usage}");
    }
    let (code, _, wrong) = ask(port, "GET /usage?by=%3Cscript%3E&range=1h", &host, &cookie);
    assert!(code == 400 && wrong.contains("by: &#34;&#60;script"), "{wrong}");
    assert_eq!(ask(port, "GET /usage", "localhost", "").0, 401);
    // The wall has no names.
    let (code, _, wall) = ask(port, "GET /wall", "localhost", "");
    assert_eq!(code, 200);
    assert!(wall.contains("<b>1</b> job runs") && !wall.contains("script&#62;"), "{wall}");
}

#[test]
fn other_names_and_other_methods_are_refused() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let port = port(&cluster);
    for host in ["evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
        assert_eq!(ask(port, "GET /wall", host, "").0, 421, "{host}");
    }
    assert_eq!(ask(port, "DELETE /wall", "127.0.0.1", "").0, 405);
    let browser = Browser::new(&cluster);
    for path in ["/api/v1/jobs", "/assets/../secret", "/none"] {
        assert_eq!(ask(port, &format!("GET {path}"), "127.0.0.1", "").0, 401, "{path}");
        assert_eq!(browser.get(path).0, 404, "{path}");
    }
    assert_eq!(ask(port, "GET /assets/secret", "127.0.0.1", "").0, 404);
    assert_eq!(ask(port, "POST /act", "127.0.0.1", "").0, 401);
    assert_eq!(ask(port, "GET /events", "127.0.0.1", "").0, 401);
    assert_eq!(ask(port, "GET /login/0", "127.0.0.1", "").0, 403);
    let (code, _, body) = ask(port, "GET /metrics", "127.0.0.1", "");
    assert_eq!((code, body.starts_with("# HELP")), (200, true), "{body}");
    for path in ["/healthz", "/readyz", "/openapi.json", "/assets/style.css", "/assets/live.js"] {
        assert_eq!(ask(port, &format!("GET {path}"), "127.0.0.1", "").0, 200, "{path}");
    }
}

#[test]
fn the_dashboard_can_be_off_and_is_never_on_the_network() {
    let mut cluster = Cluster::unstarted(&[]);
    let file = cluster.path("gpool.toml");
    std::fs::write(&file, "web = \"0.0.0.0:7478\"\n").unwrap();
    let mut command = cluster.command();
    command.env("GPOOL_CONFIG", &file).arg("up");
    Running::start(&mut command, None).end().refused(2, &["web", "loopback"]);
    std::fs::write(&file, "web = \"none\"\n").unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), file.display().to_string()));
    cluster.up();
    assert!(cluster.gpool(["status", "--json"]).json()["web"].is_null());
    cluster.gpool(["open", "--print"]).refused(1, &["no dashboard", "gpool.toml"]);
}

#[test]
fn forms_act_only_with_the_token_from_pages_of_the_server() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let browser = Browser::new(&cluster);
    let (own, token) = browser.own();
    let submit = format!("csrf={token}&command=echo+%27%3Cb%3E%27&gpus=1&time=1h&hold=yes");
    let elsewhere = "origin: http://evil.example\r\n";
    let across = format!("{own}sec-fetch-site: cross-site\r\n");
    for headers in ["", elsewhere, &across] {
        assert_eq!(browser.post("/submit", headers, &submit).0, 403, "{headers}");
    }
    for wrong in ["csrf=0", "csrf=", ""] {
        let form = submit.replace(&format!("csrf={token}"), wrong);
        assert_eq!(browser.post("/submit", &own, &form).0, 403, "{wrong}");
    }
    assert!(cluster.all_ids().is_empty());
    let (code, _, preview) = browser.post("/submit", &own, &format!("{submit}&do=preview"));
    let command = "gpool submit --gpus 1 --time 1h --hold -- sh -c &#39;echo &#39;\\&#39;&#39;";
    assert!(code == 200 && preview.contains(command), "{preview}");
    assert!(cluster.all_ids().is_empty(), "a preview submits nothing");
    let (code, head, _) = browser.post("/submit", &own, &submit);
    assert!(code == 303 && head.contains("location: /jobs/1\r\n"), "{head}");
    assert_eq!(cluster.job("1").state.as_str(), "held");
    // Releasing is done at once, cancelling after a question.
    let act = |more: &str| browser.post("/act", &own, &format!("csrf={token}&job=1&{more}"));
    assert_eq!(act("verb=release").0, 303);
    cluster.until_is("1", "succeeded");
    let id = cluster.sh(&["--gpus", "1", "--time", "1h"], "sleep 1000");
    cluster.until_is(&id, "running");
    let act = |more: &str| browser.post("/act", &own, &format!("csrf={token}&job={id}&{more}"));
    let (code, _, question) = act("verb=cancel");
    assert!(code == 200 && question.contains("Cancel 1 job?"), "{question}");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    assert_eq!(act("verb=cancel&sure=yes").0, 303);
    cluster.until_is(&id, "cancelled");
    for (wrong, code) in [("verb=signal", 404), ("verb=hold", 409)] {
        assert_eq!(act(wrong).0, code, "{wrong}");
    }
    let log = browser.get("/jobs/1/output?stream=stdout");
    assert!(log.0 == 200 && log.1.contains("<b>\n"), "{log:?}");
    assert_eq!(browser.cluster.all_ids().len(), 2);
}

#[test]
fn a_short_job_does_not_show_what_the_job_before_it_did() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let browser = Browser::new(&cluster);
    let before = cluster.sh(&["--gpus", "1", "--time", "1h"], "sleep 1000");
    cluster.until_is(&before, "running");
    cluster.gpool(["sim", "utilize", "0", "97"]).ok();
    until_so("its use is charted", || {
        browser.get(&format!("/jobs/{before}")).1.contains("97 %|97 %")
    });
    // It is idle, and both are in the same minutes.
    cluster.gpool(["cancel", "--yes", &before]).ok();
    cluster.until_ended(&before);
    cluster.gpool(["sim", "utilize", "0", "0"]).ok();
    let short = cluster.sh(&["--gpus", "1", "--time", "1m"], "sleep 4");
    cluster.until_ended(&short);
    cluster.gpool(["sim", "utilize", "0", "99"]).ok();
    let after = cluster.sh(&["--gpus", "1", "--time", "1h"], "sleep 1000");
    until_so("the use of the next job is charted", || {
        browser.get(&format!("/jobs/{after}")).1.contains("99 %|99 %")
    });
    let page = browser.get(&format!("/jobs/{short}")).1;
    let file = browser.get(&format!("/jobs/{short}/gpus.csv")).1;
    let report = cluster.gpool(["report", &short, "-o", "html"]).ok();
    for text in [&page, &report] {
        assert!(!text.contains("97 %") && !text.contains("99 %"), "{text}");
    }
    let used = |line: &str| line.split(',').nth(2).unwrap().to_owned();
    let foreign: Vec<&str> = file.lines().skip(1).filter(|line| used(line) != "0.000").collect();
    assert!(foreign.is_empty(), "{file}");
    assert!(!page.contains("after the end"), "{page}");
}

#[test]
fn an_ended_job_runs_again_and_the_form_takes_variables() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let browser = Browser::new(&cluster);
    let (own, token) = browser.own();
    let form = format!("csrf={token}&command=echo+%24COLOR&time=1m&variables=COLOR%3Dred%0D%0A");
    let (code, head, _) = browser.post("/submit", &own, &form);
    assert!(code == 303 && head.contains("location: /jobs/1\r\n"), "{head}");
    cluster.until_is("1", "succeeded");
    let (code, head, _) = browser.post("/retry", &own, &format!("csrf={token}&job=1"));
    assert!(code == 303 && head.contains("location: /jobs/2\r\n"), "{head}");
    cluster.until_is("2", "succeeded");
    for job in ["1", "2"] {
        assert_eq!(cluster.gpool(["logs", job]).out, "red\n");
    }
    let wrong = form.replace("COLOR%3Dred", "COLOR");
    let (code, _, page) = browser.post("/submit", &own, &wrong);
    assert!(code == 400 && page.contains("is not NAME=VALUE"), "{page}");
    assert_eq!(browser.post("/retry", &own, &format!("csrf={token}&job=9")).0, 404);
    assert_eq!(browser.post("/retry", &own, "csrf=0&job=1").0, 403);
}

#[test]
fn each_page_has_contents_and_the_queue_pages_and_filters() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let browser = Browser::new(&cluster);
    let pages = "/ /queue /projects /nodes /usage /reservations /admin /docs /submit";
    for path in pages.split(' ') {
        let (code, page) = browser.get(path);
        assert!(code == 200 && page.contains("aria-current=\"page\"") != (path == "/submit"));
    }
    let array = cluster.sh(&["--gpus", "1", "--time", "1h", "--array", "0-2"], "sleep 1000");
    let of_array = || browser.get(&format!("/jobs/{array}")).1;
    until_so("two elements run", || of_array().contains("2 running"));
    assert!(of_array().contains("3 elements"));
    let hold = ["--hold", "--time", "1m", "--name", "a<b & c"];
    (0..110).for_each(|_| drop(cluster.sh(&hold, "true")));
    let rows = |page: &str| page.matches("<th scope=\"row\">").count();
    let first = browser.get("/queue?state=pending%2Cwaiting%2Cheld&name=a%3Cb+%26+c").1;
    assert_eq!(rows(&first), 100);
    let (links, _) = first.split_once("\" rel=\"next\"").unwrap();
    let (_, next) = links.rsplit_once("href=\"/queue?").unwrap();
    let next = next.replace("&#38;", "&");
    assert!(next.contains("name=a%3Cb+%26+c"), "{next}");
    assert_eq!(rows(&browser.get(&format!("/queue?{next}")).1), 10);
    assert_eq!(rows(&browser.get("/queue?name=none").1), 0);
    assert_eq!(rows(&browser.get("/queue?state=held").1), 100, "a state that no choice has");
}

#[test]
fn a_wrong_address_is_refused_with_what_it_can_be() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let browser = Browser::new(&cluster);
    let job = cluster.sh(&["--hold", "--array", "0-2"], "true");
    let job = |query: &str| format!("/jobs/{job}?{query}");
    let wrong = [
        ("/queue?state=runing", "did you mean running?"),
        ("/queue?usr=ana", "did you mean \"user\"?"),
        ("/queue?sort=gpu", "did you mean \"gpus\"?"),
        ("/?range=1y", "valid are 1h, 24h, 7d, 30d"),
        ("/?sort=colour", "valid are gpu, model, state, use, memory, power, user"),
        ("/usage?by=usr", "did you mean \"user\"?"),
        ("/usage?by=user&sort=guaranteed", "is not a column of this page"),
        ("/usage?only=usr=ana", "write project, user"),
        ("/cost?range=year", "valid are 1h, 24h, 7d, 30d, month"),
        ("/nodes?sort=-pwer", "did you mean \"power\"?"),
        ("/projects?sort=x", "valid are name, held"),
        ("/admin?sort=x", "valid are user, running"),
        ("/reservations?sort=x", "valid are name, state"),
        ("/whatif?ahead=99h", "valid are 2h, 8h, 24h, 48h"),
        (&job("stream=stdot"), "did you mean \"stdout\"?"),
        (&job("from=x"), "from"),
        (&job("sort=x"), "valid are id, name"),
        ("/docs?x=1", "remove what follows the question mark"),
    ];
    for (path, text) in wrong {
        let (code, page) = browser.get(path);
        assert!(code == 400 && page.replace("&#34;", "\"").contains(text), "{path}: {code} {page}");
        assert!(page.contains("aria-label=\"Pages\""), "the navigation is there: {page}");
    }
}
