#!/bin/bash
#SBATCH -t UNLIMITED
#SBATCH -J nolimit
#SBATCH --gpus-per-task=1
#SBATCH --ntasks=1

python serve.py
