#!/bin/bash
# GFLOW --gpus=1

python prep.py
python train.py
python eval.py
