#!/bin/bash
# GPOOL --gpus 'a100|h100:2'

python e.py
