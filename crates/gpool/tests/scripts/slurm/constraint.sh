#!/bin/bash
#SBATCH --job-name=near-the-data
#SBATCH -C ssd&h100
#SBATCH --gres=gpu:1
#SBATCH --time=0:20:00

python index.py --node $SLURMD_NODENAME
