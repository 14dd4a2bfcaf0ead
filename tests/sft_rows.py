"""Rows and chat templates that TRL's ``SFTTrainer`` was given for ``golden/sft_trl.json``."""

_SAID = "{{ '<|im_start|>' + m['role'] + '\n' }}"
TALK = (
    "{% for m in messages %}"
    + _SAID
    + "{% if m['role'] == 'assistant' %}{% generation %}{{ m['content'] + '<|im_end|>' }}"
    "{% endgeneration %}{% else %}{{ m['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""As of small chat models; knows no tools."""
TOOLS = (
    "{% if tools %}{{ '<|im_start|>system\nTools' }}{% for t in tools %}{{ '\n' }}{{ t | tojson }}{% endfor %}"
    "{{ '<|im_end|>\n' }}{% endif %}"
    "{% for m in messages %}{% if m['role'] == 'tool' %}{{ '<|im_start|>user\n<r>' + m['content'] }}"
    "{{ '</r><|im_end|>\n' }}"
    "{% elif m['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% generation %}{{ m['content'] }}"
    '{% if m.tool_calls %}{% for c in m.tool_calls %}{{ \'\n{"name": "\' + c.function.name + \'", "arguments": \' }}'
    "{{ c.function.arguments | tojson }}{{ '}' }}{% endfor %}{% endif %}{{ '<|im_end|>' }}{% endgeneration %}{{ '\n' }}"
    "{% else %}" + _SAID + "{{ m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""As Qwen's: schemas and calls as JSON, results as the user's words."""


def plain(template):
    """The template as a model has it, without marks for a trainer."""
    return template.replace("{% generation %}", "").replace("{% endgeneration %}", "")


def _m(role, content, **more):
    return {"role": role, "content": content, **more}


def _call(name, **arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}


_SUM = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "Add two numbers.",
        "parameters": {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    },
}
TALKS = [
    {"messages": [_m("user", "What is 2 + 3?"), _m("assistant", "5")]},
    {
        "messages": [
            _m("system", "Be short."),
            _m("user", "Hi"),
            _m("assistant", "Hello"),
            _m("user", "Bye"),
            _m("assistant", "Bye!"),
        ]
    },
    {"messages": [_m("user", "Say <|im_start|> backwards"), _m("assistant", "no")]},
    {"messages": [_m("user", "a b"), _m("assistant", "b a"), _m("user", "c d e"), _m("assistant", "e d c")]},
]
CALLS = [
    {
        "messages": [
            _m("user", "2 + 3?"),
            _m("assistant", "", tool_calls=[_call("add", a=2, b=3)]),
            _m("tool", "5", name="add"),
            _m("assistant", "It is 5."),
        ],
        "tools": [_SUM],
    },
    {
        "messages": [
            _m("system", "Use tools."),
            _m("user", "7 + 1?"),
            _m("assistant", "I add.", tool_calls=[_call("add", a=7, b=1)]),
            _m("tool", "8", name="add"),
            _m("assistant", "8"),
        ],
        "tools": [_SUM],
    },
]
TEXTS = [
    {"prompt": "Question: What is 2 + 3?\nAnswer:", "completion": " 5"},
    {"prompt": "Question: What is 4 + 4?\nAnswer:", "completion": " 8, I think"},
]
CASES = {"talks": (TALK, TALKS[:2] + TALKS[3:]), "calls": (TOOLS, CALLS), "texts": (TALK, TEXTS)}
"""By name: a template and rows. (A control token in what the user says is one to TRL, and never here.)"""
SETTINGS = {"attention_dropout": 0.0, "max_position_embeddings": 512}
LR, STEPS = 0.003, 3
