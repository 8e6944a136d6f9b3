//! The image of the server under podman: machines join it, and its state is in its volume.

use std::path::PathBuf;
use std::process::Command;

use crate::containers::{can_run, wrapper};
use crate::harness::{Cluster, Hosts, Ran, Running, until_so};
use crate::packages::{NEW, built, path};

/// Podman with a store in the folder of a cluster; its containers end with it.
struct Podman {
    podman: PathBuf,
}

impl Podman {
    fn run(&self, words: &[&str]) -> Ran {
        Running::start(Command::new(&self.podman).args(words), None).end()
    }

    /// A command of gpool in the container.
    fn gpool(&self, words: &[&str]) -> Ran {
        self.run(&[&["exec", "gpool", "gpool"], words].concat())
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        self.run(&["rm", "--all", "--force"]);
    }
}

#[test]
fn machines_join_the_server_of_the_image_and_its_state_is_in_its_volume() {
    let Some(folder) = built() else { return };
    if !can_run(&["podman"]) {
        return;
    }
    let Some(hosts) = Hosts::new(&["s", "a"]) else { return };
    let cluster = Cluster::unstarted(&[]);
    let podman = Podman { podman: wrapper(&cluster) };
    let archive = path(folder, NEW, ".oci.tar");
    let loaded = podman.run(&["load", "--quiet", "--input", archive.to_str().unwrap()]).ok();
    let image = loaded.trim().rsplit_once(' ').unwrap().1;
    assert_eq!(image, format!("localhost/gpool:{NEW}"));

    let wrong = podman.run(&["run", "--rm", "--network=none", image, "up", "--lissten"]);
    wrong.refused(2, &["did you mean --listen?", "try  gpool up --help"]);
    let alone = podman.run(&["run", "--rm", "--network=none", image, "queue"]);
    alone.refused(3, &["no gpool server answers", "try  gpool up"]);

    let network = format!("--network=ns:{}", hosts.network_of("s"));
    let limits = ["--read-only", "--cap-drop=all", "--security-opt=no-new-privileges"];
    let health = ["--health-cmd", "[\"/usr/bin/gpool\", \"status\"]", "--health-interval=disable"];
    let flags = ["run", "--detach", "--name=gpool", "--volume=state:/var/lib/gpool", &network];
    podman.run(&[&flags[..], &limits, &health, &[image]].concat()).ok();
    let is_healthy = || podman.run(&["healthcheck", "run", "gpool"]).code == 0;
    until_so("the server answers", is_healthy);

    podman.gpool(&["drain", "server", "--reason", "no programs for jobs"]).ok();
    let token = podman.gpool(&["nodes", "add", "big2", "--json"]).json();
    let server = format!("https://{}:7443", hosts.address("s"));
    let mut agent = Command::new("nsenter");
    let own = cluster.command();
    let words = ["agent", "--devices", "sim:1xA100-80G", "--join", &server];
    agent.args(&hosts.on("a")[1..]).arg(own.get_program()).args(words);
    agent.arg(token["token"].as_str().unwrap()).env("GPOOL_STATE_DIR", cluster.path("big2"));
    let agent = Running::start(&mut agent, None);
    agent.until_says("connected to the server");

    let line = "echo on $GPOOL_NODE";
    let job = ["submit", "--gpus", "1", "--cwd", "/", "--", "sh", "-c", line];
    let id = podman.gpool(&job).ok().trim().to_owned();
    podman.gpool(&["wait", &id]).ok();
    assert_eq!(podman.gpool(&["logs", &id]).ok(), "on big2\n");

    podman.run(&["restart", "gpool"]).ok();
    until_so("the server answers", is_healthy);
    // The agent comes back a moment later.
    until_so("its output is there", || podman.gpool(&["logs", &id]).out == "on big2\n");
    let drained = podman.gpool(&["nodes"]).ok();
    assert!(drained.contains("no programs for jobs"), "{drained}");
    // A new container with the same volume, as after an upgrade of the image.
    podman.run(&["rm", "--force", "gpool"]).ok();
    podman.run(&[&flags[..], &limits, &health, &[image]].concat()).ok();
    until_so("the server answers", is_healthy);
    let again = podman.gpool(&job).ok().trim().to_owned();
    podman.gpool(&["wait", &again]).ok();
    until_so("its output is there", || podman.gpool(&["logs", &again]).out == "on big2\n");
    agent.signal(rustix::process::Signal::TERM);
    agent.end();
}
