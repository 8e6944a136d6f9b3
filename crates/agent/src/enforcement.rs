//! The enforcement of shares and whole devices on this node: the mechanisms that work here, and the
//! level of each device that follows from them.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use gpool_device::{Libraries, Opened};
use gpool_ledger::layout::FOLDER_MAX;
use gpool_model::device::Device;
use gpool_model::enforcement::{Enforced, Enforcement, Mechanism, Probe};
use gpool_model::id::DeviceUuid;
use gpool_sys::cgroup::Site;

use gpool_shepherd::layout::Layout;
use gpool_shepherd::record::checksum;

/// Room for the name of a task in the path of its ledger.
const NAME_MAX: usize = 32;

/// The libraries in front of the driver, where jobs can use them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shim {
    /// The folder with the libraries, for the jobs' search path.
    pub folder: PathBuf,
    /// The driver's `libcuda.so.1`.
    pub cuda: PathBuf,
    /// The driver's `libnvidia-ml.so.1`.
    pub nvml: PathBuf,
}

impl Shim {
    /// Writes the libraries, once for each version of them: jobs that run keep their own.
    ///
    /// # Errors
    /// Returns the reason why jobs here can't use them, for people.
    pub(crate) fn prepare(layout: &Layout, devices: &Opened) -> Result<Self, String> {
        let source = match devices {
            Opened::Source(source) => source,
            Opened::Nothing { why } => return Err(why.clone()),
        };
        let Some(Libraries { cuda, nvml }) = source.libraries() else {
            return Err("these devices have no driver that programs load".to_owned());
        };
        if gpool_shim::libraries().is_empty() {
            return Err("it exists for x86-64 with glibc only".to_owned());
        }
        let cuda = cuda.ok_or_else(|| format!("there is no libcuda.so.1 beside {nvml:?}"))?;
        let ledgers = layout.ledgers();
        let most = FOLDER_MAX - NAME_MAX;
        if !ledgers.is_absolute() || ledgers.as_os_str().len() >= most {
            return Err(format!(
                "the path {} is not absolute or longer than {most} bytes; use another state folder",
                ledgers.display()
            ));
        }
        let folder = layout.shim(version());
        let can_write = make(&ledgers)
            .and_then(|()| make(&layout.shims()))
            .and_then(|()| make(&folder))
            .and_then(|()| gpool_shim::install(&folder));
        can_write.map_err(|error| format!("can't write {}: {error}", folder.display()))?;
        Ok(Self { folder, cuda, nvml })
    }
}

/// The version of the libraries: a checksum of their bytes.
fn version() -> u64 {
    gpool_shim::libraries()
        .iter()
        .fold(0, |sum: u64, (_, bytes)| sum.rotate_left(1) ^ checksum(bytes))
}

/// Makes a folder that jobs of all users can enter.
fn make(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o711).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    std::fs::set_permissions(folder, Permissions::from_mode(0o711))
}

/// The levels of a device. It keeps the probes of the driver's description.
pub(crate) fn enforced(
    device: &Device,
    filter: &Result<(), String>,
    limits: Option<&Result<(), String>>,
    shim: &Result<Shim, String>,
    lists: bool,
) -> Enforced {
    if device.instance.is_some() {
        return of_instance(device, filter);
    }
    let mut probes = vec![
        filtered(device, filter),
        Probe {
            mechanism: Mechanism::DriverLimits,
            why_not: match limits {
                Some(Ok(())) => None,
                Some(Err(why)) => Some(why.clone()),
                None => Some("the device has not been probed".to_owned()),
            },
        },
        Probe {
            mechanism: Mechanism::Shim,
            why_not: match (shim, bytes_of(&device.uuid)) {
                (Ok(_), Some(_)) => None,
                (Ok(_), None) => Some("the driver's name of the device is no UUID".to_owned()),
                (Err(why), _) => Some(why.clone()),
            },
        },
        Probe {
            mechanism: Mechanism::ProcessMemory,
            why_not: match (lists, device.tells_memory) {
                (false, _) => Some("the driver does not list processes".to_owned()),
                (true, Some(false)) => Some("the driver hides the memory of processes".to_owned()),
                (true, _) => None,
            },
        },
    ];
    let is_replaced = |probe: &&Probe| !probes.iter().any(|it| it.mechanism == probe.mechanism);
    let kept: Vec<Probe> = device.enforced.probes.iter().filter(is_replaced).cloned().collect();
    probes.extend(kept);
    probes.sort_by_key(|probe| probe.mechanism);
    let works = |mechanism| {
        probes.iter().any(|probe| probe.mechanism == mechanism && probe.why_not.is_none())
    };
    let watched = if lists { Enforcement::Monitored } else { Enforcement::Booked };
    let is_capped = works(Mechanism::DriverLimits) || works(Mechanism::Shim);
    Enforced {
        share: if is_capped { Enforcement::Capped } else { watched },
        // Without the filter, the agent reports processes on devices that their task was not given.
        whole: if works(Mechanism::DeviceFilter) { Enforcement::Isolated } else { watched },
        probes,
    }
}

/// The levels of a MIG instance. Without the filter a job can open other instances of its GPU.
fn of_instance(device: &Device, filter: &Result<(), String>) -> Enforced {
    let probe = filtered(device, filter);
    let whole = match probe.why_not {
        None => Enforcement::Isolated,
        Some(_) => Enforcement::Capped,
    };
    Enforced { share: whole, whole, probes: vec![probe] }
}

/// Whether the device filter can keep jobs to a device.
fn filtered(device: &Device, filter: &Result<(), String>) -> Probe {
    let lacks_nodes = device.instance.as_ref().is_some_and(|it| it.nodes.is_none());
    let why_not = match (filter, device.minor) {
        (Err(why), _) => Some(why.clone()),
        (Ok(()), None) => Some("the driver does not tell the device's node".to_owned()),
        (Ok(()), Some(_)) if lacks_nodes => {
            let list = "/proc/driver/nvidia-caps/mig-minors";
            Some(format!("{list} does not list the instance's nodes"))
        }
        (Ok(()), Some(_)) => None,
    };
    Probe { mechanism: Mechanism::DeviceFilter, why_not }
}

/// The folder of the control groups that the driver could limit.
pub(crate) fn groups(site: &Site) -> Result<PathBuf, String> {
    if !rustix::process::geteuid().is_root() {
        return Err("only root can set them".to_owned());
    }
    site.unified.clone().ok_or_else(|| "there is no cgroup v2 that gpool can write to".to_owned())
}

/// A UUID as bytes: `GPU-` and 32 hexadecimal digits in groups.
pub(crate) fn bytes_of(uuid: &DeviceUuid) -> Option<[u8; 16]> {
    let text = uuid.as_str().strip_prefix("GPU-")?;
    let digits: Vec<u32> =
        text.chars().filter(|c| *c != '-').map_while(|c| c.to_digit(16)).collect();
    let n_given = text.chars().filter(|c| *c != '-').count();
    let mut bytes = [0; 16];
    if digits.len() != 2 * bytes.len() || n_given != digits.len() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        *byte = u8::try_from(pair[0] << 4 | pair[1]).ok()?;
    }
    Some(bytes)
}
