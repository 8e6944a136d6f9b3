#!/bin/bash
# GPOOL -e LR=0.1 -e BS=32

python e.py --lr $LR --bs $BS
