"use strict";
// Switches the credit rule of the attempts on the page. Gets numbers only; all text is in the page already.
(() => {
  const root = document.getElementById("credit");
  if (!root) return;
  const data = JSON.parse(document.getElementById("credit-numbers").textContent);
  const names = [...root.querySelectorAll(".says b")].map((e) => e.textContent);
  const [W, H, REACH, SHADES] = [1000, 100, 46, 9];
  const says = [...root.querySelectorAll(".says li")];
  const readout = root.querySelector(".readout");
  const signed = (v) => v === null ? "–" : v === 0 ? "0" : (v > 0 ? "+" : "−") + Number(Math.abs(v).toPrecision(3));
  const shade = (v, full) => {
    if (v === null) return "x";
    const share = full > 0 ? Math.abs(v) / full : 0;
    return share < .005 ? "z" : (v > 0 ? "p" : "n") + Math.min(SHADES, Math.max(1, Math.ceil(SHADES * share - 1e-9)));
  };
  const track = (values, full) => {
    const step = W / Math.max(1, values.length);
    let out = "", inside = false;
    values.forEach((v, k) => {
      if (v === null) { if (inside) out += `V${H / 2}`; }
      else {
        const y = H / 2 - REACH * (full > 0 ? Math.max(-1, Math.min(1, v / full)) : 0);
        out += `${inside ? "" : `M${k * step} ${H / 2}`}V${y}H${(k + 1) * step}`;
      }
      inside = v !== null;
    });
    return inside ? `${out}V${H / 2}` : out;
  };

  const panes = [...root.querySelectorAll(".pane")].map((pane, p) => {
    const numbers = data.attempts[p], starts = [];
    let at = 0;
    for (const n of numbers.sizes) { starts.push(at); at += n; }
    return { pane, numbers, starts, total: at, plot: pane.querySelector(".plot"), second: null };
  });
  // every token knows its place; the numbers are in the line below instead of in a tooltip
  const mark = (block, p, turn) => [...block.querySelectorAll(":scope > i")].forEach((e, k) => {
    e.removeAttribute("title");
    e.at = { p, turn, k: panes[p].starts[turn] + k };
  });
  panes.forEach(({ pane }, p) => pane.querySelectorAll(".tokens").forEach((block, turn) => mark(block, p, turn)));

  let [rule, beside, chosen] = [data.first, -1, null];

  const paint = (column, p, turn, r) => {
    const { numbers, starts } = panes[p];
    column.querySelectorAll(".tokens > i").forEach((e, k) => {
      e.className = shade(numbers.credit[r][starts[turn] + k], data.full[r]) + (chosen && chosen.p === p && chosen.k === e.at.k ? " on" : "");
    });
    const sum = column.querySelector(".sum"), [kind, said] = numbers.worth[r][turn];
    sum.className = `sum ${kind}`;
    sum.textContent = said;
    column.querySelector(".worth .rule").textContent = beside < 0 ? "" : names[r];
  };
  const draw = (plot, p, r) => {
    if (!plot) return;
    plot.querySelector(".track").setAttribute("d", track(panes[p].numbers.credit[r], data.full[r]));
    plot.querySelector(".rule").textContent = names[r];
    ends(plot, r);
  };
  const ends = (place, r, [least, most] = ["", ""]) => {
    const end = Number(data.full[r].toPrecision(3));
    place.querySelector(".most").textContent = `${most}+${end}`;
    place.querySelector(".least").textContent = `${least}−${end}`;
  };
  const show = () => {
    says.forEach((e, r) => { e.hidden = r !== rule && r !== beside; });
    const scale = root.querySelector(".scale");
    ends(scale, rule, ["≤ ", "≥ "]);
    scale.querySelectorAll(".most, .least").forEach((e) => { e.hidden = beside >= 0; });
    panes.forEach((it, p) => {
      it.pane.classList.toggle("two", beside >= 0);
      if (beside >= 0 && it.plot && !it.second) it.plot.after(it.second = it.plot.cloneNode(true));
      if (it.second) it.second.hidden = beside < 0;
      draw(it.plot, p, rule);
      if (beside >= 0) draw(it.second, p, beside);
      it.pane.querySelectorAll(".columns").forEach((columns, turn) => {
        paint(columns.firstElementChild, p, turn, rule);
        if (beside >= 0 && columns.children.length < 2) {
          columns.append(columns.firstElementChild.cloneNode(true));
          mark(columns.lastElementChild.querySelector(".tokens"), p, turn);
        }
        if (columns.children.length > 1) columns.lastElementChild.hidden = beside < 0;
        if (beside >= 0) paint(columns.lastElementChild, p, turn, beside);
      });
    });
  };

  // ------------------------------------------------------------------------------------------------ one token
  const part = (kind, words) => {
    const e = document.createElement("span");
    e.className = kind;
    e.textContent = words;
    return e;
  };
  const choose = (p, k) => {
    const it = panes[p];
    if (k < 0 || k >= it.total) return;
    if (chosen && chosen.p === p && chosen.k === k) return;
    root.querySelectorAll(".tokens > .on").forEach((e) => e.classList.remove("on"));
    let turn = 0;
    while (turn + 1 < it.starts.length && it.starts[turn + 1] <= k) turn++;
    while (it.numbers.sizes[turn] === 0) turn++;
    chosen = { p, turn, k };
    const blocks = it.pane.querySelectorAll(".columns")[turn].querySelectorAll(".tokens");
    const tokens = [...blocks].map((block) => block.querySelectorAll(":scope > i")[k - it.starts[turn]]);
    tokens.forEach((e) => e.classList.add("on"));
    const { numbers } = it;
    const facts = [part("piece", tokens[0].textContent), part("soft", `turn ${turn + 1}, token ${k - it.starts[turn] + 1}`)];
    names.forEach((name, r) => {
      const v = numbers.credit[r][k];
      const e = part(r === rule || r === beside ? "now" : "", `${name} `);
      e.append(part(`chip ${shade(v, data.full[r])}`, signed(v)));
      facts.push(e);
    });
    const logp = numbers.logp && numbers.logp[k];
    if (logp !== null) facts.push(part("soft", `probability ${(100 * Math.exp(logp)).toPrecision(3)} %`));
    if (numbers.entropy && numbers.entropy[k] !== null) facts.push(part("soft", `entropy ${numbers.entropy[k]}`));
    if (numbers.value && numbers.value[k] !== null) facts.push(part("soft", `value ${numbers.value[k]}`));
    readout.replaceChildren(...facts);
    const box = it.pane.getBoundingClientRect(), at = tokens[0].getBoundingClientRect();
    readout.style.left = `${box.left}px`;
    readout.style.width = `${box.width}px`;
    readout.classList.toggle("above", at.top > innerHeight / 2);  // at the other end of the window than the token
    readout.hidden = false;
    it.pane.querySelectorAll(".cursor").forEach((e) => e.setAttribute("d", `M${W * (k + .5) / it.total} 0V${H}`));
  };
  const close = () => {
    if (!chosen) return;
    root.querySelectorAll(".tokens > .on").forEach((e) => e.classList.remove("on"));
    panes[chosen.p].pane.querySelectorAll(".cursor").forEach((e) => e.setAttribute("d", ""));
    chosen = null;
    readout.hidden = true;
  };
  const under = (event) => event.target.closest && event.target.closest(".tokens > i");
  for (const kind of ["pointerover", "click"]) root.addEventListener(kind, (event) => {
    const e = under(event);
    if (e) choose(e.at.p, e.at.k);
  });
  for (const kind of ["pointermove", "click"]) root.addEventListener(kind, (event) => {
    const svg = event.target.closest && event.target.closest(".plot svg");
    if (!svg) return;
    const p = panes.findIndex(({ pane }) => pane.contains(svg)), box = svg.getBoundingClientRect();
    choose(p, Math.min(panes[p].total - 1, Math.floor(panes[p].total * (event.clientX - box.left) / box.width)));
  });
  root.addEventListener("focusin", (event) => {
    const first = event.target.matches(".tokens") && event.target.querySelector(":scope > i");
    if (first && !(chosen && chosen.p === first.at.p && chosen.turn === first.at.turn)) choose(first.at.p, first.at.k);
  });
  const numbered = (event) => event.target.closest && event.target.closest(".tokens, .plot svg");
  document.addEventListener("pointerdown", (event) => { if (!numbered(event)) close(); });
  root.addEventListener("pointerout", (event) => {
    if (event.pointerType === "mouse" && numbered(event) && !event.target.closest(".tokens:focus")) close();
  });
  root.addEventListener("focusout", close);
  root.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || !chosen || !event.target.matches(".tokens")) return;
    event.preventDefault();
    choose(chosen.p, chosen.k + step);
  });
  for (const [name, set] of [["rule", (r) => { rule = r; }], ["beside", (r) => { beside = r; }]])
    root.querySelectorAll(`input[name=credit-${name}]`).forEach((e) => e.addEventListener("change", () => { set(Number(e.value)); show(); }));
  // a browser that goes back to the page keeps what was pressed
  const pressed = (name, other) => { const e = root.querySelector(`input[name=credit-${name}]:checked`); return e ? Number(e.value) : other; };
  [rule, beside] = [pressed("rule", rule), pressed("beside", beside)];
  root.querySelectorAll(".choice").forEach((e) => { e.hidden = false; });
  root.querySelectorAll(".how").forEach((e) => { e.hidden = false; });
  show();
})();
