"""One answer, a vote, and the best of samples by three kinds of knowledge, on puzzles, word problems and programs.

    taskset -c 1 python benchmarks/search_tasks.py --family countdown --minutes 15    # tasks that stand are not run again

A frozen model in this process. Of one set of samples, within a budget of tokens, each way takes its own answer, so that
all have spent the same: "majority", the "likeliest" by mean log-probability, the first that passes the most tests that
stand in the question ("shown tests", programs alone), and an "oracle's choice". The greedy answer spends less.
"""

import argparse
import dataclasses
import json
import os
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from evolvent import envs
from evolvent.core.machine import provenance
from evolvent.core.jsonfile import write_atomic
from evolvent.core.reward_kinds import reward_kinds, reward_total
from evolvent.evaluate.live import Live
from evolvent.formulas.statistics import mcnemar, wilson
from evolvent.runs.search.config import SearchConfig
from evolvent.runs.search.run import _seat, chosen, searched
