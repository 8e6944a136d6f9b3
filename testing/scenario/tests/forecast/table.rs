//! The situations of the corpus.

use crate::corpus::Row;

/// Each situation with the reasons of job `x`.
pub const ROWS: &[Row] = &[
    Row {
        name: "all GPUs are held",
        codes: &["gpus_not_free"],
        scenario: "node lab1 2 x h100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job x 1 pending 5m",
    },
    Row {
        name: "some are free, not enough",
        codes: &["gpus_not_free"],
        scenario: "node lab1 4 x h100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job x 4 pending 5m limit 2h",
    },
    Row {
        name: "enough are free, on two nodes",
        codes: &["gpus_not_free_together"],
        scenario: "node lab1 4 x h100-80g
                   node lab2 4 x h100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job b 2 running lab2[0,1] 1h limit 5h
                   job x 4 pending 5m",
    },
    Row {
        name: "no device of the model is free",
        codes: &["gpus_not_free"],
        scenario: "node lab1 2 x h100-80g + 2 x a100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job x h100:2 pending 5m",
    },
    Row {
        name: "no device with that memory is free",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g + 1 x t4-16g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 40G..:1 pending 5m",
    },
    Row {
        name: "no node has the model",
        codes: &["gpu_model_missing"],
        scenario: "node lab1 2 x h100-80g
                   job x a100:1 pending 5m",
    },
    Row {
        name: "no node has as many of the model",
        codes: &["gpu_model_missing"],
        scenario: "node lab1 2 x h100-80g + 4 x a100-80g
                   job x h100:4 pending 5m",
    },
    Row {
        name: "no device has the memory",
        codes: &["gpu_memory_too_small"],
        scenario: "node lab1 2 x h100-80g
                   job x 100G..:1 pending 5m",
    },
    Row {
        name: "cores are short",
        codes: &["cpu_or_mem_short"],
        scenario: "node lab1 2 x h100-80g cpus 8
                   job a 1 running lab1[0] 1h cpus 6 limit 3h
                   job x 1 pending 5m cpus 4",
    },
    Row {
        name: "memory is short",
        codes: &["cpu_or_mem_short"],
        scenario: "node lab1 2 x h100-80g mem 64G
                   job a 1 running lab1[0] 1h mem 50G limit 3h
                   job x 1 pending 5m mem 32G",
    },
    Row {
        name: "no room for more tasks",
        codes: &["cpu_or_mem_short"],
        scenario: "node lab1 2 x h100-80g tasks 1
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 pending 5m",
    },
    Row {
        name: "a job without GPUs waits for cores",
        codes: &["cpu_or_mem_short"],
        scenario: "node lab1 0 x h100-80g cpus 4
                   job a 0 running lab1 1h cpus 4 limit 3h
                   job x 0 pending 5m cpus 2",
    },
    Row {
        name: "an older job is ahead",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 pending 10m limit 1h
                   job x 1 pending 5m",
    },
    Row {
        name: "a smaller job is ahead",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 2 x h100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job b 1 pending 5m limit 6h
                   job x 2 pending 10m limit 1h",
    },
    Row {
        name: "a job of higher priority is ahead",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 pending 1m priority 10 limit 4h
                   job x 1 pending 10m",
    },
    Row {
        name: "an escalated job is ahead",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 2 x h100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job b 2 pending 30h limit 4h
                   job x 1 pending 10m",
    },
    Row {
        name: "many are ahead",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 x 5 pending 10m limit 1h
                   job x 1 pending 5m",
    },
    Row {
        name: "it waits for a job that runs",
        codes: &["waits_for_job"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 waiting after a",
    },
    Row {
        name: "it waits for a job that waits",
        codes: &["waits_for_job"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 pending 10m limit 2h
                   job x 1 waiting after b",
    },
    Row {
        name: "it waits for two jobs",
        codes: &["waits_for_job", "waits_for_job"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 running lab1[1] 1h limit 7h
                   job x 2 waiting after a,end:b",
    },
    Row {
        name: "it waits for a failure",
        codes: &["waits_for_job"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 waiting after fail:a",
    },
    Row {
        name: "its user holds it",
        codes: &["held_by_user"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 held 10m",
    },
    Row {
        name: "an admin holds it",
        codes: &["held_by_admin"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 held by admin 10m",
    },
    Row {
        name: "it is held and there is room",
        codes: &["held_by_user"],
        scenario: "node lab1 1 x h100-80g
                   job x 1 held 10m",
    },
    Row {
        name: "somebody else uses the device",
        codes: &["gpus_not_free", "unmanaged_process"],
        scenario: "node lab1 1 x h100-80g
                   gpu lab1[0] unmanaged by eve
                   job x 1 pending 5m",
    },
    Row {
        name: "one of two is used by somebody else",
        codes: &["gpus_not_free", "unmanaged_process"],
        scenario: "node lab1 2 x h100-80g
                   gpu lab1[0] unmanaged by eve
                   job a 1 running lab1[1] 1h limit 3h
                   job x 1 pending 5m",
    },
    Row {
        name: "a device is faulty",
        codes: &["gpus_not_free", "gpu_unhealthy"],
        scenario: "node lab1 2 x h100-80g
                   gpu lab1[1] unhealthy
                   job a 1 running lab1[0] 1h limit 3h
                   job x 2 pending 5m",
    },
    Row {
        name: "a device is lost",
        codes: &["gpus_not_free", "gpu_unhealthy"],
        scenario: "node lab1 2 x h100-80g
                   gpu lab1[1] lost
                   job x 2 pending 5m",
    },
    Row {
        name: "a device does not answer",
        codes: &["gpus_not_free", "gpu_unhealthy"],
        scenario: "node lab1 2 x h100-80g
                   gpu lab1[1] unknown
                   job x 2 pending 5m",
    },
    Row {
        name: "a device is kept from new work",
        codes: &["gpus_not_free", "gpu_not_allowed", "gpu_not_allowed"],
        scenario: "node lab1 2 x h100-80g
                   gpu lab1[0-1] forbidden
                   job x 1 pending 5m",
    },
    Row {
        name: "a device is divided",
        codes: &["gpus_not_free", "gpu_unhealthy"],
        scenario: "node lab1 1 x h100-80g
                   gpu lab1[0] mig
                   job x 1 pending 5m",
    },
    Row {
        name: "the node is away",
        codes: &["agent_unreachable"],
        scenario: "node lab1 2 x h100-80g unreachable
                   job x 1 pending 5m",
    },
    Row {
        name: "the node that could is away",
        codes: &["agent_unreachable"],
        scenario: "node lab1 2 x h100-80g
                   node lab2 4 x h100-80g unreachable
                   job x 4 pending 5m",
    },
    Row {
        name: "the node is drained",
        codes: &["node_drained"],
        scenario: "node lab1 2 x h100-80g
                   drain lab1
                   job x 1 pending 5m",
    },
    Row {
        name: "a device is drained",
        codes: &["node_drained"],
        scenario: "node lab1 2 x h100-80g
                   drain lab1[1] by 3h
                   job x 2 pending 5m",
    },
    Row {
        name: "what runs has no limit",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 2h
                   job x 1 pending 5m",
    },
    Row {
        name: "what runs is past its limit",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 4h limit 3h
                   job x 1 pending 5m",
    },
    Row {
        name: "what runs is leaving",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 stopping lab1[0] 4h limit 9h
                   job x 1 pending 5m",
    },
    Row {
        name: "what runs is just starting",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 starting lab1[0] limit 2h
                   job x 1 pending 5m",
    },
    Row {
        name: "an array is ahead of it",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 2 x h100-80g
                   job a 2 running lab1[0,1] 1h limit 3h
                   job b 1 x 9 pending 10m limit 30m
                   job x 1 pending 5m limit 10m",
    },
    Row {
        name: "everybody asks for everything",
        codes: &["gpus_not_free", "ahead_in_order"],
        scenario: "node lab1 8 x h100-80g
                   job a 8 running lab1[0-7] 1h limit 2h
                   job b 8 pending 3h limit 2h
                   job x 8 pending 2h limit 2h",
    },
    Row {
        name: "it lies beyond the horizon",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 300h
                   job x 1 pending 5m",
    },
    Row {
        name: "either of two models",
        codes: &["gpus_not_free"],
        scenario: "node lab1 1 x h100-80g + 1 x a100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 running lab1[1] 1h limit 5h
                   job x a100|h100:1 pending 5m",
    },
    Row {
        name: "it is kept for another user",
        codes: &["reserved_for_other"],
        scenario: "node lab1 1 x h100-80g
                   job x 1 pending 5m
                   reserve r1 lab1[0] for uid 1001 begun 1h long 5h",
    },
    Row {
        name: "it is kept for another project until released",
        codes: &["reserved_for_other"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 pending 5m
                   reserve r1 lab1[1] for project nlp begun 1h",
    },
    Row {
        name: "a reservation begins before it would end",
        codes: &["reserved_for_other"],
        scenario: "node lab1 1 x h100-80g
                   job x 1 pending 5m limit 4h
                   reserve r1 lab1[0] for uid 1001 in 2h long 3h",
    },
    Row {
        name: "a reservation comes and it has no limit",
        codes: &["reserved_for_other"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[1] 1h limit 3h
                   job x 1 pending 5m
                   reserve r1 lab1[0] for uid 1001 in 12h long 3h every 24h",
    },
    Row {
        name: "maintenance begins before it would end",
        codes: &["maintenance_soon"],
        scenario: "node lab1 2 x h100-80g
                   job x 1 pending 5m limit 6h
                   reserve m1 lab1 for nobody in 2h long 2h",
    },
    Row {
        name: "maintenance is under way",
        codes: &["maintenance_soon"],
        scenario: "node lab1 2 x h100-80g
                   job x 2 pending 5m limit 6h
                   reserve m1 lab1 for nobody begun 1h long 4h",
    },
    Row {
        name: "the node is drained by a deadline",
        codes: &["node_drained"],
        scenario: "node lab1 1 x h100-80g
                   drain lab1 by 5h
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 pending 5m",
    },
    Row {
        name: "a planned start keeps it",
        codes: &["would_delay", "ahead_in_order"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 2 pending 30h limit 1h
                   job x 1 pending 5m limit 4h",
    },
    Row {
        name: "a planned start keeps it, having no limit",
        codes: &["would_delay", "ahead_in_order"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job b 2 pending 10m priority 5 limit 1h
                   job x 1 pending 5m",
    },
    Row {
        name: "its begin time has not come",
        codes: &["begin_time"],
        scenario: "node lab1 1 x h100-80g
                   job x 1 waiting 5m begin 3h",
    },
    Row {
        name: "its begin time has not come and all is held",
        codes: &["begin_time"],
        scenario: "node lab1 1 x h100-80g
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 waiting 5m begin 6h",
    },
    Row {
        name: "it waits for a job and for its time",
        codes: &["waits_for_job", "begin_time"],
        scenario: "node lab1 2 x h100-80g
                   job a 1 running lab1[0] 1h limit 5h
                   job x 1 waiting 5m begin 6h after a",
    },
    Row {
        name: "its user runs as many jobs as may be",
        codes: &["quota_user"],
        scenario: "node lab1 4 x h100-80g
                   cap all running 1
                   job a 1 running lab1[0] 1h limit 3h
                   job x 1 pending 5m",
    },
    Row {
        name: "its user has as many GPUs as may be",
        codes: &["quota_user"],
        scenario: "node lab1 4 x h100-80g
                   cap ana gpus 2
                   job a 1 running lab1[0] 1h limit 3h
                   job x 2 pending 5m",
    },
    Row {
        name: "its user has as many GPUs as may be in a department",
        codes: &["quota_user_in_project"],
        scenario: "node lab1 4 x h100-80g
                   project lab user-gpus 2
                   project red in lab gpus 4
                   job a 1 running lab1[0] 1h limit 3h project red
                   job x 2 pending 5m project red",
    },
    Row {
        name: "its user has a cap and all is held",
        codes: &["quota_user", "gpus_not_free"],
        scenario: "node lab1 2 x h100-80g
                   cap ana running 1 gpus 1
                   job a 1 running lab1[0] 1h limit 3h
                   job b 1 running lab1[1] 1h limit 6h uid 1001
                   job x 1 pending 5m",
    },
];
