#!/bin/bash
# GFLOW --time=10:30
# GFLOW --gpus=1

python eval.py
