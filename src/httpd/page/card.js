// SPDX-License-Identifier: Apache-2.0
// One lock in the list: who holds it, who waits, what happened to it. Made anew when it changes;
// update() lets the time pass. one.js uses the parts.

const ALL = 2 ** 30;
const LONG_MS = 60000, LONGER = 3; // what is long: that, and so many times what the lock has seen
const WORDS = {wait: "waits", grant: "has it", release: "gave it back", loss: "lost it",
  gave_up: "gave up waiting", left: "waits no more"};

// What could hide, or make a name look like another, is shown as \u{202e}, as on a terminal.
const TRICKS = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;
export const plain = text => String(text).replace(TRICKS, c => `\\u{${c.codePointAt(0).toString(16)}}`);

// An element with these properties and children; texts become plain text.
export function make(name, properties, ...children) {
  const {data, ...rest} = properties;
  const element = Object.assign(document.createElement(name), rest);
  Object.assign(element.dataset, data);
  element.append(...children.map(child => child instanceof Node ? child : plain(child)));
  return element;
}

export function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60);
  const two = n => String(n).padStart(2, "0");
  if (h >= 24)
    return `${Math.floor(h / 24)}d${two(h % 24)}h`;
  return h ? `${h}h${two(m % 60)}m` : m ? `${m}m${two(s % 60)}s` : `${s}s`;
}

// What leads to one lock, also from elsewhere.
export const addressOf = name => "#lock=" + encodeURIComponent(name);

const GONE = "(session gone)";

// A name, with its process id, if it ends with one, in small: "alice/deploy@build1:4711".
export function named(text) {
  const [, name, pid] = /^(.*@[^:@]+)(:\d+)$/s.exec(text) || [];
  return pid ? [plain(name), make("small", {}, pid)] : [plain(text)];
}

export const who = entry => make("b", {className: "who"}, ...named(entry.who || GONE));
export const since = (entry, usual) => make("span", {className: "since",
  data: {since: Date.parse(entry.since) || "", usual},
  title: entry.since ? `since ${new Date(entry.since).toLocaleString()}` : ""});

// The longest time from one of these events to one of those, as far as this page has seen; 0: none.
function longest(events, from, to) {
  const begun = new Map();
  let most = 0;
  for (const {event, who: whose, at} of [...events].reverse()) {
    if (from.includes(event))
      begun.set(whose, Date.parse(at));
    if (to.includes(event) && begun.has(whose))
      most = Math.max(most, Date.parse(at) - begun.get(whose));
  }
  return most;
}

export function kindOf(lock) {
  if (lock.limit !== ALL) {
    const used = lock.holders.reduce((sum, e) => sum + e.permits, 0);
    return ` ${used} of ${lock.limit}`;
  }
  return lock.holders.length && lock.holders[0].permits !== ALL ? " shared" : "";
}

function holderRow(lock, holder, usual, ask) {
  const key = "break " + (holder.token || holder.session);
  const button = ask && make("button", {type: "button", className: "break", data: {key},
    ariaLabel: plain(`Break ${lock.name}, held by ${holder.who || GONE}`),
    onclick: () => ask(lock.name, holder)}, "Break");
  return make("div", {className: "holder", data: {session: holder.session}},
    make("div", {},
      who(holder), " for ", since(holder, usual), " ", make("span", {className: "why"}, holder.why), " ",
      make("small", {}, "\u00b7 lease ", make("span", {className: "left"}),
        ...(holder.token ? [" \u00b7 ", make("span", {className: "token"}, `token ${holder.token}`)] : []))),
    button || "",
    make("progress", {max: 1, value: 0, ariaLabel: "what is left of the lease"}));
}

function queueRow(entry, usual) {
  return make("li", {value: entry.position}, who(entry), " for ", since(entry, usual), " ",
    make("span", {className: "why"}, entry.why));
}

const clock = ms => new Date(ms).toLocaleTimeString();
export const moment = at => make("time", {dateTime: at, title: new Date(at).toLocaleString()}, clock(Date.parse(at)));

export function lastRow({outcome, who: holder, reason, at, exit_status: status}) {
  const how = outcome === "abandoned" ? "loss" : "release";
  return make("li", {className: how}, at ? moment(at) : "", " ", ...named(holder), ` ${WORDS[how]}`,
    status === null ? "" : `, exit status ${status}`, reason ? `: ${reason}` : "");
}

export function historyRow(event) {
  const isLong = event.event !== "wait" && event.for_ms >= 1000;
  return make("li", {className: event.event}, moment(event.at), " ", ...named(event.who || GONE),
    ` ${WORDS[event.event]}`,
    event.exit_status === null ? "" : `, exit status ${event.exit_status}`,
    event.reason ? `: ${event.reason}` : "", event.why && event.event === "grant" ? `: ${event.why}` : "",
    isLong ? make("span", {className: "quiet"}, ` (after ${duration(event.for_ms)})`) : "");
}

// What this page has seen, or else how the lock was left before.
function history(lock, events, open) {
  const rows = events.length ? events.map(historyRow) :
    lock.last.outcome === "none" ? [] : [lastRow(lock.last)];
  if (!rows.length)
    return [];
  const box = make("details", {open: open.has(lock.name)},
    make("summary", {data: {key: "history"}}, "History"), make("ul", {className: "history"}, ...rows));
  box.addEventListener("toggle", () => box.open ? open.add(lock.name) : open.delete(lock.name));
  return [box];
}

// Protocols without a queue tell only of the requests that wait at this service.
export const waitingAt = lock => lock.queue.length || lock.waiting_here;

export const stateOf = lock =>
  waitingAt(lock) ? "waits" : lock.holders.length ? "held" : "free";

// How long a turn lasted; 0: nobody knows.
export const lasted = ({granted, ended}) => granted ? Math.max(0, Date.parse(ended) - Date.parse(granted)) : 0;

// What the queue does not show.
function hereRow({waiting_here: n, queue}) {
  if (n <= (queue.length ? 1 : 0))
    return [];
  const text = n === 1 ? "1 request waits at this service" : `${n} requests wait at this service`;
  return [make("p", {className: "here quiet"},
    text, queue.length ? "; exclusive ones share a place in the queue" : "")];
}

// Its holders and those that wait. turns: of the past, where they are known.
export function entries(lock, events, ask, turns = []) {
  const held = Math.max(longest(events, ["grant"], ["release", "loss"]), ...turns.map(lasted));
  const waited = longest(events, ["wait"], ["grant", "gave_up", "left"]);
  return [
    ...lock.holders.map(holder => holderRow(lock, holder, held, ask)),
    ...(lock.queue.length ? [make("ol", {className: "queue"},
      ...lock.queue.map(entry => queueRow(entry, waited)))] : []),
    ...hereRow(lock)];
}

// Puts new children into an element; what had the focus has it again.
export function refill(element, children) {
  const key = element.contains(document.activeElement) && document.activeElement.dataset.key;
  element.replaceChildren(...children);
  if (key)
    element.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({preventScroll: true});
}

export function card(element, lock, events, {open, ask}) {
  const state = stateOf(lock);
  element.className = `lock ${state}`;
  element.dataset.name = lock.name;
  refill(element, [
    make("h2", {}, make("a", {className: "name", href: addressOf(lock.name), data: {key: "name"}}, lock.name),
      make("span", {className: "kind"}, kindOf(lock), state === "free" ? " free" : "")),
    ...entries(lock, events, ask), ...history(lock, events, open)]);
}

// Writes only what is new, so that the browser has nothing to do for the rest.
function write(element, text) {
  if (element.textContent !== text)
    element.textContent = text;
}

function updateLease(row, lease, now) {
  const left = lease ? lease.until - now : 0, bar = row.querySelector("progress");
  bar.value = lease ? Math.max(0, left) / Math.max(1, lease.most) : 0;
  row.classList.toggle("low", bar.value < 0.25);
  row.classList.toggle("over", lease !== undefined && left < 0);
  write(row.querySelector(".left"),
    !lease ? "not known" : left < 0 ? `over by ${duration(-left)}` : duration(left));
}

export function update(element, {leases, skew, now: nowOf}) {
  const now = nowOf();
  for (const row of element.querySelectorAll(".holder"))
    updateLease(row, leases.get(row.dataset.session), now);
  element.classList.toggle("overdue", element.querySelector(".over") !== null);
  for (const time of element.querySelectorAll(".since")) {
    const ms = now + skew - Number(time.dataset.since);
    write(time, time.dataset.since ? duration(ms) : "some time");
    const usual = Number(time.dataset.usual);
    time.classList.toggle("long", usual > 0 && ms > Math.max(LONG_MS, LONGER * usual));
  }
}
