#!/bin/bash
# GFLOW --time=30

python prep.py
