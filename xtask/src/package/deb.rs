//! The Debian package: binary, units, manual pages, completions, and the scripts that dpkg runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use super::tree::Tree;
use super::{Release, license, output, read};
use crate::step;

/// The scripts of the package. Source: Debian Policy Manual, chapter 6.
const SCRIPTS: &[(&str, &str)] = &[
    ("postinst", include_str!("scripts/postinst")),
    ("prerm", include_str!("scripts/prerm")),
    ("postrm", include_str!("scripts/postrm")),
];

/// Units with the command that prints each.
const UNITS: &[(&str, &[&str])] = &[
    ("gpool.service", &["up", "--systemd", "--system", "--print"]),
    ("gpool-agent.service", &["agent", "--systemd", "--system", "--print"]),
];

const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/gpool"),
    ("zsh", "usr/share/zsh/vendor-completions/_gpool"),
    ("fish", "usr/share/fish/vendor_completions.d/gpool.fish"),
];

const DESCRIPTION: &str = "gives the GPUs of machines to jobs
 gpool queues jobs, starts each one on GPUs of its own, and shows why a job waits
 and when it will start. Running jobs survive server and agent.
 .
 The package has the server, the agent of other machines, and the commands of
 users. Its services are disabled: systemctl enable --now gpool";

/// Builds the package; returns its path.
pub fn build(release: &Release) -> anyhow::Result<PathBuf> {
    step::announce("Debian package");
    let tree = Tree::new(release.out.join("deb"))?;
    tree.copy(&release.program.path, "usr/bin/gpool", 0o755)?;
    add_generated_files(&tree)?;
    add_documents(&tree, release)?;
    tree.folder("etc/gpool")?;
    let n_bytes =
        tree.files("")?.iter().map(|it| Ok(it.metadata()?.len())).sum::<anyhow::Result<u64>>();
    for (name, script) in SCRIPTS {
        tree.file(&format!("DEBIAN/{name}"), script, 0o755)?;
    }
    tree.file("DEBIAN/control", control(release, n_bytes?)?, 0o644)?;
    let path = release.package("deb");
    // Not xz: its bytes depend on the number of threads.
    let mut build = step::command("dpkg-deb", &["--root-owner-group", "-Zgzip", "-z6", "--build"]);
    build.arg(tree.root()).arg(&path).env("SOURCE_DATE_EPOCH", release.epoch.to_string());
    output(&mut build)?;
    tree.remove()?;
    Ok(path)
}

/// Adds the files that the program in the tree writes itself.
fn add_generated_files(tree: &Tree) -> anyhow::Result<()> {
    let bin = tree.path("usr/bin");
    let gpool = |words: &[&str]| {
        let mut command = Command::new(bin.join("gpool"));
        // A program in `PATH` writes completions with its name alone.
        command.args(words).current_dir("/").env("PATH", &bin);
        command
    };
    for (unit, words) in UNITS {
        let text = output(&mut gpool(words))?;
        let staged = format!("{}/usr/bin/gpool", tree.root().display());
        let start = format!("ExecStart=\"{staged}\"");
        if !text.contains(&start) {
            bail!("{unit} does not start {staged}; the folder has a character that units escape");
        }
        let text = text.replace(&start, "ExecStart=\"/usr/bin/gpool\"");
        tree.file(&format!("usr/lib/systemd/system/{unit}"), text, 0o644)?;
    }
    for (shell, path) in COMPLETIONS {
        tree.file(path, output(&mut gpool(&["completion", shell]))?, 0o644)?;
    }
    let pages = tree.path("usr/share/man");
    tree.folder("usr/share/man")?;
    output(gpool(&["man"]).arg(&pages))?;
    tree.files("usr/share/man")?.iter().try_for_each(|page| compress(page))?;
    for folder in ["usr/share/man/man1", "usr/share/man/man5"] {
        tree.folder(folder)?;
    }
    Ok(())
}

fn add_documents(tree: &Tree, release: &Release) -> anyhow::Result<()> {
    let folder = "usr/share/doc/gpool";
    tree.file(&format!("{folder}/copyright"), copyright()?, 0o644)?;
    let changes = format!("{folder}/changelog");
    tree.file(&changes, read(&step::root().join("CHANGELOG.md"))?, 0o644)?;
    compress(&tree.path(&changes))?;
    // The changes of the package itself, as Debian writes them.
    let date = output(&mut step::command("date", &["-u", "-R", &format!("-d@{}", release.epoch)]))?;
    let entry = format!(
        "gpool ({}) unstable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}\n",
        release.version,
        maintainer(),
        date.trim()
    );
    let name = format!("{folder}/changelog.Debian");
    tree.file(&name, entry, 0o644)?;
    compress(&tree.path(&name))
}

/// Replaces a file by its compressed form, which holds no time.
fn compress(path: &Path) -> anyhow::Result<()> {
    output(step::command("gzip", &["-9", "--no-name", "--force"]).arg(path))?;
    let mut name = path.as_os_str().to_owned();
    name.push(".gz");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&name, mode).context("changing a compressed file")
}

/// Source: <https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/>.
fn copyright() -> anyhow::Result<String> {
    let license = license()?;
    let holder = license.lines().find_map(|line| line.strip_prefix("Copyright (c) "));
    let indented = license.lines().map(|line| match line {
        "" => " .\n".to_owned(),
        line => format!(" {line}\n"),
    });
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: gpool\n\nFiles: *\nCopyright: {}\nLicense: MIT or Apache-2.0\n\n\
         License: MIT\n{}\nLicense: Apache-2.0\n See /usr/share/common-licenses/Apache-2.0.\n",
        holder.unwrap_or("the gpool contributors"),
        indented.collect::<String>(),
    ))
}

fn maintainer() -> String {
    let set = |name, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let name = set("DEBFULLNAME", "the gpool contributors");
    format!("{name} <{}>", set("DEBEMAIL", "gpool@gpool.invalid"))
}

fn control(release: &Release, n_bytes: u64) -> anyhow::Result<String> {
    let Release { program, version, .. } = release;
    Ok(format!(
        "Package: gpool\nVersion: {version}\nArchitecture: {}\nMaintainer: {}\n\
         Installed-Size: {}\nDepends: {}\nSection: admin\nPriority: optional\n\
         Description: {DESCRIPTION}\n",
        program.architecture,
        maintainer(),
        n_bytes.div_ceil(1024),
        depends(&program.libraries, program.glibc)?,
    ))
}

/// The packages of these libraries.
fn depends(libraries: &[PathBuf], glibc: u32) -> anyhow::Result<String> {
    let mut found = vec![format!("libc6 (>= 2.{glibc})")];
    for library in libraries {
        let name = library.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with("libgcc_s.so") {
            found.push("libgcc-s1".to_owned());
        } else if !["libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "ld-linux"]
            .iter()
            .any(|own| name.starts_with(own))
        {
            bail!("the binary needs {name}, and no package is known for it\n  try  another build");
        }
    }
    Ok(found.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_needs_the_packages_of_its_libraries() {
        let paths = |names: &[&str]| -> Vec<PathBuf> { names.iter().map(PathBuf::from).collect() };
        let linked = paths(&["/lib/libgcc_s.so.1", "/lib/libm.so.6", "/lib64/ld-linux.so.2"]);
        assert_eq!(depends(&linked, 34).unwrap(), "libc6 (>= 2.34), libgcc-s1");
        assert!(depends(&paths(&["/lib/libssl.so.3"]), 34).is_err());
    }
}
