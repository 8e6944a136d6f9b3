//! Output beyond its limit: the job is not affected, and each way to read it shows where it was
//! cut.

use crate::harness::{Cluster, Gate, until_so};

/// A cluster that stores 64 KiB of each stream.
fn cluster() -> Cluster {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let config = cluster.path("gpool.toml");
    std::fs::write(&config, "job_output_max = \"64K\"\n").unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), config.display().to_string()));
    cluster.up();
    cluster
}

const CUT: &str = "\n[gpool: output limit of 64 KiB reached; further output is dropped]\n";

#[test]
fn a_job_that_writes_beyond_the_limit_goes_on_and_its_log_says_where_it_was_cut() {
    let cluster = cluster();
    let gate = Gate::new(&cluster, "gate");
    // 65,536 bytes are 4,096 lines; the job writes ten times as many, and its errors fit.
    let line = format!(
        "i=0; while [ $i -lt 40960 ]; do echo line--of-$((100000+i)); i=$((i+1)); done; \
         echo wrong >&2; {}; echo LAST; echo again >&2; exit 3",
        gate.line()
    );
    let id = cluster.sh(&[], &line);
    let follow = cluster.start(["logs", "-f", &id]);
    // The log shows the cut while the job runs.
    follow.until_says("further output is dropped]");
    until_so("the errors are kept", || cluster.gpool(["logs", &id, "--stderr"]).ok() == "wrong\n");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    let whole: String = (100_000..104_096).map(|n| format!("line--of-{n}\n")).collect();
    assert_eq!(whole.len(), 64 << 10);
    assert_eq!(cluster.stdout_of(&id), format!("{whole}{CUT}"));
    gate.open();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(3), "the job is not affected");
    let beyond = 36_864 * 16 + "LAST\n".len();
    let count = format!("[gpool: dropped {beyond} bytes above the output limit of 64 KiB]\n");
    assert_eq!(cluster.stdout_of(&id), format!("{whole}{CUT}{count}"));
    let followed = follow.end().ok();
    assert!(followed.starts_with(&whole) && followed.contains(CUT.trim()), "{followed}");
    assert!(followed.contains("wrong\n") && followed.contains("again\n"));
    assert!(followed.contains(&count) && !followed.contains("LAST"));
    let logs = |flags: &[&str]| cluster.gpool(["logs", &id].iter().chain(flags)).ok();
    assert_eq!(logs(&["--stderr"]), "wrong\nagain\n", "the other stream is whole");
    assert_eq!(logs(&["--stdout", "--tail", "4"]), format!("line--of-104095\n{CUT}{count}"));
    let all = logs(&["--since", "1h"]);
    assert_eq!(all.len(), whole.len() + CUT.len() + count.len() + "wrong\nagain\n".len());
    // Another job's output is not cut, and a restart changes nothing.
    let other = cluster.sh(&[], "echo short");
    cluster.until_ended(&other);
    assert_eq!(cluster.stdout_of(&other), "short\n");
}

#[test]
fn both_streams_and_a_terminal_are_cut_each_at_the_limit() {
    let cluster = cluster();
    let id = cluster.sh(&[], "yes out | head -c 100000; yes err | head -c 100000 >&2; exit 4");
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(4));
    for stream in ["stdout", "stderr"] {
        let path = cluster.state().join(format!("jobs/{id}/1/{stream}"));
        let kept = std::fs::read_to_string(path).unwrap();
        let notes = "[gpool: dropped 34464 bytes above the output limit of 64 KiB]\n";
        let expected = (64 << 10) + CUT.len() + notes.len();
        assert!(kept.len() == expected && kept.ends_with(&format!("{CUT}{notes}")), "{stream}");
    }
    // One byte below the limit, and exactly the limit: there is no note.
    for length in [65535, 65536] {
        let id = cluster.sh(&[], &format!("yes out | head -c {length}"));
        cluster.until_ended(&id);
        assert_eq!(cluster.stdout_of(&id).len(), length);
    }
}
