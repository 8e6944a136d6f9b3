#!/bin/bash
# GFLOW --gpus=1

python train.py
