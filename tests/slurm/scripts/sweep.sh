#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=0-3%2
#SBATCH --output=/dev/null
#SBATCH --time=00:10:00
#SBATCH --mem=256M
RATES=(0.1 0.2 0.4 0.8)
echo "element $SLURM_ARRAY_TASK_ID of array $SLURM_ARRAY_JOB_ID, rate ${RATES[$SLURM_ARRAY_TASK_ID]}" > sweep_$SLURM_ARRAY_TASK_ID.txt
