#!/bin/bash
#SBATCH --time=1-12
#SBATCH --gpus-per-node=1
#SBATCH --job-name days
#SBATCH --account=cs-lab

python long.py --resume
