//! Process ids that are reused at once: in a namespace with few ids, other processes get the ids of
//! killed servers, shepherds and jobs. This program runs itself in the namespace and counts the
//! other processes that a signal reached.

use std::process::{Child, Command, Stdio};

use gpool_cli::exit::Exit;
use gpool_cli::failure::Result;
use gpool_cli::screen::Screen;
use gpool_model::job::JobState;
use gpool_model::{JobVerb, SignalTo};

use super::Outcome;
use super::rig::{Rig, Stop, kill, shell};
use crate::bench::failed;
use crate::bench::figure::Figure;

/// The variable that marks the run inside the namespace.
const INSIDE: &str = "GPOOL_FEW_PROCESS_IDS";
/// Ids below this are used only once.
const FIRST_REUSED: u32 = 300;
const ID_MAX: u32 = 480;
const N_ROUNDS: u32 = 10;

/// Whether this program runs inside the namespace.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Runs this program in a namespace and reads its counts.
pub fn measure() -> Result<Outcome> {
    if let Some(why) = missing() {
        return Ok(Outcome::skipped(why));
    }
    let own = std::env::current_exe()
        .map_err(|error| failed(format!("can't find this program: {error}")))?;
    // The shell is the first process, which adopts orphans.
    let done = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc", "--kill-child"])
        .args(["sh", "-c", "\"$0\" \"$@\"; exit $?"])
        .arg(own)
        .args(["bench", "faults", "pidreuse"])
        .env(INSIDE, "1")
        .stdin(Stdio::null())
        .output();
    let done = done.map_err(|error| failed(format!("can't run unshare: {error}")))?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&done.stdout);
    let numbers: Vec<f64> = said.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [n_strangers, n_signalled, n_wrong] = numbers[..] else {
        return Err(failed("can't count the unrelated processes").why(text(&done.stderr)));
    };
    let figures = vec![
        Figure::new("pidreuse_signalled", "unrelated processes that got a signal", n_signalled, "")
            .exactly(0.0),
        Figure::new("pidreuse_wrong", "jobs not reported as lost", n_wrong, "jobs").exactly(0.0),
    ];
    let did = format!(
        "{n_strangers} unrelated processes with the ids of killed servers, shepherds and jobs, of \
         {ID_MAX} ids"
    );
    Ok(Outcome::Done { did, figures })
}

/// Why such a namespace is impossible here, if it is.
fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can create a namespace of process IDs".to_owned());
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    if (numbers.next(), numbers.next()) < (Some(6), Some(14)) {
        // On such a kernel the number would change for the whole machine.
        return Some(format!("Linux {release} has one maximum process ID for all namespaces"));
    }
    let mut can = Command::new("unshare");
    can.args(["--pid", "--fork", "--mount-proc", "true"]).stderr(Stdio::null());
    (!can.status().is_ok_and(|status| status.success()))
        .then(|| "unshare can't create a namespace here".to_owned())
}

/// The part inside the namespace: prints the number of other processes, how many of them a signal
/// reached, and how many jobs were not reported as lost.
pub fn inside(screen: &Screen) -> Result {
    let stop = Stop::watch()?;
    std::fs::write("/proc/sys/kernel/pid_max", ID_MAX.to_string())
        .map_err(|error| failed(format!("can't lower the maximum process ID: {error}")))?;
    while start()?.0.id() < FIRST_REUSED {}
    let (mut n_strangers, mut n_signalled, mut n_wrong) = (0, 0, 0);
    let mut rig = Rig::up("none", &stop)?;
    for _ in 0..N_ROUNDS {
        let id = rig.submit(&shell("exec sleep 1000"))?;
        let main = stop.until("the job has begun", || rig.processes_of(&id).first().copied())?;
        let shepherd = gpool_sys::proc::stat(main).map_or(0, |stat| stat.parent);
        let dead = [rig.server_pid(), shepherd, main];
        rig.kill();
        kill(shepherd);
        kill(main);
        let is_there = |pid: &u32| gpool_sys::proc::stat(*pid).is_some();
        stop.until_so("they are gone", || !dead.iter().any(is_there))?;
        let mut strangers = strangers_with(&dead)?;
        rig.start()?;
        n_wrong += u32::from(rig.ended(&id)?.state != JobState::Lost);
        // These are refused, and must have no effect.
        drop(rig.client().cancel(std::slice::from_ref(&id)));
        drop(rig.client().act(JobVerb::Signal { signal: 9, to: SignalTo::Job }, &[id]));
        let next = rig.submit(&shell("exit 3"))?;
        rig.ended(&next)?;
        for stranger in &mut strangers {
            n_strangers += 1;
            n_signalled += u32::from(!matches!(stranger.0.try_wait(), Ok(None)));
        }
    }
    rig.end()?;
    screen.data(&format!("{n_strangers} {n_signalled} {n_wrong}\n"))?;
    Ok(Exit::OK)
}

/// A process that does not belong to gpool.
struct Stranger(Child);

impl Drop for Stranger {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start() -> Result<Stranger> {
    let started = Command::new("sleep").arg("1000").stdin(Stdio::null()).spawn();
    started.map(Stranger).map_err(|error| failed(format!("can't start a process: {error}")))
}

/// Starts processes until some get the wanted ids.
fn strangers_with(ids: &[u32]) -> Result<Vec<Stranger>> {
    let mut found = Vec::new();
    // Several times the number of all ids.
    for _ in 0..4 * ID_MAX {
        let one = start()?;
        if ids.contains(&one.0.id()) {
            found.push(one);
        }
        if found.len() == ids.len() {
            return Ok(found);
        }
    }
    Err(failed("the kernel did not reuse the process IDs in time"))
}
