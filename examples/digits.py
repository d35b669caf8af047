"""scikit-learn's digits (1,797 images of 8 x 8 points, values 0..1), read from its package without importing it.

Importing scikit-learn brings SciPy and takes seconds of each rank's start, which is most of a quick restart.
"""

import gzip
import importlib.util
from pathlib import Path

import numpy as np


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Images (1797 x 64) and labels (1797). Raises ModuleNotFoundError without scikit-learn."""
    package = importlib.util.find_spec("sklearn")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("the digits come with scikit-learn: pip install scikit-learn")
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, :64] / 16.0, table[:, 64].astype(np.int64)
