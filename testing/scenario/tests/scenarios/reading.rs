//! A scenario that can't be parsed is refused at its first wrong word.

use gpool_scenario::Situation;

/// Returns the error for a scenario, without the excerpt of the line.
fn refusal(text: &str) -> String {
    let error = Situation::parse(text).map(|_| ()).expect_err(text);
    format!("{}:{} {}", error.line, error.column, error.why)
}

#[test]
fn unknown_words_are_refused_with_line_and_column() {
    for (text, expected) in [
        (
            "frob",
            "1:1 unknown word \"frob\", expected policy, node, gpu, link, project, job, element, \
             guest, reserve, drain, cap, past or used",
        ),
        (
            "node a  1 x h100\nnode b  fast",
            "2:9 unknown word \"fast\", expected devices (2 x h100-80g), cpus, mem, tasks, \
             plain, user, pool, label, pauses, checkpoints or unreachable",
        ),
        (
            "policy sort age",
            "1:8 unknown word \"sort\", expected preset, order, escalate, strategy, planned, \
             share, lend-nothing, reserved-only, levels, min-run, share-with, consolidate, \
             stay-put, half-life or use-weight",
        ),
        (
            "policy order age,size",
            "1:14 \"age,size\" is not keys of the order: unknown key \"size\", expected priority, \
             escalated, predicted, attained, gpus, age",
        ),
        (
            "policy strategy best",
            "1:17 \"best\" is not a strategy: expected sequential, random, pack, spread",
        ),
        ("node a  2 h100", "1:11 expected x and a model: 2 x h100-80g"),
        (
            "node a  cpus many",
            "1:14 \"many\" is not a number of cores: \"many\" is not a number of CPU \
             cores; write, for example, 4 or 0.5",
        ),
        (
            "project a  mem 20",
            "1:16 \"20\" is not an amount of memory: \"20\" is not an amount of memory; write, for \
             example, 20G or 512M",
        ),
        ("node a\nnode a", "2:6 node a stands here twice"),
        ("gpu a[0] mig", "1:5 no node a stands above"),
        ("node a  1 x h100\ngpu a[1] mig", "2:5 \"1\" is no device of node a"),
        (
            "node a  1 x h100\ngpu a[0] sad",
            "2:10 unknown word \"sad\", expected unmanaged, unhealthy, lost, unknown, forbidden, \
             mig or occupied",
        ),
        (
            "node a  1 x h100\ngpu a[0] mig now",
            "2:14 unknown word \"now\", expected the end of the line",
        ),
        (
            "node a  2 x h100\nlink a[0-1] rope",
            "2:13 unknown word \"rope\", expected nvlink, switch, bridge or numa",
        ),
        ("job a", "1:6 expected a number of GPUs"),
        ("job a 1", "1:8 expected the state of the job"),
        (
            "job a 1 asleep",
            "1:9 unknown word \"asleep\", expected pending, waiting, held, starting, claiming, \
             running, pausing, paused, resuming, stopping, requeuing, stopping-paused or \
             requeuing-paused",
        ),
        (
            "job a 1 pending  nice 5",
            "1:18 unknown word \"nice\", expected priority, cpus, mem, limit, after, waited, \
             submitted, attempt, uid, project, pool, share-with, on, not-on, where, exclusive, \
             preemptible, exits, had, ran, told, joins, begin, deadline, like, array, ended or id",
        ),
        ("job a 1 pending  after b", "1:24 no job b stands above"),
        ("job a 1 pending\njob a 1 pending", "2:9 job a stands here twice"),
        (
            "job a 1 pending 5x",
            "1:17 \"5x\" is not a length of time: \"5x\" is not a length of time \
             (position 2: 'x'); write, for example, 1h30m or 45s",
        ),
    ] {
        assert_eq!(refusal(text), expected, "{text}");
    }
}

#[test]
fn comments_and_empty_lines_say_nothing() {
    let situation = Situation::parse("\n  # job a 1 pending\n\n").expect("there is nothing in it");
    assert_eq!(situation, Situation::empty());
}

#[test]
fn every_word_is_read_and_written_back() {
    let text = "\
policy  order priority,attained  escalate 90m  strategy pack  levels 0.5,2  \
min-run 90s  half-life 1d  use-weight 0.5
cap all  running 2  pending 7
cap ana  gpus 0.5
node lab1  2 x h100-80g + 1 x a100@79G + 1 x t4-16g  cpus 32  mem 256G  tasks 16
link lab1[0,1,2]  switch
link lab1[0,3]  nvlink 4
gpu lab1[1]  unmanaged by bob
gpu lab1[1]  forbidden
gpu lab1[2]  unhealthy
gpu lab1[3]  mig
node lab2  cpus 1  pool batch  unreachable
job j1  1  starting lab1[0]
job j2  h100:1  running lab1[1] 2h  priority 5  cpus 0.5  mem 20G  limit 1h
job j3  0  stopping lab2 5m
job j4  40G..:2  pending 10m  waited 5m  submitted 1h  had 2.5  attempt 2
job j7  1  waiting 1s  after j1,fail:j2,end:j4  id 7
job j8  1  held by admin 3d
job j9  1  waiting  begin 3h  pool batch
job j10  0.5:1  running lab1[2]
guest j10 lab1[0]
project red  gpus 4  limit 8  cpus 64  cpus-limit 96.5  mem-limit 256G  priority 1
project blue  gpus unlimited  cpus unlimited  mem 512M  mem-limit 1000000B
used 12.5  uid 1001
";
    let situation = Situation::parse(text).expect("every word is known");
    assert_eq!(situation.to_string(), text);
    assert_eq!(
        gpool_verify::check(&gpool_world::Snapshot {
            world: &situation.world(),
            now: situation.now,
        }),
        vec![]
    );
}

#[test]
fn amounts_that_fill_the_memory_or_can_not_be_written_are_refused() {
    for (text, expected) in [
        ("node a  9999 x h100", "1:16 a node has at most 4096 devices"),
        ("node a  1 x @70G", "1:13 expected a model before its memory"),
        ("node a[0]  1 x h100", "1:6 brackets stand around devices"),
        ("job a 1 x 4000000000 pending", "1:22 there are too many jobs"),
        ("job a 1 pending id 18446744073709551615\njob b 1 pending", "2:9 there are too many jobs"),
    ] {
        assert_eq!(refusal(text), expected);
    }
}
