//! The store: one server at a time, damage that is detected and not overwritten, backups.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::disk::mount_at;
use crate::harness::{Cluster, Gate};

/// Checks that a server refuses to start on this cluster's folders with one of these words.
fn refuses_to_start(cluster: &Cluster, words: &[&str]) {
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("error:") && !ran.err.contains("panicked"), "{ran:?}");
    assert!(words.iter().any(|word| ran.err.contains(word)), "{words:?} not in {ran:?}");
}

#[test]
fn one_state_folder_has_one_server() {
    let cluster = Cluster::new("none");
    let id = cluster.submit(["--hold", "--", "true"]);
    let other = cluster.path("other.sock");
    let other = other.to_str().unwrap();
    let ran = cluster.gpool(["up", "--devices", "none", "--socket", other]);
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("error:") && ran.err.contains("in use by process"), "{ran:?}");
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none", "--socket", other]);
    assert_ne!(ran.code, 0, "{ran:?}");
    let pid = cluster.server_pid().to_string();
    assert!(ran.err.contains(&pid), "it names the process: {ran:?}");
    // Two servers can't have one socket either.
    let folder = cluster.path("other-state");
    let words = ["up", "--foreground", "--devices", "none", "--state-dir"];
    let ran = cluster.gpool(words.iter().copied().chain([folder.to_str().unwrap()]));
    assert_ne!(ran.code, 0, "{ran:?}");
    assert!(ran.err.contains("is already running"), "{ran:?}");
    assert_eq!(cluster.job(&id).state.as_str(), "held");
}

#[test]
fn a_damaged_store_is_refused_and_left_alone() {
    let mut cluster = Cluster::new("none");
    for _ in 0..50 {
        cluster.submit(["--hold", "--", "true"]);
    }
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
    let file = cluster.state().join("store.db");
    let whole = std::fs::read(&file).unwrap();
    assert!(whole.len() > 8192);
    let all_zero = vec![0; whole.len()];
    let garbage = vec![b'#'; whole.len()];
    let mut flipped = whole.clone();
    // At every occurrence: free pages still have old contents.
    for job in places(&whole, b"\"true\"") {
        flipped[job + 1] ^= 1;
    }
    assert!(flipped != whole);
    for (what, bytes) in [
        ("flipped bits", &flipped[..]),
        ("cut in half", &whole[..whole.len() / 2]),
        ("cut to nothing", &[][..]),
        ("zeros", &all_zero),
        ("garbage", &garbage),
    ] {
        std::fs::write(&file, bytes).unwrap();
        let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
        assert_eq!(ran.code, 1, "{what}: {ran:?}");
        assert!(ran.err.contains("error:") && !ran.err.contains("panicked"), "{what}: {ran:?}");
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "{what}: it was written to");
        let ran = cluster.gpool(["verify"]);
        assert_ne!(ran.code, 0, "{what}: {ran:?}");
    }
    // The file is missing, while other files show that it existed.
    std::fs::remove_file(&file).unwrap();
    refuses_to_start(&cluster, &["store", "mark"]);
    std::fs::write(&file, &whole).unwrap();
    cluster.up();
    assert_eq!(cluster.all_ids().len(), 50);
}

fn places<'a>(bytes: &'a [u8], needle: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let windows = bytes.windows(needle.len()).enumerate();
    windows.filter(move |(_, window)| *window == needle).map(|(at, _)| at)
}

#[test]
fn a_backup_is_made_while_it_runs_and_used_elsewhere() {
    let cluster = Cluster::new("none");
    let id = cluster.sh(&["-e", "KEPT=yes"], "echo $KEPT; exit 3");
    cluster.until_ended(&id);
    let held = cluster.submit(["--hold", "-e", "KEPT=yes", "--", "sh", "-c", "echo $KEPT"]);
    let file = cluster.path("backup");
    let path = file.to_str().unwrap();
    cluster.gpool(["backup", path]).ok();
    cluster.gpool(["backup", path]).refused(1, &["backup"]);
    assert!(cluster.gpool(["verify", path]).ok().contains("sound"));
    // Job numbers from after the backup must not be reused.
    let later: u64 = cluster.submit(["--hold", "--", "true"]).parse().unwrap();
    let mut other = Cluster::unstarted(&["--devices", "none"]);
    other.gpool(["restore", path]).ok();
    other.up();
    assert_eq!(other.job(&id).run.exit_code, Some(3));
    assert_eq!(other.job(&held).state.as_str(), "held");
    let next: u64 = other.submit(["--hold", "--", "true"]).parse().unwrap();
    assert!(next > later, "number {next} may have been given out before ({later})");
    other.gpool(["release", &held]).ok();
    other.until_ended(&held);
    assert_eq!(other.stdout_of(&held), "yes\n");
    // An existing store is not overwritten, whether in use or not.
    let ran = other.gpool(["restore", path]);
    ran.refused(1, &[other.state().to_str().unwrap()]);
    // A damaged backup is refused.
    let mut bytes = std::fs::read(&file).unwrap();
    for at in places(&bytes.clone(), b"\"default\"") {
        bytes[at + 1] ^= 1;
    }
    assert!(bytes != std::fs::read(&file).unwrap());
    std::fs::write(&file, bytes).unwrap();
    assert_ne!(cluster.gpool(["verify", path]).code, 0);
    let third = Cluster::unstarted(&[]);
    let ran = third.gpool(["restore", path]);
    ran.refused(1, &[path]);
    assert!(!third.state().join("store.db").exists());
}

#[test]
fn a_backup_has_tokens_rules_and_the_audit_log_and_a_restore_revives_no_token_unsaid() {
    let mut cluster = Cluster::new("none");
    let gpool = |cluster: &Cluster, words: &[&str]| cluster.gpool(words).ok();
    let create = ["token", "create", "--name", "laptop", "--json"];
    let made = cluster.gpool(create).json();
    let id = made["id"].as_str().unwrap().to_owned();
    gpool(&cluster, &["user", "map", "ana@lab.org", "nobody"]);
    let file = cluster.path("backup");
    let path = file.to_str().unwrap();
    gpool(&cluster, &["backup", path]);
    gpool(&cluster, &["token", "revoke", &id]);
    let bytes = std::fs::read(&file).unwrap();
    let secret = made["secret"].as_str().unwrap();
    assert!(places(&bytes, secret.as_bytes()).next().is_none(), "the secret is in the backup");

    // On a new machine.
    let mut other = Cluster::unstarted(&["--devices", "none"]);
    let ran = other.gpool(["restore", path]);
    assert!(ran.err.contains("one that was revoked since then is valid again"), "{}", ran.err);
    other.up();
    assert!(gpool(&other, &["token", "list"]).contains(&id));
    assert!(gpool(&other, &["user", "map"]).contains("ana@lab.org"));
    let audit = gpool(&other, &["audit"]);
    assert!(audit.contains("network-users/") && audit.contains(&id), "{audit}");
    let mode = |name: &str| {
        let found = other.state().join(name).metadata().unwrap();
        std::os::unix::fs::PermissionsExt::mode(&found.permissions()) & 0o777
    };
    assert_eq!((mode("access.json"), mode("audit")), (0o600, 0o700));

    // In the folder of the server that has revoked it.
    cluster.down(&[]).ok();
    let ran = cluster.gpool(["restore", "--put-aside", path]);
    assert!(ran.code == 0 && !ran.err.contains("token"), "{}", ran.err);
    cluster.up();
    assert!(!gpool(&cluster, &["token", "list"]).contains(&id));
    let audit = cluster.gpool(["audit", "--json"]).json();
    let revoked = audit["items"].as_array().unwrap().iter();
    let n = revoked.filter(|it| it["action"].as_str().unwrap().starts_with("DELETE")).count();
    assert_eq!(n, 1, "{audit}");

    // Damage of these parts is found, too.
    let mut bytes = bytes;
    let at = places(&bytes, b"ana@lab.org").next().expect("the rule is in the backup");
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let ran = cluster.gpool(["verify", path]);
    assert!(ran.code == 1 && ran.out.contains("checksum differs"), "{}{}", ran.out, ran.err);
}

#[test]
fn lost_commits_are_reported_and_repaired_by_a_backup() {
    let mut cluster = Cluster::new("none");
    let first = cluster.submit(["--hold", "--", "true"]);
    let file = cluster.path("backup");
    let backup = file.to_str().unwrap();
    cluster.gpool(["backup", backup]).ok();
    let second = cluster.submit(["--hold", "--", "true"]);
    cluster.kill();
    let log = cluster.state().join("store.db-wal");
    let whole = std::fs::read(&log).unwrap();
    // The last commit is cut off, as by a disk that confirmed a write too early.
    std::fs::write(&log, &whole[..whole.len() - 2000]).unwrap();
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    ran.refused(1, &["lost its last commits", "gpool restore", "GP02"]);
    let ran = cluster.gpool(["up", "--devices", "none"]);
    ran.refused(1, &["lost its last commits", "gpool restore"]);
    let ran = cluster.gpool(["verify"]);
    assert!(ran.code == 1 && ran.out.contains("mark: revision"), "{ran:?}");
    // The remaining files are put aside; with the log, if it is found, they are a sound store.
    let aside = cluster.gpool(["restore", "--put-aside", backup]);
    assert!(aside.err.contains("aside-1"), "{aside:?}");
    cluster.up();
    assert_eq!(cluster.all_ids(), [first]);
    let next: u64 = cluster.submit(["--hold", "--", "true"]).parse().unwrap();
    assert!(next > second.parse().unwrap(), "{next}");
    cluster.down(&[]);
    let aside = cluster.state().join("aside-1");
    std::fs::write(aside.join("store.db-wal"), &whole).unwrap();
    let other = aside.to_str().unwrap();
    assert!(cluster.gpool(["verify", other]).ok().contains("sound"));
}

/// Clients that submit until they are stopped; the acknowledged IDs, in no order.
struct Load {
    told: Arc<Mutex<Vec<u64>>>,
    stop: Arc<AtomicBool>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Load {
    fn start(cluster: &Cluster, n_clients: usize) -> Self {
        let (told, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let threads = (0..n_clients).map(|number| {
            let client = cluster.client();
            let (told, stop) = (told.clone(), stop.clone());
            std::thread::spawn(move || {
                let command = ["sh", "-c", "echo $GPOOL_JOB_ID"].map(str::to_owned).to_vec();
                while !stop.load(Ordering::SeqCst) {
                    let job = gpool_wire::JobCreate {
                        command: command.clone(),
                        directory: Some("/".to_owned()),
                        // One client submits held jobs.
                        hold: number == 0,
                        ..gpool_wire::JobCreate::default()
                    };
                    let id = client.submit(&job, None).unwrap().id;
                    told.lock().unwrap().push(id.parse().unwrap());
                }
            })
        });
        let threads = threads.collect();
        Self { told, stop, threads }
    }

    fn told(&self) -> BTreeSet<u64> {
        self.told.lock().unwrap().iter().copied().collect()
    }

    fn end(self) -> BTreeSet<u64> {
        self.stop.store(true, Ordering::SeqCst);
        self.threads.into_iter().for_each(|thread| thread.join().unwrap());
        Arc::into_inner(self.told).unwrap().into_inner().unwrap().into_iter().collect()
    }
}

#[test]
fn a_backup_under_load_is_consistent_and_starts_elsewhere() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let gate = Gate::new(&cluster, "gate");
    let trace = cluster.path("trace");
    let line = format!("echo started >> {}; {}", trace.display(), gate.line());
    let runs = cluster.sh(&["--gpus", "1"], &line);
    cluster.until_is(&runs, "running");
    let load = Load::start(&cluster, 3);
    let mut backups = Vec::new();
    for round in 0..4 {
        // Each backup has more jobs than the last one.
        crate::harness::until_so("more jobs were submitted", || {
            load.told().len() >= 30 * (round + 1)
        });
        let told = load.told();
        let path = cluster.path(&format!("backup-{round}"));
        cluster.gpool(["backup", path.to_str().unwrap()]).ok();
        assert!(cluster.gpool(["verify", path.to_str().unwrap()]).ok().contains("sound"));
        backups.push((told, path));
    }
    let last = *load.end().last().unwrap();
    for (told, path) in backups {
        let mut other = Cluster::unstarted(&["--devices", "sim:2xH100-80G"]);
        other.gpool(["restore", path.to_str().unwrap()]).ok();
        assert!(other.gpool(["verify"]).ok().contains("sound"));
        other.up();
        let there: BTreeSet<u64> = other.all_ids().iter().map(|id| id.parse().unwrap()).collect();
        assert!(told.is_subset(&there), "lost: {:?}", told.difference(&there));
        // The running job is not on this machine, and is not started a second time.
        assert_eq!(other.until_ended(&runs).state.as_str(), "lost");
        assert_eq!(std::fs::read_to_string(&trace).unwrap(), "started\n");
        let next: u64 = other.submit(["--hold", "--", "true"]).parse().unwrap();
        assert!(next > last, "number {next} was given out before ({last})");
    }
    assert_eq!(cluster.job(&runs).state.as_str(), "running");
    gate.open();
    assert_eq!(cluster.until_ended(&runs).run.exit_code, Some(0));
}

#[test]
fn a_backup_that_is_killed_is_missing_or_complete() {
    let cluster = Cluster::new("none");
    let lines = "{\"command\":[\"true\"],\"hold\":true}\n".repeat(3000);
    cluster.gpool_reading(["submit", "--from-jsonl", "-"], lines.as_bytes()).ok();
    let path = cluster.path("backup");
    let backup = || cluster.start(["backup", path.to_str().unwrap()]);
    let began = Instant::now();
    backup().end().ok();
    let whole = began.elapsed();
    let mut n_whole = 0;
    for round in 0..12_u32 {
        let _ = std::fs::remove_file(&path);
        let running = backup();
        // The exact moments do not matter: the rounds cover the whole backup.
        std::thread::sleep(whole * round / 12 + Duration::from_millis(1));
        running.signal_if_there(Signal::KILL);
        running.end();
        if path.exists() {
            n_whole += 1;
            assert!(cluster.gpool(["verify", path.to_str().unwrap()]).ok().contains("sound"));
        }
    }
    eprintln!("{n_whole} of 12 were whole");
    // Leftovers of the others do not disturb a later backup.
    let _ = std::fs::remove_file(&path);
    backup().end().ok();
}

#[test]
fn a_backup_that_does_not_fit_says_so_and_leaves_nothing() {
    let cluster = Cluster::new("none");
    let lines = "{\"command\":[\"true\"],\"hold\":true}\n".repeat(500);
    cluster.gpool_reading(["submit", "--from-jsonl", "-"], lines.as_bytes()).ok();
    let small = cluster.path("full");
    std::fs::create_dir(&small).unwrap();
    if !mount_at(&small, "size=64k") {
        return;
    }
    let path = small.join("backup");
    let ran = cluster.gpool(["backup", path.to_str().unwrap()]);
    ran.refused(1, &["no space left", path.to_str().unwrap()]);
    assert_eq!(std::fs::read_dir(&small).unwrap().count(), 0);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
}
