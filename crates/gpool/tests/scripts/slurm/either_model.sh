#!/bin/bash
#SBATCH --constraint="a100|h100"
#SBATCH --gpus=2 -t 45

python embed.py --devices $SLURM_GPUS_ON_NODE
