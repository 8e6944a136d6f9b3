//! Jobs of other users, which only root can run.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::sync::Arc;

use gpool_model::id::TaskId;
use gpool_model::job::{JobSpec, Owner};

use crate::harness::{Node, code, job, shell};

const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIPPED: not root, so no job can run as another user");
    }
    root
}

fn of_nobody(mut job: JobSpec) -> JobSpec {
    job.owner = Owner { uid: NOBODY, gid: NOBODY, user: Arc::from("nobody") };
    job
}

#[test]
fn a_job_of_another_user_has_no_privileges_of_root() {
    if !is_root() {
        return;
    }
    let mut node = Node::new();
    let script = "id -u; id -g; id -G; grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs)' \
                  /proc/self/status; echo $USER; touch $GPOOL_DIR/mine; cat /etc/shadow";
    let task = node.run(&of_nobody(shell(1, script)));
    let end = node.wait_for_end(task);
    assert_eq!(end.exit, code(1), "the user may not read shadow");
    let none = "0000000000000000";
    let expected = format!(
        "{NOBODY}\n{NOBODY}\n{NOBODY}\nCapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\n\
         CapBnd:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\nnobody\n"
    );
    assert_eq!(node.stdout(task), expected);
    let attempt = node.layout().attempt(task);
    let owned = [attempt.clone(), attempt.join("mine"), node.layout().stdout(task)];
    for path in owned.iter().chain([&node.layout().stderr(task)]) {
        let about = path.metadata().unwrap();
        assert_eq!((about.uid(), about.gid()), (NOBODY, NOBODY), "{}", path.display());
    }
    assert_eq!(attempt.metadata().unwrap().mode() & 0o777, 0o700);
    let above = attempt.parent().unwrap().metadata().unwrap();
    assert_eq!((above.uid(), above.mode() & 0o777), (0, 0o711));
}

#[test]
fn paths_are_opened_as_the_user_and_not_as_root() {
    if !is_root() {
        return;
    }
    let mut node = Node::new();
    let precious = node.path("precious");
    std::fs::write(&precious, "root's").unwrap();
    std::fs::set_permissions(&precious, PermissionsExt::from_mode(0o600)).unwrap();
    let theirs = node.path("theirs");
    std::fs::create_dir(&theirs).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    let trap = theirs.join("trap");
    symlink(&precious, &trap).unwrap();
    for (number, path) in (1..).zip([&precious, &trap]) {
        let mut job = of_nobody(job(number, &["echo", "overwritten"]));
        job.stdout = Some(path.to_str().unwrap().into());
        let why = node.failure(&job);
        assert!(why.contains("for output: Permission denied"), "{why}");
    }
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "root's");
    let mut job = of_nobody(job(3, &["echo", "fine"]));
    job.stdout = Some(theirs.join("out").to_str().unwrap().into());
    assert_eq!(node.finish(&job).exit, code(0));
    assert_eq!(theirs.join("out").metadata().unwrap().uid(), NOBODY);

    let closed = node.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    let mut job = of_nobody(self::job(4, &["true"]));
    job.directory = closed.to_str().unwrap().to_owned();
    let why = node.failure(&job);
    assert!(why.ends_with("Permission denied (os error 13)"), "{why}");
}

#[test]
fn another_user_can_run_the_job_script() {
    if !is_root() {
        return;
    }
    let mut node = Node::new();
    node.blob("script", b"#!/bin/sh\nid -u\n");
    let mut job = of_nobody(job(1, &[]));
    job.script = Some(gpool_model::job::BlobId("script".into()));
    assert_eq!(node.finish(&job).exit, code(0));
    let task: TaskId = "1#1/0".parse().unwrap();
    assert_eq!(node.stdout(task), format!("{NOBODY}\n"));
}
