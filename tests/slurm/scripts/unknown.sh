#!/bin/bash
#SBATCH -N 1
#SBATCH --burst-buffer=10G
true
