#!/bin/bash
# GFLOW --gpus=2

#SBATCH --gres=gpu:1
#SBATCH -t 20
python both.py $SLURM_GPUS_ON_NODE
