#!/bin/bash
#SBATCH --job-name=matlab
#SBATCH --ntasks=1
#SBATCH --mem=1G
#SBATCH --time=00:20:00
#SBATCH --mail-type=END,FAIL
#SBATCH --mail-user=ana@example.org

module load matlab/R2024a
matlab -nodisplay -r "run('fit.m'); exit"
