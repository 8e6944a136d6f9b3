#!/bin/bash
# GFLOW --notify-email=ana@example.org
# GFLOW --notify-on=job_failed
# GFLOW --gpus=1

python n.py
