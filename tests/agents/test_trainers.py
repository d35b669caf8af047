"""Lines of well-known trainers, as these print them."""

import pytest

from agents.runtime.trainers import Trainers

MEGATRON = (
    " [2026-12-01 10:00:00] iteration       10/     100 | consumed samples:          640 | elapsed time per iteration "
    "(ms): 512.3 | learning rate: 1.5E-04 | global batch size:    64 | lm loss: 6.931472E+00 | loss scale: 1.0 |\n"
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (MEGATRON, [(10, 6.931472, "")]),
        (
            "[titan] 2026-12-01 - root - INFO - step: 20  loss:  7.1250  grad_norm:  1.2  memory: 10GiB\n",
            [(20, 7.125, "")],
        ),
        (
            " 12%|#2        | 12/100 [00:05<00:38,  2.30it/s]\r{'loss': 6.5, 'learning_rate': 1e-05, 'epoch': 0.1}\n",
            [(12, None, ""), (12, 6.5, "")],
        ),
        ("Epoch 2:  50%|#####     | 5/10 [00:01<00:01, 4.2it/s, v_num=0, train_loss=nan]\r", [(25, None, "nan")]),
        ("Loading checkpoint shards:  50%|#####     | 1/2 [00:05<00:05,  5.30s/it]\n", []),
        ("model.bin:  50%|#####     | 512M/1.02G [00:05<00:05, 100MB/s]\n", []),
        ("Validation DataLoader 0:  50%|#####     | 5/10 [00:01<00:01, 4.2it/s]\n", []),
        ("{'loss': 1.0}\n", []),
        ("step three of the plan\n", []),
    ],
)
def test_steps_and_losses(text, found):
    half = len(text) // 2
    trainers = Trainers()
    points = [*trainers.feed(text[:half], 5.0), *trainers.feed(text[half:], 6.0)]
    assert [(point.step, point.loss, point.bad) for point in points] == found
