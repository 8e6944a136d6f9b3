#!/bin/sh
# Makes a state folder for a test that opens a store of an older version of the format. A developer
# who raises that version (crates/store/src/schema.rs) runs this once before, with the last gpool
# that writes the old version.
#
#   make.sh GPOOL VERSION.tar.gz
#
# Needs root, curl, tar and gzip; the archive has no names of the machine. The jobs:
#    1 succeeded, a script with arguments       8 pending: after 6 and 7, and all GPUs
#    2 failed with 3                            9 held, with a note
#    3 cancelled while it ran                  10-29 a bulk of 20, held, one of them on 2 GPUs
#    4 cancelled while it waited               30 submitted under the key "kept-key"
#    5 timed out                               31 pending, of priority 10
#    6 running when everything was killed
#    7 ended with 6 when no server was there
set -eu
gpool=$(realpath "$1")
to=$(realpath "$2")
folder=/tmp/gpool-kept
mkdir "$folder"
kill_all() {
    for pid in $(grep -lsz "$folder" /proc/[0-9]*/environ /proc/[0-9]*/cmdline | cut -d/ -f3); do
        [ "$pid" = $$ ] || kill -9 "$pid" 2> /dev/null || true
    done
}
trap 'kill_all; rm -rf "$folder"' EXIT
cd "$folder"
g() {
    env -i --chdir=/ PATH=/usr/bin:/bin HOME=/tmp LANG=C.UTF-8 TZ=UTC GPOOL_CONFIG=/dev/null \
        GPOOL_STATE_DIR="$folder/state" GPOOL_SOCKET="$folder/api.sock" \
        unshare --cgroup --mount "$folder/masked" "$gpool" "$@"
}
up() {
    g up --devices sim:2xH100-80G --name lab1 > /dev/null
    server=$(cat state/lock)
}
until_is() {
    until [ "$(g show --json "$1" | sed -n 's/.*"state": *"\([a-z_]*\)".*/\1/p' | head -1)" = "$2" ]
    do sleep 0.05; done
}
printf '#!/bin/sh\nmount --bind %s /proc/sys/kernel/osrelease && exec "$@"\n' "$folder/kernel" \
    > masked
chmod +x masked
echo 6.1.0 > kernel
mkfifo gate
up
{
    printf '#!/bin/sh\n# GPOOL --gpus 1\n# GPOOL --time 10m\n'
    echo 'echo "script of $1 on $CUDA_VISIBLE_DEVICES"'
} > train.sh
g submit --name train "$folder/train.sh" ann
until_is 1 succeeded
g submit --name fails -e KEPT=yes -- sh -c 'echo $KEPT; echo wrong >&2; exit 3'
until_is 2 failed
g submit --gpus 2 -- sleep 600
until_is 3 running
g submit --gpus 1 -- sleep 600
g cancel 4
g cancel 3
until_is 3 cancelled
g submit --time 1s -- sleep 600
until_is 5 timed_out || until_is 5 failed
g submit --gpus 1 --name long -- sh -c 'echo begun; exec sleep 600'
until_is 6 running
g submit --gpus 1 --name ends -- sh -c "echo begun; read line < $folder/gate; echo done; exit 6"
until_is 7 running
g submit --gpus 2 --name later --after end:6,end:7 -- sh -c 'echo $GPOOL_JOB_ID came later'
g submit --hold --note 'not before Monday' --name held -- echo released
i=0
while [ $i -lt 20 ]; do
    i=$((i + 1))
    gpus=$([ $i = 20 ] && echo ',"gpus":"2"' || true)
    echo "{\"command\":[\"echo\",\"bulk $i\"],\"name\":\"bulk-$i\",\"hold\":true$gpus}"
done > bulk.jsonl
g submit --from-jsonl "$folder/bulk.jsonl" > /dev/null
curl -sf --unix-socket api.sock -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: kept-key' http://gpool/api/v1/jobs -o answer.json \
    -d '{"command":["echo","once"],"name":"keyed","hold":true,"directory":"/"}'
g submit --gpus 2 --priority 10 --name urgent -- echo urgent
# As after a power failure: the server first, so that job 7 ends while no server runs.
kill -9 "$server"
echo go > gate
until grep -q done state/jobs/7/1/stdout; do sleep 0.05; done
until grep -q '"ended"' state/tasks/7*; do sleep 0.05; done
# The shepherd before its job, so that the end of job 6 stays unknown.
kill -9 "$(sed -n 's/.*"shepherd":\([0-9]*\).*/\1/p' state/tasks/6*)"
kill_all
grep -q '"ended"' state/tasks/6* && exit 1
find state -type s -exec rm {} +
tar --sort=name --owner=0 --group=0 --numeric-owner -czf "$to" state
