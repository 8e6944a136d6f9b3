//! Threats, each with a test that is named for it: attacks of a user on others and on gpool from
//! inside a job, from the command line and by files. Most tests need root, since only root can act
//! as several users; skipped ones report that.
//!
//! Elsewhere: the routes and identities of callers (`security_roles`); requests that are not what
//! they seem, compressed, endless or too many (`security_http`, and on the wire in the server's own
//! tests); names with terminal escape sequences (`bad_shapes`); processes that a job leaves on a
//! GPU (`devices`, `rival`). Not applicable yet, since there are no tokens, no remote nodes, no
//! second server and no web pages: stolen, expired and revoked tokens, replayed joins and commands
//! of a former leader, forged requests of other sites, and names that are bound to another address.

use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Cluster, Gate, is_root, kill_9, skip, until_so};
use crate::http::{Http, next_event};
use crate::users::{NOBODY, SOMEBODY, as_nobody, as_user, cluster};

/// Runs a shell line as a job of a user, and returns its output.
fn job_of(cluster: &Cluster, uid: u32, line: &str) -> String {
    let ran = as_user(cluster, uid, &["run", "--clean-env", "--", "sh", "-c", line]);
    assert!(ran.code < 125, "{ran:?}");
    ran.out
}

/// Runs a program as a user outside of any job, and returns its output.
fn outside(uid: u32, program: &str, words: &[&str]) -> String {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new(program);
    let output = command.args(words).uid(uid).gid(uid).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn all_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) => found.push(entry.path()),
                // The file has just been removed.
                Err(_) => {}
            }
        }
    }
    found
}

#[test]
fn a_setuid_program_in_a_job_gains_nothing() {
    let Some(cluster) = cluster() else { return };
    let program = cluster.path("id-as-root");
    std::fs::copy("/usr/bin/id", &program).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o4755)).unwrap();
    let path = program.to_str().unwrap();
    if outside(NOBODY, path, &["-u"]).trim() != "0" {
        return skip("set-user-id programs do nothing on this file system");
    }
    assert_eq!(job_of(&cluster, NOBODY, &format!("{path} -u")), "65534\n");
}

#[test]
fn a_job_of_another_user_inherits_nothing_from_the_server() {
    let Some(cluster) = cluster() else { return };
    let line = "grep -E '^(Cap|NoNewPrivs|Groups|Umask)' /proc/self/status; ls /proc/$$/fd; \
                readlink /proc/$$/fd/0; ulimit -n; cat /proc/self/oom_score_adj";
    let mut limited = Command::new("sh");
    use std::os::unix::process::CommandExt as _;
    let own = cluster.command();
    limited.env_clear().envs(own.get_envs().filter_map(|(key, value)| Some((key, value?))));
    limited.env_remove("XDG_RUNTIME_DIR").current_dir(cluster.work()).uid(NOBODY).gid(NOBODY);
    let words = "umask 027; ulimit -n 123; exec \"$0\" run -- sh -c \"$1\"";
    limited.args(["-c", words]).arg(cluster.path("gpool")).arg(line);
    let out = crate::harness::Running::start(&mut limited, None).end().ok();
    let none = "0000000000000000";
    let expected = format!(
        "Umask:\t0027\nGroups:\t65534 \nCapInh:\t{none}\nCapPrm:\t{none}\nCapEff:\t{none}\n\
         CapBnd:\t{none}\nCapAmb:\t{none}\nNoNewPrivs:\t1\n0\n1\n2\n/dev/null\n123\n0\n"
    );
    assert_eq!(out, expected);
    // A job can also open its standard streams by path, as some programs do.
    let out = job_of(&cluster, NOBODY, "echo out > /dev/stdout; cat < /dev/stdin");
    assert_eq!(out, "out\n");
    let ran = as_nobody(&cluster, &["run", "--", "sh", "-c", "echo err > /dev/stderr"]);
    assert!(ran.code == 0 && ran.err.contains("err\n"), "{ran:?}");
    // The working directory is entered as the user.
    let closed = cluster.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o700)).unwrap();
    let job = serde_json::json!({"command": ["true"], "directory": closed});
    let answer = Http::of_user(&cluster, NOBODY).post("/api/v1/jobs", &job);
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    let text = cluster.until_ended(&id).run.cause_text.unwrap();
    assert!(text.contains("can't enter the working directory"), "{text}");
}

#[test]
fn a_job_is_in_a_control_group_of_its_own() {
    let Some(cluster) = cluster() else { return };
    let group = |line: &str| {
        let out = job_of(&cluster, NOBODY, line);
        out.lines().find(|line| line.starts_with("0::")).map(str::to_owned)
    };
    let (one, two) = (group("cat /proc/self/cgroup"), group("cat /proc/self/cgroup"));
    let is_there = Path::new("/sys/fs/cgroup/cgroup.controllers").exists()
        || Path::new("/sys/fs/cgroup/unified/cgroup.procs").exists();
    let Some((one, two)) = one.zip(two).filter(|_| is_there) else {
        return skip("there are no control groups of version 2");
    };
    if !one.contains("gpool-") {
        return skip("control groups can't be written here");
    }
    assert!(one.ends_with("/1#1-0") && two.ends_with("/2#1-0"), "{one} {two}");
    // The job can't leave it.
    let out = job_of(
        &cluster,
        NOBODY,
        "for root in /sys/fs/cgroup /sys/fs/cgroup/unified; do \
         echo $$ 2>/dev/null > $root/cgroup.procs && echo left; done; cat /proc/self/cgroup",
    );
    assert!(!out.contains("left") && out.contains("/3#1-0"), "{out}");
}

#[test]
fn the_shepherd_and_the_server_can_not_be_traced_by_a_jobs_user() {
    let Some(cluster) = cluster() else { return };
    // Memory, descriptors and environment are open to processes that may trace it.
    let server = cluster.server_pid();
    let line = format!(
        "for pid in $PPID {server}; do \
         for file in environ mem maps fd/0 fd/1 root cwd exe; do \
         (head -c1 /proc/$pid/$file || readlink /proc/$pid/$file) 2>/dev/null && echo $file; done; \
         ls /proc/$pid/fd 2>/dev/null; kill -0 $pid 2>/dev/null && echo signalled; \
         kill -9 $pid 2>/dev/null && echo killed; done; echo done"
    );
    assert_eq!(job_of(&cluster, NOBODY, &line), "done\n");
    assert!(cluster.client().ready().is_ok());
}

#[test]
fn the_environment_of_another_users_job_can_not_be_read() {
    let Some(cluster) = cluster() else { return };
    let canary = "canary-91c4";
    let variable = format!("TOKEN={canary}");
    let words = ["submit", "-e", &variable, "--", "sleep", "1000"];
    let id = as_user(&cluster, SOMEBODY, &words).ok();
    cluster.until_is(id.trim(), "running");
    let line = format!("cat /proc/[0-9]*/environ 2>/dev/null | grep -ac {canary}");
    assert_eq!(outside(SOMEBODY, "sh", &["-c", &line]).trim(), "1", "its own user may");
    assert_eq!(outside(NOBODY, "sh", &["-c", &line]).trim(), "0");
    assert_eq!(job_of(&cluster, NOBODY, &line).trim(), "0");
}

#[test]
fn a_secret_in_the_environment_is_in_one_closed_file_and_nowhere_else() {
    let Some(cluster) = cluster() else { return };
    let canary = "canary-5e0d";
    let http = Http::new(&cluster);
    let mut events = http.events(None);
    let job = serde_json::json!({
        "command": ["sleep", "1000"], "directory": "/", "environment": {"API_TOKEN": canary},
        "script": {"name": "s.sh", "text": format!("#!/bin/sh\n# {canary}\nexec \"$@\"\n")},
    });
    let answer = Http::of_user(&cluster, SOMEBODY).post("/api/v1/jobs", &job);
    assert!(answer.status == 201 && !answer.body.contains(canary), "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    cluster.until_is(&id, "running");
    // The command lines of processes do not contain it.
    let listed = Command::new("cat").args(all_command_lines()).output().unwrap();
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(canary));
    cluster.gpool(["cancel", &id]).ok();
    cluster.until_ended(&id);
    for path in [
        "/api/v1/jobs?state=all".to_owned(),
        format!("/api/v1/jobs/{id}"),
        format!("/api/v1/jobs/{id}/why"),
        "/api/v1/gpus".to_owned(),
        "/api/v1/nodes".to_owned(),
        "/api/v1/status".to_owned(),
        "/metrics".to_owned(),
    ] {
        let answer = http.get(&path);
        assert!(answer.status == 200 && !answer.body.contains(canary), "{path}: {answer:?}");
    }
    loop {
        let (_, event) = next_event(&mut events);
        assert!(!event.to_string().contains(canary), "{event}");
        if event["job"] == *id && event["state"] == "cancelled" {
            break;
        }
    }
    assert!(!cluster.log().contains(canary));
    let mut holders = Vec::new();
    for file in all_files(&cluster.state()) {
        let about = file.symlink_metadata().unwrap();
        if !about.is_file() {
            continue;
        }
        let bytes = std::fs::read(&file).unwrap();
        if bytes.windows(canary.len()).any(|part| part == canary.as_bytes()) {
            holders.push((file, about));
        }
    }
    for (file, about) in &holders {
        let below = file.strip_prefix(cluster.state()).unwrap();
        let (mode, uid) = (about.mode() & 0o777, about.uid());
        if below.starts_with("blobs") {
            assert_eq!((mode, uid), (0o600, 0), "{below:?}");
        } else {
            // The unchanged script, which its user runs.
            assert_eq!((below, mode, uid), (Path::new("jobs/1/1/script"), 0o700, SOMEBODY));
        }
    }
    assert!(holders.iter().any(|(file, _)| file.starts_with(cluster.state().join("blobs"))));
}

fn all_command_lines() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_process = |name: &str| name.bytes().all(|byte| byte.is_ascii_digit());
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_process))
        .map(|entry| entry.path().join("cmdline"))
        .collect()
}

#[test]
fn files_of_the_server_and_of_others_are_closed() {
    let Some(cluster) = cluster() else { return };
    let id = as_user(&cluster, SOMEBODY, &["submit", "--", "sh", "-c", "echo mine; sleep 1000"]);
    let id = id.ok();
    cluster.until_is(id.trim(), "running");
    until_so("it has written", || cluster.stdout_of(id.trim()) == "mine\n");
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    assert_eq!(mode(&cluster.state()), 0o711);
    assert_eq!(mode(&cluster.state().join("blobs")), 0o700);
    assert_eq!(mode(&cluster.state().join("agent.sock")), 0o600);
    let files = all_files(&cluster.state());
    assert!(files.len() > 8, "{files:?}");
    let others = {
        // The files that another user can open; a thread of this process acts as that user.
        let files = files.clone();
        let open = move || {
            let (uid, gid) =
                (rustix::process::Uid::from_raw(NOBODY), rustix::process::Gid::from_raw(NOBODY));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            files.into_iter().filter(|file| can_open(file)).collect::<Vec<_>>()
        };
        std::thread::spawn(open).join().unwrap()
    };
    assert_eq!(others, [] as [PathBuf; 0]);
    // Only a file's owner can write to it.
    for file in &files {
        let about = file.symlink_metadata().unwrap();
        assert_eq!(about.mode() & 0o022, 0, "{}", file.display());
    }
}

fn can_open(file: &Path) -> bool {
    if file.symlink_metadata().is_ok_and(|about| about.file_type().is_socket()) {
        return std::os::unix::net::UnixStream::connect(file).is_ok();
    }
    std::fs::File::open(file).is_ok() || std::fs::File::options().append(true).open(file).is_ok()
}

#[test]
fn a_state_folder_that_others_may_write_to_is_refused() {
    let cluster = Cluster::unstarted(&["--devices", "none"]);
    std::fs::create_dir(cluster.state()).unwrap();
    let up = || cluster.gpool(["up", "--foreground", "--devices", "none"]);
    std::fs::set_permissions(cluster.state(), PermissionsExt::from_mode(0o777)).unwrap();
    up().refused(1, &["is writable for other users", "--state-dir"]);
    std::fs::set_permissions(cluster.state(), PermissionsExt::from_mode(0o711)).unwrap();
    if !is_root() {
        return skip("in part: only root can give a folder away");
    }
    std::os::unix::fs::chown(cluster.state(), Some(NOBODY), None).unwrap();
    up().refused(1, &["belongs to another user (uid 65534)"]);
    assert_eq!(cluster.state().read_dir().unwrap().count(), 0, "nothing was put there");
}

#[test]
fn a_file_in_place_of_the_socket_is_left_alone() {
    let cluster = Cluster::unstarted(&["--devices", "none"]);
    std::fs::write(cluster.socket(), "precious").unwrap();
    let ran = cluster.gpool(["up", "--foreground", "--devices", "none"]);
    ran.refused(1, &["is not a socket", "--socket"]);
    assert_eq!(std::fs::read_to_string(cluster.socket()).unwrap(), "precious");
}

#[test]
fn links_raced_into_the_folder_of_a_run_reach_nothing() {
    let Some(cluster) = cluster() else { return };
    let precious = cluster.path("precious");
    std::fs::write(&precious, "hush\n").unwrap();
    std::fs::set_permissions(&precious, PermissionsExt::from_mode(0o600)).unwrap();
    let gate = Gate::new(&cluster, "gate");
    // Before its first output the job has no output file, so it makes a link there. Then all kinds
    // of files replace it as fast as possible, while the output is read and written.
    let line = format!(
        "cd $GPOOL_DIR; ln -s {0} stdout; ln {0} hard 2>/dev/null; echo written; {1}; \
         mv $GPOOL_DIR $GPOOL_DIR.away 2>/dev/null && echo moved; \
         end=$(($(date +%s) + 1)); while [ $(date +%s) -le $end ]; do \
         rm -rf stdout; ln -s {0} stdout; rm -f stdout; mkfifo stdout; rm -f stdout; \
         mkdir stdout; rmdir stdout; ln -s /dev/zero stdout; done",
        precious.display(),
        gate.line(),
    );
    let id = as_nobody(&cluster, &["submit", "--", "sh", "-c", &line]).ok();
    cluster.until_is(id.trim(), "running");
    gate.open();
    let http = Http::of_user(&cluster, NOBODY);
    until_so("it has ended", || {
        let said = http.bytes(&format!("/api/v1/jobs/{}/logs", id.trim()));
        assert!(!said.contains("hush") && said.len() < 1000, "{said}");
        cluster.job(id.trim()).state.is_end()
    });
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "hush\n");
    assert!(cluster.state().join("jobs").join(id.trim()).join("1").is_dir(), "it was not moved");
}

#[test]
fn nothing_that_a_job_started_outlives_it() {
    let Some(cluster) = cluster() else { return };
    // In their own sessions and groups, without their parents, and ignoring signals.
    let deaf = "trap '' TERM HUP INT; (sleep 1007 & sleep 1007)";
    let line = format!(
        "for i in 1 2 3; do (setsid sh -c \"{deaf}\" >/dev/null 2>&1 &); done; \
         until [ $(pgrep -u 65534 -fc '^sleep 1007') -ge 6 ]; do :; done; echo all"
    );
    assert_eq!(job_of(&cluster, NOBODY, &line), "all\n");
    until_so("all are gone", || {
        outside(NOBODY, "pgrep", &["-u", "65534", "-fc", "^sleep 1007"]).trim() == "0"
    });
}

#[test]
fn no_word_of_a_user_is_read_as_a_flag_or_by_a_shell() {
    let cluster = Cluster::new("none");
    let words = [
        "; touch pwned",
        "&& touch pwned",
        "| touch pwned",
        "$(touch pwned)",
        "`touch pwned`",
        "\n touch pwned\n",
        "'; touch pwned; '",
        "\"; touch pwned; \"",
        "> pwned",
        ">(touch pwned)",
        "${IFS}touch${IFS}pwned",
        "--help",
        "--version",
        "-e=X",
        "--",
        "-",
        "*",
        "~",
        "%s%n%x",
        "\\",
        "$HOME",
        "!!",
        "#",
        "",
    ];
    // As arguments, in the environment, as the working directory, as files and as the name.
    let print = "printf '%s\\n[end]\\n' \"$@\" \"$WORD\" \"$PWD\"";
    for word in words.iter().filter(|word| !word.is_empty() && !word.contains('\n')) {
        let folder = cluster.work().join(format!("in {word}"));
        std::fs::create_dir_all(&folder).unwrap();
        let (cwd, variable) = (format!("--cwd={}", folder.display()), format!("WORD={word}"));
        // In `--stdout`, `%` begins a pattern, and `%%` is a percent sign.
        let stdout = format!("--stdout=out {}", word.replace('%', "%%"));
        let name = format!("--name=x{word}");
        let flags = ["submit", &cwd, "-e", &variable, &stdout, &name, "--", "sh", "-c", print];
        let id = cluster.gpool(flags.iter().copied().chain(["sh", word])).ok();
        let job = cluster.until_ended(id.trim());
        assert_eq!((job.run.exit_code, &*job.name), (Some(0), &*format!("x{word}")), "{word:?}");
        let out = std::fs::read_to_string(folder.join(format!("out {word}")));
        let expected = format!("{word}\n[end]\n{word}\n[end]\n{}\n[end]\n", folder.display());
        assert_eq!(out.unwrap(), expected, "{word:?}");
    }
    let all = ["submit", "--", "sh", "-c", "printf '%s\\0' \"$@\"", "sh"];
    let id = cluster.gpool(all.iter().chain(&words)).ok();
    cluster.until_ended(id.trim());
    let expected: String = words.iter().map(|word| format!("{word}\0")).collect();
    assert_eq!(cluster.stdout_of(id.trim()), expected);
    let made = all_files(&cluster.work());
    assert!(made.iter().all(|file| file.file_name().unwrap() != "pwned"), "{made:?}");
    // As a reference to a job: it is a plain word, never a flag or a path.
    for word in words.iter().filter(|word| !word.is_empty()) {
        let ran = cluster.gpool(["show", "--", word]);
        assert!(ran.code != 0 && !ran.err.contains("panicked"), "{word:?}: {ran:?}");
    }
}

#[test]
fn gpools_variables_can_not_be_set_by_the_jobs_user() {
    let cluster = Cluster::new("sim:1xH100-80G");
    let lies = [
        "GPOOL_JOB_ID=99",
        "GPOOL_DIR=/",
        "CUDA_VISIBLE_DEVICES=all",
        "NVIDIA_VISIBLE_DEVICES=all",
        "CUDA_DEVICE_ORDER=FASTEST_FIRST",
    ];
    let flags = lies.iter().flat_map(|lie| ["-e", lie]);
    let words = ["submit"].into_iter().chain(flags).chain(["--gpus", "1", "--", "env"]);
    let ran = cluster.gpool(words);
    for lie in lies {
        let name = lie.split('=').next().unwrap();
        assert!(ran.err.contains(&format!("-e {name} has no effect")), "{ran:?}");
    }
    let id = ran.ok();
    cluster.until_ended(id.trim());
    let out = cluster.stdout_of(id.trim());
    for lie in lies {
        assert!(!out.lines().any(|line| line == lie), "{lie} in {out}");
    }
    assert!(out.contains("GPOOL_JOB_ID=1\n") && out.contains("CUDA_VISIBLE_DEVICES=GPU-"), "{out}");
    for name in ["1A", "A-B", "A B", "A;B", "", "A\nB", "é"] {
        let flag = format!("{name}=x");
        cluster.gpool(["submit", "-e", &flag, "--", "true"]).refused(2, &["--env"]);
    }
    // The kernel cuts strings at NUL; such values are refused.
    let http = Http::new(&cluster);
    for field in ["command", "environment", "directory", "stdout", "stdin"] {
        let mut job = serde_json::json!({"command": ["true"], "directory": "/"});
        job[field] = match field {
            "command" => serde_json::json!(["true", "a\0b"]),
            "environment" => serde_json::json!({"A": "a\0b"}),
            _ => serde_json::json!("/a\0b"),
        };
        let answer = http.post("/api/v1/jobs", &job);
        assert_eq!((answer.status, answer.problem_code()), (400, "GP0101".to_owned()), "{field}");
    }
}

#[test]
fn other_processes_are_ignored_on_the_agents_socket() {
    let Some(cluster) = cluster() else { return };
    let id = cluster.submit(["--", "sleep", "1000"]);
    cluster.until_is(&id, "running");
    let socket = cluster.state().join("agent.sock");
    let line = format!(
        "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ntry:\n s.connect({socket:?})\n \
         print('connected')\nexcept PermissionError:\n print('refused')"
    );
    let said = outside(NOBODY, "python3", &["-c", &line]);
    if said.is_empty() {
        return skip("python3 is not installed");
    }
    assert_eq!(said, "refused\n");
    // A process of root that is no shepherd is ignored too.
    use std::io::{Read as _, Write as _};
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    let lie = format!(
        "{{\"hello\":{{\"task\":\"{id}#1/0\"}}}}\n{{\"Hello\":{{\"task\":\"{id}#1/0\"}}}}\n"
    );
    stream.write_all(lie.as_bytes()).unwrap();
    stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0, "the agent closes the connection");
    assert_eq!(cluster.job(&id).state.as_str(), "running");
    kill_9(cluster.shepherd(&id));
}
