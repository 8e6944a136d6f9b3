//! The errors that a plan or a state can contain, as data.

use gpool_model::job::JobState;
use gpool_model::{
    Attempt, Bytes, DeviceUuid, JobId, NodeName, ProjectName, Reason, ResourceKind, Revision,
    Shape, TaskId, Timestamp,
};
use thiserror::Error;

/// Why a device may not be given to new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unusable {
    /// It is faulty or lost, or does not answer.
    #[error("not healthy")]
    Unhealthy,
    /// A process that gpool did not start uses it.
    #[error("in unmanaged use")]
    Unmanaged,
    /// An admin has excluded it from new work.
    #[error("not allowed")]
    NotAllowed,
    /// An admin drains it or its node.
    #[error("being drained")]
    Drained,
    /// It is divided into MIG instances.
    #[error("in MIG mode")]
    Divided,
}

/// One broken invariant.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// The plan was made from another state.
    #[error("the plan was made from revision {plan}, the state is at {world}")]
    WrongBasis {
        /// The revision that the plan names.
        plan: Revision,
        /// The revision of the state.
        world: Revision,
    },
    /// A plan starts a job that does not exist.
    #[error("job {job} is started and does not exist")]
    NoSuchJob {
        /// The job.
        job: JobId,
    },
    /// A plan starts a job that is not pending.
    #[error("job {job} is started while {state}")]
    NotPending {
        /// The job.
        job: JobId,
        /// The job's state.
        state: JobState,
    },
    /// A job that wants a node alone runs there beside another job.
    #[error("job {job} is on {node} beside another, and one of them wants the node alone")]
    NotAlone {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A task is placed on a node that its job may not use.
    #[error("job {job} is started on {node}, which it may not use")]
    WrongNode {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A task is placed on a node that is not in the pool that its job asked for.
    #[error("job {job} is started on {node}, which is not in its pool")]
    WrongPool {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A plan starts a job although its user has reached a cap.
    #[error("job {job} is started, and user {uid} has all that he may have")]
    OverQuota {
        /// The job.
        job: JobId,
        /// The user.
        uid: u32,
    },
    /// A plan starts a job although its project, or one above it, has reached its quota.
    #[error("job {job} is started, and project {project} may not have as much {kind}")]
    OverProjectQuota {
        /// The job.
        job: JobId,
        /// The project.
        project: ProjectName,
        /// The kind of resource.
        kind: ResourceKind,
    },
    /// A plan reclaims capacity that the victim's project is guaranteed.
    #[error("job {job} is taken back, and its project is guaranteed what it holds")]
    OwnTakenBack {
        /// The job.
        job: JobId,
    },
    /// A plan evicts a job that must not be evicted, or that frees nothing for a start.
    #[error("job {job} is taken back: {what}")]
    WrongEviction {
        /// The job.
        job: JobId,
        /// The error.
        what: &'static str,
    },
    /// The index of leaving jobs is wrong about a job.
    #[error("job {job} leaves what it holds, and that is not noted, or the other way round")]
    WrongLeaving {
        /// The job.
        job: JobId,
    },
    /// The counts of a project differ from what its jobs hold.
    #[error("project {project} is counted as holding other than its jobs do")]
    WrongHoldings {
        /// The project.
        project: ProjectName,
    },
    /// A job is pending although something keeps it from being considered.
    #[error("job {job} is pending and should wait")]
    WaitsAndPending {
        /// The job.
        job: JobId,
    },
    /// A plan starts a job twice.
    #[error("job {job} is started twice")]
    StartedTwice {
        /// The job.
        job: JobId,
    },
    /// A plan resumes a paused job on other devices than its own.
    #[error("job {job} is paused, and goes on elsewhere")]
    GoesOnElsewhere {
        /// The job.
        job: JobId,
    },
    /// A plan starts a job as another attempt than its next one.
    #[error("job {job} is started as attempt {plan}, its next is {next}")]
    WrongAttempt {
        /// The job.
        job: JobId,
        /// The attempt in the plan.
        plan: Attempt,
        /// The job's next attempt.
        next: Attempt,
    },
    /// The tasks of a job are not spread over nodes as it asked: on that many nodes, that many
    /// each.
    #[error("the tasks of job {job} are not spread over nodes as it asked")]
    WrongSpread {
        /// The job.
        job: JobId,
    },
    /// The recorded states of a job's tasks do not fit its phase.
    #[error("job {job} has other courses of its tasks than its phase says")]
    WrongTaskCourses {
        /// The job.
        job: JobId,
    },
    /// A job has more or fewer placements than tasks.
    #[error("job {job} has {places} places for {tasks} tasks")]
    WrongNumberOfTasks {
        /// The job.
        job: JobId,
        /// How many placements, or allocations.
        places: usize,
        /// How many tasks it has.
        tasks: usize,
    },
    /// A decision names itself or a later decision as one that it comes after.
    #[error("decision {decision} comes after decision {after}, which is not before it")]
    AfterLater {
        /// The position of the decision.
        decision: usize,
        /// The position of the decision that it comes after.
        after: u32,
    },
    /// A plan starts more elements of an array than may run at once.
    #[error("{running} elements of job {job} run at once, {most} may")]
    TooManyAtOnce {
        /// The job.
        job: JobId,
        /// How many run after the plan.
        running: u32,
        /// How many may.
        most: u32,
    },
    /// An array contradicts itself or its elements.
    #[error("the array of job {job}: {what}")]
    WrongArray {
        /// The array.
        job: JobId,
        /// The contradiction.
        what: &'static str,
    },
    /// A plan places a task on a node that does not exist.
    #[error("job {job} goes to node {node}, which does not exist")]
    NoSuchNode {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A plan places a task on a node without a connected agent.
    #[error("job {job} goes to node {node}, which is not connected")]
    NotConnected {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A plan places a task on a node that is being drained.
    #[error("job {job} goes to node {node}, which is being drained")]
    NodeDrained {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A plan gives a task a device that its node does not have.
    #[error("job {job} gets device {device}, which node {node} does not have")]
    NoSuchDevice {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
        /// The device.
        device: DeviceUuid,
    },
    /// A slot names another index than that of its device.
    #[error("job {job} gets device {device} as number {given}, it is number {index}")]
    WrongIndex {
        /// The job.
        job: JobId,
        /// The device.
        device: DeviceUuid,
        /// The index in the slot.
        given: u32,
        /// The index of the device.
        index: u32,
    },
    /// The slots of a task are not in the order of device indexes, or name a device twice.
    #[error("the devices of job {job} on node {node} are not in order, each once")]
    SlotsOutOfOrder {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A task gets another part of a device than it asked for.
    #[error("job {job} gets another part of device {device} than it asked for")]
    WrongPart {
        /// The job.
        job: JobId,
        /// The device.
        device: DeviceUuid,
    },
    /// The shares of a device add up to more than its memory.
    #[error("shares of {booked} on device {device} of node {node}, which has {memory}")]
    SharesTooLarge {
        /// The node.
        node: NodeName,
        /// The device.
        device: DeviceUuid,
        /// The memory of the device.
        memory: Bytes,
        /// The sum of the shares.
        booked: Bytes,
    },
    /// A task has more or fewer devices than it asked for.
    #[error("job {job} asked for {asked} devices and has {given}")]
    WrongNumberOfDevices {
        /// The job.
        job: JobId,
        /// How many it asked for.
        asked: u32,
        /// How many it has.
        given: usize,
    },
    /// A task has a device of another kind than it asked for.
    #[error("job {job} has device {device}, whose model or memory it did not ask for")]
    WrongKind {
        /// The job.
        job: JobId,
        /// The device.
        device: DeviceUuid,
    },
    /// A task has devices that match different models of its request.
    #[error("job {job} has devices of several of the models that it asked for")]
    MixedKinds {
        /// The job.
        job: JobId,
    },
    /// A plan gives a task a device that new work may not use.
    #[error("job {job} gets device {device}, which is {why}")]
    DeviceUnusable {
        /// The job.
        job: JobId,
        /// The device.
        device: DeviceUuid,
        /// Why not.
        why: Unusable,
    },
    /// Two tasks have the same device.
    #[error("device {device} of node {node} is given to {second} and belongs to {first}")]
    DeviceGivenTwice {
        /// The node.
        node: NodeName,
        /// The device.
        device: DeviceUuid,
        /// The task that has it.
        first: TaskId,
        /// The task that gets it, or has it too.
        second: TaskId,
    },
    /// The bookings of a node exceed its capacity.
    #[error("node {node} has {capacity} of {kind} and {booked} is booked")]
    Overbooked {
        /// The node.
        node: NodeName,
        /// The kind of resource.
        kind: ResourceKind,
        /// The capacity.
        capacity: u64,
        /// The amount booked.
        booked: u64,
    },
    /// A job starts before a job that comes first and asks for the same.
    #[error("job {started} is started before job {passed}, which comes first and asks the same")]
    OutOfOrder {
        /// The job that starts.
        started: JobId,
        /// The job that comes before it.
        passed: JobId,
    },
    /// A start is planned for a job that is not pending, or twice, or out of order.
    #[error("a start is planned for job {job}, which has none to come")]
    PlannedForNobody {
        /// The job.
        job: JobId,
    },
    /// The placement of a planned start is not free at that time, or does not stay free.
    #[error("job {job} is planned to start at {at:?} on node {node}, where it has no room then")]
    PlannedNotFree {
        /// The job.
        job: JobId,
        /// The time.
        at: Timestamp,
        /// The node.
        node: NodeName,
    },
    /// The planned start of a job is missing, or not the earliest.
    #[error("job {job} could start at {earliest:?} and is not planned then")]
    PlannedOtherwise {
        /// The job.
        job: JobId,
        /// The earliest possible start.
        earliest: Timestamp,
    },
    /// A job starts on capacity that is reserved for others before the job would end.
    #[error("job {job} is started on node {node} where reservation {reservation} keeps others out")]
    Reserved {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
        /// The reservation.
        reservation: gpool_model::ReservationName,
    },
    /// A job starts on capacity that is not reserved for it, where the policy allows only reserved
    /// capacity.
    #[error("job {job} is started on node {node}, of which not all it gets is reserved for it")]
    NotReserved {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A job waits although it fits a node.
    #[error("job {job} waits although it fits node {node}")]
    FitsAndWaits {
        /// The job.
        job: JobId,
        /// The node.
        node: NodeName,
    },
    /// A plan's waits count another number of jobs of a shape than it leaves waiting.
    #[error("{planned} jobs of a shape are said to wait, {waiting} do: {shape:?}")]
    WrongWait {
        /// The shape.
        shape: Box<Shape>,
        /// The number in the plan, over all waits of the shape.
        planned: u64,
        /// The number in the state.
        waiting: u64,
    },
    /// A plan has several waits for one shape.
    #[error("a shape has two waits: {shape:?}")]
    WaitTwice {
        /// The shape.
        shape: Box<Shape>,
    },
    /// The reason of a wait is not true.
    #[error("this is not what keeps {shape:?}: {reason:?}")]
    ReasonUntrue {
        /// The shape.
        shape: Box<Shape>,
        /// The reason in the plan.
        reason: Reason,
    },
    /// The two records of a job, or its key, name different jobs.
    #[error("the records of job {job} name another job")]
    MixedRecords {
        /// The job in the key.
        job: JobId,
    },
    /// A job that has ended is still in memory.
    #[error("job {job} has ended and is still in memory")]
    EndedInMemory {
        /// The job.
        job: JobId,
    },
    /// A job's number is above the last one that was assigned.
    #[error("job {job} has a number above the last one that was given out")]
    NumberNotGiven {
        /// The job.
        job: JobId,
    },
    /// A job's attempt, or the generation of a job that holds something, is 0.
    #[error("job {job} has attempt or generation 0")]
    NotCounted {
        /// The job.
        job: JobId,
    },
    /// An allocation names another task than its own.
    #[error("job {job} has an allocation of task {task}")]
    WrongTask {
        /// The job with the allocation.
        job: JobId,
        /// The task that it names.
        task: TaskId,
    },
    /// An allocation books other resources than the job asked for.
    #[error("job {job} books something else than it asked for")]
    WrongResources {
        /// The job.
        job: JobId,
    },
    /// The state of an allocation does not fit the job's state.
    #[error("an allocation of job {job} is held otherwise than its state {state} says")]
    WrongAllocationState {
        /// The job.
        job: JobId,
        /// The job's state.
        state: JobState,
    },
    /// A job waits for other jobs, but none of them exists any more.
    #[error("job {job} waits for nothing that could still end")]
    WaitsForNothing {
        /// The job.
        job: JobId,
    },
    /// The counters of a node differ from the allocations of jobs there.
    #[error("the ledger of node {node} is wrong about {what}")]
    WrongLedger {
        /// The node.
        node: NodeName,
        /// The wrong entry: a kind of resource, or a device.
        what: String,
    },
    /// An index differs from the jobs.
    #[error("the index of {index} is wrong about {about}")]
    WrongIndexEntry {
        /// The index.
        index: &'static str,
        /// The wrong entry.
        about: String,
    },
    /// The state's records load as another state.
    #[error("a state loaded from the records differs: {how}")]
    LoadsDifferently {
        /// The difference.
        how: String,
    },
}
