#!/bin/bash
#SBATCH --job-name=nightly
#SBATCH --gpus=1
#SBATCH --time=2:00:00
#SBATCH --mail-type=FAIL
#SBATCH --mail-user=team@example.org

python nightly.py
