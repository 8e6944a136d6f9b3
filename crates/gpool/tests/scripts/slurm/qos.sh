#!/bin/bash
#SBATCH --partition=a100
#SBATCH --qos=high
#SBATCH --constraint=nvlink
#SBATCH --gres=gpu:1
#SBATCH -t 1:00:00
#SBATCH --exclusive
#SBATCH -w lab[1]

python infer.py
