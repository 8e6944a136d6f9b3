//! Access over the network: certificates, tokens, sessions of browsers, and requests that another
//! site or a stolen token must not be able to make.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gpool_client::remote::fingerprint;
use gpool_client::{Address, Client, Error, LogQuery, Remote, Trust};
use gpool_model::{Caller, Owner};
use gpool_wire::{JobCreate, MapUser, Scope, TokenCreate};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::limits::SHORT;
use crate::rig::{ANA, OWNER, Rig, me, raw_answer, user_name};

/// A server on the network, and how its authority proves it.
pub struct Network {
    pub rig: Rig,
    pub port: u16,
    authority: Vec<u8>,
}

impl Network {
    pub fn new() -> Self {
        let mut rig = Rig::new();
        let port = rig.network();
        Self::at(rig, port)
    }

    fn at(rig: Rig, port: u16) -> Self {
        let address = Address::read(&format!("127.0.0.1:{port}")).unwrap();
        let authority = address.certificates().unwrap().pop().unwrap();
        Self { rig, port, authority }
    }

    /// Creates a token for a user; returns its ID and its secret.
    pub fn token(&mut self, uid: u32, scope: Scope, user: Option<&str>) -> (String, String) {
        let name = "test".to_owned();
        let user = user.map(str::to_owned);
        let asked = TokenCreate { name, scope, expires: None, user };
        let made = self.rig.client(uid).create_token(&asked).unwrap();
        (made.token.id, made.secret)
    }

    pub fn client(&self, token: &str) -> Client {
        self.client_at("127.0.0.1", token)
    }

    fn client_at(&self, host: &str, token: &str) -> Client {
        let address = Address::read(&format!("https://{host}:{}", self.port)).unwrap();
        let trust = Trust::pinned(&self.authority);
        Client::remote(Remote::new(address, token.to_owned(), trust))
    }

    /// Sends a raw request.
    fn send(&self, request: &str) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.clone().into()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::new(config), name).unwrap();
        let tcp = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut stream = StreamOwned::new(tls, tcp);
        stream.write_all(request.as_bytes()).unwrap();
        stream
    }

    /// Sends a raw request; returns status, headers in lower case, and body.
    pub fn raw(&self, request: &str) -> (u16, String, String) {
        raw_answer(self.send(request))
    }

    /// A request with more header lines, each ended.
    pub fn ask(&self, first: &str, headers: &str, body: &str) -> (u16, String, String) {
        self.raw(&format!(
            "{first} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\n{headers}\
             content-length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        ))
    }

    /// A form that a page of the server sends.
    fn form(&self, path: &str, cookie: &str, form: &str) -> (u16, String, String) {
        let headers = format!(
            "origin: https://127.0.0.1:{}\r\ncookie: {cookie}\r\n\
             content-type: application/x-www-form-urlencoded\r\n",
            self.port
        );
        self.ask(&format!("POST {path}"), &headers, form)
    }

    /// Signs a browser in; returns its cookie.
    fn browser(&self, token: &str) -> String {
        let (status, head, body) = self.form("/login", "", &format!("token={token}"));
        assert_eq!(status, 303, "{body}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(cookie.starts_with("__host-gpool="), "{cookie}");
        for part in ["; path=/", "; httponly", "; samesite=strict", "; secure"] {
            assert!(cookie.contains(part), "{cookie}");
        }
        cookie.split(';').next().unwrap().replacen("__host-", "__Host-", 1)
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> String {
    result.unwrap_err().problem().code
}

fn job(program: &str) -> JobCreate {
    JobCreate { command: vec![program.to_owned()], ..JobCreate::default() }
}

#[test]
fn a_token_acts_as_its_user_and_jobs_go_to_their_home() {
    let mut net = Network::new();
    // Only the files of this process's user count as their job's output.
    let user = user_name(me());
    let (id, secret) = net.token(me(), Scope::User, None);
    let client = net.client(&secret);
    let me = client.me().unwrap();
    assert_eq!((me.user.as_deref(), me.scope, me.admin), (Some(user), Scope::User, false));
    assert_eq!(me.token, Some(id));
    let made = client.submit(&job("sleep"), None).unwrap();
    let home = format!("/home/{user}");
    assert_eq!(
        (made.user.as_str(), made.request.directory.as_deref()),
        (user, Some(home.as_str()))
    );
    net.rig.until("it runs", || client.job(&made.id).unwrap().state.as_str() == "running");
    let log = net.rig.log(&made.id, "stdout");
    std::fs::write(&log, "over the wire\n").unwrap();
    let mut text = String::new();
    let mut stream = client.logs(&made.id, &LogQuery::default()).unwrap();
    stream.read_to_string(&mut text).unwrap();
    assert_eq!(text, "over the wire\n");
}

#[test]
fn rights_of_admins_need_the_scope() {
    let mut net = Network::new();
    let (_, user) = net.token(OWNER, Scope::User, None);
    let (_, admin) = net.token(OWNER, Scope::Admin, None);
    assert!(!net.client(&user).me().unwrap().admin);
    assert!(net.client(&admin).me().unwrap().admin);
    assert_eq!(code(net.client(&user).dump()), "GP0532");
    assert!(net.client(&admin).dump().is_ok());
}

#[test]
fn wrong_revoked_and_foreign_tokens_are_refused() {
    let mut net = Network::new();
    let (id, secret) = net.token(ANA, Scope::User, None);
    let client = net.client(&secret);
    assert!(client.version().is_ok());
    assert_eq!(code(net.client("gp_wrong").version()), "GP0531");
    assert_eq!(code(net.client(&id).version()), "GP0531", "the ID is no secret");
    net.rig.client(ANA).revoke_token(&id).unwrap();
    assert_eq!(code(client.version()), "GP0531", "also on an open connection");
    let (status, head, _) = net.ask("GET /api/v1/jobs", "", "");
    assert_eq!(status, 401);
    assert!(head.contains("www-authenticate: bearer"), "{head}");
    let basic = "authorization: Basic cm9vdDo=\r\nx-forwarded-user: root\r\n";
    assert_eq!(net.ask("GET /api/v1/jobs", basic, "").0, 401);
}

#[test]
fn a_stream_ends_when_its_token_is_revoked() {
    let mut net = Network::new();
    let (id, secret) = net.token(me(), Scope::User, None);
    let client = net.client(&secret);
    let made = client.submit(&job("sleep"), None).unwrap();
    net.rig.until("it runs", || client.job(&made.id).unwrap().state.as_str() == "running");
    std::fs::write(net.rig.log(&made.id, "stdout"), "first\n").unwrap();
    let query = LogQuery { follow: true, ..LogQuery::default() };
    let mut stream = client.with_retries(std::time::Duration::ZERO).logs(&made.id, &query).unwrap();
    let mut first = [0; 6];
    stream.read_exact(&mut first).unwrap();
    net.rig.client(me()).revoke_token(&id).unwrap();
    let mut rest = Vec::new();
    // It ends in one way or the other, and does not go on.
    drop(stream.read_to_end(&mut rest));
    assert_eq!(rest, b"");
}

#[test]
fn a_stream_ends_when_its_user_loses_rights() {
    let mut net = Network::new();
    let (_, secret) = net.token(OWNER, Scope::User, Some("ana@lab.org"));
    let olga = net.rig.client(OWNER);
    let rule = |user: Option<&str>| MapUser { user: user.map(str::to_owned) };
    olga.map_user("ana@lab.org", &rule(Some("ana"))).unwrap();
    let mut stream = net.send(&format!(
        "GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nauthorization: Bearer {secret}\r\n\r\n",
        net.port
    ));
    let mut until = |end: &str| {
        let (mut text, mut byte) = (String::new(), [0]);
        while !text.ends_with(end) {
            stream.read_exact(&mut byte).unwrap();
            text.push(char::from(byte[0]));
        }
    };
    until("\r\n\r\n");
    // The rights of another user do not matter.
    olga.map_user("eve@lab.org", &rule(Some("ana"))).unwrap();
    olga.submit(&JobCreate { hold: true, ..job("true") }, None).unwrap();
    until("job_state");
    olga.map_user("ana@lab.org", &rule(None)).unwrap();
    // It ends in one way or the other.
    drop(stream.read_to_end(&mut Vec::new()));
}

/// The accounts of users change outside the server: it looks again while a request lasts.
#[test]
fn a_stream_ends_when_the_account_of_its_user_changes() {
    type Change = fn(&mut Caller);
    let changes: [Change; 3] = [
        |caller| caller.groups.clear(),
        |caller| caller.admin = false,
        |caller| caller.owner.user = Arc::from("another"),
    ];
    for change in changes {
        let (mut rig, is_changed) = (Rig::new(), Arc::new(AtomicBool::new(false)));
        let has_changed = is_changed.clone();
        let port = rig.network_of(SHORT, move |uid| {
            let owner = Owner { uid, gid: uid, user: Arc::from(user_name(uid)) };
            let mut caller = Caller::new(owner, uid == OWNER);
            caller.groups.insert(Arc::from("vision"));
            if has_changed.load(Ordering::SeqCst) {
                change(&mut caller);
            }
            caller
        });
        let mut net = Network::at(rig, port);
        let (_, secret) = net.token(OWNER, Scope::Admin, None);
        let mut stream = net.send(&format!(
            "GET /api/v1/events HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\
             authorization: Bearer {secret}\r\n\r\n"
        ));
        let mut first = [0];
        stream.read_exact(&mut first).unwrap();
        is_changed.store(true, Ordering::SeqCst);
        // It ends in one way or the other.
        drop(stream.read_to_end(&mut Vec::new()));
    }
}

#[test]
fn many_wrong_tokens_are_slowed_down_and_a_right_one_is_not() {
    let mut net = Network::new();
    let (_, secret) = net.token(ANA, Scope::Viewer, None);
    let wrong = "authorization: Bearer gp_wrong\r\n";
    let statuses: Vec<u16> = (0..15).map(|_| net.ask("GET /api/v1/me", wrong, "").0).collect();
    assert_eq!(statuses[..10], [401; 10]);
    assert_eq!(statuses.last(), Some(&429));
    assert!(net.client(&secret).version().is_ok());
}

#[test]
fn network_users_need_a_rule_to_submit() {
    let mut net = Network::new();
    let (_, secret) = net.token(OWNER, Scope::Admin, Some("ana@lab.org"));
    let client = net.client(&secret);
    let me = client.me().unwrap();
    assert_eq!((me.user, me.network_user.as_deref()), (None, Some("ana@lab.org")));
    assert!(client.version().is_ok());
    assert_eq!(code(client.submit(&job("true"), None)), "GP0533");
    let olga = net.rig.client(OWNER);
    let rule = |user: Option<&str>| MapUser { user: user.map(str::to_owned) };
    olga.map_user("ana@lab.org", &rule(Some("ana"))).unwrap();
    assert_eq!(client.submit(&job("true"), None).unwrap().user, "ana");
    assert!(!client.me().unwrap().admin, "the scope gives no rights that the user lacks");
    olga.map_user("ana@lab.org", &rule(None)).unwrap();
    assert_eq!(code(client.submit(&job("true"), None)), "GP0533");
}

#[test]
fn a_client_trusts_only_the_pinned_authority() {
    let mut net = Network::new();
    let (_, secret) = net.token(ANA, Scope::Viewer, None);
    let shown = net.client(&secret).authority().unwrap();
    assert_eq!(shown.fingerprint, fingerprint(&net.authority));
    let pem = shown.certificate.unwrap();
    assert_eq!(Trust::read(pem.as_bytes()).unwrap(), Trust::pinned(&net.authority));
    assert!(!pem.contains("PRIVATE"), "{pem}");
    let other = Network::new();
    let address = Address::read(&format!("127.0.0.1:{}", net.port)).unwrap();
    for trust in [Trust::pinned(&other.authority), Trust::System] {
        let remote = Remote::new(address.clone(), secret.clone(), trust);
        assert_eq!(code(Client::remote(remote).version()), "GP0311");
    }
    assert!(net.client_at("localhost", &secret).version().is_ok());
}

#[test]
fn the_authority_stays_and_its_key_is_private() {
    let folder = tempfile::tempdir().unwrap();
    let open = || gpool_listen::testing::Authority::open(folder.path()).unwrap();
    let first = open().pem().to_owned();
    assert_eq!(open().pem(), first);
    let path = folder.path().join("authority.pem");
    let about = path.metadata().unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&about) & 0o777, 0o600);
    std::fs::write(&path, "-----BEGIN").unwrap();
    assert!(gpool_listen::testing::Authority::open(folder.path()).is_err());
}

#[test]
fn without_a_token_there_is_only_the_wall_and_how_to_sign_in() {
    let net = Network::new();
    for (path, status) in [
        ("/wall", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/login", 200),
        ("/", 401),
        ("/queue", 401),
        ("/events", 401),
        ("/metrics", 401),
        ("/openapi.json", 401),
        ("/api/v1/version", 401),
        ("/api/v1/../../metrics", 401),
    ] {
        let (found, _, body) = net.ask(&format!("GET {path}"), "", "");
        assert_eq!(found, status, "{path}: {body}");
    }
    let (_, head, body) = net.ask("GET /", "", "");
    assert!(body.contains("gpool token create") && body.contains("action=\"/login\""), "{body}");
    assert!(
        head.contains("default-src 'none'") && head.contains("x-frame-options: deny"),
        "{head}"
    );
}

#[test]
fn requests_by_another_host_name_are_refused() {
    let mut net = Network::new();
    let (_, secret) = net.token(ANA, Scope::Viewer, None);
    for host in [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost:1@evil",
        "evil.example@127.0.0.1",
        "127.0.0.1:x",
        "127.0.0.1:99999",
        "",
    ] {
        for path in ["/wall", "/api/v1/version"] {
            let request = format!(
                "GET {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {secret}\r\n\
                 connection: close\r\n\r\n"
            );
            assert!(matches!(net.raw(&request).0, 400 | 421), "{host:?} {path}");
        }
    }
    let port = net.port;
    for (target, status) in [("evil.example", 421), ("127.0.0.1:1", 421), ("ana@127.0.0.1", 421)] {
        assert_eq!(net.ask(&format!("GET http://{target}/wall"), "", "").0, status, "{target}");
    }
    assert_eq!(net.ask(&format!("GET http://127.0.0.1:{port}/wall"), "", "").0, 200);
    assert_eq!(net.ask("GET /wall", "", "").0, 200);
}

#[test]
fn a_browser_signs_in_with_a_token_acts_and_signs_out() {
    let mut net = Network::new();
    let (id, secret) = net.token(ANA, Scope::User, None);
    let cookie = net.browser(&secret);
    let with = format!("cookie: {cookie}\r\n");
    let (status, _, page) = net.ask("GET /submit", &with, "");
    assert_eq!(status, 200, "{page}");
    assert!(!page.contains(&secret));
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("csrf={csrf}&command=true&do=submit");
    assert_eq!(net.form("/submit", &cookie, "command=true&do=submit").0, 403, "without its token");
    let foreign = format!("origin: https://evil.example\r\n{with}");
    assert_eq!(net.ask("POST /submit", &foreign, &form).0, 403, "from another site");
    assert_eq!(net.ask("POST /submit", &with, &form).0, 403, "without an origin");
    assert_eq!(net.form("/submit", &cookie, &form).0, 303);
    assert_eq!(net.form("/logout", &cookie, &format!("csrf={csrf}")).0, 303);
    assert_eq!(net.ask("GET /queue", &with, "").0, 401);
    let again = format!("cookie: {}\r\n", net.browser(&secret));
    assert_eq!(net.ask("GET /queue", &again, "").0, 200);
    net.rig.client(ANA).revoke_token(&id).unwrap();
    assert_eq!(net.ask("GET /queue", &again, "").0, 401, "the session ends with its token");
}

#[test]
fn a_session_needs_a_valid_token_from_the_servers_own_page() {
    let mut net = Network::new();
    let (_, viewer) = net.token(ANA, Scope::Viewer, None);
    let (_, metrics) = net.token(ANA, Scope::Metrics, None);
    assert_eq!(net.form("/login", "", "token=gp_wrong").0, 401);
    assert_eq!(net.form("/login", "", &format!("token={metrics}")).0, 403);
    let foreign = "origin: https://evil.example\r\n";
    assert_eq!(net.ask("POST /login", foreign, &format!("token={viewer}")).0, 403);
    let cookie = net.browser(&viewer);
    let (_, _, page) = net.ask("GET /queue", &format!("cookie: {cookie}\r\n"), "");
    let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let (status, _, body) = net.form("/submit", &cookie, &format!("csrf={csrf}&command=true"));
    assert_eq!(status, 403, "a viewer submits nothing: {body}");
    assert!(body.contains("scope viewer"), "{body}");
    // The cookie is no token, and the token is no cookie.
    let bearer = format!("authorization: Bearer {}\r\n", cookie.split('=').nth(1).unwrap());
    assert_eq!(net.ask("GET /api/v1/me", &bearer, "").0, 401);
    let as_cookie = format!("cookie: __Host-gpool={viewer}\r\n");
    assert_eq!(net.ask("GET /queue", &as_cookie, "").0, 401);
    assert_eq!(net.ask("GET /api/v1/me", &format!("cookie: {cookie}\r\n"), "").0, 401);
}
