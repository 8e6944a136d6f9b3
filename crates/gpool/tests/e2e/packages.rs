//! The packages of `cargo xtask package`: their files, and the life of a machine that has them
//! while jobs run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::comfort::has;
use crate::harness::{Cluster, Gate, Guest, Ran, Running, program, skip, until_so};
use crate::recovery::waits_at;

/// An older version of the same binary.
pub const OLD: &str = "0.0.9";
pub const NEW: &str = env!("CARGO_PKG_VERSION");

/// Acts on the units of a machine without systemd.
const SYSTEMCTL: &str = include_str!("../fleet/systemctl");

/// Runs `xtask package`; `None` if it is not built.
fn package(words: &[&str]) -> Option<Ran> {
    let xtask = program().with_file_name("xtask");
    if !xtask.is_file() {
        skip("there is no xtask; cargo xtask test builds it");
        return None;
    }
    let mut command = Command::new(xtask);
    command.arg("package").args(words).env("SOURCE_DATE_EPOCH", "1767225600");
    Some(Running::start(&mut command, None).end())
}

/// A smaller binary: it is compressed here, and each machine has it in memory.
fn stripped() -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpool");
    let strip = Command::new("strip").arg("-o").arg(&path).arg(program()).status();
    if strip.is_ok_and(|status| status.success()) { path } else { program() }
}

/// A folder with the Debian packages of both versions, and the image. `None` where they can't be
/// built, with the reason as text.
pub fn built() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        if let Some(missing) = ["dpkg-deb", "tar", "gzip"].into_iter().find(|it| !has(it)) {
            skip(&format!("there is no {missing}"));
            return None;
        }
        let (binary, out) = (stripped(), Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages"));
        for version in [OLD, NEW] {
            let words = ["--binary", binary.to_str()?, "--out", out.to_str()?];
            let ran = package(&[&words[..], &["--version", version]].concat())?;
            assert_eq!(ran.code, 0, "{ran:?}");
        }
        Some(out)
    };
    BUILT.get_or_init(build).as_deref()
}

/// The path of a package of this version.
pub fn path(folder: &Path, version: &str, end: &str) -> PathBuf {
    let begin = format!("gpool_{version}_");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut fits = entries.filter(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(&begin) && name.ends_with(end)
    });
    fits.next().unwrap()
}

/// A machine that has no gpool yet, with its settings.
pub fn machine(cluster: &Cluster, name: &str, within: &[String]) -> Option<Guest> {
    let folder = built()?;
    let own = cluster.path("");
    let guest = Guest::new(name, &cluster.path(&format!("{name}-files")), &[&own, folder], within)?;
    let systemctl = guest.path("/usr/bin/systemctl");
    // It may be a link.
    drop(std::fs::remove_file(&systemctl));
    std::fs::write(&systemctl, SYSTEMCTL).unwrap();
    // Units and settings that this machine may have, and the file by which images of containers
    // forbid packages to restart services.
    let files = "/etc/gpool /var/lib/gpool /etc/systemd/system/gpool*";
    let gone = format!("rm -rf {files} /usr/sbin/policy-rc.d");
    guest.sh(&format!("chmod 755 /usr/bin/systemctl; mkdir -p /run/systemd/system; {gone}")).ok();
    std::fs::create_dir(guest.path("/etc/gpool")).unwrap();
    let devices = "devices = \"sim:2xA100-80G\"\n";
    std::fs::write(guest.path("/etc/gpool/gpool.toml"), devices).unwrap();
    Some(guest)
}

#[test]
fn packages_have_the_files_of_debian_and_equal_bytes_each_time() {
    let Some(folder) = built() else { return };
    let cluster = Cluster::unstarted(&[]);
    let (binary, out) = (stripped(), cluster.path("again"));
    let words = ["--binary", binary.to_str().unwrap(), "--out", out.to_str().unwrap()];
    package(&words).unwrap().ok();
    for end in [".deb", ".oci.tar"] {
        let [first, second] = [folder, &out].map(|it| std::fs::read(path(it, NEW, end)).unwrap());
        assert!(first == second, "the bytes of {end} differ");
    }
    let deb = path(folder, NEW, ".deb");
    let dpkg =
        |flag: &str| Running::start(Command::new("dpkg-deb").arg(flag).arg(&deb), None).end().ok();
    let info = dpkg("--info");
    for line in ["Package: gpool", &format!("Version: {NEW}"), "Depends: libc6 (>= 2."] {
        assert!(info.contains(line), "{info}");
    }
    let contents = dpkg("--contents");
    for line in contents.lines() {
        assert!(line.contains(" root/root "), "{line}");
        let is_program = line.ends_with("./usr/bin/gpool");
        let mode = if line.starts_with('d') || is_program { "rwxr-xr-x" } else { "rw-r--r--" };
        assert_eq!(&line[1..10], mode, "{line}");
    }
    for file in [
        "usr/bin/gpool",
        "usr/lib/systemd/system/gpool.service",
        "usr/lib/systemd/system/gpool-agent.service",
        "usr/share/man/man1/gpool-submit.1.gz",
        "usr/share/man/man5/gpool.toml.5.gz",
        "usr/share/bash-completion/completions/gpool",
        "usr/share/zsh/vendor-completions/_gpool",
        "usr/share/fish/vendor_completions.d/gpool.fish",
        "usr/share/doc/gpool/copyright",
        "usr/share/doc/gpool/changelog.gz",
    ] {
        assert!(contents.contains(&format!(" ./{file}\n")), "{file} is not in {contents}");
    }
}

#[test]
fn wrong_calls_are_refused_with_a_way_out() {
    let binary = program();
    for (words, why) in [
        (&["--binary", "/bin/sh"][..], "/bin/sh is not gpool"),
        (&["--binary", "/nowhere"], "can't read the binary /nowhere"),
        (&["--binary", "/etc/passwd"], "is no Linux program"),
        (&["--binary"], "--binary needs a value"),
        (&["--binary", binary.to_str().unwrap(), "--version", "v1"], "no version of a Debian"),
        (&["rpm"], "no flag \"rpm\""),
    ] {
        let Some(ran) = package(words) else { return };
        ran.refused(1, &[why, "\n  try  "]);
    }
}

/// The state of a job on the machine of its server.
fn state(guest: &Guest, id: &str) -> String {
    guest.sh(&format!("gpool show {id} --json")).json()["items"][0]["state"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// Submits a job that waits at a gate, and waits until it runs.
fn begin(guest: &Guest, gate: &Gate) -> String {
    let line = waits_at(gate);
    let id = guest.sh(&format!("cd /; gpool submit --gpus 1 -- sh -c '{line}'")).ok();
    let id = id.trim().to_owned();
    until_so("it has begun", || guest.sh(&format!("gpool logs {id}")).out.starts_with("begun"));
    id
}

#[test]
fn jobs_outlive_an_upgrade_and_a_removal_and_a_purge_waits_for_them() {
    let Some(folder) = built() else { return };
    let cluster = Cluster::unstarted(&[]);
    let Some(guest) = machine(&cluster, "lab1", &[]) else { return };
    let [old, new] = [OLD, NEW].map(|it| path(folder, it, ".deb").display().to_string());
    guest.sh(&format!("dpkg --install {old}")).ok();
    assert_eq!(guest.sh("systemctl is-enabled gpool; systemctl is-active gpool").code, 3);
    assert_eq!(guest.sh("command -v gpool").ok(), "/usr/bin/gpool\n");
    // The command finds the unit of the package.
    let unit = guest.sh("gpool up --systemd --system --now").ok();
    assert_eq!(unit, "/usr/lib/systemd/system/gpool.service\n");
    let gates = ["first", "second"].map(|name| Gate::new(&cluster, name));
    let [first, second] = [0, 1].map(|ix| begin(&guest, &gates[ix]));

    let pid = || guest.sh("cat /run/services/gpool.service").ok();
    let before = pid();
    guest.sh(&format!("dpkg --install {new}")).ok();
    assert_ne!(pid(), before, "the new version runs");
    assert_eq!(guest.sh("dpkg-query -W -f '${Version}' gpool").ok(), NEW);
    assert!(guest.sh("gpool doctor").out.contains("/usr/lib/systemd/system/gpool.service is"));
    gates[0].open();
    until_so("it ends", || state(&guest, &first) == "failed");
    assert_eq!(guest.sh(&format!("gpool logs {first}")).ok(), "begun\ndone\n");

    guest.sh("dpkg --remove gpool").ok();
    assert_eq!(guest.sh("systemctl is-active gpool").code, 3);
    assert_eq!(guest.sh("command -v gpool").code, 127);
    let refused = guest.sh("dpkg --purge gpool");
    assert_eq!(refused.code, 1, "{refused:?}");
    for words in ["still run, so /var/lib/gpool and /etc/gpool stay", "then  dpkg --purge gpool"] {
        assert!(refused.err.contains(words), "{refused:?}");
    }
    // The job is there for the next installation.
    guest.sh(&format!("dpkg --install {new} && systemctl enable --now gpool")).ok();
    assert_eq!(state(&guest, &second), "running");
    gates[1].open();
    until_so("it ends", || state(&guest, &second) == "failed");
    assert_eq!(guest.sh(&format!("gpool logs {second}")).ok(), "begun\ndone\n");
    let unit = "/usr/lib/systemd/system/gpool.service\n";
    assert_eq!(guest.sh("gpool down --systemd --system").ok(), unit);
    assert_eq!(guest.sh("systemctl is-active gpool || systemctl is-enabled gpool").code, 1);
    guest.sh("dpkg --purge gpool").ok();
    let left =
        "ls -d /etc/gpool /var/lib/gpool /etc/systemd/system/*/gpool* /usr/share/man/man1/gpool*";
    assert_eq!(guest.sh(&format!("{left} 2> /dev/null")).out, "");
    assert!(guest.sh("dpkg-query -W gpool").code != 0);
}
