"""Sums and products that a small model gets wrong by itself, and a calculator that it may call.

evolvent run grpo --env graded:examples/calculator_task.py --lr 5e-4 --kl 0 --updates 15
"""

import ast
import operator
import random

SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}
INSTRUCTIONS = """\
Q: 3 + 4 =
A: 7

Q: 5128 + 967 =
A: calculator(5128 + 967)
Result: 6095
A: 6095

Q: 382 * 7140 =
A: calculator(382 * 7140)
Result: 2727480
A: 2727480

Q: 905 + 4417 =
A: calculator(905 + 4417)
Result: 5322
A: 5322

"""
MAX_TOKENS = 24
MAX_TURNS = 3


def calculator(expression: str) -> int:
    """The value of an expression of whole numbers with + - *"""

    def value(node: ast.expr) -> int:
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
            return SIGNS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            return node.value
        raise ValueError("only whole numbers and + - *")

    return value(ast.parse(expression.strip(), mode="eval").body)


TOOLS = [calculator]


def prompts() -> list[dict[str, str]]:
    draws = random.Random(0)
    rows = []
    for _ in range(400):
        a, b, sign = draws.randrange(100, 10_000), draws.randrange(100, 10_000), draws.choice("+*")
        rows.append({"prompt": f"{a} {sign} {b} =", "answer": str(a + b if sign == "+" else a * b)})
    return rows


def reward(completion: str, prompt: str, answer: str, calls: list) -> float:
    return float(completion.strip() == answer)
