#!/bin/bash
# GFLOW --gpus=1
# GFLOW --memory=1G

export HF_HOME=$HOME/hf
python run_glue.py --task mrpc
