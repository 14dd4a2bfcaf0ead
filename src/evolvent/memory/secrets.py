"""Secrets in texts on their way into the store: literals are masked, the code around them is kept.

A memory holds what worked, and what worked is often code. ``password=getpass.getpass()`` says how a password is got
and holds none; ``password="…"`` holds one. So what stands behind a telling name is masked when it is a value, and left
alone when it is an expression, a type, a variable or a placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

MASK = "[secret]"

# a text is searched in pieces, so that other threads have their turn; heads are shorter than what pieces share
_PIECE, _SHARED = 16_384, 64


class _Rule(NamedTuple):
    """What is masked: how it begins (``head``), the whole of it, and what stands in its place."""

    head: re.Pattern[str]
    whole: re.Pattern[str]
    masked: Callable[[re.Match[str]], str]


_BLOCK = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"), re.compile(r"-----END [A-Z ]*PRIVATE KEY-----")
_FORMATS = {
    r"\b(?:sk|rk|pk)-": r"\b(?:sk|rk|pk)-(?:[A-Za-z0-9]{1,64}-){0,6}[A-Za-z0-9_]{16,}\b",
    r"\b(?:sk|rk|pk)_": r"\b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}\b",
    r"\bgh[pousr]_|\bgithub_pat_|\bglpat-|\bnpm_": r"\bgh[pousr]_[A-Za-z0-9]{20,}\b|\bgithub_pat_[A-Za-z0-9_]{20,}\b"
    r"|\bglpat-[A-Za-z0-9_-]{16,}|\bnpm_[A-Za-z0-9]{36}\b",
    r"\bhf_": r"\bhf_[A-Za-z0-9]{20,}\b",
    r"\bA[KS]IA": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza": r"\bAIza[A-Za-z0-9_-]{30,}",
    r"\bxox|\bxapp-": r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|\bxapp-\d-[A-Za-z0-9-]{10,}",
    r"(?<=hooks\.slack\.com/)|(?<=/api/webhooks/)": r"(?<=hooks\.slack\.com/)(?:services|workflows)/[\w/-]{20,}"
    r"|(?<=/api/webhooks/)\d{5,}/[\w-]{20,}",
    r"\bSG\.|\bya29\.|\bpypi-|\bdo[opr]_v1_": r"\bSG\.[\w-]{20,24}\.[\w-]{40,46}\b|\bya29\.[\w-]{20,}"
    r"|\bpypi-AgE[\w-]{20,}|\bdo[opr]_v1_[a-f0-9]{32,}",
    r"\bAGE-|(?<=\bAccountKey=)|(?<=\bSharedAccessKey=)": r"\bAGE-SECRET-KEY-1[A-Z0-9]{20,}"
    r"|(?<=\bAccountKey=)[\w+/]{40,}={0,2}|(?<=\bSharedAccessKey=)[\w+/]{40,}={0,2}",
    r"\bey": r"\bey[A-Za-z0-9_-]{15,}\.ey[A-Za-z0-9_-]{15,}\.[A-Za-z0-9_-]{10,}",
}
# user:password@ of an address; {password}, $PASSWORD, %s and <password> are no passwords
_SCHEME = r"\b[a-z][a-z0-9+.-]{0,30}://"
_ADDRESS = re.compile(
    rf"(?i)({_SCHEME}"
    r"[^\s:/@\"'`]*:)((?:[^\s@/\"'`{}$<>%]|%[0-9a-f]{2}){3,})(@)",
)
_HEADER = re.compile(
    r"(?i)(\bbearer\s+|\bauthorization[\"']?\s*[:=]\s*[\"']?(?:basic|token)\s+|\bcookie:\s*[\w.-]{1,40}=)"
    r"([\w\-./+=~]{8,})",
)
_NAME = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|client[_-]?secret|private[_-]?key|"
    r"(?:auth|access|refresh|bearer)[_-]?token|token|password|passwd|passphrase|pwd|passwort|kennwort|mot de passe|"
    r"mot_de_passe|contraseña|пароль|パスワード|密码|密碼)"
)
# the name, its closing quote or bracket, a type, the sign; of .get("password", "…") the comma is the sign
_NAMED = re.compile(
    rf"(?i)(?P<name>{_NAME})"
    r"(?P<sign>\\?[\"'`]?\]?\s{0,9}(?::\s{0,9}[\w.\[\] |]{1,40}?\s{0,9}=(?!=)|:=|=>|={1,3}|[:：]|(?<=[\"'])\s{0,9},)"
    r"\s{0,40})"
    r"(?:(?P<open>[a-z]{0,2}(?P<esc>\\)?(?P<quote>[\"'`]))(?P<literal>"
    r"(?:[^\\\n\"'`]++|(?!(?P=quote))[\"'`]|(?(esc)\\[^\n\"'`]|\\.))*+)"
    r"(?P<close>(?(esc)\\)(?P=quote))"
    # & ends a value of a query, where another name follows
    r"|(?P<bare>(?:[^\s\"'`,;&|)}\]>\\]++|&(?![^\s=]{0,40}=)(?=\S))++)(?P<after>[^\n]?))"
)
_FLAG = re.compile(rf"(?i)(--{_NAME}[ =])([^\s\"'`$<{{][^\s\"'`]*)")
# curl -u name:password, sshpass -p password, mysql -ppassword, docker login -p password
_SHORT = re.compile(
    r"(\bcurl\b[^\n|;]{0,300}?\s(?:-u|--user)[ =]?[\"']?[^\s:\"'`$<{]{1,64}:|\bsshpass\s+-p\s*[\"']?"
    r"|\b(?:docker|podman|oc)\s+login\b[^\n|;&,]{0,300}?\s-p(?!\s*[\w./-]*(?::\d|/))[ =]?[\"']?"
    r"|\b(?:mysql(?:dump|admin)?|mariadb)\b[^\n|;]{0,300}?\s-p(?!\d+:\d)[\"']?)([^\s\"'`$<{][^\s\"'`]*)"
)
# one of these is needed by every pattern above: a text without them is searched once instead of a dozen times
_HINT = re.compile(
    r"-----BEGIN|[rsp]k[-_]|gh[pousr]_|github_pat_|glpat-|npm_|hf_|A(?:KIA|SIA|Iza)|xox|\bey|://"
    r"|\bcurl\b|\bsshpass\b|\bmysql|\bmariadb\b|\blogin\b|\bxapp-|\bSG\.|\bya29\.|\bpypi-|\bdo[opr]_v1_"
    r"|(?i:key|secret|token|passw|passphrase|passe|pwd|bearer|authorization|cookie|kennwort|contraseña|пароль)"
    r"|パスワード|密[码碼]"
)
_PLACEHOLDER = re.compile(
    r"(?i)[{}<>$]|%[s(]|\*\*|\.\.\.|…|xxxx|"
    r"^(?:your|my|the|some|an?|enter|insert|change|replace|example|dummy|test|fake)[-_ ]|"
    rf"^(?:{_NAME}|string|text|str|none|null|undefined|required|optional|changeme|placeholder|hidden|redacted)s?$|^\W*$"
)
# a sentence about passwords, not one: four words or more in a row without any of these are a passphrase
_PHRASE = re.compile(r"[a-z]{3,}(?:[ -][a-z]{3,}){3,}")
_TALK = re.compile(
    rf"\b(?:{_NAME}|the|and|for|not|are|was|has|have|had|can|may|must|should|will|would|this|that|your|you|user|users|"
    r"with|without|from|into|when|than|then|here|there|only|any|all|new|old|please|enter|type|name|account|login|sign|"
    r"invalid|incorrect|wrong|forgotten|forgot|reset|change|confirm|repeat|minimum|least|most|characters|required|"
    r"missing|empty|value|strong|weak|hashed|hidden|plain|valid|short|long|"
    r"field|text|never|see|use|used|which|what|how|who|his|her|its|our|their)\b"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)*")
_PATH = re.compile(r"~?\.{0,2}/|[\w.-]+(?:/[\w.-]+)+\.\w{1,5}$")


def mask_secrets(text: str) -> str:
    """``text`` with every key, token and password that it spells out replaced by ``[secret]``.

    Recognised: private key blocks, the key formats of common services, JSON web tokens, passwords in URLs, and literals
    after names such as ``api_key``, ``password`` or ``Bearer``, in code, JSON, YAML, shell and command lines, in quotes
    also passphrases of four words or more. A filter against accidents, not against an adversary: a password that is an
    ordinary word behind no telling name is not seen.
    """
    starts = range(0, len(text), _PIECE - _SHARED)
    if not any(_HINT.search(text, start, start + _PIECE) for start in starts):
        return text
    text = _blocks_masked(text)
    for rule in _RULES:
        text = _replaced(rule, text)
    return text


def _replaced(rule: _Rule, text: str) -> str:
    """``rule.whole.sub(rule.masked, text)``: its head is looked for piece by piece, and the whole where that is."""
    out, done, at = list[str](), 0, 0
    while at < len(text):
        end = at + _PIECE
        head = rule.head.search(text, at, end)
        if end < len(text) and (head is None or head.start() > end - _SHARED):
            at = end - _SHARED  # the next piece sees what was cut off here
        elif head is None:
            break
        elif found := rule.whole.match(text, head.start()):
            out += (text[done : found.start()], rule.masked(found))
            done = at = found.end()
        else:
            at = head.start() + 1
    return "".join((*out, text[done:])) if out else text


def _blocks_masked(text: str) -> str:
    """Private keys, to their end or that of the text."""
    begin, end = _BLOCK
    out, done, at = list[str](), 0, 0
    while (at := text.find("-----BEGIN ", at)) >= 0:
        if found := begin.match(text, at):
            out += (text[done:at], MASK)
            at = found.end()
            while (at := text.find("-----END ", at)) >= 0 and not end.match(text, at):
                at += 1
            last = end.match(text, at) if at >= 0 else None
            done = at = last.end() if last else len(text)
        else:
            at += 1
    return "".join((*out, text[done:])) if out else text


def mask_field(name: str, text: str) -> str:
    """The text of a named field: ``[secret]`` where ``name="text"`` would be masked."""
    return MASK if mask_secrets(f'{name}="{text}"') == f'{name}="{MASK}"' else text


def _named(m: re.Match[str]) -> str:
    vague = m["name"].lower() in ("token", "secret")
    head = m["name"] + m["sign"]
    if m["literal"] is not None:
        prefix = m["open"].rstrip("\"'`\\").lower()
        if ("f" in prefix and "{" in m["literal"]) or not _quoted(m["literal"], vague, _assigned(m)):
            return m[0]
        return f"{head}{m['open']}{MASK}{m['close']}"
    if m["sign"].rstrip().endswith(",") or not _bare(m, vague):
        return m[0]
    return f"{head}{MASK}{m['after']}"


def _assigned(m: re.Match[str]) -> bool:
    """Whether it is ``password=``, where a short word is one; not ``errors["password"] =``, nor ``api_key=``."""
    return m["sign"].strip() == "=" and m["name"].lower().startswith(("passw", "pwd", "kennwort"))


def _quoted(value: str, vague: bool, assigned: bool) -> bool:
    """Whether a string in quotes is a secret: no placeholder, no sentence, long enough for what it is made of.

    ``assigned``: it stands behind ``password=``, where a short word is no message.
    """
    if not vague and _PHRASE.fullmatch(value):
        return not _TALK.search(value)
    if value == MASK or _PLACEHOLDER.search(value) or " " in value.strip() or _PATH.match(value):
        return False
    if vague:
        return _dense(value) and len(value) >= 8
    word = value.replace("_", "").isalpha() and (
        not assigned or "_" in value or _TALK.search(value.lower()) is not None
    )
    return len(value) >= (8 if word else 5)


def _bare(m: re.Match[str], vague: bool) -> bool:
    """Whether a value without quotes is a secret, and not a piece of code or of a sentence."""
    value, after = m["bare"].rstrip(".:!?"), m["after"] or ""
    if not value.isascii():  # a word of a sentence
        return False
    if not value or m["bare"].startswith(("!", "[")) or any(c in value for c in "([{<$%\"'") or _PATH.match(value):
        return False
    if _PLACEHOLDER.search(value):
        return False
    # NAME=value of a shell or an env file: there are no expressions without a sign of their own
    shell = m["sign"] == "=" and m["name"].isupper() and (after == "" or after in " ;&|")
    if shell and not vague:
        return len(value) >= 5
    if _IDENTIFIER.fullmatch(value):
        # s3cr3t! is neither a name nor the end of a sentence
        if m["bare"].endswith("!") and value.isalnum() and not value.isalpha():
            return len(value) >= 6
        if m["sign"].strip() == ":" and not after and any(map(str.isdigit, value)):  # a line of YAML
            return len(value) >= 6
        plain = "." not in value and "_" not in value and "->" not in value and "::" not in value
        if plain and value.isalpha():
            return len(value) >= 16 and (value.islower() or value.isupper())
        return plain and _dense(value) and len(value) >= (12 if vague else 8)
    if vague:
        return _dense(value) and len(value) >= 8
    return len(value) >= (6 if value.isdigit() else 5)


def _looks_set(value: str) -> bool:
    return len(value) >= 5 and not _PLACEHOLDER.search(value) and not value.startswith("-") and not _PATH.match(value)


def _dense(value: str) -> bool:
    """Whether it mixes letters with three digits or more, or is long and mixes cases: words and names do not."""
    digits = sum(c.isdigit() for c in value)
    mixed = any(c.isupper() for c in value[1:]) and any(c.islower() for c in value) and not value.isalpha()
    one = len(set(value)) == 1 and len(value) >= 20
    return (digits >= 3 and digits < len(value)) or (digits >= 1 and mixed) or (mixed and len(value) >= 20) or one


def _rule(head: str, whole: re.Pattern[str], masked: Callable[[re.Match[str]], str]) -> _Rule:
    return _Rule(re.compile(head), whole, masked)


_RULES = (
    *(_rule(head, re.compile(whole), lambda m: MASK) for head, whole in _FORMATS.items()),
    _rule(rf"(?i){_SCHEME}", _ADDRESS, lambda m: m[1] + MASK + m[3]),
    _rule(r"(?i)\bbearer\s|\bauthorization|\bcookie:", _HEADER, lambda m: m[1] + MASK if _dense(m[2]) else m[0]),
    _rule(rf"(?i)--{_NAME}", _FLAG, lambda m: m[1] + MASK if _looks_set(m[2]) else m[0]),
    _rule(
        r"\b(?:curl|mysql|mariadb)|\b(?:sshpass|docker|podman|oc)\s",
        _SHORT,
        lambda m: m[1] + MASK if _looks_set(m[2]) else m[0],
    ),
    _rule(rf"(?i){_NAME}", _NAMED, _named),
)
