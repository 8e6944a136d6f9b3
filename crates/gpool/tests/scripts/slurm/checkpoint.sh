#!/bin/bash
#SBATCH -J ckpt
#SBATCH -G1
#SBATCH -t 2:00:00
#SBATCH --requeue
#SBATCH --signal=USR1@60
#SBATCH --open-mode=append

trap 'touch stop' USR1
python train.py --resume-from last.ckpt --restart $SLURM_RESTART_COUNT
