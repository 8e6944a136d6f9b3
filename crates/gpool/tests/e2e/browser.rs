//! The dashboard in Chromium, driven by `tests/browser/pages.py`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use crate::harness::{Cluster, program, skip};

/// Where `cargo xtask test` installs Playwright.
const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/browser/bin/python");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/browser/pages.py");

#[test]
fn the_dashboard_works_in_a_browser() {
    let missing = [PYTHON, "/usr/bin/chromium"].into_iter().find(|it| !Path::new(it).exists());
    if let Some(missing) = missing {
        assert!(std::env::var_os("CI").is_none(), "{missing} is missing");
        return skip(&format!("{missing} is missing; cargo xtask test installs it"));
    }
    // The page on the wall finds the next server only at the same address.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut cluster = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, format!("web = \"{free}\"\n")).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), settings.display().to_string()));
    cluster.up();
    let script = cluster.command();
    let environment = script.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut run = std::process::Command::new(PYTHON)
        .args([SCRIPT, program().to_str().unwrap(), &format!("http://{free}")])
        .env_clear()
        .envs(environment)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(std::env::var_os("GPOOL_SCREENSHOTS"))
        .current_dir(cluster.work())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut done = run.stdin.take().unwrap();
    for line in BufReader::new(run.stdout.take().unwrap()).lines() {
        match line.unwrap().as_str() {
            "kill" => cluster.kill(),
            "up" => cluster.up(),
            other => println!("{other}"),
        }
        // A script that has failed reads no more.
        let _ = writeln!(done);
    }
    assert!(run.wait().unwrap().success());
}
