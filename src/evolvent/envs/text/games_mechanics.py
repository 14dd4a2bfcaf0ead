"""Mechanics of small games, each a few lines of JavaScript: what the world asks for, and what stands in where a model
cannot write it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mechanic:
    """A stable local change of the rules, or (``look``) of what the game looks like alone."""

    name: str
    description: str
    code: str
    look: bool = False


def _of(name: str, description: str, *, start: str = "", step: str = "", draw: str = "") -> Mechanic:
    parts = [("start(s)", start), ("step(s, keys)", step), ("draw(s, g)", draw)]
    body = "".join(
        f"  {head} {{\n" + "".join(f"    {line}\n" for line in code.strip().splitlines()) + "  },\n"
        for head, code in parts
        if code
    )
    return Mechanic(name, description, f"mechanics.push({{\n{body}}});", look=not start and not step)


MECHANICS = (
    _of(
        "walk",
        "the arrow keys left and right move the player",
        step="""
if (keys.ArrowLeft) s.player.x -= 4;
if (keys.ArrowRight) s.player.x += 4;
s.player.x = Math.max(0, Math.min(W - s.player.w, s.player.x));""",
    ),
    _of(
        "fruit",
        "fruit falls from the top; catching one scores a point",
        step="""
if (s.t % 40 === 1) s.things.push({ kind: "fruit", x: Math.random() * (W - 14), y: -14, w: 14, h: 14, color: "#fb4" });
for (const f of s.things) if (f.kind === "fruit") {
  f.y += 2;
  if (hit(f, s.player)) { f.gone = true; s.score += 1; }
}
s.things = s.things.filter((f) => !f.gone && f.y < H);""",
    ),
    _of(
        "rocks",
        "rocks fall from the top; touching one costs a life",
        step="""
if (s.t % 50 === 25) s.things.push({ kind: "rock", x: Math.random() * (W - 20), y: -20, w: 20, h: 20, color: "#999" });
for (const r of s.things) if (r.kind === "rock") {
  r.y += 3;
  if (hit(r, s.player)) { r.gone = true; s.lives -= 1; }
}
s.things = s.things.filter((r) => !r.gone && r.y < H);""",
    ),
    _of(
        "coins",
        "coins lie about; touching one scores five points and another appears",
        start='s.things.push({ kind: "coin", x: 60, y: 284, w: 12, h: 12, color: "#ff4" });',
        step="""
for (const c of s.things) if (c.kind === "coin" && hit(c, s.player)) {
  s.score += 5;
  c.x = Math.random() * (W - 12);
}""",
    ),
    _of(
        "chaser",
        "an enemy follows the player along the ground; touching it costs a life and sends it away",
        start='s.things.push({ kind: "chaser", x: 0, y: 284, w: 18, h: 18, color: "#f55" });',
        step="""
for (const e of s.things) if (e.kind === "chaser") {
  e.x += Math.sign(s.player.x - e.x);
  if (hit(e, s.player)) { s.lives -= 1; e.x = s.player.x < W / 2 ? W - 18 : 0; }
}""",
    ),
    _of(
        "jump",
        "the arrow key up makes the player jump, and gravity brings it down again",
        step="""
if (keys.ArrowUp && s.player.y >= 280) s.player.vy = -9;
s.player.vy += 0.5;
s.player.y = Math.min(280, s.player.y + s.player.vy);
if (s.player.y >= 280) s.player.vy = 0;""",
    ),
    _of(
        "dash",
        "the space key makes the player move far at once, once a second",
        start="s.dashed = -60;",
        step="""
if (keys[" "] && s.t - s.dashed > 60) {
  s.dashed = s.t;
  s.player.x += keys.ArrowLeft ? -80 : 80;
  s.player.x = Math.max(0, Math.min(W - s.player.w, s.player.x));
}""",
    ),
    _of(
        "shots",
        "the space key shoots upwards; a shot destroys a rock and scores two points",
        start="s.shot = -20;",
        step="""
if (keys[" "] && s.t - s.shot > 20) {
  s.shot = s.t;
  s.things.push({ kind: "shot", x: s.player.x + 10, y: s.player.y, w: 4, h: 10, color: "#fff" });
}
for (const b of s.things) if (b.kind === "shot") {
  b.y -= 6;
  for (const r of s.things) if (r.kind === "rock" && hit(b, r)) { b.gone = r.gone = true; s.score += 2; }
}
s.things = s.things.filter((b) => !b.gone && b.y > -20);""",
    ),
    _of(
        "wrap",
        "who leaves the screen on one side comes in on the other",
        step="""
if (s.player.x <= 0 && keys.ArrowLeft) s.player.x = W - s.player.w - 1;
else if (s.player.x >= W - s.player.w && keys.ArrowRight) s.player.x = 1;""",
    ),
    _of(
        "grow",
        "the player grows with the score, up to three times its size",
        step="""
s.player.w = s.player.h = Math.min(72, 24 + s.score);
s.player.y = Math.min(s.player.y, 304 - s.player.h);""",
    ),
    _of(
        "faster",
        "the game gets faster: every ten seconds everything that falls falls faster",
        step="""
for (const f of s.things) if (f.kind === "fruit" || f.kind === "rock") f.y += Math.floor(s.t / 600);""",
    ),
    _of(
        "clock",
        "a minute on the clock, shown at the top; the game is over when it has run out",
        step="""
if (s.t > 3600) s.over = true;""",
        draw="""
g.fillStyle = "#fff";
g.fillText("time " + Math.max(0, 60 - Math.floor(s.t / 60)), W - 70, 18);""",
    ),
    _of(
        "lives",
        "the game is over when no life is left; the enter key begins anew",
        step="""
if (s.lives <= 0) s.over = true;""",
        start="""
addEventListener("keydown", (e) => {
  if (e.key === "Enter" && s.over) { s.over = false; s.lives = 3; s.score = 0; s.t = 0; }
});""",
    ),
    _of(
        "shield",
        "the arrow key down holds a shield: while it is held, rocks bounce off",
        step="""
s.shield = Boolean(keys.ArrowDown);
if (s.shield) for (const r of s.things) {
  if (r.kind === "rock" && hit(r, { x: s.player.x - 12, y: s.player.y - 12, w: s.player.w + 24, h: 12 })) r.y -= 60;
}""",
        draw="""
g.fillStyle = "#8cf";
if (s.shield) g.fillRect(s.player.x - 12, s.player.y - 10, s.player.w + 24, 4);""",
    ),
    _of(
        "wind",
        "wind pushes the player sideways and changes its direction every five seconds",
        step="""
s.player.x += Math.floor(s.t / 300) % 2 ? -1 : 1;
s.player.x = Math.max(0, Math.min(W - s.player.w, s.player.x));""",
    ),
    _of(
        "magnet",
        "fruit and coins are drawn towards the player",
        step="""
for (const f of s.things) if (f.kind === "fruit") f.x += Math.sign(s.player.x - f.x);""",
    ),
    _of(
        "stars",
        "stars in the background",
        draw="""
g.fillStyle = "#fff";
for (let i = 0; i < 30; i++) g.fillRect((i * 97) % W, (i * 53 + s.t / 4) % H, 1, 1);""",
    ),
    _of(
        "trail",
        "a trail behind the player",
        draw="""
g.fillStyle = "#4cf4";
for (let i = 1; i < 5; i++) g.fillRect(s.player.x, s.player.y + 6 * i, s.player.w, 3);""",
    ),
    _of(
        "ground",
        "a green strip of ground at the bottom",
        draw="""
g.fillStyle = "#393";
g.fillRect(0, 304, W, 16);""",
    ),
    _of(
        "glow",
        "a glowing ring around the player",
        draw="""
g.strokeStyle = "#ff8";
g.lineWidth = 2 + Math.sin(s.t / 10);
g.strokeRect(s.player.x - 3, s.player.y - 3, s.player.w + 6, s.player.h + 6);""",
    ),
)
BY_NAME = {mechanic.name: mechanic for mechanic in MECHANICS}
GAMES = {"catch": "fruit", "dodge": "rocks", "collect": "coins", "flee": "chaser"}
"""Games that lineages begin with: their name, and the mechanic that is their point."""
HELDOUT = ("wrap", "clock", "wind", "shield", "trail")
"""Of the world's other split."""
