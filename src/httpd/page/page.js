// SPDX-License-Identifier: Apache-2.0
// The page follows /v1/events and shows what it tells. What comes from outside is only ever text.
import {follow} from "./events.js";
import {card, named, plain, update, waitingAt} from "./card.js";
import {showOne} from "./one.js";

const PAGE = 100;                                // cards at a time
const HISTORY_MOST = 50, HISTORIES_MOST = 2000;  // events of a lock; locks with events
const TURNS = 20;                                // of one lock are shown
const READ_MS = 3000, READ_MOST_MS = 10000;      // how often one lock is read; the longest wait for it
const find = (selector, within = document) => within.querySelector(selector);
const token = {
  get: () => sessionStorage.getItem("token") || "",
  set: text => sessionStorage.setItem("token", text),
  forget: () => sessionStorage.removeItem("token"),
};
const headers = () => token.get() ? {Authorization: "Bearer " + token.get()} : {};

// What is known of the store. leases: session -> {until, most}, in this machine's time.
// trouble: why the store is not reached; "": it is. heardAt: when the service was last heard of.
// isOld: what is shown is of that time, and so is what is left of the leases.
const known = {locks: new Map(), leases: new Map(), history: new Map(), skew: 0,
  hasList: false, trouble: "", heardAt: 0, isOld: false, isSilent: false,
  now: () => known.isOld ? known.heardAt : Date.now()};
const cards = new Map(), open = new Set(), NOTHING = [];
let mayBreak = false;

// ---- What is told

// 0: what is left is not known.
function takeLeases(leases) {
  for (const [session, left] of Object.entries(leases).filter(([, left]) => left)) {
    const most = Math.max(left, known.leases.get(session)?.most || 0);
    known.leases.set(session, {until: Date.now() + left, most});
  }
}

// The locks that something happened to last are kept.
function remember(entry) {
  const list = known.history.get(entry.name) || [];
  known.history.delete(entry.name);
  known.history.set(entry.name, [entry, ...list].slice(0, HISTORY_MOST));
  if (known.history.size > HISTORIES_MOST)
    known.history.delete(known.history.keys().next().value);
}

const oldest = entries => Math.min(...entries.map(e => Date.parse(e.since) || Infinity));

// Times are read once, not at each comparison.
function keepLock(lock) {
  lock.heldSince = oldest(lock.holders);
  lock.waitedSince = oldest(lock.queue);
  known.locks.set(lock.name, lock);
}

const told = {
  snapshot({locks, leases, free_left_off, ...reach}) {
    const looked = one && known.locks.get(one.name);
    known.locks.clear();
    if (looked && !isInUse(looked))
      keepLock(looked);
    locks.forEach(keepLock);
    known.leases.clear();
    takeLeases(leases);
    known.hasList ||= reach.reachable;
    told.store(reach);
    if (free_left_off && reach.reachable)
      showLive("; too many free ones to show");
  },
  lock: lock => isShown(lock) || lock.name === one?.name ? keepLock(lock) : known.locks.delete(lock.name),
  gone: ({name}) => known.locks.delete(name),
  leases: takeLeases,
  store({reachable, detail}) {
    known.trouble = reachable ? "" : detail;
    showReach();
  },
};
for (const kind of ["wait", "grant", "release", "loss", "gave_up", "left"])
  told[kind] = remember;

// ---- What is asked for: no more than is shown

const asked = {prefix: "", idle: false, since: Date.now()};

const isInUse = lock => lock.holders.length > 0 || waitingAt(lock) > 0;
const isShown = (lock, idle = find("#idle").checked) => idle || isInUse(lock);

// Of one lock, only that, unless the list is followed anyway.
const wanted = () => one ? {prefix: one.name, idle: false} :
  {prefix: find("#prefix").value, idle: find("#idle").checked};

function address() {
  return "v1/events?" + new URLSearchParams({
    ...(asked.prefix && {prefix: asked.prefix}), ...(!asked.idle && {in_use: 1})});
}

// Where what is asked for has it all, that goes on, but without free locks as soon as none is shown.
function askAnew() {
  const {prefix, idle} = wanted();
  if (prefix.startsWith(asked.prefix) && (one || idle === asked.idle))
    return;
  Object.assign(asked, {prefix, idle, since: Date.now()});
  stream.again();
}

let typing;
function choose() {
  drawAnew();
  clearTimeout(typing);
  typing = setTimeout(askAnew, 300);
}

// ---- What is shown

function show(kind, text) {
  const state = find("#state");
  state.className = kind;
  state.textContent = text;
}

function showAway(text, detail = "") {
  find("#away").hidden = !text;
  find("#away-text").textContent = text;
  find("#away-detail").textContent = plain(detail);
}

function showLive(more = "") {
  known.isOld = false;
  show("live", `live${more}`);
  showAway("");
}

function showLost(text, detail) {
  show("lost", text);
  known.isOld = known.heardAt > 0;
  const heard = known.isOld ? ` What is shown was so at ${new Date(known.heardAt).toLocaleTimeString()}.` : "";
  showAway(`${text[0].toUpperCase()}${text.slice(1)}.${heard} Trying again.`, detail);
}

function showReach() {
  if (known.trouble)
    showLost("the service does not reach its store", known.trouble);
  else
    showLive();
}

function allowBreaks(may) {
  if (mayBreak === may)
    return;
  mayBreak = may;
  cards.clear();
  drawSoon();
}

// Which service and which store these are, if the service says it. Protocols without a queue can
// ask no holder to leave.
async function showNames(isAdmin) {
  const {store, host, protocol} = await read("v1/service").catch(() => ({}));
  allowBreaks(isAdmin && protocol === "queue");
  find("#where").hidden = !host;
  find("#store").textContent = plain(store || "");
  find("#service").textContent = host ? `${host}, ${location.host}` : "";
  showTitle();
}

const showTitle = () => {
  document.title = [one && plain(one.name), find("#store").textContent, "Holdfast"].filter(Boolean).join(" \u00b7 ");
};

const isOverdue = lock =>
  lock.holders.some(holder => known.leases.get(holder.session)?.until < known.now());

// Each gives a class and a time: the lower comes first.
const orders = {
  // Leases that are over, then who has waited for longest, then who has held for longest, then the
  // last that were left.
  trouble: lock => isOverdue(lock) ? [0, lock.heldSince] : waitingAt(lock) ?
    [1, lock.waitedSince] : lock.holders.length ?
    [2, lock.heldSince] : [3, -Date.parse(lock.last.at) || 0],
  name: () => [0, 0],
  held: lock => lock.holders.length ? [0, lock.heldSince] : [1, 0],
  waited: lock => waitingAt(lock) ? [0, lock.waitedSince] : [1, 0],
};

function has(lock, word) {
  const texts = [lock.name, ...[...lock.holders, ...lock.queue].flatMap(e => [e.who, e.why])];
  return texts.some(text => text.toLowerCase().includes(word));
}

function chosen() {
  const prefix = find("#prefix").value, rank = orders[find("#order").value];
  const word = find("#search").value.toLowerCase(), idle = find("#idle").checked;
  return [...known.locks.values()]
    .filter(lock => lock.name.startsWith(prefix) && isShown(lock, idle) && (!word || has(lock, word)))
    .map(lock => ({lock, rank: rank(lock)}))
    .sort((x, y) => x.rank[0] - y.rank[0] || x.rank[1] - y.rank[1] || (x.lock.name < y.lock.name ? -1 : 1))
    .map(({lock}) => lock);
}

let lastOverdue = 0;
function showTotals() {
  let held = 0, waiting = 0, overdue = 0;
  for (const lock of known.locks.values()) {
    held += lock.holders.length > 0;
    waiting += waitingAt(lock);
    overdue += isOverdue(lock);
  }
  find("#totals").textContent = !known.hasList ? "" :
    `${held} held, ${waiting} waiting` + (overdue ? `, ${overdue} overdue` : "");
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
  card(element, lock, history, {open, ask: mayBreak ? askToBreak : null});
  cards.set(lock.name, {element, lock, events: history});
  return element;
}

// Brings the cards into this order; those of other locks go.
function place(shown) {
  const list = find("#locks"), elements = shown.map(cardOf), names = new Set(shown.map(lock => lock.name));
  elements.forEach((element, i) => list.children[i] === element || list.insertBefore(element, list.children[i]));
  while (list.children.length > elements.length)
    list.lastChild.remove();
  for (const name of cards.keys())
    if (!names.has(name))
      cards.delete(name);
}

let room = PAGE; // for so many cards
function drawList() {
  const locks = chosen(), none = find("#none"), more = find("#more"), left = locks.length - room;
  place(locks.slice(0, room));
  none.hidden = locks.length > 0 || !known.hasList;
  none.textContent = known.locks.size ? "No such lock is held or waited for." : "Nobody holds a lock.";
  more.hidden = left <= 0;
  more.textContent = `Show ${Math.min(PAGE, left)} more of ${left}`;
}

function drawOne() {
  const lock = known.locks.get(one.name), events = known.history.get(one.name) || NOTHING;
  const now = [one.name, lock, events, one.why, one.turns, one.problem, mayBreak, asked.since];
  if (now.every((each, i) => each === one.drawn?.[i]))
    return;
  one.drawn = now;
  showOne(find("#one"), {name: one.name, lock, events, why: lock && isInUse(lock) ? one.why : undefined,
    turns: one.turns, problem: lock ? "" : one.problem, openedAt: asked.since, ask: mayBreak ? askToBreak : null});
}

let tookMs = 0;
function draw() {
  const began = performance.now();
  if (one)
    drawOne();
  else
    drawList();
  tick();
  tookMs = performance.now() - began;
}

// Another choice: from the beginning.
function drawAnew() {
  room = PAGE;
  draw();
}

function tick() {
  showTotals();
  const shown = one ? [find("#one")] : find("#locks").children;
  for (const element of shown)
    update(element, known);
}

// At most a fifth of the time is for drawing, however many locks there are.
let isDue = false;
function drawSoon() {
  if (!isDue)
    setTimeout(() => { isDue = false; draw(); }, Math.max(50, 4 * tookMs));
  isDue = true;
}

// ---- One lock, whose address is #lock=NAME

let one = null; // {name, why, turns, problem, isReading, drawn}; null: the list is shown

function nameInAddress() {
  const found = /^#lock=(.+)$/s.exec(location.hash);
  try {
    return found && decodeURIComponent(found[1]);
  } catch {
    return null;
  }
}

// Browsers take these two names out of a path.
function pathOf(kind, name, query = {}) {
  const isTakenOut = name === "." || name === "..";
  const all = String(new URLSearchParams({...(isTakenOut && {name}), ...query}));
  return `v1/${kind}/${isTakenOut ? "" : encodeURIComponent(name)}${all && `?${all}`}`;
}

async function read(path) {
  const answer = await fetch(path, {headers: headers(), signal: AbortSignal.timeout(READ_MOST_MS)});
  const body = await answer.json();
  if (!answer.ok)
    throw Object.assign(new Error(body.detail), {status: answer.status});
  return body;
}

// An event may have said more meanwhile.
function keepRead(lock) {
  if (known.locks.has(lock.name))
    return;
  takeLeases(Object.fromEntries([...lock.holders, ...lock.queue].map(e => [e.session, e.lease_left_ms])));
  keepLock(lock);
}

const isSame = (why, other) => {
  const rest = each => JSON.stringify(each, (key, value) => key === "lease_left_ms" ? value < 0 : value);
  return rest(why) === rest(other);
};

async function readWhy(looked) {
  const lock = known.locks.get(looked.name);
  const why = lock && isInUse(lock) ? await read(pathOf("why", looked.name)) : undefined;
  if (!isSame(why, looked.why))
    looked.why = why;
}

// A store need not keep them. Without an answer, what is known stays.
async function readTurns(looked) {
  const {turns} = await read(pathOf("history", looked.name, {limit: TURNS})).catch(() => looked);
  if (JSON.stringify(turns) !== JSON.stringify(looked.turns))
    looked.turns = turns;
}

// What events do not say: a lock that nobody uses, why one is held, and who had it.
async function readOne() {
  const looked = one;
  if (!looked || looked.isReading || tokenBox.open)
    return;
  looked.isReading = true;
  try {
    if (!known.locks.has(looked.name))
      keepRead(await read(pathOf("locks", looked.name)));
    await readWhy(looked);
    looked.problem = "";
  } catch (error) {
    looked.problem = error.status === 404 ? "There is no record of this lock: nobody has taken it yet, " +
      "or nobody has for long." : `It could not be read: ${error.message}`;
  }
  await readTurns(looked);
  looked.isReading = false;
  drawSoon();
}

function focusAfter(before) {
  const link = before && cards.get(before.name)?.element.querySelector(".name");
  (one ? find("#one-name") : link)?.focus();
}

function look() {
  const name = nameInAddress(), before = one;
  one = name === null ? null : {name, why: undefined, problem: ""};
  document.body.classList.toggle("looks-at-one", one !== null);
  find("#list").hidden = one !== null;
  find("#one").hidden = one === null;
  showTitle();
  draw();
  if (one || before)
    focusAfter(before);
  if (one)
    scrollTo(0, 0);
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
  const path = pathOf("locks", name, {reason: form.reason.value, ...(held && {if_token: held})});
  const button = find(".danger", form);
  button.disabled = true;
  button.textContent = "Breaking";
  problem.textContent = "";
  try {
    const answer = await fetch(path, {method: "DELETE", headers: headers()});
    if (answer.ok)
      box.close();
    else
      problem.textContent = plain((await answer.json()).detail);
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
  find(".name", breakBox).textContent = plain(name);
  find(".who", breakBox).replaceChildren(...named(holder.who || "a session that is gone"));
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
  find(".forget", tokenBox).hidden = !token.get();
  if (!tokenBox.open)
    tokenBox.showModal();
}

// What was shown with it goes, too.
find(".forget", tokenBox).addEventListener("click", () => {
  token.forget();
  location.reload();
});

find("#token").addEventListener("click", () => askForToken());
find("#prefix").addEventListener("input", choose);
find("#search").addEventListener("input", drawAnew);
find("#order").addEventListener("change", drawAnew);
find("#more").addEventListener("click", () => { room += PAGE; draw(); });
find("#idle").addEventListener("change", choose);
addEventListener("keydown", event => {
  if (event.target.closest("input:not([type=checkbox]), dialog"))
    return;
  if (event.key === "Escape" && one)
    location.hash = "";
  if (event.key === "/" && !one) {
    event.preventDefault();
    find("#search").focus();
  }
});
addEventListener("hashchange", () => {
  look();
  askAnew();
  readOne();
});

look();
Object.assign(asked, wanted());
const stream = follow(address, {
  headers,
  begun: answer => {
    known.skew = Date.parse(answer.headers.get("Date")) - Date.now() || 0;
    const isAdmin = answer.headers.get("Holdfast-Role") === "admin";
    if (!isAdmin)
      allowBreaks(false);
    showReach();
    showNames(isAdmin);
    readOne();
  },
  heard() {
    if (known.hasList && !known.trouble)
      known.heardAt = Date.now();
    if (known.isSilent)
      showReach();
    known.isSilent = false;
  },
  // While it does not reach its store, no beats come, and that is told already.
  silent() {
    known.isSilent = true;
    if (!known.trouble)
      showLost("the service does not answer");
  },
  event(kind, data) {
    told[kind]?.(data);
    if (kind !== "leases")
      drawSoon();
    if (data.name === one?.name)
      readOne();
  },
  lost: () => showLost("the service does not answer"),
  refused(isUnknown, text) {
    show("lost", isUnknown ? "an access token is needed" : text);
    askForToken(!token.get() ? "" : isUnknown ? "The service does not know this access token." : text);
  },
});
setInterval(tick, 500);
setInterval(readOne, READ_MS);
