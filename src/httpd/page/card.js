// SPDX-License-Identifier: Apache-2.0
// One lock: who holds it, who waits, what happened to it. Made anew when it changes; update() lets
// the time pass.

const ALL = 2 ** 30;
const LONG_MS = 60000, LONGER = 3; // what is long: that, and so many times what the lock has seen
const WORDS = {wait: "waits", grant: "has it", release: "gave it back", loss: "lost it",
  gave_up: "gave up waiting", left: "waits no more"};

// An element with these properties and children; texts become text.
function make(name, properties, ...children) {
  const {data, ...rest} = properties;
  const element = Object.assign(document.createElement(name), rest);
  Object.assign(element.dataset, data);
  element.append(...children);
  return element;
}

function duration(ms) {
  const s = Math.max(0, Math.floor(ms / 1000)), m = Math.floor(s / 60), h = Math.floor(m / 60);
  const two = n => String(n).padStart(2, "0");
  if (h >= 24)
    return `${Math.floor(h / 24)}d${two(h % 24)}h`;
  return h ? `${h}h${two(m % 60)}m` : m ? `${m}m${two(s % 60)}s` : `${s}s`;
}

const who = entry => entry.who || "(session gone)";
const since = (entry, usual) => make("span", {className: "since",
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

function kindOf(lock) {
  if (lock.limit !== ALL) {
    const used = lock.holders.reduce((sum, e) => sum + e.permits, 0);
    return ` ${used} of ${lock.limit}`;
  }
  return lock.holders.length && lock.holders[0].permits !== ALL ? " shared" : "";
}

function holderRow(lock, holder, usual, ask) {
  const key = "break " + (holder.token || holder.session);
  const button = ask && make("button", {type: "button", className: "break", data: {key},
    ariaLabel: `Break ${lock.name}, held by ${who(holder)}`, onclick: () => ask(lock.name, holder)}, "Break");
  return make("div", {className: "holder", data: {session: holder.session}},
    make("div", {},
      make("b", {className: "who"}, who(holder)), " for ", since(holder, usual), " ",
      make("span", {className: "why"}, holder.why), " ",
      make("span", {className: "quiet small"}, "\u00b7 lease ", make("span", {className: "left"}),
        holder.token ? ` \u00b7 token ${holder.token}` : "")),
    button || "",
    make("progress", {max: 1, value: 0, ariaLabel: "what is left of the lease"}));
}

function queueRow(entry, usual) {
  return make("li", {value: entry.position}, make("b", {className: "who"}, who(entry)), " for ",
    since(entry, usual), " ", make("span", {className: "why"}, entry.why));
}

function lastRow({outcome, who: holder, reason, at, exit_status: status}) {
  const how = outcome === "abandoned" ? "loss" : "release";
  return make("li", {className: how}, clock(Date.parse(at)), ` ${holder} ${WORDS[how]}`,
    status === null ? "" : `, exit status ${status}`, reason ? `: ${reason}` : "");
}

const clock = ms => new Date(ms).toLocaleTimeString();

function historyRow(event) {
  return make("li", {className: event.event},
    `${clock(Date.parse(event.at))} ${who(event)} ${WORDS[event.event]}`,
    event.exit_status === null ? "" : `, exit status ${event.exit_status}`,
    event.reason ? `: ${event.reason}` : "", event.why && event.event === "grant" ? `: ${event.why}` : "");
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

export function card(element, lock, events, {open, ask}) {
  const state = lock.queue.length || lock.waiting_here ? "waits" : lock.holders.length ? "held" : "free";
  element.className = `lock ${state}`;
  element.dataset.name = lock.name;
  const held = longest(events, ["grant"], ["release", "loss"]);
  const waited = longest(events, ["wait"], ["grant", "gave_up", "left"]);
  element.replaceChildren(
    make("h2", {}, make("span", {className: "name"}, lock.name),
      make("span", {className: "kind"}, kindOf(lock), state === "free" ? " free" : "")),
    ...lock.holders.map(holder => holderRow(lock, holder, held, ask)),
    ...(lock.queue.length ? [make("ol", {className: "queue"},
      ...lock.queue.map(entry => queueRow(entry, waited)))] : []),
    ...(lock.waiting_here > 1 ? [make("p", {className: "here quiet"},
      `${lock.waiting_here} requests wait at this service, behind one place in the queue`)] : []),
    ...history(lock, events, open));
}

function updateLease(row, lease) {
  const left = lease ? lease.until - Date.now() : 0, bar = row.querySelector("progress");
  bar.value = lease ? Math.max(0, left) / Math.max(1, lease.most) : 0;
  row.classList.toggle("low", bar.value < 0.25);
  row.classList.toggle("over", lease !== undefined && left < 0);
  row.querySelector(".left").textContent =
    !lease ? "not known" : left < 0 ? `over by ${duration(-left)}` : duration(left);
}

export function update(element, {leases, skew}) {
  for (const row of element.querySelectorAll(".holder"))
    updateLease(row, leases.get(row.dataset.session));
  element.classList.toggle("overdue", element.querySelector(".over") !== null);
  for (const time of element.querySelectorAll(".since")) {
    const ms = Date.now() + skew - Number(time.dataset.since);
    time.textContent = time.dataset.since ? duration(ms) : "some time";
    const usual = Number(time.dataset.usual);
    time.classList.toggle("long", usual > 0 && ms > Math.max(LONG_MS, LONGER * usual));
  }
}
