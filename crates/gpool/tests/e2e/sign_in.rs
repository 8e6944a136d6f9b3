//! Sign-in at a real identity provider, npm's `oidc-provider`: with Chromium over the network and
//! on a loopback address, and from a command line.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{IpAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::attacks::asked_by_other;
use crate::harness::{Cluster, Ran, Running, is_root, program, skip, write_private};
use crate::web::{Browser, ask};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/oidc");

/// A provider, and a server that trusts it.
struct World {
    provider: Child,
    issuer: String,
    cluster: Cluster,
    address: String,
    /// The address of the dashboard on loopback.
    local: String,
}

impl World {
    fn new(settings: &str) -> Option<Self> {
        Self::with(settings, true)
    }

    /// The provider knows the address on the network, and the one on loopback if it is registered.
    fn with(settings: &str, is_registered: bool) -> Option<Self> {
        let needed = ["target/oidc/node", "target/browser/bin/python"];
        let needed = needed.map(|path| Path::new(ROOT).join(path));
        let chromium = PathBuf::from("/usr/bin/chromium");
        let missing = needed.iter().chain([&chromium]).find(|path| !path.exists());
        if let Some(missing) = missing {
            assert!(std::env::var_os("CI").is_none(), "{} is missing", missing.display());
            let what = format!("{} is missing; cargo xtask test installs it", missing.display());
            skip(&what);
            return None;
        }
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
        let [free, web] = listeners.each_ref().map(|it| it.local_addr().unwrap());
        drop(listeners);
        let (address, local) = (format!("https://{free}"), format!("http://{web}"));
        let mut redirects = vec![format!("{address}/login/callback")];
        redirects.extend(is_registered.then(|| format!("{local}/login/callback")));
        let mut cluster = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
        let groups = r#"{"ana": ["gpu-admins"], "bo": ["leads"], "nobody": ["vision"]}"#;
        std::fs::write(cluster.path("groups.json"), groups).unwrap();
        let mut command = Command::new(&needed[0]);
        command.args(["--input-type=module", "-"]).current_dir(Path::new(ROOT).join("target/oidc"));
        command.env("REDIRECTS", serde_json::to_string(&redirects).unwrap());
        command.env("GROUPS", cluster.path("groups.json"));
        command.stdin(File::open(Path::new(TESTS).join("provider.mjs")).unwrap());
        let mut provider = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut issuer = String::new();
        BufReader::new(provider.stdout.as_mut().unwrap()).read_line(&mut issuer).unwrap();
        let issuer = issuer.trim().to_owned();

        let secret = cluster.path("secret");
        write_private(&secret, "secret-of-gpool\n");
        let text = format!(
            "listen = \"{free}\"\nweb = \"{web}\"\noidc_issuer = \"{issuer}\"\n\
             oidc_client_id = \"gpool\"\noidc_client_secret_file = \"{}\"\n\
             oidc_scopes = [\"profile\", \"groups\"]\n{settings}\n",
            secret.display()
        );
        let config = cluster.path("gpool.toml");
        std::fs::write(&config, text).unwrap();
        cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
        cluster.up();
        Some(Self { provider, issuer, cluster, address, local })
    }

    /// The name of a provider's user on the server.
    fn name(&self, user: &str) -> String {
        format!("{user}@{}", self.issuer.trim_start_matches("http://"))
    }

    /// Acts as a user in a browser.
    fn browses(&self, what: &str, url: &str, user: &str) -> String {
        let python = Path::new(ROOT).join("target/browser/bin/python");
        let mut command = Command::new(python);
        command.arg(Path::new(TESTS).join("sign_in.py")).args([what, url, user]);
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn laptop(&self, words: &[&str]) -> Command {
        let home = self.cluster.path("laptop");
        std::fs::create_dir_all(&home).unwrap();
        let mut command = Command::new(program());
        command.env_clear().env("HOME", &home).env("XDG_RUNTIME_DIR", &home);
        command.env("PATH", "/usr/bin:/bin").args(words).current_dir(&home);
        command
    }

    fn gpool(&self, words: &[&str]) -> Ran {
        Running::start(&mut self.laptop(words), None).end()
    }

    /// Signs in from a command line; a browser confirms the code.
    fn signs_in(&self, user: &str) -> String {
        let (has_worked, output) = self.tries_to_sign_in(user);
        assert!(has_worked, "{output}");
        output
    }

    /// The same for a user that may be refused; whether it worked, and the output.
    fn tries_to_sign_in(&self, user: &str) -> (bool, String) {
        let shown = self.cluster.gpool(["ca", "show"]).ok();
        let words = ["login", &self.address, "--fingerprint", shown.trim(), "--name", "lab"];
        let mut login = self.laptop(&words).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(login.stderr.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        self.browses("code", &url, user);
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        (login.wait().unwrap().success(), rest)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.provider.kill();
        let _ = self.provider.wait();
    }
}

#[test]
fn a_browser_signs_in_and_an_admin_of_the_provider_may_change_the_cluster() {
    let Some(world) = World::new("oidc_admin_groups = [\"gpu-admins\"]") else { return };
    let page = world.browses("page", &world.address, "ana");
    assert!(page.contains(&format!("{}/\n", world.address)), "{page}");
    // No system user belongs to ana, so the page only shows.
    let me = world.signs_in("ana");
    assert!(me.contains(&world.name("ana")) && me.contains("scope admin"), "{me}");
    let refused = world.gpool(&["drain", "lab1", "--reason", "a fan"]);
    refused.refused(5, &["no system user belongs", "gpool user map"]);
    world.cluster.gpool(["user", "map", &world.name("ana"), "nobody"]).ok();
    world.gpool(&["drain", "lab1:1", "--reason", "a fan"]).ok();
    assert_eq!(world.cluster.gpu_state(1), "drained");

    // A user that is no admin there is none here.
    world.signs_in("bo");
    world.cluster.gpool(["user", "map", &world.name("bo"), "nobody"]).ok();
    world.gpool(&["undrain", "lab1:1"]).refused(5, &[]);
    world.gpool(&["gpus"]).ok();
}

#[test]
fn a_browser_signs_in_on_loopback_with_the_rights_of_its_token_until_it_is_revoked() {
    let Some(world) = World::new("") else { return };
    let shown = world.browses("page", &world.local, "ana");
    assert!(shown.contains(&world.name("ana")), "{shown}");
    let mut lines = shown.lines();
    let (url, cookies) = (lines.next().unwrap(), lines.next().unwrap());
    let rest = url.strip_prefix("http://").unwrap().trim_end_matches('/');
    let (host, port) = rest.split_once(':').unwrap();
    let port: u16 = port.parse().unwrap();
    // Browsers send a cookie of 127.0.0.1 to each server on this machine.
    assert!(host.ends_with(".localhost"), "{url}");
    let cookies: Vec<serde_json::Value> = serde_json::from_str(cookies).unwrap();
    let session = cookies.iter().find(|it| it["name"] == "gpool").unwrap();
    assert_eq!((&session["domain"], &session["sameSite"]), (&host.into(), &"Strict".into()));
    assert!(!cookies.iter().any(|it| it["name"] == "gpool-attempt"), "{cookies:?}");

    let cookie = format!("gpool={}", session["value"].as_str().unwrap());
    let (cluster, host) = (&world.cluster, host.to_owned());
    let browser = Browser { cluster, port, host, cookie };
    assert_eq!(browser.get("/queue").0, 200);
    let (headers, csrf) = browser.own();
    let form = format!("csrf={csrf}&command=true&cwd=%2F");
    let (code, _, page) = browser.post("/submit", &headers, &form);
    assert!(code == 403 && page.contains("no system user belongs"), "{code} {page}");
    let audit = cluster.gpool(["audit", "--json"]).json();
    let entries = audit["items"].as_array().unwrap();
    let refused = ["POST /jobs", "GP0533"].map(serde_json::Value::from);
    assert_eq!([&entries[0]["action"], &entries[0]["refused"]], refused.each_ref(), "{audit}");
    assert_eq!(entries[1]["action"], "sign in", "{audit}");
    // Names that end in .localhost have two addresses, and a browser takes either.
    let origin: IpAddr = entries[1]["origin"].as_str().unwrap().parse().unwrap();
    assert!(origin.is_loopback(), "{audit}");

    let tokens = cluster.gpool(["token", "list", "--json"]).json();
    let id = tokens["items"][0]["id"].as_str().unwrap();
    cluster.gpool(["token", "revoke", id]).ok();
    assert_eq!(browser.get("/queue").0, 401);
}

#[test]
fn the_loopback_page_says_when_the_provider_does_not_know_it() {
    let Some(world) = World::with("", false) else { return };
    let shown = world.browses("refused", &world.local, "ana");
    let redirect = format!("{}/login/callback", world.local);
    assert!(shown.contains("register this redirect address"), "{shown}");
    assert!(shown.contains(&redirect), "{shown}");
    // An answer that no browser here asked for begins no session.
    let port = world.local.rsplit_once(':').unwrap().1.parse().unwrap();
    let callback = "GET /login/callback?code=a&state=b&again=1";
    for host in ["127.0.0.1", "0123.localhost"] {
        let (code, head, _) = ask(port, callback, host, "gpool-attempt=b");
        assert!(code == 403 && !head.contains("set-cookie"), "{head}");
    }
    // The page on the network works.
    world.browses("page", &world.address, "ana");
}

#[test]
fn a_user_of_the_same_name_submits_and_groups_of_the_provider_open_projects() {
    let Some(world) = World::new("oidc_same_names = [\"nobody\", \"root\", \"65534\"]") else {
        return;
    };
    world.cluster.gpool(["project", "create", "vision", "--members", "@vision"]).ok();
    world.signs_in("nobody");
    let words = ["submit", "-q", "--cwd", "/", "--project", "vision", "--", "true"];
    let job = world.gpool(&words).ok();
    assert_eq!(world.cluster.job(job.trim()).user, "nobody");
    // A provider's user called root is not this machine's, and a number is no name.
    for name in ["root", "65534"] {
        world.signs_in(name);
        let words = ["submit", "--cwd", "/", "--", "true"];
        world.gpool(&words).refused(5, &["no system user belongs"]);
    }
    // The handle of a sign-in is a secret, and questions about it change nothing.
    let audit = world.cluster.gpool(["audit", "--json"]).json();
    let entries = audit["items"].as_array().unwrap();
    let signed_in: Vec<_> = entries.iter().filter(|it| it["action"] == "sign in").collect();
    assert_eq!(signed_in.len(), 3, "{audit}");
    assert!(signed_in[0]["origin"] == "127.0.0.1", "{audit}");
    assert!(!audit.to_string().contains("login/device"), "{audit}");
    let revoked = world.cluster.gpool(["token", "list", "--json"]).json();
    assert_eq!(revoked["items"].as_array().unwrap().len(), 3, "{revoked}");
}

#[test]
fn a_group_of_the_provider_manages_a_project_until_the_user_has_left_it() {
    let Some(world) = World::new("") else { return };
    let gpool = |words: &[&str]| world.cluster.gpool(words);
    gpool(&["project", "create", "nlp", "--admins", "@leads"]).ok();
    gpool(&["project", "create", "nlp/a", "--parent", "nlp"]).ok();
    gpool(&["user", "map", &world.name("bo"), "nobody"]).ok();
    let jobs = [(); 2].map(|()| world.cluster.sh(&["--project", "nlp/a"], "sleep 1000"));
    let other = world.cluster.sh(&[], "sleep 1000");
    world.signs_in("bo");
    world.gpool(&["project", "create", "nlp/b", "--parent", "nlp"]).ok();
    world.gpool(&["cancel", &jobs[0], "--yes"]).ok();
    world.gpool(&["cancel", &other, "--yes"]).refused(5, &["GP0501"]);

    // The next sign-in, anywhere, ends the role of earlier ones.
    std::fs::write(world.cluster.path("groups.json"), "{}").unwrap();
    world.browses("page", &world.local, "bo");
    world.gpool(&["cancel", &jobs[1], "--yes"]).refused(5, &["GP0501"]);
    world.gpool(&["project", "delete", "nlp/b"]).refused(5, &["GP0501"]);
    world.gpool(&["queue"]).ok();
}

#[test]
fn a_provider_that_is_away_signs_nobody_in() {
    let Some(mut world) = World::new("") else { return };
    world.provider.kill().unwrap();
    let shown = world.cluster.gpool(["ca", "show"]).ok();
    let words = ["login", &world.address, "--fingerprint", shown.trim(), "--name", "lab"];
    world.gpool(&words).refused(5, &["can't reach the identity provider", "GP0538"]);
}

/// Another user of the machine begins a sign-in, and makes another browser end it: cookies of
/// a host go to all its ports, so a server of that user can set them.
#[test]
fn a_sign_in_ends_only_in_a_browser_of_its_user() {
    if !is_root() {
        return skip("only root can act as another user");
    }
    let Some(world) = World::new("") else { return };
    let port: u16 = world.local.rsplit_once(':').unwrap().1.parse().unwrap();
    let begin = |host: &str| {
        format!("GET /login/provider HTTP/1.1\r\nhost: {host}:{port}\r\nconnection: close\r\n\r\n")
    };
    // No attempt begins at a name that every server of the machine shares.
    let line_of = |answer: &str, name: &str| {
        let found = answer.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("no {name} in {answer}")).to_owned()
    };
    // Nor at one that another user has chosen, or that was made for another user.
    let host_at = |host: &str| {
        let answer = asked_by_other(port, &begin(host));
        assert!(!answer.contains("set-cookie"), "{host}: {answer}");
        let there = line_of(&answer, "location: http://");
        there.strip_suffix(&format!(":{port}/login/provider")).expect("an address").to_owned()
    };
    let (_, head, _) = ask(port, "GET /login/provider", "127.0.0.1", "");
    let own = line_of(&head, "location: http://");
    let own = own.split(':').next().unwrap();
    let hosts = ["127.0.0.1", "5eed.localhost", own].map(host_at);
    assert!(hosts.iter().all(|host| host != own && host != "5eed.localhost"), "{hosts:?}");
    let host = hosts[0].as_str();
    let answer = asked_by_other(port, &begin(host));
    let line = |name: &str| line_of(&answer, name);
    let cookie = line("set-cookie: ");
    assert!(cookie.contains("SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let state = cookie.split_once('=').unwrap().1.to_owned();
    assert!(line("location: ").contains(&format!("state={state}")));

    // The provider's answer leads to the host of the sign-in, and there to its browser only.
    let callback = format!("GET /login/callback?code=stolen&state={state}");
    let (code, head, _) = ask(port, &callback, "127.0.0.1", "");
    let there = format!("http://{host}:{port}/login/callback?code=stolen&state={state}");
    assert!(
        code == 200 && head.contains(&format!("url={}", there.to_lowercase())),
        "{code} {head}"
    );
    assert_eq!(ask(port, &format!("{callback}&again=1"), host, "").0, 403, "without the cookie");
    let (code, head, page) = ask(port, &format!("{callback}&again=1"), host, &cookie);
    assert!(code == 403 && page.contains("start again"), "{code} {page}");
    assert!(!head.contains("set-cookie: gpool="), "{head}");
}

#[test]
fn a_name_is_bound_to_one_user_of_the_provider_and_never_taken_as_it_is() {
    let Some(world) = World::new("oidc_same_names = true") else { return };
    let gpool = |words: &[&str]| world.cluster.gpool(words);
    let victim = world.name("ana");
    world.signs_in("ana");
    gpool(&["user", "map", &victim, "nobody"]).ok();
    let refused = |user: &str, why: &str| {
        let (has_worked, output) = world.tries_to_sign_in(user);
        assert!(!has_worked && output.contains(why), "{user}: {output}");
    };
    // A name that has the form of a network user, another case, another user, invisible letters.
    refused(&victim, "has an @");
    refused("Ana", "another user");
    refused("2/ana", "another user");
    refused("an\u{200b}a", "ASCII letters");
    refused("an\u{430}", "ASCII letters");
    let tokens = gpool(&["token", "list", "--json"]).json();
    assert_eq!(tokens["items"].as_array().unwrap().len(), 1, "{tokens}");
    let object = format!("network-users/{victim}");
    let audit = gpool(&["audit", "--object", &object, "--json"]).json();
    let subjects: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["request"]["subject"].as_str())
        .collect();
    assert_eq!(subjects, ["2/ana"], "{audit}");
    let known = gpool(&["user", "map", "--json"]).json();
    assert_eq!(known["items"][0]["subject"], "ana", "{known}");

    // A system account of the same name is no person's.
    world.signs_in("nobody");
    world.gpool(&["submit", "--cwd", "/", "--", "true"]).refused(5, &["no system user belongs"]);

    // An admin gives the name to the other user, without anything of the first one.
    gpool(&["user", "forget", &victim]).ok();
    gpool(&["user", "forget", &victim]).refused(6, &["GP0608"]);
    world.signs_in("2/ana");
    world.gpool(&["submit", "--cwd", "/", "--", "true"]).refused(5, &["no system user belongs"]);
}
