//! The fields of `sacct`.
//!
//! Source: `sacct --helpformat` of Slurm 24.11 and its output for fields without a value. The
//! fields of older versions and two of gpool, ArrayJobID and ArrayTaskID, follow the same rules.

use super::cells::{self, Cell, SlurmJobRow, none};
use super::states::recorded;
use super::steps::OfStep::{Nothing, Own, Same, Text};
use super::steps::{self, OfStep};
use super::table::Field;

/// The content of a field: of a job, the text for no value, and of a step.
#[derive(Clone, Copy)]
pub struct FieldContent(pub Cell, pub &'static str, pub OfStep);

/// A row of the table.
const fn row(
    name: &'static str,
    width: usize,
    of_job: Cell,
    absent: &'static str,
    of_step: OfStep,
) -> Field<FieldContent> {
    (name, width, false, FieldContent(of_job, absent, of_step))
}

/// A row that is aligned to the left.
const fn left_aligned(
    name: &'static str,
    width: usize,
    of_job: Cell,
    absent: &'static str,
    of_step: OfStep,
) -> Field<FieldContent> {
    (name, width, true, FieldContent(of_job, absent, of_step))
}

pub static FIELDS: &[Field<FieldContent>] = &[
    row("Account", 10, cells::account, "", Same),
    row("AdminComment", 15, none, "", Nothing),
    row("AllocCPUS", 10, cells::cpus, "", Own(steps::cpus)),
    row("AllocGRES", 12, cells::gpus_per_node, "", Nothing),
    row("AllocNodes", 10, cells::n_nodes, "", Own(steps::n_nodes)),
    row("AllocTRES", 10, cells::allocated, "", Own(steps::resources)),
    left_aligned("ArrayJobID", 12, cells::array_id, "", Nothing),
    row("ArrayTaskID", 12, cells::array_index, "", Nothing),
    row("AssocID", 7, none, "", Nothing),
    row("AveCPU", 10, none, "", Own(steps::average_cpu)),
    row("AveCPUFreq", 10, none, "0", Text("0")),
    row("AveDiskRead", 14, none, "", Own(steps::read)),
    row("AveDiskWrite", 14, none, "", Own(steps::written_megabytes)),
    row("AvePages", 10, none, "", Text("0")),
    row("AveRSS", 10, none, "", Own(steps::average_memory)),
    row("AveVMSize", 10, none, "", Nothing),
    row("BlockID", 16, none, "", Nothing),
    row("Cluster", 10, cells::cluster, "", Same),
    row("Comment", 14, cells::comment, "", Nothing),
    row("Constraints", 19, cells::features, "", Nothing),
    row("ConsumedEnergy", 14, none, "0", Text("0")),
    row("ConsumedEnergyRaw", 17, none, "0", Text("0")),
    row("Container", 19, none, "", Nothing),
    row("CPUTime", 10, cells::cpu_time, "", Own(steps::cpu_time)),
    row("CPUTimeRAW", 10, cells::cpu_time_raw, "", Own(steps::cpu_time_raw)),
    row("DBIndex", 21, cells::id_raw, "", Same),
    row("DerivedExitCode", 15, none, "0:0", Nothing),
    row("Elapsed", 10, cells::run_time, "", Same),
    row("ElapsedRaw", 10, cells::run_time_raw, "", Same),
    row("Eligible", 19, cells::eligible, "Unknown", Own(steps::start)),
    row("End", 19, cells::end, "Unknown", Same),
    row("ExitCode", 8, cells::exit_code, "", Same),
    row("Extra", 14, none, "", Nothing),
    row("FailedNode", 8, none, "", Nothing),
    row("Flags", 19, none, "", Nothing),
    row("GID", 6, cells::gid, "", Nothing),
    row("Group", 9, cells::group, "", Nothing),
    left_aligned("JobID", 12, cells::id, "", Own(steps::id)),
    left_aligned("JobIDRaw", 12, cells::id_raw, "", Own(steps::id_raw)),
    row("JobName", 10, cells::name, "", Own(steps::name)),
    row("Layout", 9, none, "", Text("Unknown")),
    row("Licenses", 10, none, "", Nothing),
    row("MaxDiskRead", 12, none, "", Own(steps::read)),
    row("MaxDiskReadNode", 15, none, "", Own(steps::only_node)),
    row("MaxDiskReadTask", 15, none, "", Own(steps::only_task)),
    row("MaxDiskWrite", 12, none, "", Own(steps::written_megabytes)),
    row("MaxDiskWriteNode", 16, none, "", Own(steps::only_node)),
    row("MaxDiskWriteTask", 16, none, "", Own(steps::only_task)),
    row("MaxPages", 8, none, "", Text("0")),
    row("MaxPagesNode", 12, none, "", Nothing),
    row("MaxPagesTask", 14, none, "", Nothing),
    row("MaxRSS", 10, none, "", Own(steps::memory)),
    row("MaxRSSNode", 10, none, "", Own(steps::only_node)),
    row("MaxRSSTask", 10, none, "", Own(steps::only_task)),
    row("MaxVMSize", 10, none, "", Nothing),
    row("MaxVMSizeNode", 14, none, "", Nothing),
    row("MaxVMSizeTask", 14, none, "", Nothing),
    row("McsLabel", 12, none, "", Nothing),
    row("MinCPU", 10, none, "", Own(steps::average_cpu)),
    row("MinCPUNode", 10, none, "", Own(steps::only_node)),
    row("MinCPUTask", 10, none, "", Own(steps::only_task)),
    row("NCPUS", 10, cells::cpus, "", Own(steps::cpus)),
    row("NNodes", 8, cells::n_nodes, "", Own(steps::n_nodes)),
    row("NodeList", 15, cells::nodes, "None assigned", Own(steps::nodes)),
    row("NTasks", 8, none, "", Own(steps::n_tasks)),
    row("Partition", 10, cells::partition, "", Nothing),
    row("Planned", 10, cells::waiting, "", Nothing),
    row("PlannedCPU", 10, cells::waiting_core_time, "", Nothing),
    row("PlannedCPURAW", 13, cells::waiting_core_seconds, "", Nothing),
    row("Priority", 10, cells::priority, "", Nothing),
    row("QOS", 10, cells::qos, "", Nothing),
    row("QOSRAW", 6, none, "1", Nothing),
    row("QOSREQ", 10, none, "", Nothing),
    row("Reason", 22, cells::why, "", Nothing),
    row("ReqCPUFreq", 10, none, "Unknown", Text("0")),
    row("ReqCPUFreqGov", 13, none, "Unknown", Text("0")),
    row("ReqCPUFreqMax", 13, none, "Unknown", Text("0")),
    row("ReqCPUFreqMin", 13, none, "Unknown", Text("0")),
    row("ReqCPUS", 8, cells::requested_cpus, "", Own(steps::cpus)),
    row("ReqGRES", 12, cells::gpus_per_node, "", Nothing),
    row("ReqMem", 10, cells::requested_memory, "0", Nothing),
    row("ReqNodes", 8, cells::n_requested_nodes, "", Own(steps::n_nodes)),
    row("ReqTRES", 10, cells::requested, "", Nothing),
    row("Reservation", 20, none, "", Nothing),
    row("ReservationId", 8, none, "", Nothing),
    row("Reserved", 10, cells::waiting, "", Nothing),
    row("Restarts", 8, cells::restarts, "", Nothing),
    row("ResvCPU", 10, cells::waiting_core_time, "", Nothing),
    row("ResvCPURAW", 10, cells::waiting_core_seconds, "", Nothing),
    row("SLUID", 14, none, "", Nothing),
    row("Start", 19, cells::start, "Unknown", Same),
    row("State", 10, state, "", Same),
    row("StdErr", 20, cells::stderr, "", Nothing),
    row("StdIn", 20, cells::stdin, "", Nothing),
    row("StdOut", 20, cells::stdout, "", Nothing),
    row("Submit", 19, cells::submit, "Unknown", Own(steps::start)),
    row("SubmitLine", 20, cells::submit_line, "", Nothing),
    row("Suspended", 10, none, "00:00:00", Text("00:00:00")),
    row("SystemComment", 15, none, "", Nothing),
    row("SystemCPU", 10, cells::system_cpu, "", Same),
    row("Timelimit", 10, cells::limit_long, "UNLIMITED", Nothing),
    row("TimelimitRaw", 10, cells::limit_minutes, "UNLIMITED", Nothing),
    row("TotalCPU", 10, cells::total_cpu, "", Same),
    row("TRESUsageInAve", 14, none, "", Own(steps::usage)),
    row("TRESUsageInMax", 14, none, "", Own(steps::usage)),
    row("TRESUsageInMaxNode", 18, none, "", Nothing),
    row("TRESUsageInMaxTask", 18, none, "", Nothing),
    row("TRESUsageInMin", 14, none, "", Own(steps::usage)),
    row("TRESUsageInMinNode", 18, none, "", Nothing),
    row("TRESUsageInMinTask", 18, none, "", Nothing),
    row("TRESUsageInTot", 14, none, "", Own(steps::usage)),
    row("TRESUsageOutAve", 15, none, "", Nothing),
    row("TRESUsageOutMax", 15, none, "", Nothing),
    row("TRESUsageOutMaxNode", 19, none, "", Nothing),
    row("TRESUsageOutMaxTask", 19, none, "", Nothing),
    row("TRESUsageOutMin", 15, none, "", Nothing),
    row("TRESUsageOutMinNode", 19, none, "", Nothing),
    row("TRESUsageOutMinTask", 19, none, "", Nothing),
    row("TRESUsageOutTot", 15, none, "", Nothing),
    row("UID", 6, cells::uid, "", Nothing),
    row("User", 9, cells::user, "", Nothing),
    row("UserCPU", 10, cells::user_cpu, "", Same),
    row("WCKey", 10, none, "", Nothing),
    row("WCKeyID", 10, none, "0", Nothing),
    row("WorkDir", 20, cells::work_dir, "", Nothing),
];

fn state(row: &SlurmJobRow<'_>) -> Option<String> {
    Some(recorded(row.job).1.to_owned())
}
