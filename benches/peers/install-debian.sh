#!/bin/sh
# Installs the tools that peers.py compares, on Debian, as root: packages of Debian, and what those
# have not into the folder PREFIX (default: ./installed). peers.py finds all of it by the PATH that
# this prints. Nothing of gpool needs any of it.
set -eu
prefix=$(realpath -m "${1:-installed}")
mkdir -p "$prefix"
# RUNLEVEL=1: their services are not started; peers.py starts its own in folders of its own.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    task-spooler slurm-wlm munge tmux python3-venv
cargo install pueue --locked --root "$prefix/pueue"
# gflow's crate builds only from its repository; its Python package brings the program.
python3 -m venv "$prefix/gflow"
"$prefix/gflow/bin/pip" install runqd
echo "export PATH=$prefix/pueue/bin:$prefix/gflow/bin:\$PATH"
