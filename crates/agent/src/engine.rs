//! The program of this node that runs containers, found when the agent starts. All its commands run
//! as the user of the job, since users may have images of their own.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;

use gpool_model::container::{Engine, EngineKind};
use gpool_model::id::TaskId;
use gpool_model::job::Owner;
use gpool_shepherd::container::{self, TaskEngine};
use gpool_shepherd::layout::Layout;
use gpool_sys::user;

use crate::orphans;

/// Paths of podman's init in distributions.
const PODMAN_INITS: [&str; 2] = ["/usr/libexec/podman/catatonit", "/usr/bin/catatonit"];

/// The setting for a node without containers.
pub(crate) const NO_ENGINE: &str = "none";

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

/// Finds the engine in the background: engines take a while to tell their version. Then removes
/// its containers that stayed behind.
pub(crate) fn search(wanted: Option<String>, layout: &Layout) -> EngineSlot {
    let slot = EngineSlot::default();
    let (found, layout) = (Arc::clone(&slot), layout.clone());
    let search = move || {
        let engine = find(wanted.as_deref());
        let for_task = engine.as_ref().ok().map(|engine| engine.for_task(Vec::new()));
        drop(found.set(engine));
        for_task.iter().for_each(|engine| orphans::remove(engine, &layout));
    };
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
        Some(NO_ENGINE) => Err("container_engine in gpool.toml turns containers off".to_owned()),
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

/// A command as a user, with the variables of the account.
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
    if is_other {
        // The user can read the variables of the process; those of the agent may be secret.
        let search = std::env::var_os("PATH");
        command.env_clear().envs(search.map(|search| ("PATH", search)));
    }
    if let Some(account) = account.filter(|_| is_other) {
        use std::os::unix::ffi::OsStringExt as _;
        let text = |bytes: Vec<u8>| std::ffi::OsString::from_vec(bytes);
        command.env("HOME", text(account.home)).env("USER", text(account.name));
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
