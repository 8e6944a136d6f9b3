//! The images of this node: an image that a job needs is pulled before the job holds devices.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gpool_model::container::{ContainerRequest, Engine};
use gpool_model::id::{JobId, TaskId};
use gpool_model::job::Owner;
use gpool_model::launch::Lack;
use gpool_model::node::ImagePulls;
use gpool_shepherd::container::TaskEngine;
use gpool_shepherd::layout::Layout;
use gpool_shepherd::secrets;

use crate::engine::{EngineSlot, FoundEngine, NO_ENGINE, as_user, search};
use crate::input::{InputSender, ThreadInput};
use crate::login::Login;

/// The most pulls at once.
const PULLS_MOST: usize = 4;
/// The most images that wait to be pulled, and the most queue failures.
const QUEUE_MOST: usize = 256;
/// The longest time that a pull may take.
const PULL_LIMIT: Duration = Duration::from_secs(3600);
/// The longest text of a pull that is shown, in characters. The cause often ends it, after paths.
const SHOWN_MAX: usize = 500;

/// The engine of this node, and its images.
#[derive(Clone)]
pub(crate) struct Containers {
    pub engine: EngineSlot,
    pub images: Images,
    /// Whether an admin chose the engine.
    is_chosen: bool,
}

impl Containers {
    /// Begins to look for the engine. `wanted` is the choice of an admin.
    pub(crate) fn search(wanted: Option<String>, layout: &Layout) -> Self {
        let is_chosen = wanted.as_ref().is_some_and(|it| it != NO_ENGINE);
        let images = Images { queue: Arc::default(), layout: layout.clone() };
        Self { engine: search(wanted, layout), images, is_chosen }
    }

    /// The engine, or the fault of a chosen one, and the pulls, for the server.
    pub(crate) fn facts(&self) -> (Result<Option<Engine>, String>, ImagePulls) {
        let engine = match self.engine.get() {
            Some(Ok(engine)) => Ok(Some(engine.about.clone())),
            Some(Err(why)) if self.is_chosen => Err(why.clone()),
            Some(Err(_)) | None => Ok(None),
        };
        (engine, self.images.pulls())
    }
}

/// The images of this node, as far as jobs ask for them.
#[derive(Clone)]
pub(crate) struct Images {
    queue: Arc<Mutex<PullQueue>>,
    layout: Layout,
}

#[derive(Default)]
struct PullQueue {
    /// The pulls, for the server.
    pulls: ImagePulls,
    /// Pulls that wait for others to end.
    pending: VecDeque<Pull>,
    n_workers: usize,
    /// The pulls with a login so far: each has a folder with this number.
    n_logins: u64,
    /// The image that was pulled for the next run of a job.
    pulled: BTreeMap<JobId, String>,
}

/// A pull to carry out.
struct Pull {
    engine: TaskEngine,
    owner: Owner,
    job: JobId,
    image: String,
    login: Option<Login>,
}

impl Images {
    fn lock(&self) -> MutexGuard<'_, PullQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn pulls(&self) -> ImagePulls {
        self.lock().pulls.clone()
    }

    /// Answers by [`ThreadInput::Image`] whether the node has the image of a task. If it may pull
    /// the image, it does so after the answer [`Lack::Pull`].
    pub(crate) fn check(
        &self,
        engine: &FoundEngine,
        (task, owner): (TaskId, Owner),
        (request, login): (&Arc<ContainerRequest>, Option<Login>),
        inputs: &InputSender,
    ) {
        let (images, engine, request) = (self.clone(), engine.for_task(vec![]), request.clone());
        let answers = inputs.clone();
        let look = move || {
            let lack = images.lack(&engine, (task, &owner), &request);
            let lack = login.as_ref().and_then(|it| it.fault(&engine)).or(lack);
            let pull = match lack {
                Some(Lack::Pull(image)) => Pull { engine, owner, job: task.job, image, login },
                lack => return answers.send(ThreadInput::Image { task, lack }),
            };
            let lack = images.enqueue(pull);
            answers.send(ThreadInput::Image { task, lack: Some(lack) });
            images.work();
        };
        if let Err(error) = thread::Builder::new().name("image".to_owned()).spawn(look) {
            let lack = Some(Lack::Image(format!("can't start a thread: {error}")));
            inputs.send(ThreadInput::Image { task, lack });
        }
    }

    /// The part that the node lacks for a container; `None` if it has the image.
    fn lack(
        &self,
        engine: &TaskEngine,
        (task, owner): (TaskId, &Owner),
        request: &ContainerRequest,
    ) -> Option<Lack> {
        let image = &request.image;
        let has_image = engine.ask_image(image).is_none_or(|words| {
            let mut command = as_user(&words, owner);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            command.status().is_ok_and(|status| status.success())
        });
        let mut queue = self.lock();
        if queue.pulled.remove(&task.job).as_ref() == Some(image) {
            return None;
        }
        if engine.must_pull(request.pull, has_image) {
            return Some(Lack::Pull(image.clone()));
        }
        (!has_image).then(|| {
            Lack::Image(format!(
                "it does not have {image}, and --pull never keeps it from getting it"
            ))
        })
    }

    /// Puts a pull into the queue unless it is there or under way; returns the answer for its task.
    fn enqueue(&self, pull: Pull) -> Lack {
        let (mut queue, image) = (self.lock(), pull.image.clone());
        if !queue.pulls.running.contains_key(&image) {
            if queue.pending.len() >= QUEUE_MOST {
                return Lack::Image(format!("it has {QUEUE_MOST} other images to pull"));
            }
            queue.pulls.failed.remove(&image);
            queue.pulls.running.insert(image.clone(), "waits for other pulls".to_owned());
            queue.pending.push_back(pull);
        }
        Lack::Pull(image)
    }

    /// Pulls images until the queue is empty, unless enough threads do.
    fn work(&self) {
        {
            let mut queue = self.lock();
            if queue.n_workers >= PULLS_MOST {
                return;
            }
            queue.n_workers += 1;
        }
        loop {
            let next = {
                let mut queue = self.lock();
                let next = queue.pending.pop_front();
                queue.n_workers -= usize::from(next.is_none());
                next
            };
            match next {
                Some(pull) => self.pull(&pull),
                None => return,
            }
        }
    }

    fn pull(&self, pull: &Pull) {
        let Pull { image, job, .. } = pull;
        tracing::info!(image, %job, "pulling an image");
        self.lock().pulls.running.insert(image.clone(), String::new());
        let ended = self.pull_with_login(pull);
        let mut queue = self.lock();
        queue.pulls.running.remove(image);
        queue.pulls.n_ended += 1;
        match ended {
            Ok(()) => drop(queue.pulled.insert(*job, image.clone())),
            Err(why) => {
                tracing::warn!(image, why, "an image could not be pulled");
                if queue.pulls.failed.len() >= QUEUE_MOST {
                    // A job that waits for it tries again.
                    queue.pulls.failed.pop_first();
                }
                queue.pulls.failed.insert(image.clone(), format!("it can't pull {image}: {why}"));
            }
        }
    }
}

impl Images {
    /// Runs a pull, with its login in a file for that time.
    fn pull_with_login(&self, pull: &Pull) -> Result<(), String> {
        let Pull { engine, owner, image, login, .. } = pull;
        let on_line = |line: &str| {
            self.lock().pulls.running.insert(image.clone(), line.to_owned());
        };
        let Some(login) = login else {
            return run_pull(&mut as_user(&engine.pull(image, None), owner), on_line);
        };
        let name = {
            let mut queue = self.lock();
            queue.n_logins += 1;
            format!("pull-{}", queue.n_logins)
        };
        let own = rustix::process::geteuid().as_raw();
        let to = Some((owner.uid, owner.gid)).filter(|(uid, _)| *uid != own);
        let file = (engine.login_file().to_owned(), login.file(image));
        secrets::write(&self.layout, &name, to, &[file])?;
        let folder = self.layout.secrets().join(&name);
        let ended = run_pull(&mut as_user(&engine.pull(image, Some(&folder)), owner), on_line);
        if let Err(error) = secrets::remove(&self.layout, &name) {
            tracing::warn!(%error, "the login of a pull could not be removed");
        }
        ended
    }
}

/// Runs the pull, and passes each line of its output on.
fn run_pull(command: &mut Command, mut on_line: impl FnMut(&str)) -> Result<(), String> {
    let spawned = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|error| error.to_string())?;
    let output = child.stderr.take();
    let (sender, lines) = channel();
    let read = move || {
        for part in BufReader::new(output?).split(b'\n').map_while(Result::ok) {
            sender.send(part).ok()?;
        }
        Some(())
    };
    if let Err(error) = thread::Builder::new().name("pull".to_owned()).spawn(read) {
        drop(child.kill());
        on_line(&error.to_string());
    }
    let (give_up, mut last) = (Instant::now() + PULL_LIMIT, String::new());
    loop {
        match lines.recv_timeout(give_up.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                // Progress bars return to the start of their line.
                let text = String::from_utf8_lossy(&line);
                let line = text.rsplit('\r').find(|it| !it.trim().is_empty()).unwrap_or("").trim();
                if !line.is_empty() {
                    last = line.chars().filter(|c| !c.is_control()).take(SHOWN_MAX).collect();
                    on_line(&last);
                }
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                drop(child.kill());
                drop(child.wait());
                return Err("it took longer than an hour".to_owned());
            }
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(()),
        false if last.is_empty() => Err(status.to_string()),
        false => Err(last),
    }
}
