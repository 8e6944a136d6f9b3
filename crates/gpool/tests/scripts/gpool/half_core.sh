#!/bin/bash
# GPOOL -c 0.5

python h.py
