"""Progress in the log lines of well-known trainers, where a job says nothing of its own.

    Megatron-LM     iteration       10/     100 | consumed samples: ... | lm loss: 6.93E+00 | ...
    torchtitan      step: 10  loss:  6.9310  grad_norm: ...
    Hugging Face     12%|#2        | 12/100 [00:05<00:38,  2.30it/s]      and {'loss': 6.93, ..., 'epoch': 0.12}
    Lightning       Epoch 1:  12%|#2   | 12/100 [00:05<00:38,  2.30it/s, v_num=0, train_loss=6.930]

The expressions are ours and run in time that is linear in a line, so they need no process of their own. Bars of loads,
evaluations and downloads are no steps: those have a name in front, or count bytes.
"""

import re
from typing import Final

from muster.protocol import ProgressPoint

MAX_LINE: Final = 1024
_NUMBER: Final = r"-?(?:\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|nan|inf)"
_MEGATRON: Final = re.compile(r"\biteration +(\d+)/ *\d+ \|")
_MEGATRON_LOSS: Final = re.compile(rf"\| (?:lm )?loss: ({_NUMBER})", re.IGNORECASE)
_TITAN: Final = re.compile(rf"\bstep: +(\d+)\b.{{0,40}}?\bloss: +({_NUMBER})", re.IGNORECASE)
_BAR: Final = re.compile(r"^(?:Epoch (\d+): *)?\d+%\|[^|]{0,200}\| *(\d+)/(\d+) \[[^\]]{0,200}?(?:it/s|s/it)")
_BAR_LOSS: Final = re.compile(rf"\b(?:train_)?loss=({_NUMBER})")
_TRAINER: Final = re.compile(rf"^\{{'loss': '?({_NUMBER})'?,")


class Trainers:
    """Remembers what one line lacks: the step of a bar for the loss that Hugging Face prints beside it."""

    def __init__(self) -> None:
        self._rest, self._step = "", -1

    def feed(self, text: str, now: float) -> list[ProgressPoint]:
        """The points in what is new; `now` in UTC seconds. Bars overwrite their line with a carriage return."""
        *lines, self._rest = re.split(r"[\r\n]", self._rest + text)
        self._rest = self._rest[-MAX_LINE:]
        return [point for line in lines if line and (point := self._point(line[:MAX_LINE].strip(), now))]

    def _point(self, line: str, now: float) -> ProgressPoint | None:
        if "iteration" in line and (match := _MEGATRON.search(line)):
            loss = _MEGATRON_LOSS.search(line)
            return self._made(int(match[1]), loss[1] if loss else "", now)
        if "step:" in line and (match := _TITAN.search(line)):
            return self._made(int(match[1]), match[2], now)
        if "%|" in line and (match := _BAR.match(line)):
            epoch, step, total = int(match[1] or 0), int(match[2]), int(match[3])
            loss = _BAR_LOSS.search(line)
            return self._made(epoch * total + step, loss[1] if loss else "", now)
        if line.startswith("{'loss'") and self._step >= 0 and (match := _TRAINER.match(line)):
            return self._made(self._step, match[1], now)
        return None

    def _made(self, step: int, loss: str, now: float) -> ProgressPoint:
        self._step = step
        bad = loss.lower() if loss.lower() in ("nan", "inf", "-inf") else ""
        return ProgressPoint(step=step, at=now, loss=float(loss) if loss and not bad else None, bad=bad)
