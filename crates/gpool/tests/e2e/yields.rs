//! Jobs that free their GPUs themselves.

use std::path::Path;
use std::process::Command;

use crate::exits::two_projects;
use crate::harness::{Cluster, skip, until_so};

/// A job that answers each request, and notes it.
const ANSWERS: &str = "last=\" \"; while read word n <$GPOOL_DIR/gpus || sleep 0.05 || :; do
    if [ \"$word $n\" != \"$last\" ]; then
        last=\"$word $n\"; echo $word >>log
        [ $word = release ] && echo $n >$GPOOL_DIR/.new && mv $GPOOL_DIR/.new $GPOOL_DIR/released
    fi
    sleep 0.05
done 2>/dev/null";

fn read(cluster: &Cluster, name: &str) -> String {
    std::fs::read_to_string(cluster.work().join(name)).unwrap_or_default()
}

/// Programs of a test, which run until a file exists.
fn touch(path: &Path) {
    std::fs::write(path, "").unwrap();
}

#[test]
fn a_job_frees_its_gpu_for_its_owner_and_gets_it_back() {
    let mut cluster = two_projects();
    cluster.sh(&["-p", "red", "-g", "1"], "sleep 1000");
    let lent = ["-p", "red", "-g", "1", "--preemptible", "--yields"];
    let borrower = cluster.sh(&lent, ANSWERS);
    cluster.until_is(&borrower, "running");
    let shown = cluster.gpool(["show", &borrower]).ok();
    assert!(shown.contains("pause (cooperative), otherwise requeue"), "{shown}");
    let stop = cluster.work().join("stop");
    let line = format!("while [ ! -e {} ]; do sleep 0.05; done", stop.display());
    let owner = cluster.sh(&["-p", "blue", "-g", "1"], &line);
    cluster.until_is(&owner, "running");
    assert_eq!(cluster.until_is(&borrower, "paused").run.attempt, 1);
    assert_eq!(read(&cluster, "log"), "release\n", "its processes run on");
    // Server and agent are killed; the job keeps waiting.
    cluster.kill();
    cluster.up();
    assert!(cluster.until_is(&borrower, "paused").run.freed);
    touch(&stop);
    cluster.until_ended(&owner);
    cluster.until_is(&borrower, "running");
    until_so("it is told", || read(&cluster, "log") == "release\nuse\n");
}

#[test]
fn a_job_that_does_not_free_its_gpu_in_time_leaves_by_its_next_exit() {
    let cluster = two_projects();
    cluster.sh(&["-p", "red", "-g", "1"], "sleep 1000");
    let lent = ["-p", "red", "-g", "1", "--preemptible", "--yields=file@1s"];
    let borrower = cluster.sh(&lent, "sleep 1000");
    cluster.until_is(&borrower, "running");
    let owner = cluster.sh(&["-p", "blue", "-g", "1"], "sleep 1000");
    cluster.until_is(&owner, "running");
    let job = cluster.until_is(&borrower, "pending");
    assert_eq!(job.run.attempt, 2);
    let events = cluster.gpool(["events", &borrower]).ok();
    assert!(events.contains("did not release its GPUs in time"), "{events}");
}

#[test]
fn gpus_that_a_process_still_uses_are_not_given_to_others() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let line = format!("trap 'echo got >>signals' USR1; echo $$ >pid; {ANSWERS}");
    let id = cluster.sh(&["-g", "1", "--yields=USR1@3s"], &line);
    until_so("it runs", || read(&cluster, "pid").ends_with('\n'));
    let pid = read(&cluster, "pid").trim().to_owned();
    cluster.gpool(["sim", "add-process", "0", "--pid", &pid, "--memory", "2G"]).ok();
    cluster.gpool(["yield", &id]).ok();
    until_so("it was asked", || read(&cluster, "log").contains("release"));
    until_so("the signal came", || read(&cluster, "signals").contains("got"));
    until_so("it goes on", || read(&cluster, "log") == "release\nuse\n");
    assert_eq!(cluster.until_is(&id, "running").run.attempt, 1);
    let events = cluster.gpool(["events", &id]).ok();
    assert!(events.contains(&format!("process {pid}")), "{events}");
    cluster.gpool(["sim", "remove-process", "0", "--pid", &pid]).ok();
    cluster.gpool(["yield", &id]).ok();
    until_so("its GPU is free", || cluster.job(&id).run.freed);
    let other = cluster.sh(&["-g", "1"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
    cluster.gpool(["yield", "--end", &id]).ok();
    cluster.until_is(&id, "running");
}

#[test]
fn a_job_gives_its_gpu_up_and_takes_it_back() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let go = cluster.work().join("go");
    let gpool = env!("CARGO_BIN_EXE_gpool");
    let line = format!(
        "{gpool} yield && echo away >>log; while [ ! -e {} ]; do sleep 0.05; done; \
         {gpool} yield --end && echo back >>log",
        go.display()
    );
    let id = cluster.sh(&["-g", "1", "--yields", "--kind", "notebook"], &line);
    until_so("it gave its GPU up", || read(&cluster, "log") == "away\n");
    let job = cluster.until_is(&id, "paused");
    assert!(job.run.freed && cluster.why(&id).contains("gpool resume"));
    let other = cluster.sh(&["-g", "1"], "true");
    assert_eq!(cluster.until_ended(&other).run.exit_code, Some(0));
    touch(&go);
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(read(&cluster, "log"), "away\nback\n");
    let plain = cluster.sh(&["-g", "1"], "sleep 1000");
    cluster.until_is(&plain, "running");
    cluster.gpool(["yield", &plain]).refused(2, &["--yields", "gpool pause"]);
    cluster.gpool(["yield"]).refused(2, &["not in a job"]);
    cluster.gpool(["submit", "--yields=NOSIG", "--", "true"]).refused(2, &["NOSIG"]);
}

#[test]
fn a_server_that_is_killed_between_request_and_answer_learns_the_answer() {
    let mut cluster = Cluster::new("sim:1xH100-80G");
    let line = "until grep release $GPOOL_DIR/gpus; do sleep 0.05; done; touch asked
        until [ -e go ]; do sleep 0.05; done
        cut -d' ' -f2 $GPOOL_DIR/gpus >$GPOOL_DIR/.new; mv $GPOOL_DIR/.new $GPOOL_DIR/released
        sleep 1000";
    let id = cluster.sh(&["-g", "1", "--yields=file@5m"], line);
    cluster.until_is(&id, "running");
    cluster.gpool(["pause", &id]).ok();
    until_so("it was asked", || cluster.work().join("asked").exists());
    cluster.kill();
    touch(&cluster.work().join("go"));
    cluster.up();
    until_so("its GPU is free", || cluster.job(&id).run.freed);
    // The agent of the server that is killed now knows the answer, and the next one does too.
    cluster.kill();
    cluster.up();
    assert!(cluster.until_is(&id, "paused").run.freed);
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
}

/// As much of PyTorch as the example uses. Each step takes a moment.
const TORCH: &str = r#"
import pickle, time

class Tensor:
    def square(self): return self
    def mean(self): return self
    def backward(self): time.sleep(0.01)

def randn(*shape, device): return Tensor()
def save(state, path): pickle.dump(state, open(path, "wb"))
def load(path): return pickle.load(open(path, "rb"))

class Linear:
    def __init__(self, *sizes): self.state = 0
    def to(self, device): open("workers", "a").write("start\n"); return self
    def parameters(self): return []
    def state_dict(self): return self.state
    def load_state_dict(self, state): self.state = state
    def __call__(self, x): return x

class SGD(Linear):
    def __init__(self, parameters, lr): self.state = 0
    def zero_grad(self): pass
    def step(self): self.state += 1; open("steps", "w").write(str(self.state))

class nn: Linear = Linear
class optim: SGD = SGD
"#;

#[test]
fn the_example_for_pytorch_frees_the_gpu_and_continues() {
    if Command::new("python3").arg("--version").output().is_err() {
        return skip("there is no Python");
    }
    let cluster = Cluster::new("sim:1xH100-80G");
    std::fs::write(cluster.work().join("torch.py"), TORCH).unwrap();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/examples/yield_torch.py");
    let line = format!("PYTHONPATH=$PWD STEPS=100 python3 {example}");
    let id = cluster.sh(&["-g", "1", "--yields=file@1m"], &line);
    until_so("it trains", || read(&cluster, "steps").parse().is_ok_and(|n: u32| n > 3));
    cluster.gpool(["yield", &id]).ok();
    until_so("its GPU is free", || cluster.job(&id).run.freed);
    let steps: u32 = read(&cluster, "steps").parse().unwrap();
    assert!(steps < 100, "it had ended by then");
    cluster.gpool(["yield", "--end", &id]).ok();
    assert_eq!(cluster.until_ended(&id).run.exit_code, Some(0));
    assert_eq!(read(&cluster, "steps"), "100", "it went on from where it was");
    assert_eq!(read(&cluster, "workers").lines().count(), 2);
}
