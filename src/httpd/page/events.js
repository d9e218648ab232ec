// SPDX-License-Identifier: Apache-2.0
// Server-sent events read with fetch(), as EventSource cannot send a token. Comes back for ever, and
// goes on behind the last event.

const AGAIN_MS = 1000, AGAIN_MOST_MS = 8000, SILENCE_MS = 45000;
// A beat comes each second, or, where the service takes long to list the locks, with each listing.
// What belongs to one listing comes at once.
const SILENT_MS = 2500, SILENT_MOST_MS = 10000, AT_ONCE_MS = 300;

// Calls take(kind, data, id) for each whole event; returns what is left of the text.
function split(text, take) {
  const blocks = text.split("\n\n");
  const rest = blocks.pop();
  for (const block of blocks) {
    const fields = Object.fromEntries(block.split("\n").map(line => line.split(/: (.*)/s, 2)));
    if (fields.event)
      take(fields.event, JSON.parse(fields.data), fields.id);
  }
  return rest;
}

export function follow(url, on) {
  let lastId = "", stop = new AbortController(), failures = 0, isRunning, isAnew, timer;
  let gap = 0, gapBefore = 0, heardAt = 0, quiet; // the last two times between beats

  const silence = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), SILENCE_MS);
  };

  // The connection is kept meanwhile: on.heard() takes it back. One gap alone may come from a service
  // that stood still; two say how long it takes.
  const listen = () => {
    const passed = heardAt ? performance.now() - heardAt : 0;
    if (passed > AT_ONCE_MS)
      [gapBefore, gap] = [gap, passed];
    heardAt = performance.now();
    clearTimeout(quiet);
    const usual = Math.min(gap, gapBefore);
    quiet = setTimeout(on.silent, Math.min(Math.max(SILENT_MS, 2 * usual), SILENT_MOST_MS));
  };

  async function read(answer) {
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (let part; !(part = await reader.read()).done;) {
      silence();
      listen();
      failures = 0;
      text += part.value;
      if (part.value.includes("\n\n") || part.value.startsWith("\n")) // a long event comes in many parts
        text = split(text, (kind, data, id) => { lastId = id; on.event(kind, data); });
      on.heard();
    }
  }

  // Returns whether to come back.
  async function once() {
    stop = new AbortController();
    silence();
    const known = lastId ? {"Last-Event-ID": lastId} : {};
    const answer = await fetch(url(), {headers: {...on.headers(), ...known}, signal: stop.signal});
    if (answer.status === 401 || answer.status === 403) {
      on.refused(answer.status === 401, (await answer.json()).detail);
      return false;
    }
    if (!answer.ok)
      throw new Error((await answer.json()).detail);
    on.begun(answer);
    await read(answer);
    return true;
  }

  async function run() {
    isRunning = true;
    while (isRunning) {
      try {
        isRunning = await once();
      } catch {
        // told below, as is an end without an error
      }
      clearTimeout(timer);
      clearTimeout(quiet);
      heardAt = 0;
      if (!isRunning)
        return;
      if (isAnew) {
        isAnew = false;
        continue;
      }
      on.lost();
      await new Promise(done => setTimeout(done, Math.min(AGAIN_MS * 2 ** failures++, AGAIN_MOST_MS)));
    }
  }

  run();
  return {
    // With another address or other headers, from the beginning.
    again() {
      lastId = "";
      failures = 0;
      isAnew = isRunning;
      if (isRunning)
        stop.abort();
      else
        run();
    },
  };
}
