#!/bin/bash
#SBATCH --job-name=llama-ft
#SBATCH --gres=gpu:2
#SBATCH --time=1-00:00:00
#SBATCH --signal=B:USR1@120
#SBATCH --export=ALL,HF_HOME=/scratch/hf,WANDB_MODE=offline
#SBATCH --comment="fine-tune of the 8B"

accelerate launch --num_processes 2 finetune.py --model llama --home $HF_HOME $WANDB_MODE
