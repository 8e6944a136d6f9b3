//! The allowed imports between crates. Every import between crates must be in this table. It also
//! checks the purity of the pure crates, as far as that is visible from outside.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context;
use cargo_metadata::{DependencyKind, MetadataCommand};

use crate::{step, tidy};

/// The crates of this repository that the crates of one row may import.
#[derive(Clone, Copy)]
enum Allowed {
    Only(&'static [&'static str]),
    /// Every other crate of the table.
    All,
}

/// Crates by folder below `crates/` and `testing/`; development dependencies are not restricted.
const TABLE: &[(&str, Allowed)] = &[
    ("units", Allowed::Only(&[])),
    ("model", Allowed::Only(&["units"])),
    ("world", Allowed::Only(&["model"])),
    ("node", Allowed::Only(&["model"])),
    ("sched", Allowed::Only(&["model", "world", "node"])),
    ("verify", Allowed::Only(&["model", "world"])),
    ("control", Allowed::Only(&["model", "world", "sched", "verify"])),
    ("scenario", Allowed::Only(&["model", "world", "sched", "verify"])),
    ("sim", Allowed::Only(&["model", "world", "node", "sched", "verify", "control"])),
    ("trace", Allowed::Only(&["model", "world", "sched", "control"])),
    ("protocol", Allowed::Only(&["model"])),
    ("link", Allowed::Only(&["model", "protocol"])),
    ("output", Allowed::Only(&["model", "protocol"])),
    ("schema-off", Allowed::Only(&[])),
    ("texts", Allowed::Only(&["model", "schema-off"])),
    ("wire", Allowed::Only(&["model", "texts", "schema-off"])),
    ("client", Allowed::Only(&["wire"])),
    ("store", Allowed::Only(&["model", "failpoint"])),
    ("files", Allowed::Only(&["failpoint"])),
    ("history", Allowed::Only(&[])),
    ("oidc", Allowed::Only(&[])),
    ("failpoint", Allowed::Only(&[])),
    ("device", Allowed::Only(&["model", "sys"])),
    ("sys", Allowed::Only(&[])),
    ("ledger", Allowed::Only(&[])),
    ("shim", Allowed::Only(&[])),
    ("checkpoint", Allowed::Only(&["model", "device", "ledger", "sys"])),
    (
        "shepherd",
        Allowed::Only(&[
            "model",
            "node",
            "protocol",
            "output",
            "wire",
            "sys",
            "ledger",
            "checkpoint",
            "failpoint",
        ]),
    ),
    (
        "agent",
        Allowed::Only(&[
            "model",
            "node",
            "protocol",
            "link",
            "output",
            "device",
            "files",
            "sys",
            "ledger",
            "shim",
            "checkpoint",
            "shepherd",
            "failpoint",
        ]),
    ),
    ("identity", Allowed::Only(&["model", "sys", "wire", "oidc", "store"])),
    (
        "journal",
        Allowed::Only(&[
            "control", "model", "scenario", "sched", "store", "sys", "verify", "wire", "world",
        ]),
    ),
    (
        "insight",
        Allowed::Only(&[
            "control", "history", "identity", "journal", "model", "protocol", "store", "sys",
            "trace", "wire", "world",
        ]),
    ),
    ("post", Allowed::Only(&["failpoint", "identity", "insight", "model", "sys", "wire"])),
    (
        "server",
        Allowed::Only(&[
            "failpoint",
            "files",
            "control",
            "history",
            "identity",
            "insight",
            "journal",
            "link",
            "model",
            "oidc",
            "post",
            "protocol",
            "sched",
            "store",
            "sys",
            "wire",
            "world",
        ]),
    ),
    (
        "api",
        Allowed::Only(&[
            "control",
            "files",
            "history",
            "identity",
            "link",
            "model",
            "protocol",
            "sched",
            "schema-off",
            "journal",
            "insight",
            "server",
            "store",
            "trace",
            "wire",
            "world",
        ]),
    ),
    (
        "listen",
        Allowed::Only(&[
            "api", "files", "identity", "insight", "link", "model", "oidc", "output", "post",
            "protocol", "server", "store", "sweep", "web", "wire",
        ]),
    ),
    ("web", Allowed::Only(&["model", "wire", "sweep"])),
    ("cli", Allowed::Only(&["model", "wire", "web", "client", "sys", "files"])),
    ("step", Allowed::Only(&["model", "wire", "client", "sys", "cli"])),
    ("compat", Allowed::Only(&["model", "wire", "client", "sys", "cli", "step"])),
    ("yaml", Allowed::Only(&[])),
    ("import", Allowed::Only(&["yaml"])),
    ("valohai", Allowed::Only(&["yaml"])),
    ("sweep", Allowed::Only(&["model", "wire", "yaml"])),
    ("map", Allowed::Only(&["model", "wire", "client", "cli"])),
    ("vh", Allowed::Only(&["valohai", "wire", "client", "cli", "yaml"])),
    ("gateway", Allowed::Only(&["model", "wire", "client", "cli"])),
    ("notebook", Allowed::Only(&["wire", "client", "cli"])),
    ("top", Allowed::Only(&["model", "wire", "cli"])),
    (
        "verbs",
        Allowed::Only(&[
            "model", "wire", "web", "client", "sys", "cli", "compat", "files", "import", "sweep",
        ]),
    ),
    ("mcp", Allowed::Only(&["wire", "client", "cli"])),
    (
        "lab",
        Allowed::Only(&[
            "model", "world", "sched", "verify", "control", "scenario", "trace", "wire", "client",
            "identity", "protocol", "store", "history", "device", "sys", "journal", "insight",
            "cli",
        ]),
    ),
    (
        "gpool",
        Allowed::Only(&[
            "model",
            "wire",
            "client",
            "store",
            "device",
            "sys",
            "checkpoint",
            "agent",
            "shepherd",
            "protocol",
            "link",
            "output",
            "server",
            "listen",
            "journal",
            "cli",
            "step",
            "compat",
            "top",
            "verbs",
            "notebook",
            "vh",
            "map",
            "gateway",
            "failpoint",
        ]),
    ),
    ("fuzz", Allowed::All),
];

/// The crates without clock, I/O, threads, floats, hash order and randomness.
const PURE: &[&str] = &["units", "model", "world", "node", "sched", "verify", "control"];

/// The external crates that a pure crate may import: neither can reach the outside world.
const PURE_EXTERNAL: &[&str] = &["serde", "thiserror"];

/// Attributes that each pure crate must have in its `lib.rs`.
const PURE_ATTRIBUTES: &[&str] = &["#![forbid(unsafe_code)]", "#![deny(clippy::float_arithmetic)]"];

/// The crates behind the API, which the command line must not use directly. The same binary starts
/// server and agent and opens stores, so it imports these crates; the check is therefore by file.
const BEHIND_THE_API: &[&str] = &[
    "gpool_agent",
    "gpool_api",
    "gpool_control",
    "gpool_device",
    "gpool_listen",
    "gpool_node",
    "gpool_sched",
    "gpool_server",
    "gpool_shepherd",
    "gpool_store",
    "gpool_verify",
    "gpool_world",
];

/// Files of the command line that start server, agent or shepherd, or work without a server.
const MAY_REACH_BEHIND: &[&str] = &[
    "agent/api.rs",
    "away.rs",
    "away/on_disk.rs",
    "config.rs",
    "main.rs",
    "serve.rs",
    "demo/mod.rs",
    "demo/devices.rs",
    "bench/mod.rs",
    "bench/faults/torn.rs",
    "bench/synthetic.rs",
    "kai/compare.rs",
    "verbs/up.rs",
    "verbs/up_network.rs",
    "verbs/up_nodes.rs",
    "verbs/debug.rs",
    "verbs/doctor.rs",
    "verbs/backup.rs",
    "verbs/replay.rs",
    "verbs/restore.rs",
    "simulate/history.rs",
    "verbs/verify.rs",
    "verbs/sim.rs",
    "verbs/top/machine.rs",
];

/// A crate of the workspace with the dependencies of its shipped code: crates of this repository by
/// folder, others by package name.
#[derive(Debug, Default)]
struct Crate {
    folder: String,
    ours: BTreeSet<String>,
    external: BTreeSet<String>,
}

/// All violations of the table or of purity, one a line.
///
/// # Errors
/// If `cargo metadata` fails or a file of a pure crate cannot be read.
pub fn violations() -> anyhow::Result<Vec<String>> {
    let root = step::root();
    let crates = read_crates(&root)?;
    let mut found = arrow_violations(&crates);
    found.extend(unused_rows(&crates));
    found.extend(purity_violations(&crates));
    found.extend(source_violations(&root.join("crates"), &crates)?);
    let mut reaching = BTreeSet::new();
    for (folder, name) in [("crates", "gpool"), ("testing", "lab")] {
        let folder = root.join(folder).join(name).join("src");
        for (file, behind) in behind_the_api(&folder)? {
            match MAY_REACH_BEHIND.iter().find(|name| Path::new(&file).ends_with(name)) {
                Some(name) => drop(reaching.insert(*name)),
                None => found.push(format!("{name}: {file} reaches past the API to {behind}")),
            }
        }
    }
    let idle = MAY_REACH_BEHIND.iter().filter(|name| !reaching.contains(*name));
    found.extend(idle.map(|name| format!("no file {name} reaches past the API: remove its row")));
    Ok(found)
}

/// Reads every crate of the workspace, without resolving external dependencies.
fn read_crates(root: &Path) -> anyhow::Result<Vec<Crate>> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("reading cargo metadata")?;
    let folder_of = |it: &Path| it.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut crates = Vec::new();
    for package in metadata.packages {
        let manifest = package.manifest_path.as_std_path();
        let mut it = Crate {
            folder: folder_of(manifest.parent().context("a manifest lies in a folder")?),
            ..Crate::default()
        };
        for dependency in package.dependencies {
            match (dependency.kind, dependency.path) {
                (DependencyKind::Development, _) => {}
                (_, Some(path)) => {
                    it.ours.insert(folder_of(path.as_std_path()));
                }
                (_, None) => {
                    it.external.insert(dependency.name);
                }
            }
        }
        crates.push(it);
    }
    crates.sort_by(|a, b| a.folder.cmp(&b.folder));
    Ok(crates)
}

/// The row of a crate. Stub drivers and this package are not in the table: they import no crate of
/// it, and no crate of it imports them. The stubs share their state.
fn row(folder: &str) -> Option<Allowed> {
    match folder {
        "xtask" => return Some(Allowed::Only(&[])),
        _ if folder.starts_with("stub-") => return Some(Allowed::Only(&["stub-state"])),
        _ => {}
    }
    TABLE.iter().find(|(name, _)| *name == folder).map(|(_, allowed)| *allowed)
}

fn arrow_violations(crates: &[Crate]) -> Vec<String> {
    let mut found = Vec::new();
    for it in crates {
        let from = &it.folder;
        let Some(allowed) = row(from) else {
            found.push(format!("crate {from} has no row in the table of allowed imports"));
            continue;
        };
        for to in &it.ours {
            let in_table = TABLE.iter().any(|(name, _)| name == to);
            let ok = match allowed {
                Allowed::All => in_table,
                Allowed::Only(names) => names.contains(&to.as_str()),
            };
            if !ok {
                found.push(format!("arrow {from} -> {to} is not allowed"));
            }
        }
    }
    found
}

/// Arrows of the table that no crate uses, and rows without a crate.
fn unused_rows(crates: &[Crate]) -> Vec<String> {
    let mut found = Vec::new();
    for (from, allowed) in TABLE {
        let Some(it) = crates.iter().find(|it| it.folder == *from) else {
            found.push(format!("the row of {from} has no crate"));
            continue;
        };
        let Allowed::Only(names) = allowed else { continue };
        let unused = names.iter().filter(|name| !it.ours.contains(**name));
        found.extend(unused.map(|to| format!("arrow {from} -> {to} is in the table and unused")));
    }
    found
}

fn purity_violations(crates: &[Crate]) -> Vec<String> {
    let mut found = Vec::new();
    for it in crates.iter().filter(|it| PURE.contains(&it.folder.as_str())) {
        let ours = it.ours.iter().filter(|name| !PURE.contains(&name.as_str()));
        let external = it.external.iter().filter(|name| !PURE_EXTERNAL.contains(&name.as_str()));
        for name in ours.chain(external) {
            found.push(format!("pure crate {} depends on {name}", it.folder));
        }
    }
    found
}

/// Checks that every pure crate has the attributes, and the same list of forbidden calls.
fn source_violations(folder: &Path, crates: &[Crate]) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    let read = |path: &Path| {
        fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
    };
    let lints = read(&folder.join("model/clippy.toml"))?;
    for name in PURE.iter().filter(|name| crates.iter().any(|it| it.folder == **name)) {
        let source = read(&folder.join(name).join("src/lib.rs"))?;
        for attribute in PURE_ATTRIBUTES {
            if !source.lines().any(|line| line == *attribute) {
                found.push(format!("pure crate {name}: src/lib.rs lacks {attribute}"));
            }
        }
        let own = fs::read_to_string(folder.join(name).join("clippy.toml"));
        if own.ok().as_deref() != Some(&lints) {
            found.push(format!("pure crate {name}: clippy.toml is not that of model"));
        }
    }
    Ok(found)
}

/// The files in a folder that use crates behind the API, each with such a crate.
fn behind_the_api(folder: &Path) -> anyhow::Result<Vec<(String, &'static str)>> {
    let mut found = Vec::new();
    for path in tidy::files(folder)? {
        let text =
            fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
        let file = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
        // Names of metrics begin like names of crates.
        let is_used = |name: &str| {
            text.contains(&format!("{name}::")) || text.contains(&format!("use {name}"))
        };
        let used = BEHIND_THE_API.iter().filter(|name| is_used(name));
        found.extend(used.map(|name| (file.clone(), *name)));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
