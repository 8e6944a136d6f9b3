#!/bin/bash
# GPOOL -J spaced

#GPOOL --gpus 1
python n.py
