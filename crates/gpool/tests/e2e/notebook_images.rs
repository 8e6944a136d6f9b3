//! Notebooks in containers of a real engine.

use std::collections::BTreeSet;
use std::path::Path;

use crate::containers::Lab;
use crate::harness::until_so;
use crate::notebooks::{BIN, Tab, cookie, has_jupyter, notebook, parts};
use crate::web::{ask, port};

#[test]
fn a_web_server_of_an_image_opens_by_its_url() {
    let Some(lab) = Lab::new("sim:1xH100-80G") else { return };
    let web = lab.cluster.path("web");
    std::fs::create_dir_all(&web).unwrap();
    std::fs::write(web.join("index.html"), "hello from the image").unwrap();
    let mount = format!("{}:/web:ro", web.display());
    let flags = ["--gpus", "0.5", "--image", "tools:1", "--mount", &mount];
    let command = ["--", "busybox", "httpd", "-f", "-p", "127.0.0.1:{port}", "-h", "/web"];
    let (id, url) = notebook(&lab.cluster, &[&flags[..], &command].concat());
    let (host, path) = parts(&url);
    let port = port(&lab.cluster);
    let own = cookie(port, &host, &path);
    let (status, _, body) = ask(port, "GET /index.html", &host, &own);
    assert_eq!((status, body.as_str()), (200, "hello from the image"));
    let (status, ..) = ask(port, "GET /index.html", &host, "");
    assert_ne!(status, 200, "without the cookie");
    assert_eq!(lab.cluster.job(&id).state.as_str(), "running");
    let with = |more: &[&str]| {
        let words = [&["notebook", "--image", "tools:1"][..], more].concat();
        lab.cluster.gpool(words)
    };
    with(&["--ready", "/", "--", "httpd", "{port}"]).refused(2, &["--ready", "the port is open"]);
    with(&["--", "httpd", "{socket}"]).refused(2, &["{port}, not {socket}"]);
}

/// The container has the Python of this machine by mounts, so that no image of Jupyter is needed.
#[test]
fn jupyter_of_an_image_runs_cells_and_says_when_it_is_busy() {
    if !has_jupyter() {
        return;
    }
    let Some(lab) = Lab::new("sim:1xH100-80G") else { return };
    let home = Path::new(BIN).parent().unwrap().canonicalize().unwrap();
    let python = home.join("bin/python").canonicalize().unwrap();
    let prefix = python.parent().unwrap().parent().unwrap().to_owned();
    let folders = ["/usr", "/lib", "/lib64"].map(str::to_owned).into_iter();
    let own = [&home, &prefix].map(|path| path.display().to_string());
    // The prefix may be `/usr`.
    let folders: BTreeSet<String> = folders.chain(own).collect();
    let mounts: Vec<String> = folders.iter().map(|it| format!("{it}:{it}:ro")).collect();
    let jupyter = home.join("bin/jupyter-lab").display().to_string();
    let path = format!("PATH={}:/bin:/usr/bin", home.join("bin").display());
    let mut words = vec!["--gpus", "1", "--idle-after", "2s", "--image", "tools:1", "-e", &path];
    words.extend(mounts.iter().flat_map(|mount| ["--mount", mount]));
    words.extend(["--", &jupyter]);
    let (id, url) = notebook(&lab.cluster, &words);
    let mut tab = Tab::open(&lab.cluster, &url);
    assert_eq!(tab.run("import os; print(os.path.exists('/bin/busybox'))"), "True");
    tab.ask("begin", "import time\nwhile not os.path.exists('/tmp/gate'): time.sleep(0.05)");
    let said = |text: &str| lab.cluster.stdout_of(&id).contains(text);
    until_so("it says that it is busy", || said("\"busy\": true"));
    lab.cluster.gpool(["exec", &id, "--", "touch", "/tmp/gate"]).ok();
    assert_eq!(tab.ask("wait", ""), "");
    until_so("it says that it is no longer busy", || said("\"busy\": false"));
}
