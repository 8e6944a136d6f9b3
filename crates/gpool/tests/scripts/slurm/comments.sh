#!/bin/bash
#SBATCH -J comments # what it is called
#SBATCH --time=10:00
#SBATCH --gres=gpu:1 --cpus-per-task=1

# SBATCH in a comment is none
##SBATCH -t 99
nvidia-smi
python c.py
