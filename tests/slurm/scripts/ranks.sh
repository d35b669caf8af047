#!/bin/bash
#SBATCH --nodes=2 --ntasks-per-node=1
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=1
#SBATCH -o ranks.txt
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
srun --kill-on-bad-exit=1 bash -c '
    echo "rank $SLURM_PROCID of $SLURM_NTASKS on $SLURMD_NODENAME begins, restart ${SLURM_RESTART_COUNT:-0}"
    until [ -e go ] && [ "${SLURM_RESTART_COUNT:-0}" -ge 1 ]; do sleep 0.1; done
    echo "rank $SLURM_PROCID ends"'
