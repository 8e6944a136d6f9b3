//! Jobs of several tasks. A gang runs when all of its tasks have started. When a task fails, the
//! others end with it; when a task is not launched, all go back to the queue. The gang has ended
//! when all tasks have. If the first task is a launcher, its end, whatever it is, ends the others
//! and is the end of the job.

use gpool_model::agent::TaskEnd;
use gpool_model::job::{EndCause, ExitStatus, StepEnd, StopCause, TaskCourse, Usage};
use gpool_model::{
    Allocation, AllocationState, Job, JobEnd, JobId, Lack, NodeLack, Outcome, Phase, Rare, TaskId,
    Timestamp,
};

use crate::control::Control;
use crate::control::judge::judge;

/// Returns the recorded state of one task, for jobs that record the states of tasks.
pub(crate) fn course_of(job: &Job, task: TaskId) -> Option<&TaskCourse> {
    job.course.tasks.get(usize::try_from(task.rank).ok()?)
}

/// Whether a task has ended although its job has not.
pub(crate) fn has_ended(job: &Job, task: TaskId) -> bool {
    course_of(job, task).is_some_and(|course| course.end.is_some())
}

/// When a task started, if it has.
pub(crate) fn started_at(job: &Job, task: TaskId) -> Option<Timestamp> {
    if is_gang(job) {
        return course_of(job, task)?.started_at;
    }
    match &job.phase {
        Phase::Running { started_at, .. } | Phase::Paused { started_at, .. } => Some(*started_at),
        Phase::Stopping { started_at, .. } => *started_at,
        _ => None,
    }
}

/// Whether a job with allocations has several tasks.
pub(crate) fn is_gang(job: &Job) -> bool {
    job.phase.allocations().len() > 1
}

fn succeeded(end: &TaskEnd) -> bool {
    end.exit == Some(ExitStatus::Code(0)) && end.cause.is_none()
}

fn course_mut(job: &mut Job, task: TaskId) -> Option<&mut TaskCourse> {
    let n_tasks = job.phase.allocations().len();
    job.course.tasks.resize(n_tasks, TaskCourse::default());
    job.course.tasks.get_mut(usize::try_from(task.rank).ok()?)
}

/// Notes that one task is paused, while the job is being paused.
pub(crate) fn set_paused(job: &mut Job, task: TaskId) {
    course_mut(job, task).into_iter().for_each(|course| course.is_paused = true);
}

/// Whether all tasks of a job that is being paused are paused.
pub(crate) fn has_paused(job: &Job) -> bool {
    let is_paused = |it: &Allocation| {
        it.state != AllocationState::Pausing
            || course_of(job, it.task).is_none_or(|course| course.is_paused)
    };
    job.phase.allocations().iter().all(is_paused)
}

/// Forgets which tasks are paused: all are, or none should be.
pub(crate) fn forget_paused(job: &mut Job) {
    job.course.tasks.iter_mut().for_each(|course| course.is_paused = false);
}

/// Updates the phase of a gang from the states of its tasks.
fn come_along(job: &mut Job) {
    let tasks = &job.course.tasks;
    let has_begun = |course: &TaskCourse| course.started_at.is_some() || course.end.is_some();
    let all_begun = !tasks.is_empty() && tasks.iter().all(has_begun);
    let first = tasks.iter().filter_map(|course| course.started_at).min();
    match &mut job.phase {
        Phase::Starting { allocations, since } => {
            for (allocation, course) in allocations.iter_mut().zip(tasks) {
                if course.started_at.is_some() {
                    allocation.state = AllocationState::Running;
                }
            }
            if all_begun {
                let running = |it: Allocation| Allocation { state: AllocationState::Running, ..it };
                let allocations = std::mem::take(allocations).into_iter().map(running).collect();
                let started_at = first.unwrap_or(*since);
                job.phase = Phase::Running { allocations, started_at };
            }
        }
        Phase::Stopping { started_at, .. } => *started_at = first,
        _ => {}
    }
}

impl Control {
    /// Records that a task of a gang has started.
    pub(crate) fn member_started(&mut self, task: TaskId, at: Timestamp) {
        let mut job = self.job(task.job);
        let Some(course) = course_mut(&mut job, task) else { return };
        if course.started_at.is_some() || course.end.is_some() {
            return;
        }
        course.started_at = Some(at);
        come_along(&mut job);
        self.put_job(job);
    }

    /// Records that a task of a gang has ended. The first task that fails, or the launcher, ends
    /// the others.
    pub(crate) fn member_ended(&mut self, task: TaskId, end: &TaskEnd) {
        self.end_member(task, end, StopCause::TaskFailed { rank: task.rank });
    }

    /// Handles a task of a gang that was not launched. Other tasks may have been, so the next run
    /// of the job is another attempt.
    pub(crate) fn member_refused(&mut self, task: TaskId) {
        let end = TaskEnd {
            started_at: None,
            ended_at: self.now,
            exit: None,
            cause: None,
            stopped: true,
            usage: Usage::default(),
            steps: Rare::default(),
        };
        self.end_member(task, &end, StopCause::TaskRefused { rank: task.rank });
    }

    fn end_member(&mut self, task: TaskId, end: &TaskEnd, cause: StopCause) {
        let mut job = self.job(task.job);
        let id = job.id;
        let Some(course) = course_mut(&mut job, task).filter(|course| course.end.is_none()) else {
            return;
        };
        course.started_at = course.started_at.or(end.started_at);
        course.end = Some(end.clone());
        if job.course.tasks.iter().all(|course| course.end.is_some()) {
            // The other tasks had ended by themselves.
            let is_stopping = matches!(job.phase, Phase::Stopping { .. });
            if matches!(cause, StopCause::TaskRefused { .. }) && !is_stopping {
                self.put_job(job);
                self.stop(id, cause);
                job = self.job(id);
            }
            return self.gang_ended(&job);
        }
        let is_stopping = matches!(job.phase, Phase::Stopping { .. });
        come_along(&mut job);
        self.put_job(job);
        // An ended task needs no pause: the job is paused once the other tasks are.
        self.task_paused(task);
        let launcher_ended = task.rank == 0 && self.has_launcher(id);
        if !is_stopping && (launcher_ended || !succeeded(end)) {
            self.stop(id, cause);
        }
    }

    /// Whether only the first task of a job runs its command.
    fn has_launcher(&self, id: JobId) -> bool {
        self.world().job(id).is_some_and(|row| row.spec.gang.has_launcher())
    }

    /// Ends the attempt once all tasks have ended, with the end of the decisive task.
    fn gang_ended(&mut self, job: &Job) {
        let tasks = &job.course.tasks;
        let ends: Vec<&TaskEnd> = tasks.iter().filter_map(|course| course.end.as_ref()).collect();
        let first = |test: &dyn Fn(&TaskEnd) -> bool| ends.iter().position(|end| test(end));
        let stopped = || first(&|end| end.stopped);
        let decisive = match &job.phase {
            Phase::Stopping { cause: StopCause::TaskFailed { rank }, .. }
            | Phase::Stopping { cause: StopCause::TaskRefused { rank }, .. } => {
                usize::try_from(*rank).ok()
            }
            Phase::Stopping { .. } => stopped().or(first(&|end| !succeeded(end))),
            _ => first(&|end| !succeeded(end)),
        };
        let decisive = decisive.unwrap_or(0);
        let end = ends[decisive];
        let (outcome, mut cause) = judge(end, &job.phase);
        let rank = u32::try_from(decisive).unwrap_or(u32::MAX);
        if let Some(EndCause::NodeLacks(lack)) = &end.cause
            && !end.stopped
            && !is_ended_by_somebody(&job.phase)
        {
            let node = job.phase.allocations()[decisive].node.clone();
            let (job, lack) = (job.clone(), NodeLack { node, lack: lack.clone() });
            return match lack.lack {
                Lack::Pull(_) => self.await_image(job, lack),
                _ => self.avoid(job, lack),
            };
        }
        if cause.is_none() && outcome != Outcome::Succeeded {
            cause = Some(EndCause::TaskFailed { rank });
        }
        let whole = JobEnd {
            outcome,
            cause,
            exit: end.exit,
            started_at: tasks.iter().filter_map(|course| course.started_at).min(),
            ended_at: ends.iter().map(|end| end.ended_at).max().unwrap_or(self.now),
            usage: ends.iter().fold(Usage::default(), |sum, end| sum.plus(end.usage)),
            allocations: job.phase.allocations().to_vec(),
            resized: job.course.resized,
            steps: steps_of(&ends),
        };
        let was_stopped = end.stopped;
        // The states of the tasks are also stored for a gang that has ended.
        self.put_job(job.clone());
        self.attempt_ended(job.id, whole, was_stopped);
    }
}

/// Whether a gang is stopped for another reason than the failure of one of its own tasks.
fn is_ended_by_somebody(phase: &Phase) -> bool {
    match phase {
        Phase::Stopping { cause, .. } => !matches!(cause, StopCause::TaskFailed { .. }),
        _ => false,
    }
}

/// The steps of all tasks, by their numbers.
fn steps_of(ends: &[&TaskEnd]) -> Rare<Vec<StepEnd>> {
    let mut steps: Vec<StepEnd> = ends.iter().flat_map(|end| end.steps.iter().cloned()).collect();
    steps.sort_by_key(|step| step.number);
    steps.into()
}
