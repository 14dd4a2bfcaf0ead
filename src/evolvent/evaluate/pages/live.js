"use strict";
// A page that goes on: asks for itself again every few seconds and puts the new content in; scroll, focus and open parts stay.
(() => {
  let seen = "";
  const path = (e) => { const at = []; for (; e && e.parentElement; e = e.parentElement) at.unshift([...e.parentElement.children].indexOf(e)); return at; };
  const named = (e) => e.querySelector("summary").textContent.replace(/[\d.,]+/g, "");
  const renew = async () => {
    if (document.hidden) return;
    let html;
    try { html = await (await fetch(location.href, { cache: "no-store" })).text(); } catch { return; }  // the server is gone
    if (html === seen) return;
    const first = !seen;
    seen = html;
    if (first) return;
    const next = new DOMParser().parseFromString(html, "text/html");
    if (next.querySelector("#credit")) { location.reload(); return; }  // has a script of its own
    const open = new Set([...document.querySelectorAll("details[open]")].map(named));
    const focus = path(document.activeElement), ends = document.activeElement.selectionStart, [x, y] = [scrollX, scrollY];
    document.querySelector("main").replaceChildren(...next.querySelector("main").childNodes);
    document.title = next.title;
    document.querySelectorAll("details").forEach((e) => { if (open.has(named(e))) e.open = true; });
    document.dispatchEvent(new Event("renewed"));
    let e = document.documentElement;
    for (const i of focus) e = e && e.children[i];
    if (e && e !== document.body && e.focus) { e.focus({ preventScroll: true }); if (ends != null && e.setSelectionRange) e.setSelectionRange(ends, ends); }
    scrollTo({ left: x, top: y, behavior: "instant" });
  };
  renew();
  setInterval(renew, 2000);
})();
