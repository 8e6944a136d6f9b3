#!/bin/bash
#SBATCH -J resnet50
#SBATCH -p gpu
#SBATCH -G 1
#SBATCH -c 1
#SBATCH -t 240
#SBATCH -o resnet-%j.out
#SBATCH -e resnet-%j.err

module purge
module load anaconda3
conda activate vision
python train.py --data $SLURM_SUBMIT_DIR/data
