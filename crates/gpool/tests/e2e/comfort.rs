//! Conveniences of the command line: completion in real shells, settings, manual pages, systemd
//! units and the server's messages to systemd.

use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::{Cluster, Ran, Running, skip, until_so};

/// Whether a program is in `PATH`.
pub fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Bash's completions for the last word of a line.
fn bash(cluster: &Cluster, line: &[&str]) -> Vec<String> {
    let quoted: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
    let script = format!(
        "source <('{0}' completion bash)\nCOMP_WORDS=({1}); COMP_CWORD={2}; COMP_TYPE=9\n\
         _clap_complete_gpool gpool {3} ''\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        env!("CARGO_BIN_EXE_gpool"),
        quoted.join(" "),
        line.len() - 1,
        quoted.last().unwrap(),
    );
    run_in(cluster, "bash", &["-c", &script]).ok().lines().map(str::to_owned).collect()
}

fn run_in(cluster: &Cluster, program: &str, words: &[&str]) -> Ran {
    let ours = cluster.command();
    let mut command = Command::new(program);
    command.env_clear().current_dir(cluster.work()).args(words);
    command.envs(ours.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Running::start(&mut command, None).end()
}

/// The completions for a shell that may not be installed here.
fn asked(cluster: &Cluster, shell: &str, line: &[&str]) -> Ran {
    let mut command = cluster.command();
    command.env("GPOOL_COMPLETE", shell).env("_CLAP_IFS", "\n");
    command.env("_CLAP_COMPLETE_INDEX", (line.len() - 1).to_string());
    Running::start(command.arg("--").args(line), None).end()
}

#[test]
fn bash_completes_verbs_flags_jobs_and_what_the_server_knows() {
    let cluster = Cluster::new("sim:2xH100-80G");
    let id = cluster.submit(["--hold", "-J", "train", "--", "true"]);
    assert!(bash(&cluster, &["gpool", "que"]).contains(&"queue".to_owned()));
    assert!(bash(&cluster, &["gpool", "submit", "--no"]).contains(&"--notify".to_owned()));
    assert!(bash(&cluster, &["gpool", "show", ""]).contains(&id));
    assert!(bash(&cluster, &["gpool", "show", "tr"]).contains(&"train".to_owned()));
    assert!(bash(&cluster, &["gpool", "cancel", "all,"]).contains(&format!("all,{id}")));
    let models = bash(&cluster, &["gpool", "run", "--gpus", "h"]);
    assert!(models.iter().any(|word| word.starts_with("h100")), "{models:?}");
    let help = bash(&cluster, &["gpool", "help", "GP0"]);
    assert!(help.contains(&"GP0412".to_owned()), "{help:?}");
}

#[test]
fn without_a_server_completion_is_silent_and_knows_its_own_words() {
    let cluster = Cluster::unstarted(&[]);
    let ran = asked(&cluster, "bash", &["gpool", "show", ""]);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
    assert!(bash(&cluster, &["gpool", "cance"]).contains(&"cancel".to_owned()));
}

#[test]
fn zsh_and_fish_get_descriptions_of_jobs() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let id = cluster.submit(["--hold", "-J", "train", "--", "true"]);
    for shell in ["zsh", "fish"] {
        // A server that is slow to answer completes nothing.
        until_so(&format!("{shell} has the job and its state"), || {
            let out = asked(&cluster, shell, &["gpool", "show", &id]).out;
            out.contains("train · held") && out.contains(&id)
        });
        let script = cluster.gpool(["completion", shell]).ok();
        assert!(script.contains("GPOOL_COMPLETE"), "{script}");
        if !has(shell) {
            skip(&format!("there is no {shell} here that could read its script"));
            continue;
        }
        let file = cluster.path(shell);
        std::fs::write(&file, script).unwrap();
        run_in(&cluster, shell, &["-n", file.to_str().unwrap()]).ok();
        // In the shell itself, as far as that works without a terminal.
        let file = file.display();
        let line = match shell {
            "fish" => format!("source {file}; complete -C 'gpool show '"),
            _ => format!(
                "compdef() {{ :; }}; _describe() {{ print -l -- ${{(P)3}}; }}; source {file}\n\
                 words=(gpool show ''); CURRENT=3; _clap_dynamic_completer_gpool"
            ),
        };
        let words = if shell == "zsh" { vec!["-f", "-c", &line] } else { vec!["-c", &line] };
        let offered = run_in(&cluster, shell, &words).ok();
        assert!(offered.contains("train · held") && offered.contains("--json"), "{offered}");
    }
}

#[test]
fn settings_are_written_once_and_read_by_the_server() {
    let mut cluster = Cluster::unstarted(&[]);
    let path = cluster.path("home/gpool.toml");
    let shown = path.to_str().unwrap().to_owned();
    let init = |cluster: &Cluster, flags: &[&str], at: &str| {
        let mut command = cluster.command();
        command.env("GPOOL_CONFIG", at).arg("init").args(flags);
        Running::start(&mut command, None).end()
    };
    assert_eq!(init(&cluster, &[], &shown).ok(), format!("{shown}\n"));
    init(&cluster, &[], &shown).refused(7, &["GP0230", "--force"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let text = text.replace("# devices = \"nvml\"", "devices = \"sim:3xH100-80G\"");
    let text = text.replace("# keep_output = \"forever\"", "keep_output = \"30d\"");
    std::fs::write(&path, &text).unwrap();
    cluster.variables.push(("GPOOL_CONFIG".to_owned(), shown.clone()));
    cluster.up();
    assert_eq!(cluster.client().gpus().unwrap().items.len(), 3);
    let id = cluster.submit(["--", "true"]);
    cluster.until_ended(&id);
    assert!(cluster.gpool(["show", &id]).ok().contains("kept until 20"));
    init(&cluster, &["--force"], &shown).ok();
    assert_eq!(std::fs::read_to_string(cluster.path("home/gpool.toml.old")).unwrap(), text);
    // A file is in the place of a folder.
    init(&cluster, &[], &format!("{shown}/x/gpool.toml")).refused(1, &["GP0218"]);
    assert_eq!(init(&cluster, &["--print"], &shown).ok(), std::fs::read_to_string(&path).unwrap());
}

#[test]
fn manual_pages_are_whole() {
    let cluster = Cluster::unstarted(&[]);
    let folder = cluster.path("man");
    cluster.gpool(["man", folder.to_str().unwrap()]).ok();
    for name in ["man1/gpool.1", "man1/gpool-submit.1", "man1/gpool-notify.1", "man5/gpool.toml.5"]
    {
        let path = folder.join(name);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(".TH") && text.contains(".SH"), "{name}");
        if !has("man") {
            skip("there is no man here");
            continue;
        }
        let ran = run_in(&cluster, "man", &["--warnings", "-l", path.to_str().unwrap()]);
        assert!(ran.code == 0 && ran.out.contains("gpool"), "{name}: {ran:?}");
    }
    let file = cluster.path("home/file");
    std::fs::write(&file, "").unwrap();
    cluster.gpool(["man", file.to_str().unwrap()]).refused(1, &["GP0218"]);
}

#[test]
fn units_are_written_verified_and_removed() {
    let cluster = Cluster::unstarted(&[]);
    for scope in ["--user", "--system"] {
        let unit = cluster.gpool(["up", "--systemd", scope, "--print"]).ok();
        if !has("systemd-analyze") {
            skip("there is no systemd-analyze here");
            continue;
        }
        let path = cluster.path("gpool.service");
        std::fs::write(&path, unit).unwrap();
        let ran = run_in(&cluster, "systemd-analyze", &["verify", path.to_str().unwrap()]);
        // Errors in this unit only; the machine may have other invalid units.
        assert!(!ran.err.contains("gpool.service"), "{scope}: {ran:?}");
    }
    let path = cluster.path("home/.config/systemd/user/gpool.service");
    let shown = format!("{}\n", path.display());
    // The same unit again is no conflict.
    for _ in 0..2 {
        assert_eq!(cluster.gpool(["up", "--systemd", "--user"]).ok(), shown);
    }
    std::fs::write(&path, "[Service]\n").unwrap();
    cluster.gpool(["up", "--systemd", "--user"]).refused(7, &["GP0230"]);
    cluster.gpool(["up", "--systemd", "--user", "--force"]).ok();
    assert!(cluster.gpool(["down", "--systemd", "--user"]).ok().contains("gpool.service"));
    assert!(!path.exists());
    cluster.gpool(["down", "--systemd", "--user"]).refused(1, &["GP0231"]);
    cluster.gpool(["up", "--now"]).refused(2, &["--systemd"]);
}

#[test]
fn systemd_gets_ready_watchdog_and_stopping_messages() {
    let mut cluster = Cluster::unstarted(&["--devices", "none"]);
    let path = cluster.path("notify.sock");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let path = path.to_str().unwrap().to_owned();
    cluster.variables.push(("NOTIFY_SOCKET".to_owned(), path));
    cluster.variables.push(("WATCHDOG_USEC".to_owned(), "300000".to_owned()));
    cluster.up();
    let hears = |word: &str| {
        until_so(&format!("systemd is told {word}"), || {
            let mut block = [0; 1024];
            let n_read = socket.recv(&mut block).unwrap();
            String::from_utf8_lossy(&block[..n_read]).lines().any(|line| line == word)
        });
    };
    hears("READY=1");
    hears("WATCHDOG=1");
    // The variables that systemd sets for the server are not passed to jobs.
    let id = cluster.sh(&["--clean-env"], "echo \"<$NOTIFY_SOCKET>\"");
    cluster.until_is(&id, "succeeded");
    assert_eq!(cluster.stdout_of(&id), "<>\n");
    cluster.end_by(Signal::TERM);
    hears("STOPPING=1");
}

#[test]
fn the_doctor_checks_the_unit() {
    let cluster = Cluster::unstarted(&[]);
    let probe = || {
        let found = cluster.gpool(["doctor", "--json"]).out;
        let found: serde_json::Value = serde_json::from_str(&found).unwrap();
        let items = found["items"].as_array().unwrap().clone();
        items.into_iter().find(|probe| probe["what"] == "service")
    };
    if std::path::Path::new("/etc/systemd/system/gpool.service").exists() {
        return skip("this machine already has a unit");
    }
    cluster.gpool(["up", "--systemd", "--user"]).ok();
    let found = |probe: &Option<serde_json::Value>| -> String {
        probe.as_ref().unwrap()["found"].as_str().unwrap().to_owned()
    };
    let first = probe();
    // Systemd does not run for this user; the unit still starts this program.
    assert!(found(&first).contains("systemd/user/gpool.service"), "{first:?}");
    assert!(!found(&first).contains("which does not run"), "{first:?}");
    let path = cluster.path("home/.config/systemd/user/gpool.service");
    let other = cluster.path("home/other");
    std::fs::write(&other, "#!/bin/sh\necho gpool 0.0.1\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&other, mode).unwrap();
    let start = |program: &str| {
        std::fs::write(&path, format!("ExecStart=\"{program}\" up --foreground\n")).unwrap();
        found(&probe())
    };
    assert!(start(other.to_str().unwrap()).contains("0.0.1, and this is "));
    assert!(start("/nowhere/gpool").contains("which does not run"));
    std::fs::write(&path, "[Unit]\n").unwrap();
    assert!(found(&probe()).contains("does not start gpool"));
}

#[test]
fn the_doctor_checks_the_server_that_other_verbs_use() {
    let cluster = Cluster::new("sim:2xA100-40G");
    let mut command = cluster.command();
    // The state folder of this user's own server would be here.
    command.env_remove("GPOOL_STATE_DIR").args(["doctor", "--json"]);
    let found = Running::start(&mut command, None).end().out;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let of = |what: &str| {
        let probe = found["items"].as_array().unwrap().iter().find(|it| it["what"] == what);
        probe.unwrap()["found"].as_str().unwrap().to_owned()
    };
    assert!(of("socket").starts_with(cluster.socket().to_str().unwrap()), "{found}");
    assert!(of("state folder").starts_with(cluster.state().to_str().unwrap()), "{found}");
    assert!(of("store").starts_with("intact"), "{found}");
    assert!(of("gpus").starts_with("2 of the server"), "{found}");
    assert!(of("server").contains("user "), "{found}");
}

#[test]
fn gpool_in_a_job_asks_the_server_that_runs_the_job() {
    let cluster = Cluster::new("none");
    let program = env!("CARGO_BIN_EXE_gpool");
    let line = "unset XDG_RUNTIME_DIR; \"$0\" show $GPOOL_JOB_ID -o json >/dev/null && \
                \"$0\" submit -- true";
    let id = cluster.submit(["--", "sh", "-c", line, program]);
    let job = cluster.until_ended(&id);
    assert_eq!(
        cluster.stdout_of(&id),
        "2\n",
        "{job:?}: {:?}",
        cluster.gpool(["logs", "--stderr", &id])
    );
}
