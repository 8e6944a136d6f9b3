#!/bin/bash
#SBATCH -J small
#SBATCH --gres=gpu:1g.10gb:1
#SBATCH --time=5

python tutorial.py --gpus $SLURM_GPUS_ON_NODE
