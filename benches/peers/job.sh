#!/bin/sh
# A job of the kill test: job.sh FOLDER TOKEN CODE [wait]
# It writes down that it runs, waits for the file "release" if told to, writes down that it ends,
# and exits with CODE. A line is one write, so that jobs can share a file.
echo "$2 $$" >> "$1/started"
if [ "$4" = wait ]; then
    while [ ! -e "$1/release" ]; do sleep 0.05; done
fi
echo "$2" >> "$1/ended"
exit "$3"
