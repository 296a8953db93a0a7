"use strict";
// Keys, search as one types, and answers of a review without a new page. All of it is a
// convenience: without scripts every form and link works.
const one = (selector, within = document) => within.querySelector(selector);

// Take the part of a page named by a selector from the server, and put it in the place of ours.
async function replace(selector, url, options) {
  const response = await fetch(url, { headers: { accept: "text/html" }, ...options });
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const fresh = one(selector, page);
  if (!fresh) {
    throw new Error(`${response.status}`);
  }
  one(selector).replaceChildren(...fresh.childNodes);
  return page;
}

const home = one(".brand").pathname; // "/", or "/s/kb/" if the server has several stores
const field = one("#find");
if (location.pathname === `${home}search`) {
  let waiting, asked;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(async () => {
      asked?.abort();
      asked = new AbortController();
      const url = `${home}search?q=${encodeURIComponent(field.value)}`;
      try {
        document.title = (await replace("#results", url, { signal: asked.signal })).title;
        history.replaceState(null, "", url);
      } catch (error) {
        if (error.name !== "AbortError") {
          location.assign(url); // the server says what is wrong
        }
      }
    }, 120);
  });
}

function results() {
  return [...document.querySelectorAll(".results h2 a")];
}

function step(by) {
  const links = results();
  const at = links.indexOf(document.activeElement);
  if (!links.length || (at < 0 && document.activeElement !== field)) {
    return false;
  }
  (links[at + by] ?? (at + by < 0 ? field : links[at])).focus();
  return true;
}

async function answer(form, button) {
  if (form.dataset.busy) {
    return;
  }
  form.dataset.busy = "yes";
  const body = new URLSearchParams(new FormData(form));
  body.set(button.name, button.value);
  try {
    await replace("#review", form.action, { method: "POST", body });
    const status = one("#review [role=status]");
    (status ?? one("#review")).scrollIntoView({ block: "nearest" });
    one(`#review button[value="${button.value}"]:not([disabled])`)?.focus();
  } catch {
    form.requestSubmit(button); // the server says what is wrong
  }
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches(".answers") && !form.dataset.busy) {
    event.preventDefault();
    answer(form, event.submitter ?? one("button", form));
  }
});

// What takes long is asked for again until it is there, and a page that follows the store when
// something was written, but not while someone uses the page.
const main = one("main");
let stale = false, next;
async function again() {
  next = undefined;
  const at = document.activeElement;
  if ((stale || one("[data-again]")) && (at === main || !main.contains(at))) {
    stale = false;
    await replace("main", location.href).catch(() => {}); // the server is away
  }
  soon(3000);
}
function soon(wait) {
  if (stale || one("[data-again]")) {
    next ??= setTimeout(again, wait);
  }
}
soon(3000);

// Only a page that is seen holds a stream: a browser has few connections for all of its tabs.
let stream;
function changed() {
  stale = true;
  soon(200);
}
function follow() {
  stream?.close();
  if (document.visibilityState === "visible") {
    if (stream) {
      changed(); // perhaps, while nobody saw it
    }
    stream = new EventSource(`${home}api/changes/stream`);
    stream.addEventListener("changes", changed);
  }
}
if ("live" in main.dataset) {
  follow();
  document.addEventListener("visibilitychange", follow);
}

const keys = one("#keys");
const help = one("#help");
help.hidden = false;
one("button", help).addEventListener("click", () => keys.showModal());

function find() {
  field?.focus();
  field?.select();
}

const answers = { y: "same", n: "different", s: "skip", c: "cannot tell", u: "undo" };
let going = false; // whether the last key was g
document.addEventListener("keydown", (event) => {
  if (event.key === "k" && (event.ctrlKey || event.metaKey) && !keys.open) {
    event.preventDefault();
    find();
  }
  if (event.ctrlKey || event.metaKey || event.altKey || keys.open) {
    return;
  }
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (step(event.key === "ArrowDown" ? 1 : -1)) {
      event.preventDefault();
    }
    return;
  }
  if (event.target.closest("input:not([type=hidden]), textarea, select")) {
    if (event.key === "Escape") {
      event.target.blur();
    }
    return;
  }
  const way = going && (event.key === "h" ? one(".brand") : one(`nav a[aria-keyshortcuts="g ${CSS.escape(event.key)}"]`));
  going = event.key === "g";
  const button = one(`.answers button[value="${answers[event.key]}"]:not([disabled])`);
  if (way) {
    location.assign(way.href);
  } else if (event.key === "/") {
    event.preventDefault();
    find();
  } else if (event.key === "w" && one(".answers textarea")) {
    event.preventDefault();
    one(".answers textarea").focus();
  } else if (event.key === "?") {
    keys.showModal();
  } else if (answers[event.key] && button && !event.repeat) {
    button.click();
  }
});

// A file that is dropped on the form is sent.
const drop = one(".drop");
drop?.addEventListener("dragover", (event) => event.preventDefault());
drop?.addEventListener("drop", (event) => {
  event.preventDefault();
  one("input[type=file]", drop).files = event.dataTransfer.files;
  drop.requestSubmit();
});
