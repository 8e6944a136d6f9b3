#!/bin/bash
# GFLOW --gpus=2
# GFLOW --time=2:00:00
# GFLOW --memory=2G

python train.py --ddp
