#!/bin/bash
#SBATCH -J requeue -n 1 --gres=gpu:1
#SBATCH -t 60:00
#SBATCH --signal=B:USR1@3599
#SBATCH --requeue --open-mode=append
#SBATCH -o requeue.txt
save() {
    echo $((step + 1)) > requeue.step
    echo "saved at the signal"
    scontrol requeue "$SLURM_JOB_ID"
}
trap save USR1
step=$(cat requeue.step 2>/dev/null || echo 0)
echo "run ${SLURM_RESTART_COUNT:-0} from $step"
if [ "$step" -ge 1 ]; then
    echo done
    exit 0
fi
while true; do sleep 0.2; done
