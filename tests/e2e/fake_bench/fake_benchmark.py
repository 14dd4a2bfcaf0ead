"""A benchmark that measures nothing; its check fails for seed 1."""


def run(seed=0):
    return {"name": "fake", "ratios": {"speed": 2.5 + seed}, "checks": {"speed": seed != 1}}
