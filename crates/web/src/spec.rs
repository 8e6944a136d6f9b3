//! A job as the command that submits it again.

use gpool_wire::Job;

use crate::jobs::limit;

/// The command; for a job with a script, which only the server has, the one that retries it.
pub fn command(job: &Job) -> String {
    if job.script {
        return format!("gpool retry {}", job.id);
    }
    let text = |flag: &str, value: &str| Some(format!("--{flag} {}", quoted(value)));
    let list = |flag: &str, values: &[String]| {
        values
            .iter()
            .filter_map(|value| text(flag, value))
            .reduce(|all, one| format!("{all} {one}"))
    };
    let given = |flag: &str, value: &Option<String>| value.as_deref().and_then(|it| text(flag, it));
    let on = |flag: &str, is_on: bool| is_on.then(|| format!("--{flag}"));
    let array = job.array.as_ref();
    let parts = [
        Some("gpool submit".to_owned()),
        text("gpus", &job.gpus).filter(|_| job.gpus != "0"),
        limit(job).and_then(|seconds| text("time", &format!("{seconds}s"))),
        text("name", &job.name),
        text("project", &job.project),
        job.cpus.and_then(|cpus| text("cpus", &cpus.to_string())),
        job.mem.and_then(|mem| text("mem", &format!("{}M", mem >> 20))),
        given("pool", &job.pool),
        list("node", &job.node),
        list("where", &job.rules),
        array.and_then(|array| text("array", &array.indexes)),
        array.and_then(|it| it.max_parallel).and_then(|n| text("max-parallel", &n.to_string())),
        on("exclusive", job.exclusive),
        on("preemptible", job.preemptible),
        text("priority", &job.priority.to_string()).filter(|_| job.priority != 0),
        given("cwd", &job.directory),
        Some("--".to_owned()),
        Some(job.command.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A word for a POSIX shell.
pub fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=,+@%".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}
