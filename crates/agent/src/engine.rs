//! The engine of this node that runs containers: found when the agent starts; and its images,
//! which are pulled before a task holds devices. All its commands run as the user of the job,
//! since users may have images of their own.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use gpool_model::container::{ContainerRequest, Engine, EngineKind};
use gpool_model::id::{JobId, TaskId};
use gpool_model::job::Owner;
use gpool_model::launch::Lack;
use gpool_model::node::ImagePulls;
use gpool_shepherd::container::{self, TaskEngine};
use gpool_sys::user;

use crate::input::{InputSender, ThreadInput};

/// The most pulls at once.
const PULLS_MOST: usize = 4;
/// The most images that wait to be pulled, and the most known failures.
const QUEUE_MOST: usize = 256;
/// The longest time that a pull may take.
const PULL_LIMIT: Duration = Duration::from_secs(3600);
/// The longest text of a pull that is shown, in characters.
const SHOWN_MAX: usize = 200;
/// Folders in which distributions put podman's init.
const PODMAN_INITS: [&str; 2] = ["/usr/libexec/podman/catatonit", "/usr/bin/catatonit"];

/// The program that runs containers here, or why none does.
#[derive(Debug, Clone)]
pub(crate) struct FoundEngine {
    pub about: Engine,
    /// The program's path.
    program: String,
    has_init: bool,
}

/// The engine, once the search for it has ended.
pub(crate) type EngineSlot = Arc<OnceLock<Result<FoundEngine, String>>>;

/// Finds the engine in the background: engines take a while to tell their version.
fn search(wanted: Option<String>) -> EngineSlot {
    let slot = EngineSlot::default();
    let found = Arc::clone(&slot);
    let search = move || drop(found.set(find(wanted.as_deref())));
    if let Err(error) = thread::Builder::new().name("engine".to_owned()).spawn(search) {
        drop(slot.set(Err(format!("can't start a thread: {error}"))));
    }
    slot
}

/// Finds the engine. `wanted` is a program; `None` looks for every known one in `PATH`.
///
/// # Errors
/// There is none; the text is for people.
fn find(wanted: Option<&str>) -> Result<FoundEngine, String> {
    match wanted {
        Some("none") => Err("container_engine in gpool.toml turns containers off".to_owned()),
        Some(program) => {
            let path = in_path(program).ok_or_else(|| format!("there is no program {program}"))?;
            ask(&path).ok_or_else(|| {
                format!("{program} --version names none of podman, docker, apptainer and enroot")
            })
        }
        None => EngineKind::ALL
            .iter()
            .find_map(|kind| ask(&in_path(kind.as_str())?))
            .ok_or_else(|| "there is no podman, docker, apptainer or enroot in PATH".to_owned()),
    }
}

/// The engine of this program, by its version.
fn ask(path: &str) -> Option<FoundEngine> {
    let said = |word: &str| {
        let output = Command::new(path).arg(word).stdin(Stdio::null()).output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Some(said).filter(|said| output.status.success() && !said.is_empty())
    };
    let name = Path::new(path).file_name()?.to_str()?;
    let (said, kind) = match said("--version") {
        // `docker` may be podman by another name, so its output counts.
        Some(said) => {
            let lower = said.to_lowercase();
            let named = |kind: &EngineKind| lower.starts_with(kind.as_str());
            let known = EngineKind::ALL.into_iter().find(named);
            let known = known.or(lower.starts_with("singularity").then_some(EngineKind::Apptainer));
            (said, known?)
        }
        None if name.starts_with("enroot") => (said("version")?, EngineKind::Enroot),
        None => return None,
    };
    let version =
        said.split([' ', ',']).find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let has_init = match kind {
        EngineKind::Podman => PODMAN_INITS.iter().any(|path| Path::new(path).exists()),
        EngineKind::Docker => in_path("docker-init").is_some(),
        EngineKind::Apptainer | EngineKind::Enroot => false,
    };
    let version = version.unwrap_or(&said).to_owned();
    let about = Engine { kind, version, remarks: remarks(kind, has_init) };
    Some(FoundEngine { about, program: path.to_owned(), has_init })
}

/// Parts that an engine lacks, for people.
fn remarks(kind: EngineKind, has_init: bool) -> Vec<String> {
    let mut remarks = Vec::new();
    let takes_flags = matches!(kind, EngineKind::Podman | EngineKind::Docker);
    if takes_flags && !has_init {
        let package = if kind == EngineKind::Podman { "catatonit" } else { "docker-init" };
        remarks.push(format!(
            "without {package}, programs that don't handle SIGTERM end only after their grace"
        ));
    }
    if takes_flags && Path::new("/dev/nvidiactl").exists() && cdi_devices().is_empty() {
        remarks.push(
            "its GPUs are not described for containers: nvidia-ctk cdi generate \
             --output=/etc/cdi/nvidia.yaml"
                .to_owned(),
        );
    }
    remarks
}

fn in_path(program: &str) -> Option<String> {
    let is_program = |path: &Path| {
        path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
    };
    if program.contains('/') {
        return is_program(Path::new(program)).then(|| program.to_owned());
    }
    let search = std::env::var_os("PATH")?;
    let mut all = std::env::split_paths(&search).map(|folder| folder.join(program));
    all.find(|path| is_program(path))?.into_os_string().into_string().ok()
}

/// The engine of this node, and its images.
#[derive(Clone)]
pub(crate) struct Containers {
    pub engine: EngineSlot,
    pub images: Images,
}

impl Containers {
    /// Begins to look for the engine.
    pub(crate) fn search(wanted: Option<String>) -> Self {
        Self { engine: search(wanted), images: Images::default() }
    }

    /// The engine and the pulls, for the server.
    pub(crate) fn facts(&self) -> (Option<Engine>, ImagePulls) {
        let engine = self.engine.get().and_then(|engine| engine.as_ref().ok());
        (engine.map(|it| it.about.clone()), self.images.pulls())
    }
}

/// The images of this node, as far as jobs ask for them.
#[derive(Clone, Default)]
pub(crate) struct Images(Arc<Mutex<Known>>);

#[derive(Default)]
struct Known {
    pulls: ImagePulls,
    /// Pulls that wait for others to end.
    queue: VecDeque<Pull>,
    n_workers: usize,
    /// The image that was pulled for the next run of a job.
    pulled: BTreeMap<JobId, String>,
}

/// A pull to carry out.
struct Pull {
    engine: TaskEngine,
    owner: Owner,
    job: JobId,
    image: String,
}

impl FoundEngine {
    /// The engine as a task's shepherd uses it.
    pub(crate) fn for_task(&self, device_words: Vec<String>) -> TaskEngine {
        let FoundEngine { about, program, has_init } = self;
        let (kind, program, has_init) = (about.kind, program.clone(), *has_init);
        TaskEngine { kind, program, has_init, device_words }
    }

    /// Ends and removes the container of a task, as its user.
    pub(crate) fn remove(&self, state_dir: &Path, task: TaskId, (uid, gid): (u32, u32)) {
        let name = container::name(state_dir, task);
        let Some(words) = self.for_task(Vec::new()).remove(&name) else { return };
        let mut command = as_user(&words, &Owner { uid, gid, user: Arc::from("") });
        let output = command.stdout(Stdio::null()).stderr(Stdio::piped()).output();
        match output {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                tracing::warn!(name, why, "a container could not be removed");
            }
            Err(error) => tracing::warn!(name, %error, "a container could not be removed"),
        }
    }
}

impl Images {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        request: &Arc<ContainerRequest>,
        inputs: &InputSender,
    ) {
        let (images, engine, request) = (self.clone(), engine.for_task(vec![]), request.clone());
        let answers = inputs.clone();
        let look = move || {
            let lack = images.lack(&engine, (task, &owner), &request);
            let pull = match lack {
                Some(Lack::Pull(image)) => Pull { engine, owner, job: task.job, image },
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
        let mut known = self.lock();
        if known.pulled.remove(&task.job).as_ref() == Some(image) {
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
        let (mut known, image) = (self.lock(), pull.image.clone());
        if !known.pulls.running.contains_key(&image) {
            if known.queue.len() >= QUEUE_MOST {
                return Lack::Image(format!("it has {QUEUE_MOST} other images to pull"));
            }
            known.pulls.failed.remove(&image);
            known.pulls.running.insert(image.clone(), "waits for other pulls".to_owned());
            known.queue.push_back(pull);
        }
        Lack::Pull(image)
    }

    /// Pulls images until the queue is empty, unless enough threads do.
    fn work(&self) {
        {
            let mut known = self.lock();
            if known.n_workers >= PULLS_MOST {
                return;
            }
            known.n_workers += 1;
        }
        loop {
            let next = {
                let mut known = self.lock();
                let next = known.queue.pop_front();
                known.n_workers -= usize::from(next.is_none());
                next
            };
            match next {
                Some(pull) => self.pull(&pull),
                None => return,
            }
        }
    }

    fn pull(&self, Pull { engine, owner, job, image }: &Pull) {
        tracing::info!(image, %job, "pulling an image");
        self.lock().pulls.running.insert(image.clone(), String::new());
        let ended = run_pull(&mut as_user(&engine.pull(image), owner), |line| {
            self.lock().pulls.running.insert(image.clone(), line.to_owned());
        });
        let mut known = self.lock();
        known.pulls.running.remove(image);
        known.pulls.n_ended += 1;
        match ended {
            Ok(()) => drop(known.pulled.insert(*job, image.clone())),
            Err(why) => {
                tracing::warn!(image, why, "an image could not be pulled");
                if known.pulls.failed.len() >= QUEUE_MOST {
                    // A job that waits for it tries again.
                    known.pulls.failed.pop_first();
                }
                known.pulls.failed.insert(image.clone(), format!("it can't pull {image}: {why}"));
            }
        }
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

/// A command as a user, with the variables of their account.
pub(crate) fn as_user(words: &[String], owner: &Owner) -> Command {
    let account = user::account(owner.uid);
    let is_other = rustix::process::geteuid().is_root() && owner.uid != 0;
    let mut command = match is_other {
        false => Command::new(&words[0]),
        true => {
            let mut command = Command::new("setpriv");
            command.args([format!("--reuid={}", owner.uid), format!("--regid={}", owner.gid)]);
            command.args(["--init-groups", "--"]).arg(&words[0]);
            command
        }
    };
    command.args(&words[1..]).stdin(Stdio::null()).current_dir("/");
    if let Some(account) = account.filter(|_| is_other) {
        use std::os::unix::ffi::OsStringExt as _;
        let text = |bytes: Vec<u8>| std::ffi::OsString::from_vec(bytes);
        command.env("HOME", text(account.home)).env("USER", text(account.name));
        command.env("XDG_RUNTIME_DIR", format!("/run/user/{}", owner.uid));
    }
    command
}

/// The words that let a container use devices: by CDI where the node describes them, else by the
/// nodes of the driver in `/dev`.
///
/// Source: the Container Device Interface, and "Support for Container Device Interface" in the
/// guide of NVIDIA's container toolkit.
pub(crate) fn device_words(kind: EngineKind, uuids: &[&str], minors: &[u32]) -> Vec<String> {
    if uuids.is_empty() {
        return Vec::new();
    }
    match kind {
        EngineKind::Apptainer => return vec!["--nv".to_owned()],
        // Its hook reads NVIDIA_VISIBLE_DEVICES.
        EngineKind::Enroot => return Vec::new(),
        EngineKind::Podman | EngineKind::Docker => {}
    }
    let flag = |device: String| ["--device".to_owned(), device];
    let described = cdi_devices();
    if uuids.iter().all(|uuid| described.contains(*uuid)) {
        return uuids.iter().flat_map(|uuid| flag(format!("{CDI_KIND}={uuid}"))).collect();
    }
    if kind == EngineKind::Docker && in_path("nvidia-container-runtime").is_some() {
        return vec!["--gpus".to_owned(), format!("\"device={}\"", uuids.join(","))];
    }
    let own = minors.iter().map(|minor| format!("/dev/nvidia{minor}"));
    let of_all = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"];
    let of_all = of_all.iter().map(|name| format!("/dev/{name}"));
    let nodes = own.chain(of_all).filter(|path| Path::new(path).exists());
    let words = nodes.flat_map(flag);
    let libraries = driver_libraries().into_iter();
    words.chain(libraries.flat_map(|it| ["--volume".to_owned(), format!("{it}:{it}:ro")])).collect()
}

/// The vendor and class of NVIDIA's GPUs in CDI.
const CDI_KIND: &str = "nvidia.com/gpu";
/// The folders with descriptions of devices.
const CDI_DIRS: [&str; 2] = ["/etc/cdi", "/var/run/cdi"];

/// The text of all descriptions of NVIDIA's GPUs: it contains the name of each device.
fn cdi_devices() -> String {
    let files = CDI_DIRS.iter().filter_map(|folder| std::fs::read_dir(folder).ok()).flatten();
    let texts = files.flatten().filter_map(|file| std::fs::read_to_string(file.path()).ok());
    texts.filter(|text| text.contains(CDI_KIND)).collect()
}

/// The driver's libraries, by the cache of the dynamic linker.
fn driver_libraries() -> Vec<String> {
    const NAMES: [&str; 3] = ["libcuda.so.1", "libnvidia-ml.so.1", "libnvidia-ptxjitcompiler.so.1"];
    let Ok(output) = Command::new("/sbin/ldconfig").arg("-p").output() else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |name: &&str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(*name))?;
        line.rsplit_once("=> ").map(|(_, path)| path.to_owned())
    };
    NAMES.iter().filter_map(path).collect()
}
