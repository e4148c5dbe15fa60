"use strict";
// The page shows a document, sends the grade, and shows the next one only after the server has stored it.

const find = (id) => document.getElementById(id);
const RETRY_MS = 1000;
const page = { rater: null, state: null, sending: false, skippedUntil: null };

// ---- the server -----------------------------------------------------------------------------------------------------

async function ask(path, message) {
  const options = message === undefined ? {} : {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(message),
  };
  const response = await fetch(path, { cache: "no-store", ...options });
  const answer = await response.json();
  if (response.ok) return answer;
  const error = new Error(answer.error);
  error.final = response.status >= 400 && response.status < 500;
  throw error;
}

// Send until it is stored: the request has a name, so that the server stores it once however often it comes.
async function askUntilStored(path, message) {
  for (;;) {
    try {
      return await ask(path, message);
    } catch (error) {
      if (error.final) throw error;
      say("Not stored yet: no answer from marginrank judge. Trying again; keep this page open.", true);
      await new Promise((resume) => setTimeout(resume, RETRY_MS));
    }
  }
}

async function exchange(path, message, said) {
  if (page.sending) return;
  page.sending = true;
  enable();
  try {
    page.state = await askUntilStored(path, message);
    page.sending = false;
    show();
    say(said);
  } catch (error) {
    page.sending = false;
    enable();
    say(`Not stored: ${error.message}.`, true);
  }
}

// ---- what the rater does --------------------------------------------------------------------------------------------

function judge(grade, said) {
  const shown = page.state && page.state.document;
  if (!shown) return;
  exchange("judge", {
    request: crypto.randomUUID(), rater: page.rater, document: shown.number, grade,
    note: find("note").value, skipped_until: page.skippedUntil,
  }, said);
}

function skip() { judge(null, "Skipped."); }

function undo() {
  if (page.state && page.state.last !== null) {
    exchange("undo", { rater: page.rater, decision: page.state.last }, "Undone: judge this document again.");
  }
}

function toggleNote(open) {
  const box = find("note-box");
  box.hidden = open === undefined ? !box.hidden : !open;
  find("note-button").setAttribute("aria-expanded", String(!box.hidden));
  if (!box.hidden && open === undefined) find("note").focus();
}

function goThroughSkipped() {
  page.skippedUntil = page.state.last;
  exchange(`state?${new URLSearchParams({ rater: page.rater, skipped_until: page.skippedUntil })}`, undefined, "");
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || find("work").hidden) return;
  if (event.key === "Escape" && event.target === find("note")) { find("query").focus(); return; }
  if (event.target.matches("input:not([type=checkbox]), textarea") || !find("keys").checked) return;
  const chosen = page.state && page.state.scale.find((one) => one.key === event.key);
  const key = event.key.toLowerCase();
  if (chosen && page.state.document) judge(chosen.grade, stored(chosen));
  else if (key === "s") skip();
  else if (key === "u") undo();
  else if (key === "n" && page.state.document) toggleNote();
  else return;
  event.preventDefault();
}

// ---- what the rater sees --------------------------------------------------------------------------------------------

function stored(chosen) { return `Stored: ${chosen.grade}${chosen.label ? ` ${chosen.label}` : ""}.`; }

function say(text, bad = false) {
  find("status").textContent = text;
  find("status").classList.toggle("bad", bad);
}

function enable() {
  for (const button of document.querySelectorAll("#answer button, #done button")) button.disabled = page.sending;
  for (const id of ["undo", "done-undo"]) find(id).disabled = page.sending || !page.state || page.state.last === null;
}

function describe(list, fields) {
  list.replaceChildren(...fields.flatMap(([name, value]) => {
    const term = document.createElement("dt");
    term.textContent = name;
    const text = document.createElement("dd");
    if (/^https?:\/\/\S+$/.test(value)) {
      const link = document.createElement("a");
      Object.assign(link, { href: value, textContent: value, rel: "noreferrer noopener", target: "_blank" });
      text.append(link);
    } else {
      text.textContent = value;
    }
    return [term, text];
  }));
}

function drawGrades(scale) {
  const buttons = scale.map((one) => {
    const button = document.createElement("button");
    const grade = document.createElement("b");
    const label = document.createElement("span");
    grade.textContent = one.grade;
    label.textContent = one.label;
    button.type = "button";
    button.dataset.grade = one.grade;
    button.setAttribute("aria-keyshortcuts", one.key);
    button.append(grade, label);
    if (String(one.grade) !== one.key) button.title = `Key ${one.key}`;
    button.addEventListener("click", () => judge(one.grade, stored(one)));
    return button;
  });
  find("grades").replaceChildren(...buttons);
}

function show() {
  const { document: shown, judged, skipped, total, scale } = page.state;
  find("welcome").hidden = true;
  find("work").hidden = false;
  find("rater").textContent = page.rater;
  find("meter").value = judged + skipped;
  find("meter").max = total;
  find("count").textContent = `${judged} of ${total} judged${skipped ? `, ${skipped} skipped` : ""}`;
  find("document").hidden = find("answer").hidden = shown === null;
  find("done").hidden = shown !== null;
  if (shown === null) {
    showEnd(judged, skipped);
  } else {
    drawGrades(scale);
    showDocument(shown);
  }
  enable();
}

function showDocument(shown) {
  const sameQuery = find("query").textContent === shown.query;
  find("place").textContent = `Document ${shown.place} of ${shown.of} for the query`;
  find("query").textContent = shown.query;
  describe(find("query-fields"), shown.query_fields);
  find("title").textContent = shown.title || shown.document_id;
  describe(find("fields"), shown.fields);
  find("document-id").textContent = shown.document_id;
  find("note").value = shown.note;
  toggleNote(Boolean(shown.note));
  for (const button of document.querySelectorAll("#grades button")) {
    button.setAttribute("aria-pressed", String(shown.grade !== null && Number(button.dataset.grade) === shown.grade));
  }
  document.title = `${shown.query} – judge documents`;
  window.scrollTo(0, 0);
  // A screen reader reads what is new: the query, or only the title of its next document.
  find(sameQuery ? "title" : "query").focus({ preventScroll: true });
}

function showEnd(judged, skipped) {
  page.skippedUntil = null;
  find("done-title").textContent = skipped ? "No other documents are left" : "All documents are judged";
  find("done-text").textContent = `${judged} judged, ${skipped} skipped. You can close this page.`;
  find("again").hidden = skipped === 0;
  document.title = "Judge documents";
  find("done-title").focus();
}

// ---- who judges -----------------------------------------------------------------------------------------------------

async function start(name) {
  page.rater = name;
  page.skippedUntil = null;
  try {
    page.state = await ask(`state?${new URLSearchParams({ rater: name })}`);
  } catch (error) {
    askName(error.final ? error.message : "no answer from marginrank judge; start it again");
    return;
  }
  page.rater = page.state.rater;
  history.replaceState(null, "", `?${new URLSearchParams({ rater: page.rater })}`);
  show();
  say("");
}

async function askName(problem) {
  find("work").hidden = true;
  find("welcome").hidden = false;
  find("name-hint").textContent = problem
    ? `That did not work: ${problem}.`
    : "Your grades are stored under this name. Use the same name to continue later.";
  find("name").focus();
  const known = await ask("raters").catch(() => ({ raters: [] }));
  find("raters").replaceChildren(...known.raters.map((name) => new Option(name, name)));
}

find("who").addEventListener("submit", (event) => { event.preventDefault(); start(find("name").value); });
find("other").addEventListener("click", () => { history.replaceState(null, "", "."); askName(); });
find("skip").addEventListener("click", skip);
find("undo").addEventListener("click", undo);
find("done-undo").addEventListener("click", undo);
find("again").addEventListener("click", goThroughSkipped);
find("note-button").addEventListener("click", () => toggleNote());
document.addEventListener("keydown", pressed);

const given = new URLSearchParams(location.search).get("rater");
if (given) start(given);
else askName();
