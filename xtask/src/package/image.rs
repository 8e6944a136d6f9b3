//! The image of the server: the binary with the libraries that it is linked to, and nothing else
//! that runs. The archive is an OCI image layout, and has the file by which older versions of
//! docker load it, too.
//! Source: <https://github.com/opencontainers/image-spec>, versions 1.0 and 1.1: image-layout.md,
//! config.md, manifest.md; docker's `image/spec/v1.2.md` for `manifest.json` and `Healthcheck`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde_json::{Value, json};

use super::tree::Tree;
use super::{Release, license, output};
use crate::step;

const PORT: &str = "7443";
const STATE: &str = "var/lib/gpool";
/// Certificates of public authorities, for identity providers and addresses of notifications.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";
/// Libraries that glibc before 2.34 loads to look up names; later ones have them built in.
const LOADED: &[&str] = &["libnss_files.so.2", "libnss_dns.so.2", "libresolv.so.2"];

const SETTINGS: &str = "\
# Settings of the server; gpool help settings lists all keys. A file that is mounted here replaces
# these.
listen = \"0.0.0.0:7443\"
devices = \"/etc/gpool/nodes.toml\"
";
/// The server's own node. A container of gpool alone has no programs for jobs, so it is small.
const NODES: &str = "\
# The node of the container. Jobs run on machines that join: gpool drain server
[[node]]
name = \"server\"
cpus = 1
memory = \"1M\"
";

/// Builds the image; returns the path of its archive.
pub fn build(release: &Release) -> anyhow::Result<PathBuf> {
    step::announce("image");
    let layout = Tree::new(release.out.join("image"))?;
    let (layer, diff) = layer(&layout, release)?;
    let config = config(release, &diff)?;
    let config = blob(&layout, config.to_string().as_bytes())?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config.descriptor("application/vnd.oci.image.config.v1+json"),
        "layers": [layer.descriptor("application/vnd.oci.image.layer.v1.tar+gzip")],
    });
    let manifest = blob(&layout, manifest.to_string().as_bytes())?;
    let name = format!("localhost/gpool:{}", release.version.replace(['+', '~'], "-"));
    let mut listed = manifest.descriptor("application/vnd.oci.image.manifest.v1+json");
    listed["platform"] = json!({ "architecture": release.program.architecture, "os": "linux" });
    listed["annotations"] = json!({
        "io.containerd.image.name": name,
        "org.opencontainers.image.ref.name": name,
    });
    let index = json!({ "schemaVersion": 2, "manifests": [listed] });
    let of_docker =
        json!([{ "Config": config.path(), "Layers": [layer.path()], "RepoTags": [name] }]);
    layout.file("oci-layout", r#"{"imageLayoutVersion":"1.0.0"}"#, 0o644)?;
    layout.file("index.json", index.to_string(), 0o644)?;
    layout.file("manifest.json", of_docker.to_string(), 0o644)?;
    let path = release.package("oci.tar");
    archive(
        &layout,
        &path,
        release.epoch,
        &["blobs", "index.json", "manifest.json", "oci-layout"],
    )?;
    layout.remove()?;
    Ok(path)
}

/// A file that is named by its hash.
struct Blob {
    sha256: String,
    n_bytes: u64,
}

impl Blob {
    fn path(&self) -> String {
        format!("blobs/sha256/{}", self.sha256)
    }

    fn descriptor(&self, media_type: &str) -> Value {
        let digest = format!("sha256:{}", self.sha256);
        json!({ "mediaType": media_type, "digest": digest, "size": self.n_bytes })
    }
}

fn blob(layout: &Tree, contents: &[u8]) -> anyhow::Result<Blob> {
    layout.file("new", contents, 0o644)?;
    adopt(layout, &layout.path("new"))
}

/// Moves a file into the layout.
fn adopt(layout: &Tree, path: &Path) -> anyhow::Result<Blob> {
    let n_bytes = path.metadata()?.len();
    let blob = Blob { sha256: sha256(path)?, n_bytes };
    layout.folder("blobs/sha256")?;
    fs::rename(path, layout.path(&blob.path())).context("moving a blob")?;
    Ok(blob)
}

fn sha256(path: &Path) -> anyhow::Result<String> {
    let line = output(step::command("sha256sum", &[]).arg(path))?;
    line.split(' ').next().map(str::to_owned).context("sha256sum printed nothing")
}

/// The file system of the image, compressed, and the hash before the compression.
fn layer(layout: &Tree, release: &Release) -> anyhow::Result<(Blob, String)> {
    let files = Tree::new(release.out.join("image-files"))?;
    let program = &release.program;
    files.copy(&program.path, "usr/bin/gpool", 0o755)?;
    for library in libraries(&program.libraries) {
        let name = library.strip_prefix("/").context("ldd prints whole paths")?;
        files.copy(&library, &name.to_string_lossy(), 0o755)?;
    }
    // A server without root takes jobs of its own user only.
    files.file("etc/passwd", "root:x:0:0::/root:/usr/sbin/nologin\n", 0o644)?;
    files.file("etc/group", "root:x:0:\n", 0o644)?;
    files.file("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n", 0o644)?;
    files.file("etc/gpool/gpool.toml", SETTINGS, 0o644)?;
    files.file("etc/gpool/nodes.toml", NODES, 0o644)?;
    files.file("usr/share/doc/gpool/copyright", license()?, 0o644)?;
    let authorities = Path::new("/").join(AUTHORITIES);
    match authorities.exists() {
        true => files.copy(&authorities, AUTHORITIES, 0o644)?,
        false => eprintln!("  no {}: the image trusts no public authority", authorities.display()),
    }
    files.folder_with_mode("tmp", 0o1777)?;
    files.folder_with_mode(STATE, 0o711)?;
    files.folder("run")?;
    let tar = layout.path("layer");
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(files.root()).context("reading the files of the image")? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    archive(&files, &tar, release.epoch, &names)?;
    files.remove()?;
    let diff = sha256(&tar)?;
    output(step::command("gzip", &["-6", "--no-name"]).arg(&tar))?;
    Ok((adopt(layout, &layout.path("layer.gz"))?, diff))
}

/// The libraries of the binary, and those that glibc may load.
fn libraries(linked: &[PathBuf]) -> Vec<PathBuf> {
    let is_glibc = |path: &&PathBuf| path.file_name().is_some_and(|name| name == "libc.so.6");
    let folder = linked.iter().find(is_glibc).and_then(|path| path.parent());
    let loaded = folder.into_iter().flat_map(|folder| LOADED.iter().map(|it| folder.join(it)));
    linked.iter().cloned().chain(loaded.filter(|path| path.exists())).collect()
}

/// An archive of root's files.
fn archive(tree: &Tree, path: &Path, epoch: u64, names: &[&str]) -> anyhow::Result<()> {
    let flags = ["--create", "--format=gnu", "--sort=name", "--numeric-owner", "--owner=0"];
    let mut tar = step::command("tar", &flags);
    tar.arg("--group=0").arg(format!("--mtime=@{epoch}")).arg("--file").arg(path);
    output(tar.arg("--directory").arg(tree.root()).args(names)).map(drop)
}

/// The settings of containers of the image.
fn config(release: &Release, diff: &str) -> anyhow::Result<Value> {
    let format = "+%Y-%m-%dT%H:%M:%SZ";
    let at = format!("-d@{}", release.epoch);
    let created = output(&mut step::command("date", &["-u", &at, format]))?;
    let created = created.trim();
    let ns = |s: u64| s * 1_000_000_000;
    Ok(json!({
        "created": created,
        "architecture": release.program.architecture,
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/gpool"],
            "Cmd": ["up", "--foreground"],
            "ExposedPorts": { (format!("{PORT}/tcp")): {} },
            "Volumes": { (format!("/{STATE}")): {} },
            "WorkingDir": "/",
            "StopSignal": "SIGTERM",
            // Docker's; podman takes it from --health-cmd.
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/gpool", "status"],
                "Interval": ns(30), "Timeout": ns(10), "StartPeriod": ns(60), "Retries": 3,
            },
            "Labels": {
                "org.opencontainers.image.title": "gpool",
                "org.opencontainers.image.version": release.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{diff}")] },
        "history": [{ "created": created, "created_by": "cargo xtask package" }],
    }))
}
