#!/bin/bash
# All figures, plots and tables of docs/operating/performance.md again, in about a quarter of an hour without
# peers: benches/run.sh [--quick] [--rounds N] [--no-peers] [--disk FOLDER]
#
# Run it on a machine with nothing else to do. As root it makes a file system of its own for the
# figures on disk (ext4 with a journal, in a file), and gives itself real-time priority, which keeps
# others off; without root it uses FOLDER, or one below target/. Peers are measured where they are
# installed (benches/peers/README.md). Results are kept in benches/results.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
rounds=3 quick=() peers=yes disk=
while [ $# -gt 0 ]; do
    case $1 in
        --quick) quick=(--quick) rounds=1 ;;
        --no-peers) peers=no ;;
        --rounds) rounds=$2; shift ;;
        --disk) disk=$2; shift ;;
        *) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
    shift
done

cargo build --release -p gpool -p gpool-lab -p gpool-stub-nvml
export PATH=$PWD/target/release:$PATH
export NVML_STUB=${NVML_STUB:-$PWD/target/release/libgpool_stub_nvml.so}
scratch=$(mktemp -d)
cleanup() {
    mountpoint -q "$scratch/disk" 2>/dev/null && umount "$scratch/disk"
    rm -rf "$scratch"
}
trap cleanup EXIT
# As root, other users' requests are measured too: they have to reach the sockets below.
chmod 711 "$scratch"
mkdir "$scratch/disk" "$scratch/out"
calm=()
if [ -z "$disk" ] && [ "$(id -u)" = 0 ]; then
    truncate -s 3G "$scratch/image"
    mkfs.ext4 -q "$scratch/image"
    mount -o loop "$scratch/image" "$scratch/disk"
    disk=$scratch/disk
fi
if chrt -f 50 true 2>/dev/null; then calm=(chrt -f 50); fi
disk=${disk:-$PWD/target/benches}
mkdir -p "$disk"
memory=/dev/shm

bench() { # NAME FOLDER OPTIONS…: so many runs, merged into one file of results
    local name=$1 folder=$2
    shift 2
    local priority=("${calm[@]}")
    # Real-time processes do not yield to each other, so the flood would keep the server waiting.
    case $name in others) priority=() ;; esac
    for round in $(seq "$rounds"); do
        echo "$name, run $round of $rounds" >&2
        TMPDIR=$folder "${priority[@]}" gpool bench --json "${quick[@]}" "$@" \
            > "$scratch/out/$name-$round.json"
    done
    python3 benches/figures.py merge "benches/results/$name.json" "$scratch/out/$name-"*.json
}

bench disk "$disk" --only start,submit,drain,idle,pending,flow,cycle,shares,arrays,viewers
bench others "$disk" --only crowd,attack
bench memory "$memory" --only start,submit,drain,pending,arrays
for n in 1000 10000; do bench "pending-$n" "$disk" --only pending --pending $n; done
for nodes in 100 1000 10000; do
    for n in 1000 10000 100000; do
        [ $n -ge $nodes ] || continue # Nothing is taken back where hardly anybody waits.
        bench "shares-$nodes-$n" "$memory" --only shares --nodes $nodes --pending $n
    done
done
if [ $peers = yes ]; then
    less=()
    [ ${#quick[@]} = 0 ] || less=(--rounds 1 --starts 5 --submits 20 --drain 50 --calm 5)
    TMPDIR=$memory "${calm[@]}" python3 benches/peers/peers.py "${less[@]}" \
        --json benches/results/peers.json
fi
python3 benches/plot.py
python3 benches/figures.py tables
