//! The errors that a plan or a state can contain, as data.

use gpool_model::job::JobState;
use gpool_model::{
    Attempt, Bytes, DeviceUuid, JobId, NodeName, ProjectName, Reason, ResourceKind, Revision,
    Shape, TaskId, Timestamp,
};
use thiserror::Error;

use crate::unusable::Unusable;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// The plan was made from another state.
    #[error("the plan is based on revision {plan}, and the state is at {world}")]
    WrongBasis {
        /// The revision that the plan names.
        plan: Revision,
        world: Revision,
    },
    /// A plan starts a job that does not exist.
    #[error("job {job} is started, and does not exist")]
    NoSuchJob { job: JobId },
    /// A plan starts a job that is not pending.
    #[error("job {job} is started in state {state}")]
    NotPending { job: JobId, state: JobState },
    /// A job that wants a node alone runs there beside another job.
    #[error("job {job} shares {node} with another job, and one of them requests exclusive nodes")]
    NotAlone { job: JobId, node: NodeName },
    /// A task is placed on a node that its job may not use.
    #[error("job {job} is started on {node}, which its node filter excludes")]
    WrongNode { job: JobId, node: NodeName },
    /// A task is placed on a node that is not in the pool that its job asked for.
    #[error("job {job} is started on {node}, which is not in its pool")]
    WrongPool { job: JobId, node: NodeName },
    /// A plan starts a job although its user has reached a cap.
    #[error("job {job} is started, and user {uid} would exceed a cap")]
    OverQuota { job: JobId, uid: u32 },
    /// A plan starts a job although its project, or one above it, has reached its quota.
    #[error("job {job} is started, and project {project} would exceed its quota of {kind}")]
    OverProjectQuota { job: JobId, project: ProjectName, kind: ResourceKind },
    /// A plan reclaims capacity that the victim's project is guaranteed.
    #[error("job {job} is evicted, and its project is within its guarantee")]
    OwnTakenBack { job: JobId },
    /// A plan evicts a job that must not be evicted, or that frees nothing for a start.
    #[error("job {job} is evicted: {what}")]
    WrongEviction { job: JobId, what: &'static str },
    /// The index of leaving jobs is wrong about a job.
    #[error("job {job} and its records differ on whether it releases its allocation")]
    WrongLeaving { job: JobId },
    /// The counts of a project differ from what its jobs hold.
    #[error("the usage of project {project} differs from that of its jobs")]
    WrongHoldings { project: ProjectName },
    /// A job is pending although something keeps it from being considered.
    #[error("job {job} is pending and should be waiting")]
    WaitsAndPending { job: JobId },
    /// A plan starts a job twice.
    #[error("job {job} is started twice")]
    StartedTwice { job: JobId },
    /// A plan resumes a paused job on other devices than its own.
    #[error("job {job} is paused, and resumes on other devices")]
    GoesOnElsewhere { job: JobId },
    /// A plan starts a job as another attempt than its next one.
    #[error("job {job} is started as attempt {plan}, and its next attempt is {next}")]
    WrongAttempt { job: JobId, plan: Attempt, next: Attempt },
    /// The tasks of a job are not spread over nodes as it asked: on that many nodes, that many
    /// each.
    #[error("the tasks of job {job} are not distributed over nodes as requested")]
    WrongSpread { job: JobId },
    /// The nodes of a gang differ in the label of its topology.
    #[error("the nodes of {job} do not have the same value of the label of its topology")]
    NotTogether { job: JobId },
    /// The recorded states of a job's tasks do not fit its phase.
    #[error("the tasks of job {job} do not match its phase")]
    WrongTaskCourses { job: JobId },
    /// A job has more or fewer placements than tasks.
    #[error("job {job} has {places} placements for {tasks} tasks")]
    WrongNumberOfTasks {
        job: JobId,
        /// How many placements, or allocations.
        places: usize,
        tasks: usize,
    },
    /// A decision names itself or a later decision as one that it comes after.
    #[error("decision {decision} depends on decision {after}, which does not come before it")]
    AfterLater {
        /// The position of the decision.
        decision: usize,
        /// The position of the decision that it comes after.
        after: u32,
    },
    /// A plan starts more elements of an array than may run at once.
    #[error("{running} elements of job {job} run at once, and the limit is {most}")]
    TooManyAtOnce {
        job: JobId,
        /// How many run after the plan.
        running: u32,
        most: u32,
    },
    /// An array contradicts itself or its elements.
    #[error("the array of job {job}: {what}")]
    WrongArray { job: JobId, what: &'static str },
    /// A plan places a task on a node that does not exist.
    #[error("job {job} is placed on node {node}, which does not exist")]
    NoSuchNode { job: JobId, node: NodeName },
    /// A plan places a task on a node without a connected agent.
    #[error("job {job} is placed on node {node}, which is not connected")]
    NotConnected { job: JobId, node: NodeName },
    /// A plan places a task on a node that is being drained.
    #[error("job {job} is placed on node {node}, which is drained")]
    NodeDrained { job: JobId, node: NodeName },
    /// A plan gives a task a device that its node does not have.
    #[error("job {job} gets device {device}, which node {node} does not have")]
    NoSuchDevice { job: JobId, node: NodeName, device: DeviceUuid },
    /// A slot names another index than that of its device.
    #[error("job {job} gets device {device} as number {slot_index}, and its number is {index}")]
    WrongIndex { job: JobId, device: DeviceUuid, slot_index: u32, index: u32 },
    /// The slots of a task are not in the order of device indexes, or name a device twice.
    #[error("the devices of job {job} on node {node} are not sorted and unique")]
    SlotsOutOfOrder { job: JobId, node: NodeName },
    /// A task gets another part of a device than it asked for.
    #[error("job {job} gets another fraction of device {device} than requested")]
    WrongPart { job: JobId, device: DeviceUuid },
    /// The shares of a device add up to more than its memory.
    #[error("the fractions on device {device} of node {node} use {booked}, and it has {memory}")]
    SharesTooLarge { node: NodeName, device: DeviceUuid, memory: Bytes, booked: Bytes },
    /// A job waits for a task to leave its claimed devices, and the task stays.
    #[error("job {0} claims devices and waits for task {1}, which does not leave")]
    ClaimBehindOther(JobId, TaskId),
    /// A job does not start although no task that it waits for is left.
    #[error("job {0} claims devices, waits for no task, and does not start")]
    ClaimUnused(JobId),
    /// Two jobs share a device, and one of them does not accept the other.
    #[error("jobs {1} and {2} may not share device {0}")]
    MayNotShare(DeviceUuid, JobId, JobId),
    /// A task has more or fewer devices than it asked for.
    #[error("job {job} requests {n_requested} devices and gets {n_assigned}")]
    WrongNumberOfDevices { job: JobId, n_requested: u32, n_assigned: usize },
    /// A task has a device of another kind than it asked for.
    #[error("job {job} gets device {device}, and its model or memory does not match the request")]
    WrongKind { job: JobId, device: DeviceUuid },
    /// A task has devices that match different models of its request.
    #[error("job {job} gets devices of several models")]
    MixedKinds { job: JobId },
    /// A plan gives a task a device that new work may not use.
    #[error("job {job} gets device {device}, which is {why}")]
    DeviceUnusable { job: JobId, device: DeviceUuid, why: Unusable },
    /// Two tasks have the same device.
    #[error("device {device} of node {node} is allocated to {second}, and {first} has it")]
    DeviceGivenTwice {
        node: NodeName,
        device: DeviceUuid,
        first: TaskId,
        /// The task that gets it, or has it too.
        second: TaskId,
    },
    /// The bookings of a node exceed its capacity.
    #[error("node {node} has {capacity} of {kind}, and {booked} is allocated")]
    Overbooked { node: NodeName, kind: ResourceKind, capacity: u64, booked: u64 },
    /// A job starts before a job that comes first and asks for the same.
    #[error(
        "job {started} is started before job {passed}, which is earlier in the queue and has the \
         same request"
    )]
    OutOfOrder {
        started: JobId,
        /// The job that comes before it.
        passed: JobId,
    },
    /// A start is planned for a job that is not pending, or twice, or out of order.
    #[error("job {job} has a planned start, and is not pending")]
    PlannedForNobody { job: JobId },
    /// The placement of a planned start is not free at that time, or does not stay free.
    #[error("job {job} is planned to start at {at:?} on node {node}, where it does not fit then")]
    PlannedNotFree { job: JobId, at: Timestamp, node: NodeName },
    /// The planned start of a job is missing, or not the earliest.
    #[error("job {job} could start at {earliest:?}, and its planned start is not then")]
    PlannedOtherwise { job: JobId, earliest: Timestamp },
    /// A job starts on capacity that is reserved for others before the job would end.
    #[error(
        "job {job} is started on devices of node {node} that reservation {reservation} reserves \
         for others"
    )]
    Reserved { job: JobId, node: NodeName, reservation: gpool_model::ReservationName },
    /// A job starts on capacity that is not reserved for it, and the policy allows only reserved.
    #[error("job {job} is started on devices of node {node} that are not reserved for it")]
    NotReserved { job: JobId, node: NodeName },
    /// A job waits although it fits a node.
    #[error("job {job} waits, and fits node {node}")]
    FitsAndWaits { job: JobId, node: NodeName },
    /// A plan's waits count another number of jobs of a shape than it leaves waiting.
    #[error("the plan has {planned} waiting jobs of a shape, and the state {waiting}: {shape:?}")]
    WrongWait {
        shape: Box<Shape>,
        /// The number in the plan, over all waits of the shape.
        planned: u64,
        waiting: u64,
    },
    /// A plan has several waits for one shape.
    #[error("a shape has two reasons: {shape:?}")]
    WaitTwice { shape: Box<Shape> },
    /// The reason of a wait is not true.
    #[error("this reason does not apply to {shape:?}: {reason:?}")]
    ReasonUntrue { shape: Box<Shape>, reason: Reason },
    /// The two records of a job, or its key, name different jobs.
    #[error("the records of job {job} have the ID of another job")]
    MixedRecords {
        /// The job in the key.
        job: JobId,
    },
    /// A job that has ended is still in memory.
    #[error("job {job} has ended and is still in memory")]
    EndedInMemory { job: JobId },
    /// A job's number is above the last one that was assigned.
    #[error("the number of job {job} is above the last one assigned")]
    UnassignedNumber { job: JobId },
    /// A job's attempt, or the generation of a job that holds something, is 0.
    #[error("job {job} has attempt or generation 0")]
    NotCounted { job: JobId },
    /// An allocation names another task than its own.
    #[error("job {job} has the allocation of task {task}")]
    WrongTask { job: JobId, task: TaskId },
    /// An allocation books other resources than the job asked for.
    #[error("the allocation of job {job} differs from its request")]
    WrongResources { job: JobId },
    /// The state of an allocation does not fit the job's state.
    #[error("an allocation of job {job} does not match its state {state}")]
    WrongAllocationState { job: JobId, state: JobState },
    /// A job waits for other jobs, but none of them exists any more.
    #[error("job {job} waits for no job that has not ended")]
    WaitsForNothing { job: JobId },
    /// The counters of a node differ from the allocations of jobs there.
    #[error("the ledger of node {node} is wrong about {what}")]
    WrongLedger {
        node: NodeName,
        /// The wrong entry: a kind of resource, or a device.
        what: String,
    },
    /// An index differs from the jobs.
    #[error("the index of {index} is wrong about {about}")]
    WrongIndexEntry { index: &'static str, about: String },
    /// The state's records load as another state.
    #[error("a state loaded from the records differs: {how}")]
    LoadsDifferently { how: String },
}
