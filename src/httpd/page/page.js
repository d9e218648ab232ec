// SPDX-License-Identifier: Apache-2.0
// The page follows /v1/events and shows what it tells. What comes from outside is only ever text.
import {follow} from "./events.js";
import {card, update} from "./card.js";

const SHOWN_MOST = 200, HISTORY_MOST = 20;
const find = (selector, within = document) => within.querySelector(selector);
const token = {
  get: () => sessionStorage.getItem("token") || "",
  set: text => sessionStorage.setItem("token", text),
};
const headers = () => token.get() ? {Authorization: "Bearer " + token.get()} : {};

// What is known of the store. leases: session -> {until, most}, in this machine's time.
const known = {locks: new Map(), leases: new Map(), history: new Map(), skew: 0};
const cards = new Map(), open = new Set(), NOTHING = [];
let mayBreak = false;

// ---- What is told

function takeLeases(leases) {
  for (const [session, left] of Object.entries(leases)) {
    const most = Math.max(left, known.leases.get(session)?.most || 0);
    known.leases.set(session, {until: Date.now() + left, most});
  }
}

function remember(entry) {
  const list = known.history.get(entry.name) || [];
  list.unshift(entry);
  known.history.set(entry.name, list.slice(0, HISTORY_MOST));
}

const told = {
  snapshot({locks, leases, free_left_off, ...reach}) {
    known.locks = new Map(locks.map(lock => [lock.name, lock]));
    known.leases.clear();
    takeLeases(leases);
    told.store(reach);
    if (free_left_off && reach.reachable)
      showLive("; too many free ones to show");
  },
  lock: lock => isShown(lock) ? known.locks.set(lock.name, lock) : known.locks.delete(lock.name),
  gone: ({name}) => known.locks.delete(name),
  leases: takeLeases,
  store: ({reachable, detail}) => reachable ? showLive() :
    show("lost", `the service does not reach its store: ${detail}`),
};
for (const kind of ["wait", "grant", "release", "loss", "gave_up", "left"])
  told[kind] = remember;

// ---- What is asked for: no more than is shown

const asked = {prefix: "", idle: false};

function isShown(lock) {
  return find("#idle").checked || lock.holders.length || lock.queue.length;
}

function address() {
  return "v1/events?" + new URLSearchParams({
    ...(asked.prefix && {prefix: asked.prefix}), ...(!asked.idle && {in_use: 1})});
}

function askForMore() {
  const prefix = find("#prefix").value, idle = find("#idle").checked;
  if (prefix.startsWith(asked.prefix) && (asked.idle || !idle))
    return;
  Object.assign(asked, {prefix, idle});
  stream.again();
}

let typing;
function choose() {
  draw();
  clearTimeout(typing);
  typing = setTimeout(askForMore, 300);
}

// ---- What is shown

function show(kind, text) {
  const state = find("#state");
  state.className = kind;
  state.textContent = text;
}

const showLive = (more = "") => show("live", `live, ${location.host}${more}`);

const oldest = entries => Math.min(...entries.map(e => Date.parse(e.since) || Infinity));
const isOverdue = lock =>
  lock.holders.some(holder => known.leases.get(holder.session)?.until < Date.now());

// Each gives a class and a time: the lower comes first.
const orders = {
  // Leases that are over, then who has waited for longest, then who has held for longest, then the
  // last that were left.
  trouble: lock => isOverdue(lock) ? [0, oldest(lock.holders)] : lock.queue.length ?
    [1, oldest(lock.queue)] : lock.holders.length ?
    [2, oldest(lock.holders)] : [3, -Date.parse(lock.last.at) || 0],
  name: () => [0, 0],
  held: lock => lock.holders.length ? [0, oldest(lock.holders)] : [1, 0],
  waited: lock => lock.queue.length ? [0, oldest(lock.queue)] : [1, 0],
};

function has(lock, word) {
  const texts = [lock.name, ...[...lock.holders, ...lock.queue].flatMap(e => [e.who, e.why])];
  return texts.some(text => text.toLowerCase().includes(word));
}

function chosen() {
  const prefix = find("#prefix").value, rank = orders[find("#order").value];
  const word = find("#search").value.toLowerCase();
  return [...known.locks.values()]
    .filter(lock => lock.name.startsWith(prefix) && isShown(lock) && (!word || has(lock, word)))
    .map(lock => [rank(lock), lock])
    .sort(([[a, since], x], [[b, until], y]) => a - b || since - until || (x.name < y.name ? -1 : 1))
    .map(([, lock]) => lock);
}

let lastOverdue = 0;
function showTotals() {
  let held = 0, waiting = 0, overdue = 0;
  for (const lock of known.locks.values()) {
    held += lock.holders.length > 0;
    waiting += lock.queue.length;
    overdue += isOverdue(lock);
  }
  find("#totals").textContent = `${held} held, ${waiting} waiting` + (overdue ? `, ${overdue} overdue` : "");
  if (overdue !== lastOverdue)
    drawSoon();
  lastOverdue = overdue;
}

// A card stays the same element for as long as its lock is shown, and keeps the focus.
function cardOf(lock) {
  const history = known.history.get(lock.name) || NOTHING, had = cards.get(lock.name);
  if (had && had.lock === lock && had.events === history)
    return had.element;
  const element = had?.element || document.createElement("li");
  const focused = element.contains(document.activeElement) && document.activeElement.dataset.key;
  card(element, lock, history, {open, ask: mayBreak ? askToBreak : null});
  if (focused)
    find(`[data-key="${CSS.escape(focused)}"]`, element)?.focus();
  cards.set(lock.name, {element, lock, events: history});
  return element;
}

function draw() {
  const locks = chosen(), list = find("#locks"), none = find("#none");
  const wanted = locks.slice(0, SHOWN_MOST).map(cardOf);
  wanted.forEach((element, i) => list.children[i] === element || list.insertBefore(element, list.children[i]));
  while (list.children.length > wanted.length)
    list.lastChild.remove();
  const more = locks.length - wanted.length;
  none.hidden = locks.length > 0 && !more;
  none.textContent = more ? `${more} more; say more of what you look for` :
    known.locks.size ? "No such lock is held or waited for." : "Nobody holds a lock.";
  tick();
}

function tick() {
  showTotals();
  for (const {element} of cards.values())
    if (element.isConnected)
      update(element, known);
}

let isDue = false;
function drawSoon() {
  if (!isDue)
    setTimeout(() => { isDue = false; draw(); }, 50);
  isDue = true;
}

// ---- What is asked

function dialog(id, submit) {
  const box = find(id), form = find("form", box);
  find(".cancel", box).addEventListener("click", () => box.close());
  form.addEventListener("submit", event => { event.preventDefault(); submit(form, box); });
  return box;
}

let breaking;
const breakBox = dialog("#break", async (form, box) => {
  const {name, token: held} = breaking, problem = find(".problem", form);
  const path = "v1/locks/" + encodeURIComponent(name), button = find(".danger", form);
  const query = new URLSearchParams({reason: form.reason.value, ...(held && {if_token: held})});
  button.disabled = true;
  button.textContent = "Breaking";
  problem.textContent = "";
  try {
    const answer = await fetch(`${path}?${query}`, {method: "DELETE", headers: headers()});
    if (answer.ok)
      box.close();
    else
      problem.textContent = (await answer.json()).detail;
  } catch {
    problem.textContent = "The service was not reached.";
  }
  button.disabled = false;
  button.textContent = "Break";
});

function askToBreak(name, holder) {
  breaking = {name, token: holder.token};
  find("form", breakBox).reset();
  find(".problem", breakBox).textContent = "";
  find(".name", breakBox).textContent = name;
  find(".who", breakBox).textContent = holder.who || "a session that is gone";
  breakBox.showModal();
}

const tokenBox = dialog("#ask", (form, box) => {
  token.set(form.token.value);
  box.close();
  stream.again();
});

function askForToken(problem = "") {
  find("form", tokenBox).reset();
  find(".problem", tokenBox).textContent = problem;
  if (!tokenBox.open)
    tokenBox.showModal();
}

find("#token").addEventListener("click", () => askForToken());
find("#prefix").addEventListener("input", choose);
find("#search").addEventListener("input", draw);
find("#order").addEventListener("change", draw);
find("#idle").addEventListener("change", choose);
addEventListener("keydown", event => {
  if (event.key === "/" && !event.target.closest("input, dialog")) {
    event.preventDefault();
    find("#search").focus();
  }
});

const stream = follow(address, {
  headers,
  begun: answer => {
    known.skew = Date.parse(answer.headers.get("Date")) - Date.now() || 0;
    const isAdmin = answer.headers.get("Holdfast-Role") === "admin";
    if (mayBreak !== isAdmin)
      cards.clear();
    mayBreak = isAdmin;
    showLive();
  },
  event: (kind, data) => { told[kind]?.(data); drawSoon(); },
  lost: text => show("lost", text),
  refused: text => { show("lost", text); askForToken(token.get() ? text : ""); },
});
setInterval(tick, 500);
