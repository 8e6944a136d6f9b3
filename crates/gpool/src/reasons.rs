//! A page for each reason that a job can wait for: what it means and what can be done. The words
//! with numbers that `why` and `queue` show come from the API; the codes are stable.

/// One reason.
pub struct About {
    /// As the API writes it.
    pub code: &'static str,
    /// What it means.
    pub what: &'static str,
    /// What can be done.
    pub tip: &'static str,
}

const fn about(code: &'static str, what: &'static str, tip: &'static str) -> About {
    About { code, what, tip }
}

/// Every reason, by code.
pub const REASONS: &[About] = &[
    about(
        "agent_unreachable",
        "The node's agent does not answer, so nothing is started there.",
        "gpool status; it goes on by itself when the agent is back",
    ),
    about(
        "ahead_in_order",
        "Another job is before it, and what is free is for that one.",
        "gpool queue shows the order; gpool prio changes it as far as you may",
    ),
    about(
        "backoff_after_failure",
        "It failed, and is tried again after a pause.",
        "gpool show says when",
    ),
    about("begin_time", "It is not to start before a moment (--begin).", "gpool edit changes it"),
    about(
        "cpu_or_mem_short",
        "The nodes with free GPUs lack CPU cores or memory.",
        "ask for less by --cpus and --mem",
    ),
    about(
        "slots_kept_for_gpus",
        "The node has task slots left and keeps them for jobs with GPUs (node_gpu_tasks_kept).",
        "it starts when a job without GPUs ends there; gpool queue shows those that run",
    ),
    about(
        "user_slots",
        "Its user has as many task slots as one user may have (node_user_tasks_max).",
        "it starts when another job of the user ends",
    ),
    about(
        "dependency_failed",
        "A job that it waits for ended otherwise than was asked, so it can never start.",
        "gpool show names that job; gpool cancel takes this one off the queue",
    ),
    about(
        "gpu_time_had",
        "Whoever has had less GPU-time goes first here, and this job and another differ in it.",
        "nothing; gpool policy show has the bounds between levels",
    ),
    about("gpu_memory_too_small", "No free GPU has as much memory as is asked.", "gpool gpus"),
    about(
        "gpu_model_missing",
        "No free GPU is of a model that is asked.",
        "name more: 'a100|h100'",
    ),
    about("gpu_not_allowed", "An admin keeps the GPUs from new jobs.", "gpool gpus allow all"),
    about("gpu_share_not_free", "No GPU has so large a share left.", "ask for a smaller share"),
    about(
        "gpu_unhealthy",
        "The driver reports a fault of the GPU; it is given to nobody.",
        "gpool gpus shows the fault; an admin looks at the machine",
    ),
    about(
        "nodes_not_free",
        "Fewer nodes have room at once than a job of several nodes needs.",
        "ask for fewer nodes, or less on each",
    ),
    about(
        "tasks_not_free",
        "Fewer tasks of a job have room at once than it starts with, wherever they may be.",
        "ask for fewer tasks, or less for each",
    ),
    about("gpus_not_free", "Fewer GPUs are free than are asked.", "gpool why shows who has them"),
    about(
        "gpus_not_free_together",
        "Enough GPUs are free, but not on one node.",
        "ask for fewer, or wait until one node has them",
    ),
    about(
        "group_parallel_limit",
        "As many elements of the array run as may at once.",
        "gpool edit changes the limit",
    ),
    about(
        "held_by_admin",
        "An admin stopped it, and only an admin can start it.",
        "ask the admin that gpool why names; gpool cancel ends it",
    ),
    about("held_by_user", "Its user holds it.", "gpool release"),
    about(
        "maintenance_soon",
        "It would not end before a maintenance of the node begins.",
        "a shorter --time may fit before it",
    ),
    about(
        "node_occupied",
        "It wants a node alone (--exclusive) where other jobs run, or such a job has the node.",
        "it starts when the others have ended; gpool edit --no-exclusive lets it run beside others",
    ),
    about("node_drained", "The node takes no new work.", "gpool nodes shows until when and why"),
    about(
        "only_in_pool",
        "It was submitted for one pool of nodes (--pool), so others are not looked at.",
        "gpool pool shows which nodes are in it; without --pool it may run on any",
    ),
    about(
        "only_on_nodes",
        "It was submitted for some nodes only (--node, --not-node, --where).",
        "gpool nodes -o wide shows the labels of nodes; gpool edit changes which it may use",
    ),
    about(
        "path_or_image_missing",
        "A folder or file that it needs is not there.",
        "make it, or submit again with another",
    ),
    about(
        "preemption_grace",
        "What others had on loan is taken back for it, and they are still leaving its place.",
        "nothing; it starts when they have left, or when their grace is over",
    ),
    about(
        "not_reserved",
        "Only GPUs that are reserved are given out, and too few are reserved for it and free.",
        "an admin reserves some with gpool reserve create; gpool reserve list shows what there is",
    ),
    about(
        "paused_on",
        "It is paused, and goes on on the devices that it had; not all of them are free.",
        "gpool gpus shows who has them; gpool requeue runs it again anywhere, from its start",
    ),
    about(
        "quota_project",
        "Its project, or one above it, holds as much as it may, or as is guaranteed.",
        "gpool quota; a job with --preemptible may borrow what stands idle",
    ),
    about(
        "quota_user",
        "Its user runs or holds as much as one user may.",
        "it goes on when another job of that user has ended",
    ),
    about(
        "quota_user_in_project",
        "Its user runs or holds as much in the project, or in one above it, as one user may there.",
        "it goes on when another job of that user there has ended; gpool project show names the cap",
    ),
    about(
        "reserved_for_other",
        "What is free is reserved for somebody else.",
        "a shorter --time may fit before the reservation begins",
    ),
    about(
        "unmanaged_process",
        "A process outside gpool uses the GPU.",
        "gpool gpus shows whose it is; it is given out when that has ended",
    ),
    about(
        "set_aside",
        "The scheduler's plan for it broke a rule, so the scheduler holds it and starts others.",
        "gpool release tries again; an admin sends the case in alerts/ to whoever mends gpool",
    ),
    about("waits_for_job", "It waits for another job to end (--after).", "gpool show names it"),
    about(
        "waits_for_one_of",
        "It waits for one of several jobs to end (--after-one).",
        "gpool show names them",
    ),
    about(
        "would_delay",
        "It would fit now, and delay the planned start of a job before it.",
        "a shorter --time may fit in between",
    ),
];

/// The page of all reasons.
#[must_use]
pub fn page() -> String {
    let line = |it: &About| format!("{}\n    {}\n    try: {}\n", it.code, it.what, it.tip);
    REASONS.iter().map(line).collect()
}

/// The page of one reason.
#[must_use]
pub fn find(code: &str) -> Option<String> {
    let found = REASONS.iter().find(|it| it.code == code)?;
    Some(format!("{}\n\n{}\n\ntry  {}\n", found.code, found.what, found.tip))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The codes as the model writes them: a reason carries its facts, so there is no list.
    const MODEL: &str = include_str!("../../model/src/reason.rs");

    #[test]
    fn every_reason_has_its_page_and_there_is_no_other() {
        let code = |line: &'static str| {
            let (_, rest) = line.split_once("=> \"")?;
            rest.strip_suffix("\",")
        };
        let from = MODEL.find("fn code(").expect("reasons have codes");
        let until = MODEL[from..].find("\n    }\n").map_or(MODEL.len(), |end| from + end);
        let model: BTreeSet<&str> = MODEL[from..until].lines().filter_map(code).collect();
        let pages: BTreeSet<&str> = REASONS.iter().map(|it| it.code).collect();
        assert_eq!(pages, model);
    }
}
