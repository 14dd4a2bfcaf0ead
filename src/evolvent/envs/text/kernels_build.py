"""Gates one and two of the world of kernels: rules against tricks, and compiling in the sandbox.

The rules are a first sieve, by what the text says and what the library imports and keeps. What they let through is
still judged from outside by fresh inputs, hidden sizes and clocks that it cannot reach (``kernels_run``).
"""

from __future__ import annotations

import importlib.util
import platform
import re
import shutil
import struct
from dataclasses import dataclass, replace
from pathlib import Path

from evolvent.core.errors import EnvError, install
from evolvent.envs.text._text import code_blocks, unix
from evolvent.sandbox import Limits, Result, Sandbox

MB = 1 << 20
_MOST = 20_000
_HEADER = re.compile(
    r"(?:math|tgmath|float|limits|assert|string|std(?:int|def|lib|bool|align|io)|[exi]mmintrin|x86intrin|arm_neon)\.h"
)
"""What may be included."""
_WORDS = re.compile(
    r"_*(?:asm|constructor|destructor|ifunc)_*|_+section_*|section_+|__thread|_Thread_local|thread_local|__cpu_\w+"
    r"|_?_rdtscp?|__?rdpmc|__builtin_(?:ia32_rd(?:tscp?|pmc)|read(?:cycle|steady)counter|arm_rsr\w*)"
    r"|__FILE__|__TIME__|__DATE__|main"
)
"""What a word of a program may not be."""
_MAY_IMPORT = re.compile(
    r"(?:mem(?:cpy|set|move|cmp|chr)(?:_chk)?|__mem\w+_chk|strlen|malloc|calloc|realloc|free|aligned_alloc|posix_memalign|qsort"
    r"|abs|labs|__stack_chk_fail|__cxa_finalize|__gmon_start__|_ITM_\w+|_ZGV\w+|__assert_fail"
    r"|_?_?(?:exp|exp2|expm1|log|log2|log10|log1p|sqrt|cbrt|pow|fabs|fma|fmax|fmin|fmod|hypot|tanh?|sinh?|cosh?|atan2?"
    r"|asin|acos|erfc?|tgamma|lgamma|floor|ceil|round|rint|nearbyint|trunc|l?lround|l?lrint|ldexp|frexp|copysign|exp10"
    r"|fdim|scalbl?n|nextafter|i?logb|remainder|remquo|modf|sincos|isnan|isinf)(?:f|l)?(?:_finite)?)\Z"
)
_LIBRARIES = tuple(
    f"-L{path}" for path in (f"/lib/{platform.machine()}-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib")
)
_STRICT = ("-z", "relro", "-z", "now", "-z", "noexecstack")
"""Of the linker: what the loader has filled in is read-only afterwards, and nothing on the stack is run."""
_PAGE = 4096
_CPU_STATE = 32  # bytes in which the compiler's library notes the processor, for __builtin_cpu_supports
_BARE = re.compile(r"^[ \t]*(?:#|void\b|static\b|typedef\b|inline\b|const\b|float\b|int\b)", re.MULTILINE)
_KERNEL = re.compile(r"\bkernel\s*\(")
_AFTER = re.compile(r"```|\n[^\S\n]*\n(?=[A-Z][a-z']*,? [a-z][^;{}=()\n]*$)", re.MULTILINE)
"""Where a program without a code block begins, and what ends it: a fence, or a sentence."""
_LEX = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|([\"'])(?:\\[^\n]|(?!\1)[^\\\n])*(\1)?", re.DOTALL)
"""Comments, and strings and characters: their quote, and what ends them."""
_INCLUDED = re.compile(r"include[^\S\n]*(?:<([^>]*)>|\"([^\"]*)\")\s*")
_PRAGMAS = re.compile(r"\bGCC\s+(?:dependency|pch_preprocess)\b|\bclang\s+section\b")


@dataclass(frozen=True)
class Refused:
    """A program that did not pass one of the first gates."""

    gate: str
    """``text`` (there is no program), ``hack``, ``compile``, or ``harness`` where the sandbox failed."""
    words: str
    doubtful: bool = False
    """The compiler named no line of the program: it may be its own fault."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler: how it is called, and what it needs to read beside /usr."""

    name: str
    command: tuple[str, ...]
    read: tuple[str, ...] = ()


def find_compiler() -> Compiler:
    """The system's cc, gcc or clang, else the one of the ``ziglang`` wheel.

    Raises:
        EnvError: there is none; says what to install.
    """
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path is not None:
            home = Path(path).resolve().parent.parent
            inside = home == Path("/usr") or Path("/usr") in home.parents
            return Compiler(name, (path,), () if inside else (str(home),))
    found = importlib.util.find_spec("ziglang")
    if found is not None and found.origin is not None:
        home = str(Path(found.origin).resolve().parent)
        return Compiler("zig", (f"{home}/zig",), (home,))
    raise no_compiler("no cc, gcc or clang on the path, no package ziglang")


def no_compiler(got: str) -> EnvError:
    """The error where nothing compiles C."""
    expected = "one that compiles the kernels"
    do = f"apt install gcc libc6-dev; or, without root and where no cc is on the path: {install('kernels')}"
    return EnvError("nothing compiles C here", got=got, expected=expected, where="kernels", do=do)


def extract(text: str) -> str:
    """The program in an answer: its fenced block, or what begins like C; without a ``main``. Empty where there is none.

    The fenced block that defines the kernel counts, else the first.
    """
    blocks, text = code_blocks(text), unix(text)
    source = next((block for block in blocks if _KERNEL.search(block)), "")
    if not source and "kernel" in text and (begin := _BARE.search(text)):
        source = _AFTER.split(text[begin.start() :])[0]
    source = source or (blocks[0] if blocks else "")
    return _without_main(source).strip()


def _without_main(source: str) -> str:
    """Models like to add a ``main`` that tries the kernel out; it would only be in the way."""
    found = re.search(r"^[ \t]*(?:(?:int|void)[ \t]*)?main[ \t]*\([^()]*\)\s*\{", source, re.MULTILINE)
    if found is None:
        return source
    depth, at = 0, found.end() - 1
    while at < len(source):
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        at += 1
        if depth == 0:
            break
    return source[: found.start()] + source[at:]


def trick(source: str) -> str:
    """What a program may not do by its text; empty where nothing is against the rules."""
    if len(source) > _MOST:
        return f"a kernel of more than {_MOST:,} characters"
    text = source.replace("\\\n", "")  # before everything else, as the compiler does
    if re.search(r"[\0\r]|\\[ \t\f\v]*$", text, re.MULTILINE):
        return "a backslash with blanks behind it at the end of a line, or a control character, may hide words"
    if any(found[1] and not found[2] for found in _LEX.finditer(text)):
        return "a quote that does not end on its line may hide words"
    code = _LEX.sub(lambda found: found[0] if found[1] else " ", text)
    plain = _LEX.sub(lambda found: found[1] * 2 if found[1] else " ", text)
    if "##" in plain or "%:" in plain:
        return "pasted words (##) may hide others"
    if re.search(r"\b(?:u8?|[UL])?R\"", plain):
        return "a raw string may hide words"
    return _directive(code) or _word(plain)


def _directive(code: str) -> str:
    """What is against the rules in the lines for the preprocessor, of a text without comments."""
    for line in re.findall(r"^[^\S\n]*#[^\S\n]*(.*)$", code, re.MULTILINE):
        if match := re.match(r"import|include_next|embed|line\b|\d", line):
            return f"'#{match[0]}' is not allowed in a kernel"
        if line.startswith("include"):
            found = _INCLUDED.fullmatch(line)
            header = (found[1] or found[2] or "").strip() if found else line[7:].strip()
            if found is None or not _HEADER.fullmatch(header):
                return f"#include of {header[:40]!r}: only headers of the C language and of vector instructions"
    match = _PRAGMAS.search(code)
    return f"{match[0]!r} is not allowed in a kernel" if match else ""


def _word(plain: str) -> str:
    """A word that is against the rules, of a text without comments and strings."""
    used = set(re.findall(r"[A-Za-z_]\w*", plain))
    wrong = {name for name in used if _WORDS.fullmatch(name) or name.startswith(("__has_include", "__has_embed"))}
    if "section" in used and re.search(r"\b__|\[\s*\[|<:", plain):
        wrong.add("section")  # where there may be attributes it is one; else a variable may be called so
    return f"{min(wrong)!r} is not allowed in a kernel" if wrong else ""


def compiled(sandbox: Sandbox, compiler: Compiler, source: str, *, fast_math: bool = False) -> bytes | Refused:
    """The shared library of a program, made in the sandbox, or why there is none."""
    flags = ["-O3", "-march=native", "-std=gnu11", "-fPIC", "-Werror=implicit-function-declaration"]
    flags += ["-ffast-math"] if fast_math else []
    limits = Limits(wall=20, cpu=15, memory=1024 * MB, disk=64 * MB, output=4 * MB)
    files: dict[str, str | bytes] = {"k.c": with_headers(source)}
    if compiler.name == "zig":
        result = _zig(sandbox, compiler, files, flags, replace(limits, wall=90, cpu=30, memory=4096 * MB))
    else:
        linking = ["-shared", "-nostartfiles", f"-Wl,{','.join(_STRICT)}", "-o", "k.so"]
        command = [*compiler.command, *flags, *linking, "k.c", "-lm"]
        result = sandbox.run(files, command, limits, ["k.so"])
    if result.status == "harness":
        return Refused("harness", result.error)
    library = result.files.get("k.so")
    if result.status != "ok" or library is None:
        last = result.stderr.strip().rpartition("\n")[2][:160] if result.status == "failed" else ""
        text = errors_of(result.stderr) or last or f"the compiler was ended: {result.limit or result.status}"
        named = re.search(r"k\.c:\d+:\d+: error|undefined reference", result.stderr)
        return Refused("compile", text, doubtful=result.status == "failed" and named is None)
    why = linked(library)
    return Refused("compile" if why.startswith("there is no") else "hack", why) if why else library


def _zig(
    sandbox: Sandbox, compiler: Compiler, files: dict[str, str | bytes], flags: list[str], limits: Limits
) -> Result:
    """The library by zig. Its own headers: the machine may have none, or half of them. Linked apart against what is
    installed, for its ``cc`` would first make libraries of its own, a minute of processor time in each new place.
    """
    zig = compiler.command[0]
    command = [zig, "cc", "-target", "native-linux-gnu", *flags, "-c", "-o", "k.o", "k.c"]
    caches = {f"ZIG_{which}_CACHE_DIR": "cache" for which in ("GLOBAL", "LOCAL")}
    result = sandbox.run(files, command, limits, ["k.o"], env=caches)
    if result.status != "ok" or "k.o" not in result.files:
        return result
    command = [zig, "ld.lld", "-shared", *_STRICT, "-o", "k.so", "k.o", *_LIBRARIES, "-l:libm.so.6", "-l:libc.so.6"]
    return sandbox.run({"k.o": result.files["k.o"]}, command, limits, ["k.so"])


def with_headers(source: str) -> str:
    """The source with the usual headers where it has none, behind its first pragmas: they decide what math.h offers."""
    missing = [name for name in ("math", "string", "stdlib", "stdint") if f"<{name}.h>" not in source]
    lines = source.split("\n")  # as C does: others, such as a form feed, may stand inside a comment
    at = next((i for i, line in enumerate(lines) if not line.startswith(("#pragma", "//")) and line.strip()), 0)
    return "\n".join([*lines[:at], *(f"#include <{name}.h>" for name in missing), *lines[at:], ""])


def errors_of(text: str, most: int = 2) -> str:
    """The compiler's first errors, each with the line that it points at."""
    lines, found = text.splitlines(), list[str]()
    for i, line in enumerate(lines):
        match = re.search(r"(?:k\.c:(\d+):\d+: )?(?:fatal )?error: (.*)", line)
        if match is None and "undefined reference" not in line:
            continue
        message = match[2] if match else line.rpartition(": ")[2]
        quoted = re.match(r"\s*\d+ \|\s*(.*)", lines[i + 1]) if i + 1 < len(lines) else None
        found.append(message[:160] + (f" in: {quoted[1].strip()[:80]}" if quoted else ""))
        if len(found) == most:
            break
    return "; ".join(dict.fromkeys(found))


# ------------------------------------------------------------------------------------------------ the library
def linked(library: bytes) -> str:
    """What is against the rules in a library: a foreign function, state between calls; or there is no kernel."""
    try:
        names, own = _symbols(library)
        state, early = _loaded(library)
    except (struct.error, IndexError, ValueError):
        return "the library cannot be read"
    if "kernel" not in {name for name, defined in names if defined}:
        return "there is no function called kernel"
    if foreign := sorted(name for name, defined in names if not defined and not _MAY_IMPORT.match(name)):
        return f"{foreign[0][:60]!r} is not allowed in a kernel"
    asks = "__cpu_indicator_init" in own  # it asks which processor this is: the compiler's library notes it once
    if early > asks:
        return "runs something when it is loaded"
    return f"keeps {state} bytes between calls (data that is not const)" if state > asks * _CPU_STATE else ""


def _symbols(data: bytes) -> tuple[list[tuple[str, bool]], set[str]]:
    """Dynamic symbols with whether they are defined, and the names of all others, of a 64-bit ELF file."""
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit library")
    start, (size, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + i * size) for i in range(count)]
    dynamic, own = list[tuple[str, bool]](), set[str]()
    for _, kind, _, _, offset, length, link, _, _, _ in sections:
        if kind not in (2, 11):  # all symbols, the dynamic symbols
            continue
        for at in range(offset + 24, offset + length, 24):
            name, _, _, index = struct.unpack_from("<IBBH", data, at)
            begin = sections[link][4] + name
            text = data[begin : data.index(b"\0", begin)].decode("utf-8", "replace")
            if kind == 11:
                dynamic.append((text, index != 0))
            else:
                own.add(text)
    return dynamic, own


def _loaded(data: bytes) -> tuple[int, int]:
    """Of what the loader reads: the bytes that stay writable, those of each thread too, and functions that it calls."""
    start, (size, count) = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<HH", data, 54)
    parts = [struct.unpack_from("<IIQQQQQQ", data, start + i * size) for i in range(count)]
    sealed = [(at & -_PAGE, (at + most) & -_PAGE) for kind, _, _, at, _, _, most, _ in parts if kind == 0x6474E552]
    state = early = 0
    for kind, flags, offset, at, _, length, most, _ in parts:
        if kind == 1 and flags & 2:  # writable; what is sealed after relocation is not
            state += most - sum(max(0, min(at + most, end) - max(at, begin)) for begin, end in sealed)
        elif kind == 7:  # a copy for each thread
            state += most
        elif kind == 2:  # what the loader does: one function at the begin, the end; lists of them
            entries = dict(struct.unpack_from("<QQ", data, where) for where in range(offset, offset + length, 16))
            early += (12 in entries) + (13 in entries) + sum(entries.get(key, 0) // 8 for key in (27, 28, 33))
    return state, early
