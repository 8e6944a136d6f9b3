//! Jobs in containers of a real engine: podman with runc, and an image of busybox.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use gpool_model::job::JobState;

use crate::comfort::has;
use crate::harness::{Cluster, Gate, Running, is_root, kill_9, skip, until_so};
use crate::recovery::waits_at;

/// A cluster with podman, whose store is in the cluster's folder.
pub struct Lab {
    pub cluster: Cluster,
    podman: PathBuf,
}

/// The programs in the image; busybox acts by its name.
const TOOLS: &[&str] =
    &["sh", "cat", "echo", "env", "id", "pwd", "sleep", "touch", "head", "tr", "true", "ps"];

impl Lab {
    /// `None` where containers can't run, with the reason as text.
    pub fn new(devices: &str) -> Option<Self> {
        if !can_run(&["podman"]) {
            return None;
        }
        let cluster = Cluster::unstarted(&["--devices", devices]);
        let mut lab = Self { podman: wrapper(&cluster), cluster };
        let archive = rootfs(&lab.cluster);
        lab.podman(&["import", archive.to_str().unwrap(), "tools:1"]);
        let settings = lab.cluster.path("gpool.toml");
        let engine = format!("container_engine = {:?}\n", lab.podman.to_str().unwrap());
        std::fs::write(&settings, engine).unwrap();
        lab.cluster.variables = vec![("GPOOL_CONFIG".to_owned(), settings.display().to_string())];
        lab.cluster.up();
        let nodes = || lab.cluster.client().nodes().unwrap().items;
        until_so("the engine is found", || nodes()[0].container_engine.is_some());
        Some(lab)
    }

    fn podman(&self, words: &[&str]) -> String {
        let output = Command::new(&self.podman).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn containers(&self) -> String {
        self.podman(&["ps", "--all", "--format", "{{.Names}}"])
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // A store that podman does not use as a mount can be removed with the folder.
        drop(Command::new(&self.podman).args(["rm", "--all", "--force"]).output());
    }
}

/// An archive with the files of the image `tools:1`.
pub fn rootfs(cluster: &Cluster) -> PathBuf {
    let root = cluster.path("rootfs");
    for folder in ["bin", "tmp", "etc"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox")).unwrap();
    for tool in TOOLS {
        std::os::unix::fs::symlink("busybox", root.join("bin").join(tool)).unwrap();
    }
    let archive = cluster.path("rootfs.tar");
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(&root).arg("-cf").arg(&archive).arg(".");
    assert!(tar.status().unwrap().success());
    archive
}

/// A registry with that image as `tool:1`, and its host. It sends the layer once there is a file
/// `gate`, and may ask for a login.
pub fn registry(cluster: &Cluster, gate: &Path, login: Option<&str>) -> (Running, String) {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients/registry.py");
    let mut registry = Command::new("python3");
    registry.arg(script).arg(cluster.path("rootfs.tar")).arg(gate);
    let login = login.map(|login| format!("{login}\n").into_bytes());
    let registry = Running::start(&mut registry, login);
    until_so("the registry listens", || registry.said().contains('\n'));
    let host = format!("127.0.0.1:{}", registry.said().trim());
    (registry, host)
}

/// Whether containers of busybox can run here; if not, prints why.
pub fn can_run(programs: &[&str]) -> bool {
    if !is_root() {
        skip("only root runs containers here without further setup");
        return false;
    }
    let needed = programs.iter().chain(&["runc", "busybox", "python3"]);
    if let Some(missing) = needed.copied().find(|it| !has(it)) {
        skip(&format!("there is no {missing}"));
        return false;
    }
    let linked = Command::new("ldd").arg("/bin/busybox").output();
    if linked.is_ok_and(|it| it.status.success()) {
        skip("busybox needs libraries here; busybox-static has none");
        return false;
    }
    true
}

/// A program that is podman with a store, locks and settings of its own.
pub fn wrapper(cluster: &Cluster) -> PathBuf {
    let folder = cluster.path("podman");
    std::fs::create_dir_all(&folder).unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let settings = format!(
        "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
         [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\nruntime = \"runc\"\n\
         lock_type = \"file\"\ntmp_dir = {:?}\n",
        at("tmp")
    );
    std::fs::write(at("containers.conf"), settings).unwrap();
    let storage = format!(
        "[storage]\ndriver = \"vfs\"\nrunroot = {:?}\ngraphroot = {:?}\n",
        at("run"),
        at("root")
    );
    std::fs::write(at("storage.conf"), storage).unwrap();
    let registries = "[[registry]]\nlocation = \"127.0.0.1\"\ninsecure = true\n";
    std::fs::write(at("registries.conf"), registries).unwrap();
    let script = format!(
        "#!/bin/sh\nexport CONTAINERS_CONF={} CONTAINERS_STORAGE_CONF={}\n\
         export CONTAINERS_REGISTRIES_CONF={}\nexec {} \"$@\"\n",
        at("containers.conf"),
        at("storage.conf"),
        at("registries.conf"),
        "/usr/bin/podman"
    );
    let path = folder.join("podman");
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_job_runs_in_a_container_with_its_folder_variables_and_gpus() {
    let Some(lab) = Lab::new("sim:2xA100-80G") else { return };
    let cluster = &lab.cluster;
    assert!(cluster.gpool(["nodes", "-o", "wide"]).ok().contains("podman "));
    assert!(cluster.gpool(["doctor"]).out.contains("podman "));
    let data = cluster.path("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("in"), "from the node\n").unwrap();
    let mount = format!("{}:/data:ro", data.display());
    let gate = Gate::new(cluster, "work/gate");
    let line = format!(
        "echo in $(cat /data/in) at $(pwd) on $GPOOL_NODE with $GPOOL_GPUS; touch /data/out; \
         echo made > made; echo $TOKEN > token; {}; exit 7",
        gate.line()
    );
    let words = ["run", "--gpus", "1", "--image", "tools:1", "--mount", &mount];
    std::fs::write(cluster.work().join("secrets"), "TOKEN=not-for-all\n").unwrap();
    let words = words.into_iter().chain(["--env-file", "secrets", "--", "sh", "-c", &line]);
    let running = cluster.start(words);
    running.until_says("in from the node");
    // No value of a variable is in the list of processes.
    let all = Command::new("ps").args(["axww", "-o", "args"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&all.stdout).contains("not-for-all"));
    assert_eq!(cluster.gpool(["exec", "1", "--", "sh", "-c", "cat made"]).ok(), "made\n");
    gate.open();
    let ended = running.end();
    assert_eq!(ended.code, 7, "{ended:?}");
    let work = std::fs::canonicalize(cluster.work()).unwrap();
    assert_eq!(ended.out, format!("in from the node at {} on lab1 with 1\n", work.display()));
    assert!(ended.err.contains("Read-only file system"), "{ended:?}");
    assert_eq!(std::fs::read_to_string(work.join("token")).unwrap(), "not-for-all\n");
    assert_eq!(lab.containers(), "");

    let words =
        ["run", "--image", "tools:1", "--workdir", "/tmp", "--container-user", "65534:65534"];
    let ran = cluster.gpool(words.into_iter().chain(["--", "sh", "-c", "pwd; id -u"]));
    assert_eq!(ran.ok(), "/tmp\n65534\n");
    // A script runs under the shell of the image.
    std::fs::write(work.join("job.sh"), "#!/bin/sh\n# GPOOL --image tools:1\necho script $1\n")
        .unwrap();
    let id = cluster.submit(["job.sh", "word"]);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "script word\n");
}

#[test]
fn containers_end_with_their_jobs_and_outlive_agents() {
    let Some(mut lab) = Lab::new("sim:2xA100-80G") else { return };
    let image = |line: &str| -> Vec<String> {
        let words = ["--gpus", "1", "--grace", "1s", "--image", "tools:1", "--", "sh", "-c", line];
        words.map(str::to_owned).to_vec()
    };
    // It ignores the request to end, so it is killed.
    let stubborn = lab.cluster.submit(image("trap '' TERM; echo begun; while :; do sleep 1; done"));
    until_so("it has begun", || lab.cluster.gpool(["logs", &stubborn]).out == "begun\n");
    lab.cluster.gpool(["cancel", &stubborn]).ok();
    assert_eq!(lab.cluster.until_ended(&stubborn).state, JobState::Cancelled);
    assert_eq!(lab.containers(), "");

    // Its shepherd dies, and the container with it.
    let orphan = lab.cluster.submit(image("echo begun; sleep 1000"));
    until_so("it has begun", || lab.cluster.gpool(["logs", &orphan]).out == "begun\n");
    kill_9(lab.cluster.shepherd(&orphan));
    assert_eq!(lab.cluster.until_ended(&orphan).state, JobState::Lost);
    assert_eq!(lab.containers(), "");

    // The client of the engine dies.
    let cut = lab.cluster.submit(image("echo begun; sleep 1000"));
    until_so("it has begun", || lab.cluster.gpool(["logs", &cut]).out == "begun\n");
    let shepherd = lab.cluster.shepherd(&cut);
    let children = Command::new("pgrep").args(["-P", &shepherd.to_string(), "podman"]).output();
    let children = String::from_utf8(children.unwrap().stdout).unwrap();
    assert!(!children.trim().is_empty(), "the shepherd has no client");
    children.lines().for_each(|pid| kill_9(pid.parse().unwrap()));
    assert_eq!(lab.cluster.until_ended(&cut).run.signal, Some(9));
    assert_eq!(lab.containers(), "");

    // A pause stops the processes in the container; afterwards they go on where they were.
    let line = "while [ ! -e stop ]; do echo x >> count; sleep 0.02; done";
    let paused = lab.cluster.submit(image(line));
    let work = lab.cluster.work();
    let size = || std::fs::metadata(work.join("count")).map_or(0, |it| it.len());
    until_so("it writes", || size() > 3);
    lab.cluster.gpool(["pause", &paused]).ok();
    lab.cluster.until_is(&paused, "paused");
    let before = size();
    for _ in 0..3 {
        let other = lab.cluster.sh(&["--gpus", "1"], "sleep 0.1");
        assert_eq!(lab.cluster.until_ended(&other).run.exit_code, Some(0));
    }
    assert_eq!(size(), before);
    lab.cluster.gpool(["resume", &paused]).ok();
    until_so("it writes again", || size() > before);
    std::fs::write(work.join("stop"), "").unwrap();
    assert_eq!(lab.cluster.until_ended(&paused).run.exit_code, Some(0));

    // The server with its agent dies; the next one takes the job over.
    let gate = Gate::new(&lab.cluster, "work/gate");
    let line = waits_at(&gate);
    let kept = lab.cluster.submit(image(&line));
    until_so("it has begun", || lab.cluster.gpool(["logs", &kept]).out == "begun\n");
    lab.cluster.kill();
    lab.cluster.up();
    assert_eq!(lab.cluster.job(&kept).state, JobState::Running);
    gate.open();
    assert_eq!(lab.cluster.until_ended(&kept).run.exit_code, Some(5));
    assert_eq!(lab.cluster.gpool(["logs", &kept]).ok(), "begun\ndone\n");
    assert_eq!(lab.containers(), "");
}

#[test]
fn an_image_is_pulled_before_the_job_holds_gpus() {
    let Some(lab) = Lab::new("sim:1xA100-80G") else { return };
    let cluster = &lab.cluster;
    let never = ["--gpus", "1", "--image", "other:1", "--pull", "never", "--", "true"];
    let held = cluster.submit(never);
    cluster.until_is(&held, "held");
    assert!(cluster.why(&held).contains("it does not have other:1"), "{}", cluster.why(&held));

    let gate = cluster.path("pull-gate");
    let (registry, host) = registry(cluster, &gate, None);
    let image = format!("{host}/tool:1");

    let words = ["--gpus", "1", "--image", &image, "--", "echo", "pulled"];
    let id = cluster.submit(words);
    cluster.until_is(&id, "waiting");
    assert!(cluster.why(&id).contains(&format!("lab1 pulls its image {image}")));
    // Its GPU is free for another job meanwhile.
    let other = cluster.sh(&["--gpus", "1"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
    std::fs::write(&gate, "").unwrap();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(cluster.gpool(["logs", &id]).ok(), "pulled\n");
    // An image that the registry does not have.
    let image = image.replace("/tool:1", "/nothing:1");
    let held = cluster.submit(["--image", &image, "--", "true"]);
    cluster.until_is(&held, "held");
    assert!(cluster.why(&held).contains(&format!("it can't pull {image}")));
    registry.signal(rustix::process::Signal::KILL);
    registry.end();
}

#[test]
fn without_an_engine_an_image_is_refused() {
    let cluster = Cluster::unstarted(&["--devices", "none"]);
    let settings = cluster.path("gpool.toml");
    std::fs::write(&settings, "container_engine = \"none\"\n").unwrap();
    let mut cluster = cluster;
    cluster.variables = vec![("GPOOL_CONFIG".to_owned(), settings.display().to_string())];
    cluster.up();
    cluster.gpool(["submit", "--image", "x", "--", "true"]).refused(4, &["GP0419"]);
    // A program that is no engine is named.
    std::fs::write(cluster.path("gpool.toml"), "container_engine = \"/bin/true\"\n").unwrap();
    cluster.down(&[]);
    cluster.up();
    let doctor = || cluster.gpool(["doctor"]).out;
    until_so("the node says why", || doctor().contains("/bin/true --version names none of"));
    cluster.gpool(["submit", "--mount", "/a:/b", "--", "true"]).refused(2, &["needs an image"]);
    cluster
        .gpool(["submit", "--image", "x", "--mount", "a", "--", "true"])
        .refused(2, &["no mount"]);
    let words = ["submit", "--allow-unsatisfiable", "--image", "x", "--", "true"];
    let id = cluster.gpool(words).ok().trim().to_owned();
    assert!(cluster.why(&id).contains("container"), "{}", cluster.why(&id));
}

#[test]
fn an_uploaded_folder_is_the_working_directory_in_the_container() {
    let Some(lab) = Lab::new("none") else { return };
    let project = lab.cluster.work().join("project");
    std::fs::create_dir_all(&project).unwrap();
    std::fs::write(project.join("in"), "41\n").unwrap();
    let line = "test \"$(pwd)\" = \"$GPOOL_WORK_DIR\" && cat in && cat in > out";
    let flags = ["run", "--image", "tools:1", "--upload", "project", "--download", "out"];
    let ran = lab.cluster.gpool(flags.into_iter().chain(["--", "sh", "-c", line]));
    assert_eq!((ran.code, ran.out.as_str()), (0, "41\n"), "{ran:?}");
    assert_eq!(std::fs::read_to_string(lab.cluster.work().join("out")).unwrap(), "41\n");
}
