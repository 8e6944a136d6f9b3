//! The dashboards and alert rules, with a real Prometheus that scrapes a real server.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use gpool::grafana::{ALERTS, PANELS, RULES};
use gpool_model::xid;
use serde_json::Value;

use crate::harness::{Cluster, skip, until, until_so};

const TESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grafana/alerts.yml");

/// A Prometheus that ends with the test.
struct Prometheus {
    child: Child,
    port: u16,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    fn start(folder: &Path, server: &str) -> Self {
        let port = free_port();
        let config = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files: [{RULES}]\n\
             scrape_configs:\n- job_name: gpool\n  static_configs: [{{targets: ['{server}']}}]\n"
        );
        std::fs::write(folder.join("prometheus.yml"), config).unwrap();
        let log = std::fs::File::create(folder.join("prometheus.log")).unwrap();
        let child = Command::new("prometheus")
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        Self { child, port }
    }

    /// The result of a query; `None` while it does not answer.
    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let data = self.get(&format!("query?query={encoded}"))?;
        Some(data["result"].as_array().unwrap().clone())
    }

    /// The data of an answer of its API; `None` while it does not answer.
    fn get(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        // The older version sends no chunks.
        let request = format!("GET /api/v1/{path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        let body: Value = serde_json::from_str(body).ok()?;
        if body["error"] == "Service Unavailable" {
            return None;
        }
        assert_eq!(body["status"], "success", "{path}: {body}");
        Some(body["data"].clone())
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn is_there(program: &str) -> bool {
    let there = Command::new(program).arg("--version").output().is_ok();
    assert!(there || std::env::var_os("CI").is_none(), "{program} is missing");
    there
}

fn promtool(folder: &Path, arguments: &[&str]) {
    let ran = Command::new("promtool").args(arguments).current_dir(folder).output().unwrap();
    assert!(ran.status.success(), "{arguments:?}: {ran:?}");
}

#[test]
fn alert_rules_fire_on_their_conditions() {
    if !is_there("promtool") {
        return skip("promtool is missing; cargo xtask test installs it");
    }
    let cluster = Cluster::unstarted(&[]);
    let folder = cluster.path("monitoring");
    let written = cluster.gpool(["grafana", "export", "--folder", folder.to_str().unwrap()]).ok();
    assert!(written.contains("gpool-fleet.json\n") && written.contains(RULES), "{written}");
    let programs = xid::OF_PROGRAMS.map(|xid| xid.to_string()).join("|");
    assert!(ALERTS.iter().any(|it| it.query.contains(&programs)), "the same Xids as in the agent");
    promtool(&folder, &["check", "rules", RULES]);
    std::fs::copy(TESTS, folder.join("alerts.yml")).unwrap();
    promtool(&folder, &["test", "rules", "alerts.yml"]);
}

#[test]
fn every_panel_shows_data_of_a_cluster_with_jobs() {
    if !is_there("prometheus") {
        return skip("prometheus is missing; cargo xtask test installs it");
    }
    let mut cluster = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
    let server = format!("127.0.0.1:{}", free_port());
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, format!("web = \"{server}\"\n")).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), settings.display().to_string()));
    cluster.up();
    let devices = "[device.0]\nutilization_percent = 40\ntemperature_c = 61\npower_mw = 300000\n";
    std::fs::write(cluster.state().join("devices.toml"), devices).unwrap();
    let folder = cluster.path("monitoring");
    cluster.gpool(["grafana", "export", "--folder", folder.to_str().unwrap()]).ok();
    let prometheus = Prometheus::start(&folder, &server);

    let ended = cluster.sh(&["--gpus", "1"], "exit 3");
    cluster.until_ended(&ended);
    let runs = cluster.sh(&["--gpus", "1"], "sleep 1000");
    cluster.until_is(&runs, "running");
    cluster.sh(&["--gpus", "2"], "true");
    for panel in PANELS {
        for (query, legend) in panel.queries {
            let query = query.replace("$node", ".*").replace("$project", ".*");
            let query = query.replace("$__rate_interval", "1m");
            let look = || prometheus.query(&query).filter(|rows| !rows.is_empty());
            let rows = match panel.empty_when {
                Some(_) => until("an answer", || prometheus.query(&query)),
                None => until(&format!("{}: {query}", panel.title), look),
            };
            for label in labels_in(legend) {
                let has = |row: &Value| row["metric"][label].is_string();
                assert!(rows.iter().all(has), "{label} of {}: {rows:?}", panel.title);
            }
        }
    }
    until_so("the alert rules are evaluated", || {
        let data = prometheus.get("rules").unwrap();
        let rules = data["groups"][0]["rules"].as_array().unwrap().clone();
        rules.len() == ALERTS.len() && rules.iter().all(|rule| rule["health"] == "ok")
    });
}

/// The labels that a legend names: `{{node}} PCIe`.
fn labels_in(legend: &str) -> impl Iterator<Item = &str> {
    legend.split("{{").skip(1).filter_map(|rest| Some(rest.split_once("}}")?.0))
}
