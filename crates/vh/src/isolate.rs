//! A private `/valohai` for a step on the host: a mount namespace; its root is the real one with
//! the folder of the execution at `/valohai`. Without root, a user namespace allows it; each user
//! keeps its ID.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::plan::Plan;

/// Makes the root, changes into it, and runs the words after the two folders. A mount in `$MOUNTS`
/// is a line `SOURCE TAB TARGET TAB ro|rw`.
const SCRIPT: &str = r#"set -e
root=$1 execution=$2
shift 2
mount -t tmpfs -o mode=755 valohai "$root"
for path in /* /.[!.]*; do
    if [ "$path" = /valohai ]; then continue; fi
    if [ -L "$path" ]; then
        cp -P "$path" "$root/"
    elif [ -d "$path" ]; then
        mkdir "$root$path"
        mount --rbind "$path" "$root$path"
    elif [ -f "$path" ]; then
        : > "$root$path"
        mount --bind "$path" "$root$path"
    fi
done
mkdir "$root/valohai"
mount --rbind "$execution" "$root/valohai"
tab=$(printf '\t')
printf '%s' "$MOUNTS" | while IFS=$tab read -r source target how; do
    if [ ! -d "$root$target" ]; then
        top=${target#/}
        if [ -e "/${top%%/*}" ]; then
            # It would be made on the real file system.
            echo "gpool: can't mount $source: $target does not exist" >&2
            exit 1
        fi
        mkdir -p "$root$target"
    fi
    mount --rbind "$source" "$root$target"
    if [ "$how" = ro ]; then mount -o remount,bind,ro "$root$target"; fi
done
unset MOUNTS
mkdir "$root/.old"
cd "$root"
pivot_root . .old
cd /valohai/repository
umount -l /.old
rmdir /.old
if [ "$KEEP_CAPS" = 1 ]; then
    unset KEEP_CAPS
    exec setpriv --inh-caps=-all --ambient-caps=-all -- "$@"
fi
unset KEEP_CAPS
exec "$@"
"#;

/// The words that make the namespaces.
fn unshare() -> Vec<&'static str> {
    match rustix::process::geteuid().is_root() {
        true => vec!["unshare", "--mount", "--"],
        false => {
            vec!["unshare", "--user", "--map-current-user", "--keep-caps", "--mount", "--"]
        }
    }
}

/// Whether this machine allows the namespaces.
#[must_use]
pub fn is_possible() -> bool {
    let words = unshare();
    let mut probe = Command::new(words[0]);
    probe.args(&words[1..]).args(["mount", "-t", "tmpfs", "valohai", "/tmp"]);
    let probe = probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

/// The command that runs a program in the private root.
#[must_use]
pub fn command(plan: &Plan, root: &Path, execution: &Path, program: &[OsString]) -> Command {
    let words = unshare();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).args(["/bin/sh", "-c", SCRIPT, "vh"]).arg(root).arg(execution);
    command.args(program);
    let mounts = plan.mounts.iter().map(|mount| {
        let how = if mount.is_readonly { "ro" } else { "rw" };
        format!("{}\t{}\t{how}\n", mount.source, mount.target)
    });
    command.env("MOUNTS", mounts.collect::<String>());
    command.env("KEEP_CAPS", if rustix::process::geteuid().is_root() { "0" } else { "1" });
    command
}
