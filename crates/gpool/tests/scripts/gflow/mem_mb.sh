#!/bin/bash
# GFLOW --memory=512

python csv.py
