//! Notebooks: web servers in jobs, which browsers reach through the server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

use crate::checkpoint::Rig;
use crate::harness::{Cluster, Ran, Running, program, skip, until_so};
use crate::users;
use crate::web::{Browser, ask, ask_with, port};

/// Where `cargo xtask test` installs JupyterLab, and Playwright.
pub const BIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/notebook/bin");
const BROWSER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/browser/bin/python");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/notebook");

/// Whether JupyterLab is installed; otherwise the test is skipped with a message.
pub fn has_jupyter() -> bool {
    let python = format!("{BIN}/python");
    if Path::new(&python).exists() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "{python} is missing");
    skip("JupyterLab is missing; cargo xtask test installs it");
    false
}

/// A command with the cluster's environment, and JupyterLab in `PATH`.
fn command(cluster: &Cluster, program: &str) -> Command {
    let mut command = Command::new(program);
    let own = cluster.command();
    command.env_clear().current_dir(cluster.work());
    command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let folder = cluster.path("jupyter");
    for name in ["JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"] {
        command.env(name, folder.join(name));
    }
    command.env("PATH", format!("{BIN}:/usr/bin:/bin")).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn gpool(cluster: &Cluster, words: &[&str]) -> Ran {
    let mut command = command(cluster, program().to_str().unwrap());
    Running::start(command.args(words), None).end()
}

/// Starts a notebook; returns its job and URL.
pub fn notebook(cluster: &Cluster, words: &[&str]) -> (String, String) {
    let started = gpool(cluster, &[&["notebook", "--json"], words].concat()).json();
    let text = |name: &str| started[name].as_str().unwrap().to_owned();
    (text("job"), text("url"))
}

/// The host and the path of a URL.
pub fn parts(url: &str) -> (String, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    (host.rsplit_once(':').unwrap().0.to_owned(), format!("/{path}"))
}

/// The echo server as a notebook; returns its job and URL.
fn echo(cluster: &Cluster, flags: &[&str]) -> (String, String) {
    let script = format!("{SCRIPTS}/echo.py");
    notebook(cluster, &[flags, &["--", "python3", &script, "{port}"]].concat())
}

/// Uses the link up; returns the cookie.
pub fn cookie(port: u16, host: &str, path: &str) -> String {
    let (status, head, _) = ask(port, &format!("GET {path}"), host, "");
    assert_eq!(status, 303, "{head}");
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly") && cookie.contains("samesite=lax"), "{cookie}");
    assert!(!cookie.contains("domain"), "{cookie}");
    cookie.split(';').next().unwrap().to_owned()
}

#[test]
fn a_notebook_opens_once_and_only_in_the_browser_that_opened_it() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let (id, url) = echo(&cluster, &["--ready", "/"]);
    assert_eq!(cluster.job(&id).request.kind_word(), "notebook");
    let (port, (host, path)) = (port(&cluster), parts(&url));
    assert_eq!(ask(port, "GET /", &host, "").0, 401);
    let own = cookie(port, &host, &path);
    let (status, _, body) = ask(port, &format!("GET {path}"), &host, "");
    assert!(status == 403 && body.contains("gpool notebook open"), "{body}");
    assert_eq!(ask(port, &format!("GET {path}"), &host, &own).0, 303, "that browser is in");

    // The job sees its own cookies and no others.
    let dashboard = Browser::new(&cluster);
    let cookies = format!("mine=1; {own}; {}", dashboard.cookie);
    let (status, head, body) = ask(port, "GET /a?b=c", &host, &cookies);
    let seen: Value = serde_json::from_str(&body).unwrap();
    assert_eq!((status, &seen["path"]), (200, &json!("/a?b=c")));
    let lower = body.to_lowercase();
    assert!(lower.contains("\"cookie\": \"mine=1\""), "{body}");
    assert!(lower.contains(&format!("\"host\": \"{host}:{port}\"")), "{body}");
    assert!(!body.contains(own.split_once('=').unwrap().1), "{body}");
    let set: Vec<&str> = head.lines().filter(|line| line.starts_with("set-cookie")).collect();
    assert_eq!(set, ["set-cookie: own=1; path=/"]);

    // Another notebook has another origin; each cookie is for one.
    let (_, other) = echo(&cluster, &[]);
    let (other_host, other_path) = parts(&other);
    assert_ne!(host, other_host);
    let others = cookie(port, &other_host, &other_path);
    assert_eq!(ask(port, "GET /", &other_host, &own).0, 401);
    assert_eq!(ask(port, "GET /", &host, &others).0, 401);
    assert_eq!(ask(port, "GET /", &host, &dashboard.cookie).0, 401);
    let secret = own.split_once('=').unwrap().1;
    assert_eq!(ask(port, "GET /queue", &dashboard.host, &format!("gpool={secret}")).0, 401);
    assert_eq!(ask(port, "GET /", &host, &format!("{own}x")).0, 401);
    let unknown = format!("nb-{}.localhost", "0".repeat(32));
    assert_eq!(ask(port, "GET /", &unknown, &own).0, 404);
    assert_eq!(ask(port, "GET /", "notebook.example.org", &own).0, 421);

    // Signing out ends the session, too.
    cluster.gpool(["sessions", "end"]).ok();
    assert_eq!(ask(port, "GET /", &host, &own).0, 401);
    let again = gpool(&cluster, &["notebook", "open", &id]).ok();
    let (same, path) = parts(again.trim());
    assert_eq!(same, host, "a job keeps its origin");
    let own = cookie(port, &host, &path);
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    let (status, _, body) = ask(port, "GET /", &host, &own);
    assert!(status == 409 && body.contains("ended"), "{status} {body}");
    gpool(&cluster, &["notebook", "open", &id]).refused(7, &["ended"]);
}

#[test]
fn pages_of_others_make_no_requests_with_the_cookie() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let (_, url) = echo(&cluster, &["--ready", "/"]);
    let (port, (host, path)) = (port(&cluster), parts(&url));
    let own = cookie(port, &host, &path);
    for (headers, expected) in [
        ("origin: http://evil.example\r\n", 403),
        ("origin: null\r\n", 403),
        ("sec-fetch-site: same-site\r\nsec-fetch-mode: no-cors\r\n", 403),
        (
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: iframe\r\n",
            403,
        ),
        (
            "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\nsec-fetch-dest: document\r\n",
            200,
        ),
        ("sec-fetch-site: same-origin\r\n", 200),
    ] {
        let end = format!("\r\n{headers}\r\n");
        assert_eq!(ask_with(port, "GET /", &host, &own, &end).0, expected, "{headers}");
    }
    let sent = "\r\nsec-fetch-site: same-site\r\nsec-fetch-mode: navigate\r\n\
                sec-fetch-dest: document\r\ncontent-length: 1\r\n\r\nx";
    assert_eq!(ask_with(port, "POST /", &host, &own, sent).0, 403);
}

#[test]
fn no_other_user_opens_a_notebook_not_even_an_admin() {
    let Some(cluster) = users::cluster() else { return };
    let words = ["notebook", "--json", "--", "python3", "-m", "http.server", "--bind", "127.0.0.1"];
    let of_user = users::as_user(&cluster, users::SOMEBODY, &[&words[..], &["{port}"]].concat());
    let started = of_user.json();
    let (id, url) = (started["job"].as_str().unwrap(), started["url"].as_str().unwrap());
    let stranger = users::as_user(&cluster, users::NOBODY, &["notebook", "open", id]);
    stranger.refused(5, &["GP0501"]);
    cluster.gpool(["notebook", "open", id]).refused(5, &["GP0501", "open pages of job"]);
    // The link in a browser of root: the kernel knows the user of the connection.
    let (port, (host, path)) = (port(&cluster), parts(url));
    let (status, _, body) = ask(port, &format!("GET {path}"), &host, "");
    assert!(status == 403 && body.contains("another user"), "{status} {body}");
}

#[test]
fn a_notebook_that_can_not_be_reached_is_refused_before_and_explained_after() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let bare = gpool(&cluster, &["notebook", "--", "python3", "-m", "http.server"]);
    bare.refused(2, &["needs {port} or {socket}"]);
    let script = "echo no such module >&2; exit 3 # {port}";
    let ended = gpool(&cluster, &["notebook", "--", "sh", "-c", script]);
    ended.refused(2, &["has ended before it answered", "gpool logs"]);
    let id = cluster.submit(["--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    gpool(&cluster, &["notebook", "open", &id]).refused(2, &["has opened no notebook"]);
}

/// A tab of a browser, driven by `tests/notebook/client.py`.
pub struct Tab {
    process: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Tab {
    pub fn open(cluster: &Cluster, url: &str) -> Self {
        let mut command = command(cluster, &format!("{BIN}/python"));
        command.arg(format!("{SCRIPTS}/client.py")).arg(url);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let commands = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        let mut tab = Self { process, commands, answers };
        assert_eq!(tab.answer(), "open");
        tab
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("the client has an answer")
    }

    pub fn ask(&mut self, word: &str, value: &str) -> Value {
        writeln!(self.commands, "{}", json!([word, value])).unwrap();
        self.answer()
    }

    pub fn run(&mut self, code: &str) -> String {
        self.ask("run", code).as_str().unwrap().to_owned()
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn jupyter_runs_cells_and_survives_the_death_of_a_kernel() {
    if !has_jupyter() {
        return;
    }
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let (id, url) = notebook(&cluster, &["--gpus", "0.5"]);
    let mut tab = Tab::open(&cluster, &url);
    assert_eq!(tab.run("print(6 * 7)"), "42");
    assert_eq!(tab.run("import os; print(os.environ['GPOOL_JOB_ID'])"), id);
    assert_eq!(tab.run("os.kill(os.getpid(), 9)"), "died");
    assert_eq!(tab.run("print('back')"), "back");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    // No other user of the node reaches it.
    let said = cluster.stdout_of(&id);
    let line: Value = serde_json::from_str(said.lines().next().unwrap()).unwrap();
    let socket = line["gpool"]["notebook"]["socket"].as_str().expect("it has a socket");
    assert_eq!(std::fs::metadata(socket).unwrap().permissions().mode() & 0o777, 0o600);
    cluster.kill();
    cluster.up();
    let again = gpool(&cluster, &["notebook", "open", &id]).ok();
    let mut tab = Tab::open(&cluster, again.trim());
    assert_eq!(tab.run("print('after a restart')"), "after a restart");
}

#[test]
fn a_silent_cell_keeps_a_notebook_from_being_idle_and_an_open_tab_does_not() {
    if !has_jupyter() {
        return;
    }
    let cluster = Cluster::new("sim:2xH100-80G");
    let flags = ["--gpus", "1", "--idle-after", "2s"];
    let (id, url) = notebook(&cluster, &flags);
    let kind = ["--kind", "notebook"];
    let other = cluster.sh(&[&flags[..], &kind].concat(), "sleep 1000");
    cluster.until_is(&other, "running");
    let mut tab = Tab::open(&cluster, &url);
    let gate = cluster.path("gate");
    let code = format!(
        "import os, time\nwhile not os.path.exists('{}'): time.sleep(0.05)",
        gate.display()
    );
    tab.ask("begin", &code);
    until_so("it says that it is busy", || cluster.stdout_of(&id).contains("\"busy\": true"));
    for device in ["0", "1"] {
        cluster.gpool(["sim", "utilize", device, "50"]).ok();
    }
    let uses = |device| cluster.gpu(device).utilization == Some(0.5);
    until_so("both are used", || uses(0) && uses(1));
    for device in ["0", "1"] {
        cluster.gpool(["sim", "utilize", device, "0"]).ok();
    }
    until_so("the other one is idle", || cluster.job(&other).run.idle_since.is_some());
    assert_eq!(cluster.job(&id).run.idle_since, None);
    std::fs::write(&gate, "").unwrap();
    assert_eq!(tab.ask("wait", ""), "");
    // The tab stays open, and asks as JupyterLab does.
    until_so("it is idle", || {
        assert_eq!(tab.ask("get", "/api/kernels"), 200);
        cluster.job(&id).run.idle_since.is_some()
    });
    assert_eq!(tab.run("print(1)"), "1");
    until_so("it is in use again", || cluster.job(&id).run.idle_since.is_none());
}

/// A cell that writes a text into GPU memory, and one that reads it.
const WRITE: &str = "
import ctypes
cuda = ctypes.CDLL('libcuda.so.1')
context, address = ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
      cuda.cuCtxSetCurrent(context),
      cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(1 << 30)),
      cuda.cuMemcpyHtoD_v2(address, b'kept', ctypes.c_size_t(4)))";
const READ: &str = "
text = ctypes.create_string_buffer(5)
print(cuda.cuMemcpyDtoH_v2(text, address, ctypes.c_size_t(4)), text.value.decode())";

#[test]
fn an_idle_notebook_frees_its_gpu_stays_open_and_its_next_cell_gets_it_back_in_queue_order() {
    if !has_jupyter() {
        return;
    }
    let Some(mut rig) = Rig::new("580.95.05") else { return };
    rig.cluster.gpool(["policy", "set", "idle=release"]).ok();
    let (id, url) = notebook(&rig.cluster, &["--gpus", "1", "--idle-after", "2s"]);
    let mut tab = Tab::open(&rig.cluster, &url);
    assert_eq!(tab.run(WRITE), "0 0 0 0 0");
    assert_eq!(tab.run(READ), "0 kept");
    rig.edit(|state| state.devices[0].utilization = Some(0));
    until_so("its GPU is released", || rig.cluster.job(&id).run.freed);
    // The notebook is there, and cells without GPU run.
    assert_eq!(tab.run("print('here')"), "here");
    assert_eq!(tab.ask("get", "/lab"), 200);
    let again = gpool(&rig.cluster, &["notebook", "open", &id]).ok();
    assert!(again.starts_with("http://nb-"), "{again}");
    assert!(rig.cluster.job(&id).run.freed);
    // Another job has the GPU when the next cell needs it.
    let other = rig.start(&["-g", "1"]);
    tab.ask("begin", READ);
    until_so("it waits", || rig.events(&id).contains("waits for its released GPUs"));
    assert_eq!(rig.cluster.job(&id).state.as_str(), "paused");
    rig.cluster.gpool(["cancel", &other.id]).ok();
    assert_eq!(tab.ask("wait", ""), "0 kept");
    rig.cluster.until_is(&id, "running");
    assert_eq!(rig.cluster.job(&id).run.attempt, 1);
}

#[test]
fn jupyterlab_works_in_a_browser() {
    let missing = [BROWSER, "/usr/bin/chromium"].into_iter().find(|it| !Path::new(it).exists());
    if let Some(missing) = missing {
        assert!(std::env::var_os("CI").is_none(), "{missing} is missing");
        return skip(&format!("{missing} is missing; cargo xtask test installs it"));
    }
    if !has_jupyter() {
        return;
    }
    let cluster = Cluster::new("sim:1xH100-80G");
    let (_, url) = notebook(&cluster, &["--gpus", "1"]);
    let dashboard = cluster.gpool(["open", "--print"]).ok();
    let mut pages = command(&cluster, BROWSER);
    pages.arg(format!("{SCRIPTS}/pages.py")).args([&*url, dashboard.trim()]);
    let ran = Running::start(&mut pages, None).end();
    assert_eq!(ran.ok(), "done\n");
}

/// Asks over TLS without names: the address is that of the listener.
const VISIT: &str = r#"
import http.client, json, ssl, sys
address, host, path, cookie = sys.argv[1:5]
context = ssl._create_unverified_context()
connection = http.client.HTTPSConnection(address, context=context)
connection.request("GET", path, headers={"Host": host, "Cookie": cookie})
answer = connection.getresponse()
print(json.dumps([answer.status, answer.getheader("Set-Cookie") or "", answer.read().decode()]))
"#;

#[test]
fn over_the_network_each_notebook_has_a_name_below_a_domain() {
    let mut cluster =
        Cluster::unstarted(&["--devices", "sim:1xH100-80G", "--listen", "127.0.0.1:0"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "notebook_domain = \"notebooks.example.org\"\n").unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), settings.display().to_string()));
    cluster.up();
    let authority = cluster.gpool(["ca", "show", "--json"]).json();
    let address = authority["listen"].as_str().unwrap().to_owned();
    let (id, url) = echo(&cluster, &[]);
    let rest = url.strip_prefix("https://nb-").expect("a name of its own");
    let (host, path) = rest.split_once('/').unwrap();
    assert!(host.contains(".notebooks.example.org:"), "{host}");
    let host = format!("nb-{host}");
    let visit = |host: &str, path: &str, cookie: &str| {
        let mut python = Command::new("python3");
        python.args(["-c", VISIT, &address, host, path, cookie]);
        let answer = Running::start(&mut python, None).end().json();
        let text = |ix: usize| answer[ix].as_str().unwrap().to_owned();
        (answer[0].as_u64().unwrap(), text(1), text(2))
    };
    assert_eq!(visit(&host, "/", "").0, 401);
    let (status, set, _) = visit(&host, &format!("/{path}"), "");
    assert_eq!(status, 303);
    assert!(set.starts_with("__Host-gpool-notebook=") && set.ends_with("; Secure"), "{set}");
    let own = set.split(';').next().unwrap();
    let (status, _, body) = visit(&host, "/x", own);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("\"x-forwarded-proto\": \"https\""), "{body}");
    assert_eq!(visit(&host, &format!("/{path}"), "").0, 403, "the link is over");
    // The dashboard is not there, and no page of the notebook is on the dashboard's host.
    assert!(visit(&host, "/queue", own).2.contains("\"path\": \"/queue\""));
    assert_eq!(visit(&address, "/x", own).0, 401);
    assert_eq!(visit("nb-0.notebooks.example.org", "/", own).0, 404);
    assert_eq!(visit("evil.example.org", "/", own).0, 421);
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    until_so("the job has ended there", || visit(&host, "/", own).0 == 409);
}
