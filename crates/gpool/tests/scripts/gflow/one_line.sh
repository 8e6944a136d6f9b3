#!/bin/bash
# GFLOW --gpus=1 --time=5 --memory=256M

python o.py
