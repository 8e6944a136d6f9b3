#!/bin/bash
#SBATCH --gpus=2
#SBATCH --mem-per-gpu=512M
#SBATCH --cpus-per-gpu=1
#SBATCH -t 5
#SBATCH -J pergpu

python x.py
