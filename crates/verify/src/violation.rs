//! What can be wrong with a plan or a state, as data.

use gpool_model::job::JobState;
use gpool_model::{
    Attempt, Bytes, DeviceUuid, JobId, NodeName, ProjectName, Reason, ResourceKind, Revision,
    Shape, TaskId, Timestamp,
};
use thiserror::Error;

/// Why a device may not be given to new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unusable {
    /// It is faulty, lost or does not answer.
    #[error("not healthy")]
    Unhealthy,
    /// A process that gpool did not start uses it.
    #[error("in unmanaged use")]
    Unmanaged,
    /// An admin keeps it from new work.
    #[error("not allowed")]
    NotAllowed,
    /// An admin empties it or its node.
    #[error("being drained")]
    Drained,
    /// It is divided into MIG instances.
    #[error("in MIG mode")]
    Divided,
}

/// One invariant that is broken.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Violation {
    /// The plan was made from another state.
    #[error("the plan was made from revision {plan}, the state is at {world}")]
    WrongBasis {
        /// Of the plan.
        plan: Revision,
        /// Of the state.
        world: Revision,
    },
    /// A job is started that is not there.
    #[error("job {job} is started and does not exist")]
    NoSuchJob {
        /// Which.
        job: JobId,
    },
    /// A job is started that may not start.
    #[error("job {job} is started while {state}")]
    NotPending {
        /// Which.
        job: JobId,
        /// What it is instead.
        state: JobState,
    },
    /// A job that wants a node alone runs there beside another.
    #[error("job {job} is on {node} beside another, and one of them wants the node alone")]
    NotAlone {
        /// Which.
        job: JobId,
        /// Where.
        node: NodeName,
    },
    /// A task is placed on a node that its job may not use.
    #[error("job {job} is started on {node}, which it may not use")]
    WrongNode {
        /// Which.
        job: JobId,
        /// Where.
        node: NodeName,
    },
    /// A task is placed on a node that is not in the pool that its job asked for.
    #[error("job {job} is started on {node}, which is not in its pool")]
    WrongPool {
        /// Which.
        job: JobId,
        /// Where.
        node: NodeName,
    },
    /// A job is started although its user has as much as he may have.
    #[error("job {job} is started, and user {uid} has all that he may have")]
    OverQuota {
        /// Which.
        job: JobId,
        /// Whose.
        uid: u32,
    },
    /// A job is started although its project, or one above it, has as much as it may have.
    #[error("job {job} is started, and project {project} may not have as much {kind}")]
    OverProjectQuota {
        /// Which.
        job: JobId,
        /// Which project.
        project: ProjectName,
        /// Of what.
        kind: ResourceKind,
    },
    /// Work is taken back for another project that its own is guaranteed.
    #[error("job {job} is taken back, and its project is guaranteed what it holds")]
    OwnTakenBack {
        /// Which.
        job: JobId,
    },
    /// Work is taken back that may not be, or for nobody.
    #[error("job {job} is taken back: {what}")]
    WrongEviction {
        /// Which.
        job: JobId,
        /// What is wrong.
        what: &'static str,
    },
    /// Whether a job leaves what it holds is noted wrongly.
    #[error("job {job} leaves what it holds, and that is not noted, or the other way round")]
    WrongLeaving {
        /// Which.
        job: JobId,
    },
    /// What is counted for a project is not what its jobs hold.
    #[error("project {project} is counted as holding other than its jobs do")]
    WrongHoldings {
        /// Which.
        project: ProjectName,
    },
    /// A job could start although something keeps it from being considered.
    #[error("job {job} is pending and should wait")]
    WaitsAndPending {
        /// Which.
        job: JobId,
    },
    /// A job is started twice in one plan.
    #[error("job {job} is started twice")]
    StartedTwice {
        /// Which.
        job: JobId,
    },
    /// A paused job goes on elsewhere than where it is.
    #[error("job {job} is paused, and goes on elsewhere")]
    GoesOnElsewhere {
        /// Which.
        job: JobId,
    },
    /// A job is started as another run than its next.
    #[error("job {job} is started as attempt {plan}, its next is {next}")]
    WrongAttempt {
        /// Which.
        job: JobId,
        /// In the plan.
        plan: Attempt,
        /// Of the job.
        next: Attempt,
    },
    /// The tasks of a job are not on as many different nodes as it asked for, as many on each.
    #[error("the tasks of job {job} are not spread over nodes as it asked")]
    WrongSpread {
        /// Which.
        job: JobId,
    },
    /// What is kept of the tasks of a job does not fit its phase.
    #[error("job {job} has other courses of its tasks than its phase says")]
    WrongTaskCourses {
        /// Which.
        job: JobId,
    },
    /// A job has more or fewer places than tasks.
    #[error("job {job} has {places} places for {tasks} tasks")]
    WrongNumberOfTasks {
        /// Which.
        job: JobId,
        /// How many places, or allocations.
        places: usize,
        /// How many tasks it has.
        tasks: usize,
    },
    /// A decision comes after itself or one that stands behind it.
    #[error("decision {decision} comes after decision {after}, which is not before it")]
    AfterLater {
        /// Which decision, by position.
        decision: usize,
        /// What it should come after.
        after: u32,
    },
    /// A plan starts more elements of an array than it lets run at once.
    #[error("{running} elements of job {job} run at once, {most} may")]
    TooManyAtOnce {
        /// Which array.
        job: JobId,
        /// How many run once the plan is carried out.
        running: u32,
        /// How many may.
        most: u32,
    },
    /// An array contradicts itself or its elements.
    #[error("the array of job {job}: {what}")]
    WrongArray {
        /// Which job.
        job: JobId,
        /// What is wrong.
        what: &'static str,
    },
    /// A task goes to a node that is not there.
    #[error("job {job} goes to node {node}, which does not exist")]
    NoSuchNode {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeName,
    },
    /// A task goes to a node whose agent is away.
    #[error("job {job} goes to node {node}, which is not connected")]
    NotConnected {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeName,
    },
    /// A task goes to a node that is being drained.
    #[error("job {job} goes to node {node}, which is being drained")]
    NodeDrained {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeName,
    },
    /// A task gets a device that its node does not have.
    #[error("job {job} gets device {device}, which node {node} does not have")]
    NoSuchDevice {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeName,
        /// Which device.
        device: DeviceUuid,
    },
    /// A slot names another index than its device has.
    #[error("job {job} gets device {device} as number {given}, it is number {index}")]
    WrongIndex {
        /// Which job.
        job: JobId,
        /// Which device.
        device: DeviceUuid,
        /// In the slot.
        given: u32,
        /// Of the device.
        index: u32,
    },
    /// Slots do not stand in the order of device indexes, or one stands twice.
    #[error("the devices of job {job} on node {node} are not in order, each once")]
    SlotsOutOfOrder {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeName,
    },
    /// A task gets another part of a device than it asked for.
    #[error("job {job} gets another part of device {device} than it asked for")]
    WrongPart {
        /// Which job.
        job: JobId,
        /// Which device.
        device: DeviceUuid,
    },
    /// The shares of a device add up to more than its memory.
    #[error("shares of {booked} on device {device} of node {node}, which has {memory}")]
    SharesTooLarge {
        /// Which node.
        node: NodeName,
        /// Which device.
        device: DeviceUuid,
        /// What it has.
        memory: Bytes,
        /// What is booked.
        booked: Bytes,
    },
    /// A task has more or fewer devices than it asked for.
    #[error("job {job} asked for {asked} devices and has {given}")]
    WrongNumberOfDevices {
        /// Which job.
        job: JobId,
        /// How many it asked for.
        asked: u32,
        /// How many it has.
        given: usize,
    },
    /// A task has a device of another kind than it asked for.
    #[error("job {job} has device {device}, whose model or memory it did not ask for")]
    WrongKind {
        /// Which job.
        job: JobId,
        /// Which device.
        device: DeviceUuid,
    },
    /// A task has devices that answer to different models of its request.
    #[error("job {job} has devices of several of the models that it asked for")]
    MixedKinds {
        /// Which job.
        job: JobId,
    },
    /// A task gets a device that new work may not use.
    #[error("job {job} gets device {device}, which is {why}")]
    DeviceUnusable {
        /// Which job.
        job: JobId,
        /// Which device.
        device: DeviceUuid,
        /// What keeps it from new work.
        why: Unusable,
    },
    /// A device is given to two tasks.
    #[error("device {device} of node {node} is given to {second} and belongs to {first}")]
    DeviceGivenTwice {
        /// Which node.
        node: NodeName,
        /// Which device.
        device: DeviceUuid,
        /// Who has it.
        first: TaskId,
        /// Who gets it, or has it too.
        second: TaskId,
    },
    /// More is booked on a node than it has.
    #[error("node {node} has {capacity} of {kind} and {booked} is booked")]
    Overbooked {
        /// Which node.
        node: NodeName,
        /// Of what.
        kind: ResourceKind,
        /// How much there is.
        capacity: u64,
        /// How much is booked.
        booked: u64,
    },
    /// A job starts before one that comes first and asks for the same.
    #[error("job {started} is started before job {passed}, which comes first and asks the same")]
    OutOfOrder {
        /// Who starts.
        started: JobId,
        /// Who comes before it.
        passed: JobId,
    },
    /// A start is planned for a job that does not wait, or twice, or out of turn.
    #[error("a start is planned for job {job}, which has none to come")]
    PlannedForNobody {
        /// Which.
        job: JobId,
    },
    /// What is kept for a job is not free when it is to start, or does not stay so.
    #[error("job {job} is planned to start at {at:?} on node {node}, where it has no room then")]
    PlannedNotFree {
        /// Which.
        job: JobId,
        /// When.
        at: Timestamp,
        /// Which node.
        node: NodeName,
    },
    /// The planned start of a job is missing, or not the earliest.
    #[error("job {job} could start at {earliest:?} and is not planned then")]
    PlannedOtherwise {
        /// Which.
        job: JobId,
        /// When.
        earliest: Timestamp,
    },
    /// A job is started on what is reserved for others before it would end.
    #[error("job {job} is started on node {node} where reservation {reservation} keeps others out")]
    Reserved {
        /// Which.
        job: JobId,
        /// Which node.
        node: NodeName,
        /// By which reservation.
        reservation: gpool_model::ReservationName,
    },
    /// A job is started on what nobody reserved for it, where nothing else is given out.
    #[error("job {job} is started on node {node}, of which not all it gets is reserved for it")]
    NotReserved {
        /// Which.
        job: JobId,
        /// Which node.
        node: NodeName,
    },
    /// A job waits although a node has room for it.
    #[error("job {job} waits although it fits node {node}")]
    FitsAndWaits {
        /// Which job.
        job: JobId,
        /// Which node.
        node: NodeName,
    },
    /// The waits of a plan do not count the jobs of a shape that it leaves waiting.
    #[error("{planned} jobs of a shape are said to wait, {waiting} do: {shape:?}")]
    WrongWait {
        /// Which shape.
        shape: Box<Shape>,
        /// As the plan says, all its waits of that shape together.
        planned: u64,
        /// As the state says.
        waiting: u64,
    },
    /// A shape has more than one wait in a plan.
    #[error("a shape has two waits: {shape:?}")]
    WaitTwice {
        /// Which shape.
        shape: Box<Shape>,
    },
    /// The reason of a wait is not so.
    #[error("this is not what keeps {shape:?}: {reason:?}")]
    ReasonUntrue {
        /// Which shape.
        shape: Box<Shape>,
        /// What the plan says.
        reason: Reason,
    },
    /// The two records of a job, or its key, name different jobs.
    #[error("the records of job {job} name another job")]
    MixedRecords {
        /// Under which key.
        job: JobId,
    },
    /// A job that has ended is still in memory.
    #[error("job {job} has ended and is still in memory")]
    EndedInMemory {
        /// Which.
        job: JobId,
    },
    /// A job has a number that was not given out yet.
    #[error("job {job} has a number above the last one that was given out")]
    NumberNotGiven {
        /// Which.
        job: JobId,
    },
    /// A job's attempt or, while it holds something, its generation is not counted from 1.
    #[error("job {job} has attempt or generation 0")]
    NotCounted {
        /// Which.
        job: JobId,
    },
    /// An allocation names another task than the one it stands for.
    #[error("job {job} has an allocation of task {task}")]
    WrongTask {
        /// Whose allocation.
        job: JobId,
        /// Whom it names.
        task: TaskId,
    },
    /// An allocation books something else than the job asked for.
    #[error("job {job} books something else than it asked for")]
    WrongResources {
        /// Which.
        job: JobId,
    },
    /// An allocation is held otherwise than the job's state says.
    #[error("an allocation of job {job} is held otherwise than its state {state} says")]
    WrongAllocationState {
        /// Which.
        job: JobId,
        /// The job's state.
        state: JobState,
    },
    /// A job waits for others, of which none is there.
    #[error("job {job} waits for nothing that could still end")]
    WaitsForNothing {
        /// Which.
        job: JobId,
    },
    /// The counters of a node differ from what jobs hold there.
    #[error("the ledger of node {node} is wrong about {what}")]
    WrongLedger {
        /// Which node.
        node: NodeName,
        /// About what: a kind of resource, or a device.
        what: String,
    },
    /// An index differs from what the jobs say.
    #[error("the index of {index} is wrong about {about}")]
    WrongIndexEntry {
        /// Which index.
        index: &'static str,
        /// About what.
        about: String,
    },
    /// Loading the state's records gives another state.
    #[error("a state loaded from the records differs: {how}")]
    LoadsDifferently {
        /// In what.
        how: String,
    },
}
