//! Reads scenarios. The documentation of the crate describes the words.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::sync::Arc;

use gpool_model::{
    Attempt, Bytes, Course, Dependency, DependencyKind, Exit, Generation, GpuRequest, GpuTime, Job,
    JobId, JobSpec, MilliCpu, Millis, Node, Outcome, PoolName, Positions, ProjectName, ShareWith,
    Standing, Version, parse,
};

use crate::gang::{self, courses, gang, parts};
use crate::phase::{began, fill_claims, held_by};
use crate::reader::{Reader, before, owner};
use crate::situation::{Situation, bare_spec};
use crate::words::{ScenarioError, Words};
use crate::{array, chosen};

impl Situation {
    /// Default cores of a node.
    pub(crate) const CPUS: MilliCpu = MilliCpu::from_cores(64);
    /// Default memory of a node.
    pub(crate) const MEMORY: Bytes = Bytes::from_gib(512);
    /// Default task slots of a node.
    pub(crate) const TASKS: u32 = 64;
    /// Most devices of a node, and most jobs: more is a typing error that would fill the memory.
    pub(crate) const DEVICES_MAX: usize = 4096;
    const JOBS_MAX: usize = 100_000;

    /// Reads a scenario.
    ///
    /// # Errors
    /// The first invalid word, with its line and column.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let mut reader = Reader { situation: Self::empty(), ids: BTreeMap::new(), last_id: 0 };
        for (line, text) in (1..).zip(text.lines()) {
            let mut words = Words::new(line, text);
            match words.next() {
                None => {}
                Some(word) if word.starts_with('#') => {}
                Some("policy") => reader.policy(&mut words)?,
                Some("pool") => reader.pool(&mut words)?,
                Some("node") => reader.node(&mut words)?,
                Some("gpu") => reader.gpu(&mut words)?,
                Some("link") => reader.link(&mut words)?,
                Some("job") => reader.job(&mut words)?,
                Some("element") => reader.element(&mut words)?,
                Some("guest") => reader.guest(&mut words)?,
                Some("reserve") => reader.reserve(&mut words)?,
                Some("past") => reader.past(&mut words)?,
                Some("used") => reader.used(&mut words)?,
                Some("project") => reader.project(&mut words)?,
                Some("drain") => reader.drain(&mut words)?,
                Some("cap") => reader.cap(&mut words)?,
                Some(word) => {
                    let known = "policy, node, gpu, link, project, job, element, guest, reserve, \
                         drain, cap, past or used";
                    return Err(words.unknown(word, known));
                }
            }
        }
        fill_claims(&mut reader.situation.jobs);
        reader.situation.size_jobs();
        Ok(reader.situation)
    }

    /// Fills in the sizes of the MIG instances that jobs request.
    fn size_jobs(&mut self) {
        let of_instances = |spec: &JobSpec| {
            let mut parts = spec.parts.iter();
            spec.gpus.is_of_instances() || parts.any(|part| part.gpus.is_of_instances())
        };
        for (spec, _) in self.jobs.iter_mut().filter(|(spec, _)| of_instances(spec)) {
            let pool = spec.pool.clone();
            let is_of = |node: &&Node| pool.as_ref().is_none_or(|pool| *pool == node.pool);
            let nodes: Vec<&Node> = self.nodes.iter().filter(is_of).collect();
            let sized = |gpus: &GpuRequest| gpus.among(nodes.iter().flat_map(|it| &it.devices));
            let spec = Arc::make_mut(spec);
            spec.gpus = sized(&spec.gpus);
            if spec.has_parts() {
                spec.parts.iter_mut().for_each(|part| part.gpus = sized(&part.gpus));
            }
        }
    }
}

/// The options after a job's state.
struct Options {
    /// The job, but for its number, name and age.
    spec: JobSpec,
    standing: Standing,
    waited: Millis,
    submitted: Option<Millis>,
    attempt: Attempt,
    had: GpuTime,
    ran: Millis,
    /// Time since a leaving job was asked to end.
    told: Millis,
    ended: BTreeMap<Outcome, Positions>,
}

impl Options {
    fn of(spec: JobSpec) -> Self {
        Self {
            spec,
            standing: Standing::default(),
            waited: Millis::ZERO,
            submitted: None,
            attempt: Attempt::FIRST,
            had: GpuTime::ZERO,
            ran: Millis::ZERO,
            told: Millis::ZERO,
            ended: BTreeMap::new(),
        }
    }
}

impl Reader {
    fn has_room_for(&self, n_jobs: u32) -> bool {
        let n_left = Situation::JOBS_MAX.saturating_sub(self.situation.jobs.len());
        usize::try_from(n_jobs).is_ok_and(|n_jobs| n_jobs <= n_left)
    }

    fn job(&mut self, words: &mut Words<'_>) -> Result<(), ScenarioError> {
        let name = words.need("the name of the job")?;
        let spec = self.shape(words)?;
        let n_jobs = match words.take("x") {
            true => Some(words.parse("a number of jobs", u32::from_str)?),
            false => None,
        };
        let state = words.need("the state of the job")?;
        let too_many = |words: &Words<'_>| words.error("there are too many jobs".to_owned());
        if !self.has_room_for(n_jobs.unwrap_or(1)) {
            return Err(too_many(words));
        }
        let (phase, age) = self.phase(state, spec.n_tasks(), words)?;
        let options = self.options(spec, words)?;
        for number in 1..=n_jobs.unwrap_or(1) {
            let name = match n_jobs {
                Some(_) => format!("{name}{number}"),
                None => name.to_owned(),
            };
            self.last_id = self.last_id.checked_add(1).ok_or_else(|| too_many(words))?;
            let id = JobId::single(self.last_id);
            if self.ids.insert(name.clone(), id).is_some() {
                return Err(words.error(format!("job {name} stands here twice")));
            }
            let submitted = options.submitted.unwrap_or(age.saturating_add(options.waited));
            let submitted_at = before(self.situation.now, submitted);
            let mut spec = JobSpec { id, submitted_at, ..options.spec.clone() };
            if spec.name.is_empty() {
                spec.name = Arc::from(name);
            }
            let array = spec.array.as_ref().map(|array| {
                Box::new(self.array_state((array, &options.standing), &spec, &options.ended))
            });
            let phase = began(phase.clone(), options.ran, options.told);
            let phase = held_by(phase, &spec, options.attempt, &self.situation.nodes);
            let course =
                Course { tasks: courses(&phase), attained: options.had, ..Course::default() };
            let job = Job {
                id,
                version: Version(1),
                priority: options.standing.priority,
                note: None,
                attempt: options.attempt,
                generation: Generation(1),
                waited: options.waited,
                course: course.into(),
                array,
                notify: Vec::new(),
                phase,
            };
            self.situation.jobs.push((Arc::new(spec), job));
        }
        Ok(())
    }

    /// Reads the request of a job for GPUs and tasks.
    fn shape(&self, words: &mut Words<'_>) -> Result<JobSpec, ScenarioError> {
        let bare = |gpus: &GpuRequest| bare_spec(JobId::single(0), "", gpus, self.situation.now);
        if words.take("parts") {
            let mut spec = bare(&GpuRequest::default());
            spec.set_parts(words.parse("parts of a job", parts)?);
            return Ok(spec);
        }
        let mut spec = bare(&words.parse("a number of GPUs", GpuRequest::parse)?);
        spec.gang = gang(words)?;
        Ok(spec)
    }

    fn options(&mut self, spec: JobSpec, words: &mut Words<'_>) -> Result<Options, ScenarioError> {
        let mut options = Options::of(spec);
        while let Some(word) = words.next() {
            match word {
                "priority" => {
                    options.standing.priority = words.parse("a priority", i32::from_str)?;
                }
                "waited" => options.waited = words.parse("a length of time", parse::span)?,
                "submitted" => options.submitted = Some(words.parse("an age", parse::span)?),
                "attempt" => {
                    options.attempt = Attempt(words.parse("an attempt", u32::from_str)?);
                }
                "array" => {
                    let (array, max_parallel) = words.parse("elements", array::new)?;
                    options.spec.array = Some(Box::new(array));
                    options.standing.max_parallel = max_parallel;
                }
                "ended" => options.ended = words.parse("elements by state", array::ended)?,
                "had" => {
                    // GPU-hours in thousandths.
                    let hours = words.parse("a number of GPU-hours", parse::gpus)?.get();
                    let had = GpuTime::HOUR.div_floor(1000).checked_mul(hours);
                    let had = had.ok_or_else(|| words.error("that is too much".to_owned()))?;
                    options.had = had;
                }
                "ran" => options.ran = words.parse("a length of time", parse::span)?,
                "told" => options.told = words.parse("an age", parse::span)?,
                "id" => {
                    let id = words.parse("a job number", u64::from_str)?;
                    if id <= self.last_id {
                        return Err(words.error("job numbers only grow".to_owned()));
                    }
                    self.last_id = id - 1;
                }
                word => self.requested(word, &mut options.spec, words)?,
            }
        }
        Ok(options)
    }

    /// Reads a word of what the job asks for.
    fn requested(
        &self,
        word: &str,
        spec: &mut JobSpec,
        words: &mut Words<'_>,
    ) -> Result<(), ScenarioError> {
        let ahead = |length| self.situation.now.after(length);
        match word {
            "cpus" => spec.cpus = Some(words.parse("a number of cores", parse::cpus)?),
            "mem" => spec.memory = Some(words.parse("an amount of memory", parse::bytes)?),
            "limit" => spec.time_limit = Some(words.parse("a time limit", parse::span)?),
            "uid" => spec.owner = owner(words.parse("a user id", u32::from_str)?),
            "deadline" => {
                spec.life.deadline = Some(ahead(words.parse("a length of time", parse::span)?));
            }
            "begin" => {
                spec.life.begin = Some(ahead(words.parse("a length of time", parse::span)?));
            }
            "like" => spec.name = Arc::from(words.need("a name")?),
            "preemptible" => spec.life.preemptible = Some(true),
            "exits" => {
                spec.life.exits = words.parse("ways to be taken back", exits)?.into();
                spec.life.preemptible = Some(true);
            }
            "joins" => {
                let name = words.need("the name of a job")?;
                let joined = self.ids.get(name).copied();
                let unknown = || words.error(format!("there is no job {name} before it"));
                spec.joins = Some(gang::joins(joined.ok_or_else(unknown)?));
                spec.life.preemptible = Some(true);
            }
            "pool" => spec.pool = Some(PoolName::new(words.need("a pool")?)),
            "share-with" => spec.share_with = Some(words.parse("jobs", ShareWith::from_str)?),
            "on" | "not-on" | "where" | "topology" | "exclusive" => {
                let mut nodes = spec.nodes.as_deref().cloned().unwrap_or_default();
                chosen::read(word, &mut nodes, words)?;
                spec.nodes = nodes.unless_default();
            }
            "project" => spec.project = ProjectName::new(words.need("a project")?),
            "after" => {
                for part in words.need("names of jobs")?.split(',') {
                    spec.after.push(self.dependency(part, words)?);
                }
            }
            word => {
                let known = "priority, cpus, mem, limit, after, waited, submitted, attempt, uid, \
                     project, pool, share-with, on, not-on, where, exclusive, preemptible, exits, \
                     had, ran, told, joins, begin, deadline, like, array, ended or id";
                return Err(words.unknown(word, known));
            }
        }
        Ok(())
    }

    fn dependency(&self, text: &str, words: &Words<'_>) -> Result<Dependency, ScenarioError> {
        let (kind, name) = match text.split_once(':') {
            None | Some(("ok", _)) => (DependencyKind::Ok, text.trim_start_matches("ok:")),
            Some(("fail", name)) => (DependencyKind::Fail, name),
            Some(("end", name)) => (DependencyKind::End, name),
            Some(("each", name)) => (DependencyKind::Each, name),
            Some(("start", name)) => (DependencyKind::Start, name),
            Some((word, _)) => return Err(words.unknown(word, "ok, fail, end or each")),
        };
        match self.ids.get(name) {
            Some(job) => Ok(Dependency::new(*job, kind)),
            None => Err(words.error(format!("no job {name} stands above"))),
        }
    }
}

fn exits(text: &str) -> Result<BTreeSet<Exit>, gpool_model::exit::UnknownExit> {
    text.split(',').map(str::parse).collect()
}
