//! The two builds of a comparison.

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, anyhow, bail};
use cargo_metadata::Message;
use cargo_metadata::camino::Utf8Path;

use crate::step;

/// The programs of one commit, or of this tree.
pub struct Build {
    folder: PathBuf,
}

impl Build {
    /// The program that measures. Before there was `gpool-lab`, gpool measured itself.
    pub fn lab(&self) -> PathBuf {
        let lab = self.folder.join(LAB);
        if lab.exists() { lab } else { self.folder.join(GPOOL) }
    }

    /// The benchmark of the shim.
    pub fn shim(&self) -> PathBuf {
        self.folder.join(SHIM)
    }
}

const GPOOL: &str = "gpool";
/// Finds `gpool` beside itself.
const LAB: &str = "gpool-lab";
const SHIM: &str = "shim-cost";

/// Builds a commit and this tree. The build of a commit is kept for the next time.
///
/// # Errors
/// There is no such commit, or a build fails.
pub fn builds(base: Option<&str>, is_same: bool) -> anyhow::Result<(Build, Build)> {
    let folder = step::root().join("target/compare");
    fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let tree = Build { folder: folder.join("tree") };
    let fresh = |base: &Build| {
        Ok((copy(base, &folder.join("run/base"))?, copy(&tree, &folder.join("run/tree"))?))
    };
    // Before the build, which takes minutes.
    let commit = commit(base)?;
    build(&step::root(), &folder.join("target-of-tree"), &tree)?;
    if is_same {
        return fresh(&tree);
    }
    let base = Build { folder: folder.join(&commit) };
    eprintln!("base: {}", git(&["log", "-1", "--format=%h %cs %s", &commit])?);
    if base.folder.exists() {
        return fresh(&base);
    }
    // It gets its name once it is complete.
    let part = Build { folder: folder.join("part") };
    let source = folder.join("source");
    let path = source.to_string_lossy().into_owned();
    // Of a comparison that was interrupted; its folder may be gone.
    let _ = git(&["worktree", "remove", "--force", &path]);
    git(&["worktree", "prune"])?;
    git(&["worktree", "add", "--detach", &path, &commit])?;
    let built = build(&source, &folder.join("target-of-base"), &part);
    git(&["worktree", "remove", "--force", &path])?;
    built?;
    fs::rename(&part.folder, &base.folder).context("naming the build of the base")?;
    fresh(&base)
}

/// Copies programs. Both builds are copied at the same time: how a file lies in the page cache,
/// which depends on when and how it was written, changes the start of its program by a tenth.
fn copy(build: &Build, to: &Path) -> anyhow::Result<Build> {
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    fs::create_dir_all(to)?;
    for file in fs::read_dir(&build.folder)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(Build { folder: to.to_owned() })
}

/// Builds the programs of a source tree, in a target folder of its own: cargo takes a crate of
/// another tree that was built later for a fresh one. Optimization at link time would take longer
/// than all measurements.
fn build(source: &Path, target: &Path, to: &Build) -> anyhow::Result<()> {
    let has = |path: &str| step::CRATES.iter().any(|it| source.join(it).join(path).exists());
    let mut command = step::cargo(&[
        "build",
        "--release",
        "--locked",
        "--message-format",
        "json-render-diagnostics",
    ]);
    command.args(["--package", GPOOL, "--bin", GPOOL]);
    if has("shim/benches/cost.rs") {
        command.args(["--package", "gpool-shim", "--bench", "cost"]);
    }
    if has("lab/Cargo.toml") {
        command.args(["--package", LAB, "--bin", LAB]);
    }
    command.current_dir(source).env("CARGO_TARGET_DIR", target);
    command.env("CARGO_PROFILE_RELEASE_LTO", "false");
    command.env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    command.env("CARGO_INCREMENTAL", "0").stdout(Stdio::piped());
    step::announce(&format!("build of {}", source.display()));
    let mut cargo = command.spawn().context("starting cargo")?;
    let stdout = cargo.stdout.take().context("the output of cargo")?;
    if to.folder.exists() {
        fs::remove_dir_all(&to.folder)?;
    }
    fs::create_dir_all(&to.folder)?;
    let copy = |from: &Utf8Path, name: &str| {
        fs::copy(from, to.folder.join(name)).with_context(|| format!("copying {from}"))
    };
    for message in Message::parse_stream(BufReader::new(stdout)) {
        let Message::CompilerArtifact(artifact) = message.context("a message of cargo")? else {
            continue;
        };
        if artifact.target.is_cdylib() {
            // The benchmark of the shim looks for the driver's stub beside itself.
            for library in &artifact.filenames {
                copy(library, library.file_name().unwrap_or_default())?;
            }
        }
        if let Some(program) = &artifact.executable {
            let name = artifact.target.name.as_str();
            copy(program, if name == "cost" { SHIM } else { name })?;
        }
    }
    if !cargo.wait()?.success() {
        bail!("{} can't be built", source.display());
    }
    Ok(())
}

/// The commit to compare with: by default the last one that is also in `origin/main`, where this
/// work began; without that branch, the last commit.
fn commit(base: Option<&str>) -> anyhow::Result<String> {
    match base {
        Some(base) => git(&["rev-parse", "--verify", "--quiet", &format!("{base}^{{commit}}")])
            .map_err(|_| anyhow!("there is no commit {base:?}")),
        None => git(&["merge-base", "HEAD", "origin/main"])
            .or_else(|_| git(&["rev-parse", "--verify", "HEAD"])),
    }
}

fn git(arguments: &[&str]) -> anyhow::Result<String> {
    let output = step::command("git", arguments).output().context("starting git")?;
    if !output.status.success() {
        bail!("git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
