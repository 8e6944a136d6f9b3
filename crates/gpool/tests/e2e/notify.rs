//! Messages about jobs: to an endpoint that accepts them, one that fails at first, one that hangs,
//! and across a crash of the server.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;
use serde_json::Value;

use crate::harness::{Cluster, Gate, until, until_so};

/// A received message.
#[derive(Debug, Clone)]
pub struct Got {
    headers: Vec<(String, String)>,
    body: String,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no {name} in {self:?}")).1
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

/// A receiver of messages.
pub struct Endpoint {
    pub url: String,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Endpoint {
    /// Answers the nth message with the status `answer(n)`; with `None`, never.
    pub fn new(answer: impl Fn(usize) -> Option<u16> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let got = Arc::new(Mutex::new(Vec::new()));
        let (kept, answer) = (Arc::clone(&got), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (kept, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                std::thread::spawn(move || serve(stream, &kept, &*answer));
            }
        });
        Self { url, got }
    }

    pub fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap().clone()
    }

    pub fn until_got(&self, n: usize) -> Vec<Got> {
        until(&format!("{n} messages came"), || Some(self.got()).filter(|got| got.len() >= n))
    }
}

fn serve(mut stream: TcpStream, kept: &Mutex<Vec<Got>>, answer: &dyn Fn(usize) -> Option<u16>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut lines = Vec::new();
    let is_whole = loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            break false;
        }
        if line.trim().is_empty() {
            break true;
        }
        lines.push(line.trim().to_owned());
    };
    let header = |line: &String| {
        let (name, value) = line.split_once(": ")?;
        Some((name.to_ascii_lowercase(), value.to_owned()))
    };
    let headers: Vec<_> = lines.iter().filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length");
    // The sender may be killed while it sends.
    let length = length.and_then(|(_, n)| n.parse().ok()).filter(|_| is_whole);
    let Some(length) = length else { return };
    let mut body = vec![0; length];
    if reader.read_exact(&mut body).is_err() {
        return;
    }
    let n = {
        let mut kept = kept.lock().unwrap();
        kept.push(Got { headers, body: String::from_utf8(body).unwrap() });
        kept.len()
    };
    match answer(n) {
        Some(status) => {
            let _ = write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
        }
        // Holds the connection until the sender closes it.
        None => drop(stream.read(&mut [0])),
    }
}

#[test]
fn an_end_is_notified_once_signed_and_without_secrets() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let endpoint = Endpoint::new(|_| Some(204));
    let rule = format!("done,fail@{}?token=hidden", endpoint.url);
    let flags = ["-J", "train", "-e", "TOKEN=secret-value", "--notify", &rule];
    let id = cluster.sh(&flags, "exit 3");
    let got = endpoint.until_got(1).remove(0);
    let message = got.json();
    assert_eq!(message["type"], "job.failed");
    assert_eq!((&message["data"]["id"], &message["data"]["exit_code"]), (&id.into(), &3.into()));
    assert_eq!((&message["apiVersion"], &message["attempt"]), (&"gpool/v1".into(), &1.into()));
    assert!(!got.body.contains("secret-value") && !got.body.contains("exit 3"), "{}", got.body);
    // The check that a receiver would make.
    let secret = cluster.gpool(["notify", "--secret"]).ok();
    let key = STANDARD.decode(secret.trim().strip_prefix("whsec_").unwrap()).unwrap();
    let [id, at] = ["webhook-id", "webhook-timestamp"].map(|name| got.header(name));
    let signed = format!("{id}.{at}.{}", got.body);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), signed.as_bytes());
    assert_eq!(got.header("webhook-signature"), format!("v1,{}", STANDARD.encode(tag.as_ref())));
    assert_eq!(message["id"], id);
    until_so("it is taken", || cluster.client().status().unwrap().notifications.taken == 1);
    assert_eq!(endpoint.got().len(), 1);
    assert!(!cluster.gpool(["show", "1"]).ok().contains("hidden"));
    assert!(!cluster.log().contains("hidden"));
}

#[test]
fn a_failed_message_is_sent_again_after_a_crash_with_the_same_id() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let endpoint = Endpoint::new(|n| Some(if n == 1 { 500 } else { 200 }));
    let rule = format!("done@{}", endpoint.url);
    let id = cluster.sh(&["--notify", &rule], "true");
    cluster.until_is(&id, "succeeded");
    until("the failure is noted", || {
        let waiting = cluster.client().notifications().unwrap().items;
        waiting.into_iter().find(|it| it.why.as_deref() == Some("it answers 500"))
    });
    cluster.kill();
    cluster.up();
    let got = endpoint.until_got(2);
    assert_eq!(got[0].header("webhook-id"), got[1].header("webhook-id"));
    assert_eq!((&got[0].json()["attempt"], &got[1].json()["attempt"]), (&1.into(), &2.into()));
    until_so("it is taken", || cluster.client().notifications().unwrap().items.is_empty());
    cluster.kill();
    cluster.up();
    assert_eq!(endpoint.got().len(), 2, "accepted messages are not repeated");
}

#[test]
fn a_hung_or_missing_endpoint_does_not_delay_others() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let hangs = Endpoint::new(|_| None);
    let quick = Endpoint::new(|_| Some(200));
    for _ in 0..5 {
        cluster.sh(&["--notify", &format!("end@{}", hangs.url)], "true");
    }
    // No process listens on that port.
    cluster.sh(&["--notify", "end@http://127.0.0.1:1/x"], "true");
    let id = cluster.sh(&["--notify", &format!("start,done@{}", quick.url)], "true");
    let kinds: Vec<Value> =
        quick.until_got(2).iter().map(|got| got.json()["type"].clone()).collect();
    assert!(kinds.contains(&"job.running".into()) && kinds.contains(&"job.succeeded".into()));
    cluster.until_is(&id, "succeeded");
    let waiting = || cluster.client().status().unwrap().notifications.waiting;
    until_so("the others still wait", || waiting() == 6);
    let list = cluster.gpool(["notify"]).ok();
    assert!(list.contains("http://127.0.0.1:1") && list.contains("6 waiting"), "{list}");
    assert!(cluster.gpool(["status"]).ok().contains("6 waiting"));
    // The failed endpoint is named with the error.
    until_so("it has failed", || {
        let found = cluster.gpool(["doctor", "--json"]).out;
        let found: Value = serde_json::from_str(&found).unwrap();
        let items = found["items"].as_array().unwrap();
        let probe = items.iter().find(|probe| probe["what"] == "notifications").unwrap();
        let text = probe["found"].as_str().unwrap();
        probe["verdict"] == "less"
            && text.contains("6 waiting")
            && text.contains("http://127.0.0.1:1: 1 message, ")
    });
}

#[test]
fn notifications_can_be_set_later_and_invalid_ones_are_refused() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let endpoint = Endpoint::new(|_| Some(200));
    let gate = Gate::new(&cluster, "gate");
    let id = cluster.sh(&[], &gate.line());
    cluster.until_is(&id, "running");
    for (rule, words) in [
        ("done", "has no address"),
        ("dnoe@http://x/", "write done@"),
        ("done@ftp://x/", "http or https"),
        ("done@http:///x", "has no host"),
        ("done@http://u:p@x/", "user or password"),
        ("done@http://x:0/", "invalid port"),
        ("done@http://x/#y", "fragment"),
    ] {
        cluster.gpool(["notify", &id, rule]).refused(2, &[words]);
        cluster.gpool(["submit", "--notify", rule, "--", "true"]).refused(2, &[words]);
    }
    cluster.gpool(["notify", &id]).refused(2, &["addresses are missing"]);
    cluster.gpool(["notify", "99", "none"]).refused(6, &[]);
    cluster.gpool(["notify", &id, &format!("done@{}", endpoint.url)]).ok();
    assert!(cluster.gpool(["show", &id]).ok().contains("tells"));
    gate.open();
    endpoint.until_got(1);
    cluster.gpool(["notify", &id, "none"]).refused(7, &["ended"]);
}

/// A cluster with this script as its sendmail; `$MAIL` is the cluster's file `mail`.
fn with_sendmail(script: Option<&str>) -> Cluster {
    use std::os::unix::fs::PermissionsExt;
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let program = cluster.path("sendmail");
    let named = match script {
        Some(script) => {
            let kept = cluster.path("mail").display().to_string();
            std::fs::write(&program, format!("#!/bin/sh\nMAIL={kept}\n{script}\n")).unwrap();
            std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
            program.display().to_string()
        }
        None => "none".to_owned(),
    };
    let config = cluster.path("gpool.toml");
    let text = format!("sendmail = \"{named}\"\nmail_from = \"gpool@lab.example\"\n");
    std::fs::write(&config, text).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    cluster.up();
    cluster
}

#[test]
fn mail_is_handed_to_sendmail_with_the_facts_of_the_job() {
    let cluster = with_sendmail(Some("{ echo \"$@\"; cat; } >> $MAIL.new; mv $MAIL.new $MAIL"));
    let flags = ["-J", "train", "-e", "TOKEN=secret", "--notify", "fail@mailto:ana@example.org"];
    let id = cluster.sh(&flags, "exit 3");
    let mail = until("mail came", || std::fs::read_to_string(cluster.path("mail")).ok());
    for words in [
        "-i -f gpool@lab.example -- ana@example.org\n",
        "Subject: gpool: job 1 \"train\" failed, exit 3\r\n",
        "To: ana@example.org\r\n",
        "exit code  3\r\n",
        "gpool logs 1\r\n",
    ] {
        assert!(mail.contains(words), "{words}: {mail}");
    }
    assert!(!mail.contains("secret"), "{mail}");
    until_so("it is taken", || cluster.client().status().unwrap().notifications.taken == 1);
    assert!(cluster.gpool(["show", &id]).ok().contains("fail@mailto:ana@example.org"));
    for address in ["", "ana", "-oQ/tmp@x", "a@b@c", "a b@x", "a@-x", "a..b@x", "a@x,b@x"] {
        let rule = format!("done@mailto:{address}");
        let words = ["submit", "--notify", &rule, "--", "true"];
        cluster.gpool(words).refused(2, &["not a mail address", "mailto:ana@example.org"]);
    }
}

#[test]
fn flags_of_other_schedulers_ask_for_mail() {
    let cluster = with_sendmail(Some("exit 75"));
    let notify = |words: &[&str]| {
        let ran = cluster.gpool([&["shim"], words].concat());
        assert_eq!(ran.code, 0, "{ran:?}");
        let id = ran.out.split_whitespace().nth(3).unwrap();
        (cluster.job(id).request.notify, ran.err)
    };
    let sbatch = |flags: &[&str]| notify(&[&["sbatch", "--hold", "--wrap=true"], flags].concat());
    let user = "--mail-user=ana@example.org";
    let (rules, said) = sbatch(&["--mail-type=END,TIME_LIMIT_90,TIME_LIMIT_80", user]);
    assert_eq!(rules, ["done,fail,cancel,near_limit@mailto:ana@example.org"]);
    assert!(said.contains("ignored: --mail-type=TIME_LIMIT_80"), "{said}");
    let (rules, said) = sbatch(&["--mail-type=ALL", "--mail-user", "ana"]);
    assert_eq!(rules, ["start,done,fail,cancel@mailto:ana@localhost"]);
    assert!(!said.contains("ignored") && !said.contains("can't send mail"), "{said}");
    assert!(sbatch(&["--mail-type=NONE", user]).0.is_empty());
    assert!(sbatch(&[user]).0.is_empty(), "Slurm sends none either");
    cluster
        .gpool(["shim", "sbatch", "--mail-type=END", "--mail-user=a\nb@c", "--wrap=true"])
        .refused(2, &["not a mail address"]);
    // One value in the script, the other on the command line.
    let script = "#!/bin/sh\n#SBATCH --mail-user=ana@example.org --mail-type=FAIL\ntrue\n";
    std::fs::write(cluster.work().join("job.sh"), script).unwrap();
    let script = |flags: &[&str]| notify(&[&["sbatch", "--hold"], flags, &["job.sh"]].concat()).0;
    assert_eq!(script(&["--mail-type=BEGIN"]), ["start@mailto:ana@example.org"]);
    assert_eq!(script(&["--mail-user=bob@example.org"]), ["fail@mailto:bob@example.org"]);
    assert!(script(&["--mail-type=NONE"]).is_empty());
    let gbatch = |flags: &[&str]| notify(&[&["gbatch"], flags, &["true"]].concat());
    let (rules, _) =
        gbatch(&["--notify-email=ana@example.org", "--notify-on=job_failed,job_timeout"]);
    assert_eq!(rules, ["fail,timeout@mailto:ana@example.org"]);
    assert_eq!(
        gbatch(&["--notify-email=ana@example.org"]).0,
        ["done,fail,cancel@mailto:ana@example.org"]
    );
}

#[test]
fn without_sendmail_a_submission_says_so_once() {
    let cluster = with_sendmail(None);
    let ran = cluster.gpool(["submit", "--notify", "end@mailto:ana@example.org", "--", "true"]);
    assert_eq!((ran.code, ran.err.matches("can't send mail").count()), (0, 1), "{ran:?}");
    let ran = cluster.gpool(["notify", "--user", "digest@mailto:ana@example.org"]);
    assert!(ran.code == 0 && ran.err.contains("can't send mail"), "{ran:?}");
    until("the failure is noted", || {
        let waiting = cluster.client().notifications().unwrap().items;
        waiting
            .into_iter()
            .find(|it| it.why.as_deref().is_some_and(|why| why.contains("no sendmail")))
    });
    let ran = cluster.gpool(["submit", "--", "true"]);
    assert!(!ran.err.contains("no mail"), "{ran:?}");
}

#[test]
fn a_chat_gets_a_line_of_text() {
    let endpoint = Endpoint::new(|_| Some(200));
    let cluster = Cluster::new("none");
    let rule = format!("fail@slack+{}", endpoint.url);
    let id = cluster.sh(&["-J", "<!channel> & co", "--notify", &rule], "exit 3");
    let got = endpoint.until_got(1);
    let said = format!(
        "gpool: job {id} \"&lt;!channel&gt; &amp; co\" failed, exit 3 · {} · project default · 0 GPUs",
        cluster.job(&id).user
    );
    assert_eq!(got[0].json(), serde_json::json!({ "text": said }));
    cluster.gpool(["submit", "--notify", "done@slack+mailto:a@b", "--", "true"]).refused(2, &[]);
    cluster.gpool(["submit", "--notify", "done@slack+ftp://a/b", "--", "true"]).refused(2, &[]);
}

#[test]
fn a_job_near_its_time_limit_is_reported_once_for_each_limit() {
    let mut cluster = Cluster::new("none");
    let endpoint = Endpoint::new(|_| Some(200));
    let gate = Gate::new(&cluster, "gate");
    let rule = format!("near_limit@{}", endpoint.url);
    let id = cluster.sh(&["--time", "20s", "--notify", &rule], &gate.line());
    let message = endpoint.until_got(1).remove(0).json();
    assert_eq!(message["type"], "job.near_limit");
    let data = &message["data"];
    assert_eq!((&data["state"], &data["time_limit_s"]), (&"running".into(), &20.0.into()));
    let left = data["time_left_s"].as_f64().unwrap();
    assert!(left > 0.0 && left <= 2.0, "{left}");
    cluster.gpool(["extend", &id, "--to", "21s"]).ok();
    assert_eq!(endpoint.until_got(2)[1].json()["data"]["time_limit_s"], 21.0);
    cluster.gpool(["extend", &id, "--to", "1h"]).ok();
    until_so("both are taken", || cluster.client().status().unwrap().notifications.taken == 2);
    let events = cluster.gpool(["events", &id]).ok();
    assert!(events.contains("left of its limit of 20s"), "{events}");
    cluster.kill();
    cluster.up();
    cluster.until_is(&id, "running");
    gate.open();
    cluster.until_is(&id, "succeeded");
    assert_eq!(endpoint.got().len(), 2);
}

#[test]
fn a_job_that_misses_its_forecast_is_reported_once() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let endpoint = Endpoint::new(|_| Some(200));
    let gate = Gate::new(&cluster, "gate");
    let flags = ["--gpus", "1", "--time", "10s", "--grace", "1s"];
    let first = cluster.sh(&flags, &gate.line());
    cluster.until_is(&first, "running");
    let rule = format!("late@{}", endpoint.url);
    let id = cluster.sh(&["--gpus", "1", "--time", "1m", "--notify", &rule], "true");
    let told = || cluster.client().forecast_state().unwrap().n_told;
    until_so("it has a forecast", || told() == 1);
    cluster.gpool(["extend", &first, "--to", "1h"]).ok();
    let message = endpoint.until_got(1).remove(0).json();
    assert_eq!((&message["type"], &message["data"]["id"]), (&"job.late".into(), &(&*id).into()));
    let late = &message["data"]["late"];
    for key in ["forecast_at", "forecast_p90", "new_p50", "reason"] {
        assert!(late[key].is_string(), "{key}: {late}");
    }
    assert!(late["new_p50"].as_str() > late["forecast_p90"].as_str(), "{late}");
    until_so("it is taken", || cluster.client().status().unwrap().notifications.taken == 1);
    let events = cluster.gpool(["events", &id]).ok();
    assert!(events.contains("did not start by ") && !events.contains("by gpool"), "{events}");
    cluster.kill();
    cluster.up();
    cluster.until_is(&id, "pending");
    gate.open();
    cluster.until_is(&id, "succeeded");
    assert_eq!(endpoint.got().len(), 1);
}
