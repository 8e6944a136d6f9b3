//! A laptop with the program and nothing else: it signs in to a server on the network, and its
//! commands work there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;

use crate::harness::{Cluster, Ran, Running, program};

struct Laptop<'c> {
    cluster: &'c Cluster,
    home: PathBuf,
    address: String,
}

impl<'c> Laptop<'c> {
    fn new(cluster: &'c Cluster) -> Self {
        let home = cluster.path("laptop");
        std::fs::create_dir_all(&home).unwrap();
        let authority = cluster.gpool(["ca", "show", "--json"]).json();
        let address = format!("https://{}", authority["listen"].as_str().unwrap());
        Self { cluster, home, address }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.env_clear().env("HOME", &self.home).env("XDG_RUNTIME_DIR", &self.home);
        command.env("PATH", "/usr/bin:/bin").env("TZ", "UTC").env("LAPTOP_ONLY", "1");
        command.args(words).current_dir(&self.home);
        command
    }

    fn gpool(&self, words: &[&str]) -> Ran {
        Running::start(&mut self.command(words), None).end()
    }

    /// Creates a token on the server; writes its secret into a file, and returns its ID.
    fn token(&self, flags: &[&str]) -> String {
        let create = ["token", "create", "--json"].iter().chain(flags);
        let made = self.cluster.gpool(create).json();
        std::fs::write(self.home.join("token"), made["secret"].as_str().unwrap()).unwrap();
        made["id"].as_str().unwrap().to_owned()
    }

    fn login(&self, flags: &[&str]) -> Ran {
        let words = ["login", &self.address, "--token-file", "token", "--name", "lab"];
        self.gpool(&[&words, flags].concat())
    }
}

fn cluster() -> Cluster {
    Cluster::with(&["--devices", "sim:2xH100-80G", "--listen", "127.0.0.1:0"])
}

#[test]
fn a_laptop_signs_in_and_its_commands_work_on_the_server() {
    let cluster = cluster();
    let laptop = Laptop::new(&cluster);
    let id = laptop.token(&[]);
    let shown = cluster.gpool(["ca", "show"]).ok();
    let fingerprint = shown.trim();
    laptop.login(&[]).refused(5, &["GP0311", fingerprint]);
    laptop.login(&["--fingerprint", "SHA256:other"]).refused(5, &["GP0311", fingerprint]);
    laptop.login(&["--fingerprint", fingerprint]).ok();
    let contexts = laptop.home.join(".config/gpool/contexts.toml");
    assert_eq!(contexts.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let list = laptop.gpool(&["context", "list"]).ok();
    assert!(list.contains("lab") && list.contains(&laptop.address), "{list}");

    // The script travels; the environment of the laptop does not, except by -e.
    let line = "#!/bin/sh\necho \"in $(pwd) for $USER with ${LAPTOP_ONLY:-none} $SEED $1\"\n";
    std::fs::write(laptop.home.join("train.sh"), line).unwrap();
    let job = laptop.gpool(&["submit", "-q", "--cwd", "/", "-e", "SEED=7", "train.sh", "x"]).ok();
    let job = job.trim();
    laptop.gpool(&["wait", job]).ok();
    let user = cluster.job(job).user;
    let output = laptop.gpool(&["logs", job]).ok();
    assert_eq!(output, format!("in / for {user} with none 7 x\n"));
    let named = laptop.gpool(&["submit", "--cwd", "here", "train.sh"]);
    named.refused(2, &["must be absolute", "GP0216"]);

    // Followed output, and programs in the job with their input.
    let run = laptop.gpool(&["run", "--cwd", "/", "--", "sh", "-c", "echo one; exit 3"]);
    assert_eq!((run.out.as_str(), run.code), ("one\n", 3), "{run:?}");
    let job = laptop.gpool(&["submit", "-q", "--cwd", "/", "--", "sleep", "1000"]).ok();
    let job = job.trim();
    cluster.until_is(job, "running");
    let words = ["exec", job, "--", "cat"];
    let read = Running::start(&mut laptop.command(&words), Some(b"typed\n".repeat(20_000))).end();
    assert_eq!((read.out.len(), read.code), (120_000, 0), "{}", read.err);
    assert!(laptop.gpool(&["queue", "-o", "name"]).ok().contains(job));
    laptop.gpool(&["cancel", job]).ok();
    cluster.until_ended(job);
    let audit = cluster.gpool(["audit", "--object", &format!("jobs/{job}")]).ok();
    assert!(audit.contains("127.0.0.1") && audit.contains("POST /jobs/cancel"), "{audit}");

    for words in [&["down"][..], &["doctor"], &["sim", "heal", "0"], &["debug", "dump"]] {
        laptop.gpool(words).refused(2, &["GP0312", "--context local"]);
    }
    let url = laptop.gpool(&["open", "--print"]).ok();
    assert_eq!(url, format!("{}/\n", laptop.address));
    laptop.gpool(&["--context", "local", "queue"]).refused(3, &["GP0301"]);
    laptop.gpool(&["--context", "other", "queue"]).refused(2, &["GP0310"]);

    cluster.gpool(["token", "revoke", &id]).ok();
    laptop.gpool(&["queue"]).refused(5, &["GP0531", "gpool login"]);
    laptop.gpool(&["context", "remove", "lab"]).ok();
    assert!(!std::fs::read_to_string(contexts).unwrap().contains("gp_"));
}

#[test]
fn a_viewer_reads_and_changes_nothing_and_an_admin_changes_the_cluster() {
    let cluster = cluster();
    let laptop = Laptop::new(&cluster);
    let pem = laptop.home.join("ca.pem");
    cluster.gpool(["ca".as_ref(), "export".as_ref(), pem.as_os_str()]).ok();
    laptop.token(&["--scope", "viewer"]);
    laptop.login(&["--ca", "ca.pem"]).ok();
    laptop.gpool(&["gpus"]).ok();
    laptop
        .gpool(&["drain", "lab1", "--reason", "x"])
        .refused(5, &["GP0532", "viewer", "--scope admin"]);
    let submit = laptop.gpool(&["submit", "--", "true"]);
    submit.refused(5, &["GP0532", "--scope user"]);
    laptop.token(&["--scope", "admin"]);
    laptop.login(&["--ca", "ca.pem"]).ok();
    laptop.gpool(&["drain", "lab1:1", "--reason", "a fan"]).ok();
    assert_eq!(cluster.gpu_state(1), "drained");
    laptop.gpool(&["token", "create"]).refused(5, &["GP0532"]);
}

#[test]
fn a_large_submission_and_its_refusal_both_arrive() {
    let cluster = cluster();
    let laptop = Laptop::new(&cluster);
    laptop.token(&[]);
    let shown = cluster.gpool(["ca", "show"]).ok();
    laptop.login(&["--fingerprint", shown.trim()]).ok();
    let line = "{\"command\":[\"true\"],\"directory\":\"/\",\"hold\":true}\n";
    let words = ["submit", "--cwd", "/", "--from-jsonl", "-"];
    let many = Running::start(&mut laptop.command(&words), Some(line.repeat(3_000).into())).end();
    assert_eq!(many.ok().lines().count(), 3_000);
    let bad = format!("{{\"commnd\": []}}\n{}", line.repeat(50_000));
    let bad = Running::start(&mut laptop.command(&words), Some(bad.into())).end();
    bad.refused(2, &["GP0103", "line 1"]);
}

#[test]
fn a_command_over_the_network_says_that_the_server_hangs() {
    let cluster = cluster();
    let laptop = Laptop::new(&cluster);
    laptop.token(&[]);
    let shown = cluster.gpool(["ca", "show"]).ok();
    laptop.login(&["--fingerprint", shown.trim()]).ok();
    cluster.signal_server(Signal::STOP);
    for words in [&["status"][..], &["submit", "--cwd", "/", "--", "true"]] {
        laptop.gpool(words).refused(3, &["GP0309", "does not answer", "network"]);
    }
    cluster.signal_server(Signal::CONT);
    laptop.gpool(&["status"]).ok();
}

/// A web server on the Unix socket of its first argument.
const ON_SOCKET: &str = "
import http.server, socketserver, sys
class Server(socketserver.UnixStreamServer):
    def get_request(self):
        return super().get_request()[0], ('local', 0)
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'a notebook')
Server(sys.argv[1], Handler).serve_forever()
";

#[test]
fn without_a_domain_a_laptop_opens_a_notebook_by_the_printed_command() {
    let cluster = cluster();
    let laptop = Laptop::new(&cluster);
    laptop.token(&[]);
    let fingerprint = cluster.gpool(["ca", "show"]).ok();
    laptop.login(&["--fingerprint", fingerprint.trim()]).ok();
    let script = cluster.path("web.py");
    std::fs::write(&script, ON_SOCKET).unwrap();
    let folder = program().parent().unwrap().display().to_string();
    let path = format!("PATH={folder}:/usr/bin:/bin");
    let script = script.display().to_string();
    let words = ["notebook", "--cwd", "/", "-e", &path, "--", "python3", &script, "{socket}"];
    let refused = laptop.gpool(&words);
    assert_ne!(refused.code, 0);
    assert!(refused.err.contains("notebook_domain"), "{refused:?}");
    assert!(refused.err.contains("then http://127.0.0.1:8888"), "{refused:?}");
    assert_eq!(cluster.job("1").state.as_str(), "running");
    let tip = refused.err.split("gpool forward 1 8888:").nth(1).expect("the command");
    let socket = tip.split_whitespace().next().unwrap();
    // Any free port, since the other one may be in use here.
    let mut forward = laptop.command(&["forward", "1", &format!("0:{socket}")]);
    let forward = Running::start(&mut forward, None);
    forward.until_says("http://127.0.0.1:");
    let said = forward.said();
    let address = said.split("http://").nth(1).unwrap().split_whitespace().next().unwrap();
    let curl = Command::new("curl").args(["-s", &format!("http://{address}/")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&curl.stdout), "a notebook", "{said}");
    cluster.gpool(["cancel", "1"]).ok();
    assert_eq!(forward.end().code, 0, "it ends with the job");
}
