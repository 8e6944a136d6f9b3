//! A state folder that an earlier gpool left opens with this one, and its jobs go on. What is kept
//! was made by `kept/make.sh`, which lists its jobs; they are root's.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::disk::{fill, mount_small};
use crate::harness::{Cluster, is_root, skip, until, until_so};

const LAYOUT_1: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/kept/layout-1-0.1.0.tar.gz");

const DEVICES: [&str; 2] = ["--devices", "sim:2xH100-80G"];

/// Jobs that are kept.
const N_JOBS: usize = 31;

fn unpack(to: &Path) {
    let done = Command::new("tar").args(["-xzf", LAYOUT_1, "-C"]).arg(to).status();
    assert!(done.is_ok_and(|status| status.success()), "it can't be unpacked");
}

/// A cluster on the kept folder, whose server does not run yet.
fn kept_cluster() -> Option<Cluster> {
    if !is_root() {
        skip("the kept jobs are root's");
        return None;
    }
    let cluster = Cluster::unstarted(&DEVICES);
    unpack(&cluster.path(""));
    Some(cluster)
}

/// The files of the store that hold content; an empty log holds none.
fn content(state: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    let read = |name| Some((name, std::fs::read(state.join(name)).ok()?));
    let files = ["store.db", "store.db-wal", "mark"].into_iter().filter_map(read);
    files.filter(|(_, bytes)| !bytes.is_empty()).collect()
}

/// Where the content of a store differs from what it was. What was begun and not finished at the
/// end of the log is no content.
fn differences(before: &BTreeMap<&'static str, Vec<u8>>, state: &Path) -> Vec<&'static str> {
    let now = content(state);
    let is_kept = |name: &str, bytes: &Vec<u8>| {
        now.get(name)
            .is_some_and(|now| now == bytes || name.ends_with("-wal") && now.starts_with(bytes))
    };
    let lost = before.iter().filter(|(name, bytes)| !is_kept(name, bytes));
    lost.map(|(name, _)| *name).collect()
}

/// The jobs that had ended before are as they were.
fn check_ended(cluster: &Cluster) {
    for (id, state, code) in [
        ("1", "succeeded", Some(0)),
        ("2", "failed", Some(3)),
        ("3", "cancelled", Some(143)),
        ("4", "cancelled", None),
        ("5", "timed_out", Some(143)),
    ] {
        let job = cluster.job(id);
        assert_eq!((job.state.as_str(), job.exit_code), (state, code), "{job:?}");
    }
    assert!(cluster.stdout_of("1").starts_with("script of ann on GPU-"));
    assert_eq!(cluster.stdout_of("2"), "yes\n");
    assert_eq!(cluster.gpool(["logs", "--stderr", "2"]).ok(), "wrong\n");
    // One that ends between two pages of the list is on both.
    let ids: BTreeSet<String> = cluster.all_ids().into_iter().collect();
    assert_eq!(ids.len(), N_JOBS);
}

#[test]
fn the_first_layout_opens_and_its_jobs_go_on() {
    let Some(mut cluster) = kept_cluster() else { return };
    let before = content(&cluster.state());
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
    assert!(content(&cluster.state()) == before, "looking changes nothing");
    cluster.up();
    check_ended(&cluster);
    // The one whose end nobody had seen, and the one of whose end nobody knows.
    let job = cluster.until_ended("7");
    assert_eq!((job.state.as_str(), job.exit_code), ("failed", Some(6)));
    assert_eq!(cluster.stdout_of("7"), "begun\ndone\n");
    assert_eq!(cluster.gpool(["wait", "7"]).code, 6);
    assert_eq!(cluster.until_ended("6").state.as_str(), "lost");
    assert_eq!(cluster.stdout_of("6"), "begun\n");
    // Those that waited, and for them.
    assert_eq!(cluster.gpool(["wait", "8", "31"]).code, 0);
    assert_eq!(cluster.stdout_of("8"), "8 came later\n");
    assert_eq!(cluster.stdout_of("31"), "urgent\n");
    let held = cluster.job("9");
    assert_eq!((held.state.as_str(), held.note.as_deref()), ("held", Some("not before Monday")));
    let bulk: Vec<String> = (10..30).map(|id| id.to_string()).collect();
    cluster.gpool(["release", "9", "30"].map(str::to_owned).into_iter().chain(bulk.clone())).ok();
    for (id, said) in [("9", "released\n"), ("30", "once\n"), ("29", "bulk 20\n")] {
        assert_eq!(cluster.until_ended(id).exit_code, Some(0));
        assert_eq!(cluster.stdout_of(id), said);
    }
    assert_eq!(cluster.gpool(["wait".to_owned()].into_iter().chain(bulk)).code, 0);
    assert_eq!(cluster.submit(["--", "true"]), (N_JOBS + 1).to_string());
    cluster.until_ended("32");
    // Once more, now that it is of this layout.
    cluster.down(&[]);
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
    cluster.up();
    assert_eq!(cluster.all_ids().len(), N_JOBS + 1);
}

#[test]
fn there_is_a_way_back() {
    let Some(mut cluster) = kept_cluster() else { return };
    cluster.up();
    cluster.until_ended("31");
    cluster.down(&[]);
    let kept = cluster.state().join("store.db.schema-1");
    let kept = kept.to_str().unwrap();
    assert!(cluster.gpool(["verify", kept]).ok().contains("sound"));
    // As docs/upgrading.md says it.
    let ran = cluster.gpool(["restore", "--put-aside", kept]);
    assert!(ran.err.contains("aside-1"), "{ran:?}");
    assert!(cluster.gpool(["verify"]).ok().contains("sound"));
    assert!(cluster.state().join("aside-1/store.db").exists());
    // It is of the old layout until a newer gpool opens it: this one does so anew.
    cluster.up();
    check_ended(&cluster);
    assert_eq!(cluster.job("9").state.as_str(), "held");
    // What waited then and has run since runs again, as another attempt.
    let again = cluster.until_ended("31");
    assert_eq!(again.exit_code, Some(0));
    assert!(again.attempt > 1, "{again:?}");
    assert_eq!(cluster.stdout_of("31"), "urgent\n");
    let next: u64 = cluster.submit(["--hold", "--", "true"]).parse().unwrap();
    assert!(next > 1_000_000, "numbers given out after the upgrade do not come again: {next}");
}

#[test]
fn killed_while_it_starts_on_an_old_store_nothing_is_lost() {
    for round in 0..10 {
        let Some(mut cluster) = kept_cluster() else { return };
        for _ in 0..2 {
            cluster.launch();
            // Which moments these are does not matter: all of a start are tried.
            std::thread::sleep(Duration::from_millis(round * 8));
            cluster.kill();
        }
        assert!(cluster.gpool(["verify"]).ok().contains("sound"), "round {round}");
        cluster.up();
        check_ended(&cluster);
        for (id, code) in [("7", Some(6)), ("8", Some(0))] {
            let job = cluster.until_ended(id);
            assert_eq!(job.exit_code, code, "round {round}: {job:?}");
        }
        assert_eq!(cluster.stdout_of("8"), "8 came later\n");
    }
}

#[test]
fn without_room_an_old_store_is_left_as_it_is() {
    let mut cluster = Cluster::unstarted(&DEVICES);
    if !mount_small(&cluster, "size=4m,mode=711") {
        return;
    }
    unpack(&cluster.path(""));
    let before = content(&cluster.state());
    let ballast = cluster.state().join("ballast");
    fill(&ballast);
    let up = ["up", "--foreground"].into_iter().chain(DEVICES);
    let ran = cluster.gpool(up);
    ran.refused(1, &["no space left"]);
    assert_eq!(differences(&before, &cluster.state()), [""; 0]);
    assert!(!cluster.state().join("store.db.schema-1.new").exists());
    // With a little more room each time it is refused as before, until there is enough.
    let file = std::fs::OpenOptions::new().write(true).open(&ballast).unwrap();
    let n_tried = (1..200).find(|_| {
        file.set_len(file.metadata().unwrap().len() - 16_384).unwrap();
        cluster.launch();
        let runs = until("it runs or gives up", || {
            cluster.is_ready().then_some(true).or_else(|| cluster.has_died().then_some(false))
        });
        if !runs {
            assert!(cluster.gpool(["verify"]).ok().contains("sound"));
        }
        runs
    });
    assert!(n_tried.is_some(), "it never fits: {}", cluster.log());
    drop(file);
    std::fs::remove_file(&ballast).unwrap();
    until_so("jobs are taken again", || cluster.gpool(["submit", "--", "true"]).code == 0);
    check_ended_but_new(&cluster);
}

/// As [`check_ended`], with those that were submitted since.
fn check_ended_but_new(cluster: &Cluster) {
    assert!(cluster.all_ids().len() > N_JOBS);
    assert_eq!(cluster.job("2").exit_code, Some(3));
    assert_eq!(cluster.until_ended("7").exit_code, Some(6));
    assert_eq!(cluster.until_ended("8").exit_code, Some(0));
}
