// SPDX-License-Identifier: Apache-2.0
// The second look at one lock: its holders and its queue, why it is not free, how it was left last,
// the turns that have ended, and what this page has seen of it. page.js says when to draw it anew.
import {addressOf, duration, entries, historyRow, kindOf, lasted, lastRow, make, moment, named, refill, since,
  stateOf, who} from "./card.js";

const ENDS = {
  root: " \u2190 the root: it waits for nothing, as far as is known",
  cycle: " \u2190 a cycle: they wait for each other",
  told: ", as above",
  cut: ", not followed further",
  unknown: "; whether it waits for anything is not known",
};

const linkTo = (name, key) => make("a", {href: addressOf(name), data: {key}}, name);

// "deploy is held by ci@host1 for 12m", and one deeper "which waits for db, held by ops@host2 for 3h".
function whyRow({name, depth, holder, waits_for: wanted, next}, i) {
  const points = next !== "root" && next !== "follows" && wanted;
  const row = make("li", {},
    depth ? "which waits for " : "", linkTo(name, `why ${i}`), depth ? ", held by " : " is held by ",
    who(holder), " for ", since(holder, 0), " ",
    make("span", {className: "why"}, holder.why),
    holder.lease_left_ms < 0 ? make("span", {className: "danger"}, " (its lease is over)") : "",
    ...(points ? [", which waits for ", linkTo(wanted, `wanted ${i}`)] : []), ENDS[next] || "");
  row.style.marginInlineStart = `${Math.min(depth, 8)}rem`;
  return row;
}

function section(title, ...children) {
  return make("section", {}, make("h3", {}, title), ...children);
}

function whySection(why) {
  return why?.links.length ?
    [section("Why it is not free", make("ol", {className: "chain"}, ...why.links.map(whyRow)))] : [];
}

function doneRow(done) {
  return make("li", {}, "Work was finished by ", ...named(done.who || "a holder that is not known"),
    `, exit status ${done.exit_status}`, done.token ? `, token ${done.token}` : "");
}

function lastSection({last}) {
  const rows = last.outcome === "none" ? [] : [lastRow(last)];
  if (last.done && (last.token ? last.done.token !== last.token : last.done.at !== last.at))
    rows.push(doneRow(last.done));
  return section("How it was left last", rows.length ? make("ul", {className: "history last"}, ...rows) :
    make("p", {className: "quiet"}, "Nobody has left it yet, as far as the store knows."));
}

const HOW = {released: "gave it back", lost: "lost it", broken: "was made to leave",
  abandoned: "died, or its lease ran out"};

// A bar as long as the turn was, beside the longest; status is null if the holder told none.
function turnRow(turn, most) {
  const {who: whose, actor, why, granted, ended, end, reason, exit_status: status, more} = turn, ms = lasted(turn);
  const part = actor && !whose.startsWith(`${actor}@`) ? `/${actor}` : "";
  const row = make("li", {className: end !== "released" ? "loss" : status ? "release failed" : "release"},
    moment(granted || ended), " ",
    make("b", {className: "who"}, ...named(whose || "somebody"), part),
    granted ? ` for ${ms < 1000 ? `${ms}ms` : duration(ms)} ` : " ", make("span", {className: "why"}, why),
    ` \u00b7 ${HOW[end]}`, status === null ? "" : `, exit status ${status}`, reason ? `: ${reason}` : "",
    more ? make("span", {className: "quiet"}, `; ${more} more turns just before it`) : "",
    make("span", {className: "bar"}));
  row.lastChild.style.inlineSize = `${most ? Math.max(1, 100 * ms / most) : 1}%`;
  return row;
}

// turns: undefined where none are kept.
function turnsSection(turns) {
  if (!turns)
    return [];
  const most = Math.max(0, ...turns.map(lasted));
  return [section("Its last turns", turns.length ?
    make("ol", {className: "history turns"}, ...turns.map(turn => turnRow(turn, most))) :
    make("p", {className: "quiet"}, "None has ended, as far as the store knows."))];
}

// What was asked for may have changed since the first of them.
function seenSection(events, openedAt) {
  const from = Math.min(openedAt, ...events.map(event => Date.parse(event.at)));
  return section(`Seen since ${new Date(from).toLocaleTimeString()}`,
    events.length ? make("ol", {className: "history seen"}, ...events.map(historyRow)) :
      make("p", {className: "quiet"}, "Nothing has happened to it since then."));
}

function heading(name, lock) {
  const kind = lock ? kindOf(lock) + (stateOf(lock) === "free" ? " free" : "") : "";
  const title = make("h2", {id: "one-name", tabIndex: -1, data: {key: "title"}},
    make("span", {className: "name"}, name), make("span", {className: "kind"}, kind));
  return [make("a", {className: "back", href: "#", data: {key: "back"}}, "\u2190 All locks"), title];
}

// lock, why, turns: undefined where they are not known; problem: why not.
export function showOne(element, {name, lock, events, why, turns, problem, openedAt, ask}) {
  element.className = lock ? `lock ${stateOf(lock)}` : "lock";
  refill(element, [...heading(name, lock),
    ...(problem ? [make("p", {className: "problem", role: "status"}, problem)] : []),
    ...(lock ? [...entries(lock, events, ask, turns), ...whySection(why), lastSection(lock)] : []),
    ...turnsSection(turns), seenSection(events, openedAt)]);
}
