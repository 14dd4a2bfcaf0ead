// The page of a memory, for a person. Whatever others wrote becomes text: nothing here makes markup of a string.
const main = document.getElementById("main"), nav = document.querySelector("nav"), said = document.getElementById("said");
const KEPT = "evolvent", kept = JSON.parse(sessionStorage.getItem(KEPT) || "{}");

// ------------------------------------------------------------------------------------------------ elements and words
function h(name, given, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(given || {})) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter((one) => one !== null && one !== undefined && one !== false && one !== ""));
  return made;
}
const short = (text, most = 140) => (text.length > most ? text.slice(0, most - 1) + "…" : text);
const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
const percent = (share) => `${Math.round(100 * share)} %`;
const told = (reward) =>
  reward === null ? "cannot tell" : reward === true || reward === 1 ? "right" : reward === false || reward === 0 ? "wrong" : `reward ${reward}`;
const tone = (reward) => (reward === null ? "" : Number(reward) >= 0.5 ? "good" : "bad");
const value = (number) => number.toFixed(2);
const earned = (item) =>
  item.n ? `worth ${value(item.value)} after ${counted(item.n, "outcome")} (began at ${value(item.start)})` : "no outcome yet";
const sentence = (words) => `${words[0].toUpperCase()}${words.slice(1).replace(/ \(evidence \d+\)/g, "")}.`;
const SOURCES = { env: "a revert or the environment", tests: "tests", human: "a person", proxy: "exit codes", judge: "a judge model" };

function when(seconds) {
  const at = new Date(1000 * seconds), ago = Date.now() / 1000 - seconds;
  const steps = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [14 * 86400, "day", 86400]];
  const step = steps.find(([most]) => ago < most);
  const words = step
    ? new Intl.RelativeTimeFormat("en", { numeric: "auto" }).format(-Math.max(0, Math.floor(ago / step[2])), step[1])
    : at.toLocaleDateString("en", { dateStyle: "medium" });
  return h("time", { datetime: at.toISOString(), title: at.toLocaleString() }, words);
}

// --------------------------------------------------------------------------------------------------------- the server
class Refused extends Error {
  constructor(status, body) {
    super([body.title || `status ${status}`, body.got && `got ${body.got}`, body.do].filter(Boolean).join("; "));
    this.status = status;
  }
}

async function ask(path, body) {
  const headers = {};
  if (kept.token) headers.Authorization = `Bearer ${kept.token}`;
  if (kept.scope) headers["X-Evolvent-Scope"] = kept.scope;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), credentials: "omit" });
  const found = answer.status === 204 ? {} : await answer.json();
  if (!answer.ok) throw new Refused(answer.status, found);
  return found;
}

const explained = (id) => ask(`/v1/explain/${encodeURIComponent(id)}`).then((found) => found.data);

// ---------------------------------------------------------------------------------------------------- does it help?
async function overview() {
  const [lift, { attempts }, { memories }] = await Promise.all([
    ask("/v1/lift"), ask("/v1/attempts?limit=200"), ask("/v1/memories?order=outcomes&limit=5"),
  ]);
  return [
    h("h1", {}, "Does the memory help?"),
    h("div", { class: `says ${lift.verdict}` }, verdictWords(lift).map((line) => h("p", {}, line))),
    bars(lift),
    h("h2", {}, "What came of the attempts"),
    coverage(attempts),
    h("h2", {}, "The notes with the most outcomes"),
    WORTH(),
    memories.length
      ? h("ul", { class: "list" }, memories.map(noteCard))
      : h("p", { class: "soft" }, "There are no notes yet. Agents write them with remember."),
  ];
}

function verdictWords(lift) {
  if (!lift.recalls.drawn) {
    return lift.recalls.asked
      ? ["Not measured: every attempt was given its notes.", "Serve the memory with --holdout 0.1: one attempt in ten then gets none, by chance, and the difference can be told."]
      : ["Nothing to say yet: no recall has found a note."];
  }
  const lines = lift.text.split("\n");
  const short_ = [Math.max(0, 10 - lift.with.n), Math.max(0, 10 - lift.without.n)];
  if (lift.lo === null && short_.some(Boolean)) {
    const rate = lift.holdout.rate;
    const more = Math.ceil(Math.max(short_[0] / (1 - rate || 1), rate ? short_[1] / rate : 0));
    lines.push(rate || !short_[1]
      ? `About ${counted(more, "more attempt")} with an outcome until anything can be said.`
      : "No attempt is held out now, so nothing more will be known: serve it with --holdout 0.1.");
  } else if (lift.verdict === "too early" && !lift.more) {
    lines.push("More attempts with an outcome are needed, of other tasks as well.");
  }
  return lines;
}

function bars(lift) {
  if (!lift.with.n || !lift.without.n) return null;
  const row = (words, arm, kind) => {
    const bar = h("i", { class: kind });
    bar.style.width = `${100 * Math.min(1, Math.max(0, arm.mean))}%`;
    return [h("span", {}, words), bar, h("b", {}, `${percent(arm.mean)} right, of ${arm.n.toLocaleString("en")}`)];
  };
  return h("div", { class: "bars" }, row("with notes", lift.with, ""), row("held out", lift.without, "rest"));
}

function coverage(attempts) {
  const count = (state) => attempts.filter((one) => one.verdict.state === state).length;
  if (!attempts.length) return h("p", { class: "soft" }, "No attempt yet. Agents open one with each recall; tests, commands and people say what came of it.");
  const by = {};
  for (const { verdict } of attempts.filter((one) => one.verdict.state === "settled")) {
    const who = verdict.reward === null ? "nobody could tell" : SOURCES[verdict.source] || verdict.source;
    by[who] = (by[who] || 0) + 1;
  }
  const waits = attempts.length - count("settled");
  return [
    h("p", {}, `Of the last ${counted(attempts.length, "attempt")} ${count("settled")} have a verdict`,
      Object.keys(by).length ? `: ${Object.entries(by).map(([who, n]) => (who.startsWith("nobody") ? `of ${n} ${who}` : `${n} by ${who}`)).join(", ")}.` : "."),
    waits ? h("p", {}, h("a", { href: "#/inbox" }, `${counted(waits, "attempt")} without one`), ": say what came of them.") : null,
  ];
}

// ------------------------------------------------------------------------------------------------- inbox and attempts
const STATES = { open: "no verdict", waiting: "waits until it is quiet", conflict: "contradiction", settled: "settled" };

async function inbox() {
  const { attempts } = await ask("/v1/attempts?limit=200");
  const open = attempts.filter((one) => one.verdict.state !== "settled");
  open.sort((one, other) => (other.verdict.state === "conflict") - (one.verdict.state === "conflict"));
  return [
    h("h1", {}, "What came of these?"),
    h("p", { class: "soft" }, "Attempts of which no test, command or person has said enough. What you say counts more than either."),
    open.length ? h("ul", { class: "list" }, open.slice(0, 30).map((one) => attemptCard(one, true))) : h("p", {}, "Nothing waits for you."),
    open.length > 30 && h("p", { class: "soft" }, `${open.length - 30} more after these.`),
  ];
}

async function attempts() {
  const list = h("ul", { class: "list" });
  return [h("h1", {}, "Attempts"), list, await paged(list, "/v1/attempts?limit=30", "attempts", (one) => attemptCard(one, false))];
}

async function paged(list, path, name, card) {
  const more = h("button", { onclick: () => next() }, "Show more");
  let after = null;
  async function next() {
    const found = await ask(path + (after ? `&after=${encodeURIComponent(after)}` : ""));
    list.append(...found[name].map(card));
    if (!list.children.length) list.replaceWith(h("p", { class: "soft" }, "There are none yet."));
    after = found.after;
    more.hidden = !after;
  }
  await next();
  return more;
}

function attemptCard(one, judge) {
  const { verdict } = one, item = h("li", {});
  item.append(
    h("h2", { class: "name" }, h("a", { href: `#/attempt/${one.id}` }, short(one.task || one.name))),
    h("p", {}, stateTag(verdict), " ", sentence(verdict.words)),
    h("p", { class: "meta" }, when(one.last), one.repo && h("span", {}, short(one.repo, 60)), h("span", {}, counted(one.receipts.length, "recall"))),
  );
  if (judge) item.append(judging(one, () => leave(item)));
  return item;
}

function stateTag(verdict) {
  const decided = verdict.state === "settled";
  return h("span", { class: `tag ${decided ? tone(verdict.reward) : "soft"}` }, decided ? told(verdict.reward) : STATES[verdict.state]);
}

function leave(item) {
  const next = item.nextElementSibling || item.previousElementSibling;
  item.remove();
  (next ? next.querySelector("button") : main).focus();
}

function judging(one, then) {
  const say = (reward) => async (event) => {
    const acts = event.target.parentElement;
    for (const button of acts.children) button.disabled = true;
    try {
      const key = `ui:${one.id}:${Date.now()}`;
      await ask("/v1/evidence", { about: { attempt: one.id }, kind: "person", reward, key });
      announce(`Kept: ${told(reward)}.`);
      then();
    } catch (error) {
      announce(error.message);
      for (const button of acts.children) button.disabled = false;
    }
  };
  const button = (words, reward, kind) => h("button", { class: kind, onclick: say(reward), "aria-label": `${words}: ${short(one.task || one.name, 80)}` }, words);
  return h("div", { class: "acts" }, button("Right", true, "yes"), button("Wrong", false, "no"), button("Cannot tell", null, ""));
}

async function attempt(id) {
  const one = await ask(`/v1/attempts/${encodeURIComponent(id)}`);
  const recalls = await Promise.all(one.receipts.map(explained));
  const events = [
    ...recalls.flatMap(recalled), ...one.evidence.map(evidence), ...recalls.flatMap(outcomes),
  ].sort((a, b) => a.at - b.at);
  one.task = recalls[0] && recalls[0].query;
  return [
    h("h1", {}, short(one.task || one.name, 300)),
    h("div", { class: `says ${one.verdict.state === "settled" ? { good: "helps", bad: "harms" }[tone(one.verdict.reward)] || "" : ""}` },
      h("p", {}, stateTag(one.verdict), " ", sentence(one.verdict.words))),
    h("ol", { class: "line" }, events.map((event) => h("li", { class: event.tone }, h("h2", { class: "name" }, event.what, when(event.at)), event.more))),
    h("h2", {}, "What do you say?"),
    judging(one, show),
    h("h2", {}, "Where it was"),
    h("dl", {}, [["attempt", `${one.id}, ${one.name}`], ["session", one.session], ["repository", one.repo], ["commits", one.commits.map((sha) => sha.slice(0, 10)).join(", ")]]
      .filter(([, text]) => text).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
  ];
}

function recalled(data) {
  const shown = data.pool.filter((one) => one.shown), left = data.pool.filter((one) => one.omitted).length;
  const words = data.held_out ? "Held out by chance: no note was shown, to measure what the memory adds."
    : shown.length ? null : "No note fitted.";
  return [{ at: data.created_at, tone: "", what: `Recall: ${short(data.query, 200)}`, more: [
    words && h("p", { class: "soft" }, words),
    shown.length > 0 && h("ul", {}, shown.map((one) => h("li", {}, noteLink(one.id), ` ${short(one.key)}, then ${one.n ? `worth ${value(one.q)} after ${counted(one.n, "outcome")}` : "without outcome"}`))),
    left > 0 && h("p", { class: "soft" }, `${counted(left, "note")} left out on purpose: see `, h("a", { href: "#/withheld" }, "withheld"), "."),
  ] }];
}

function evidence(one) {
  const { detail } = one, command = detail.command && h("code", {}, short(detail.command, 300));
  const names = (detail.names || []).slice(0, 8).map((name) => h("li", {}, name));
  const event = { at: one.at, tone: "", more: names.length ? h("ul", {}, names) : null };
  if (one.kind === "tests") return { ...event, tone: detail.failed ? "bad" : "good", what: `Tests: ${detail.passed || 0} passed, ${detail.failed || 0} failed` };
  if (one.kind === "command" || one.kind === "exit") {
    return { ...event, tone: detail.code ? "bad" : "good", what: [`Command ended with ${detail.code}: `, command] };
  }
  if (one.kind === "claim") return { ...event, what: `The model says ${told(one.reward)}, which moves nothing`, more: command && h("p", {}, "Checked with ", command) };
  if (one.kind === "reverted") return { ...event, tone: "bad", what: `Commit ${String(detail.commit).slice(0, 10)} takes back ${String(detail.of).slice(0, 10)}` };
  if (one.kind === "reapplied") return { ...event, tone: "good", what: `Commit ${String(detail.commit).slice(0, 10)} brings back ${String(detail.of).slice(0, 10)}` };
  const who = one.kind === "person" ? `A person (${one.who})` : `${one.who} (${SOURCES[one.source] || one.source})`;
  return { ...event, tone: tone(one.reward), what: `${who} says ${told(one.reward)}` };
}

function outcomes(data) {
  const own = data.outcomes.filter((one) => one.objective === "success");
  return own.map((one, i) => {
    const reward = one.valid ? one.reward : null, paid = one.counts ? data.changes.filter((c) => c.counts && c.objective === "success") : [];
    return { at: one.at, tone: one.counts ? tone(reward) : "", what: [
      i ? "Verdict, revised: " : "Verdict: ", one.counts ? `${told(reward)}, by ${SOURCES[one.source] || one.source}` : h("s", {}, told(reward)),
      one.counts && one.valid && one.weight < 1 ? `, with weight ${one.weight}` : "",
    ], more: [
      !one.counts && h("p", { class: "soft" }, "No longer counts: better evidence came."),
      paid.length > 0 && h("ul", {}, paid.map((c) => h("li", {}, noteLink(c.id), ` ${value(c.q_before)} → ${value(c.q_after)}${c.rule === "ancestor" ? " (it came from this note)" : ""}`))),
    ] };
  });
}

// ------------------------------------------------------------------------------------------------------------- memory
const noteLink = (id) => h("a", { href: `#/memory/${id}` }, id);

function noteCard(item) {
  return h("li", {},
    h("h2", { class: "name" }, h("a", { href: `#/memory/${item.id}` }, short(item.key)), item.status !== "active" && [" ", h("span", { class: "tag soft" }, item.status)]),
    h("p", {}, short(item.body, 240)),
    h("p", { class: "meta" }, h("span", {}, item.id), h("span", {}, earned(item)), h("span", {}, `${item.kind}, from ${item.source}`)));
}

async function memory() {
  const list = h("ul", { class: "list" }), parts = [h("h1", {}, "Memory")];
  const select = (name, words, options) => h("label", {}, words, h("select", { onchange: (event) => { choice[name] = event.target.value; show(); } },
    options.map(([option, text]) => h("option", { value: option, selected: choice[name] === option }, text))));
  parts.push(h("div", { class: "acts" },
    select("order", "Order", [["newest", "newest first"], ["outcomes", "most outcomes first"], ["value", "worth most first"], ["oldest", "oldest first"]]),
    select("status", "Show", [["active", "in use"], ["all", "all"], ["quarantined", "quarantined"], ["archived", "archived"], ["superseded", "replaced"]])));
  const path = `/v1/memories?limit=30&order=${choice.order}&status=${choice.status}`;
  return [...parts, WORTH(), list, await paged(list, path, "memories", noteCard)];
}
const WORTH = () => h("p", { class: "soft small" }, "What a note is worth: the success to expect when it is shown. It begins where the memory begins, and outcomes move it.");
const choice = { order: "newest", status: "active" };

async function note(id) {
  const data = await explained(id), r = data.recalls;
  const success = data.values.filter((one) => one.objective === "success");
  const move = (e) => `${value(e.q_before)} → ${value(e.q_after)}`, how = { omitted: "left out: ", ancestor: "by a note that came from it: ", shown: "" };
  const line = (e) => h("li", { class: tone(e.reward) }, h("b", {}, `${told(e.reward)}, say ${SOURCES[e.source] || e.source}: `.replace("say a ", "says a ")),
    how[e.rule], e.counts ? move(e) : [h("s", {}, move(e)), " revised since"], when(e.at), h("div", { class: "soft small" }, short(e.task, 200)));
  return [
    h("h1", {}, short(data.key, 300)),
    h("pre", {}, data.body),
    h("dl", {}, [
      ["note", `${data.id}, ${data.kind}, ${data.status}`], ["from", data.source],
      ["worth", success.length ? success.map((v) => `${value(v.q)} ± ${value(v.uncertainty)} after ${counted(v.n, "outcome")}${v.adds ? `; ${v.adds}` : ""}`).join("; ") : "no outcome yet"],
      ["shown", `${counted(r.shown, "time")}, left out ${counted(r.omitted, "time")}, a candidate ${counted(r.considered, "time")}`],
    ].map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])),
    h("h2", {}, "What it earned"),
    data.history.length ? h("ol", { class: "line close" }, data.history.filter((e) => e.objective === "success").slice(0, 50).map(line)) : h("p", { class: "soft" }, "Nothing yet."),
  ];
}

async function withheld() {
  const statuses = ["quarantined", "archived", "expired", "superseded"];
  const [lift, ...pages] = await Promise.all([ask("/v1/lift?by=item"), ...statuses.map((status) => ask(`/v1/memories?status=${status}&limit=50`))]);
  const held = lift.items.filter((one) => one.withheld || one.named === "harms"), rate = lift.holdout.rate;
  const why = { quarantined: "under review, or from a source that was found to harm", archived: "put away", expired: "past its date", superseded: "replaced by a newer note" };
  const gone = pages.flatMap((page, i) => page.memories.map((item) => ({ item, why: why[statuses[i]] })));
  const said_ = await Promise.all(gone.slice(0, 30).map(({ item }) => explained(item.id).then((data) => (data.audit.at(-1) || {}).reason)));
  const lines = gone.map(({ item, why: words }, i) => h("li", {}, noteLink(item.id), ` ${short(item.key)}: ${item.status}, ${words}`, said_[i] && ` (“${short(said_[i], 200)}”)`));
  return [
    h("h1", {}, "What is withheld, and why"),
    h("h2", {}, "Attempts, by chance"),
    h("p", {}, rate ? `${percent(rate)} of attempts get no notes, by chance: the difference to the others is what the memory adds.`
      : "None. Serve the memory with --holdout 0.1 to measure what it adds."),
    h("h2", {}, "Notes, because they harm"),
    held.length ? h("ul", {}, held.map((one) => h("li", {}, noteLink(one.id), ` attempts go worse with it${one.withheld ? ": it is left out nine times in ten" : ""}`)))
      : h("p", { class: "soft" }, "No note is known to harm."),
    h("h2", {}, "Notes that are out of use"),
    lines.length ? h("ul", {}, lines) : h("p", { class: "soft" }, "None."),
  ];
}

// -------------------------------------------------------------------------------------------------------------- frame
function put(...parts) {
  main.replaceChildren(...h("div", {}, parts).childNodes);
}

function announce(words) {
  said.textContent = words;
  clearTimeout(announce.timer);
  announce.timer = setTimeout(() => { said.textContent = ""; }, 6000);
}

function login(why) {
  nav.hidden = true;
  const token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const scope = h("input", { id: "scope", autocomplete: "off", value: kept.scope || "" });
  const enter = (event) => {
    event.preventDefault();
    keep({ token: token.value.trim(), scope: scope.value.trim() });
    show();
  };
  put(h("h1", {}, "Whose memory?"),
    why && h("p", { class: "alert" }, why),
    h("form", { onsubmit: enter }, h("label", {}, "Token", token), h("label", {}, "Scope (where the token has several)", scope), h("button", {}, "Open")),
    h("p", { class: "soft small" }, h("code", {}, "evolvent serve"), " prints a token when it starts for the first time, ", h("code", {}, "evolvent tokens new STORE NAME"), " makes another. It stays in this tab."));
  token.focus();
}

function keep(given) {
  Object.assign(kept, given);
  sessionStorage.setItem(KEPT, JSON.stringify(kept));
}

const VIEWS = [[/^#\/inbox$/, inbox], [/^#\/attempts$/, attempts], [/^#\/attempt\/(a\d+)$/, attempt], [/^#\/memory$/, memory], [/^#\/memory\/([^/]+)$/, note], [/^#\/withheld$/, withheld]];
let shows = 0;

async function show() {
  const mine = ++shows, where = location.hash || "#/";
  const found = VIEWS.map(([pattern, view]) => [view, pattern.exec(where)]).find(([, match]) => match);
  try {
    if (!kept.token && !kept.open) keep({ open: Boolean(await ask("/v1/memories?limit=1")) }); // served with --no-auth?
    const parts = await (found ? found[0](found[1][1] && decodeURIComponent(found[1][1])) : overview());
    if (mine !== shows) return;
    nav.hidden = false;
    for (const link of nav.children) {
      const here = link.hash === where || (link.hash === "#/" && !found) || (where.startsWith(link.hash + "/") && link.hash !== "#/") || (link.hash === "#/attempts" && where.startsWith("#/attempt/"));
      here ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    }
    put(parts);
    document.title = `${main.querySelector("h1").textContent} · Evolvent memory`;
  } catch (error) {
    if (mine !== shows) return;
    if (error.status === 401) return login(kept.token && error.message);
    if (error.status === 403) return login(error.message);
    put(h("h1", {}, "That did not work"), h("p", { class: "alert" }, error.message), h("button", { onclick: show }, "Try again"));
  }
}

function enter() {
  const link = /^#(?:token=)?(ev1_[\w-]+)$/.exec(location.hash);
  if (link) {
    keep({ token: link[1], scope: "" });
    history.replaceState(null, "", "/ui#/"); // the token stays in no address and no history
  }
  return show();
}
window.addEventListener("hashchange", () => enter().then(() => { window.scrollTo(0, 0); main.focus({ preventScroll: true }); }));
enter();
