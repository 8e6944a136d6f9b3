#!/bin/bash
#SBATCH --job-name=ddp
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gres=gpu:h100:4
#SBATCH --cpus-per-task=1
#SBATCH --mem=2G
#SBATCH --time=12:00:00
#SBATCH --output=logs-%x-%j.out

set -euo pipefail
module load cuda/12.4
source activate torch
export MASTER_ADDR=$(hostname) MASTER_PORT=$((10000 + SLURM_JOB_ID % 20000))
srun torchrun --standalone --nproc-per-node=$SLURM_GPUS_ON_NODE train.py --epochs 90
