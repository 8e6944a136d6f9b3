#!/bin/bash
# GPOOL --compat slurm --gpus 2

python s.py $SLURM_GPUS_ON_NODE
