/**
 * The panel's page: runs on the left, what one of them consists of on the right.
 *
 * Theory of operation. It asks the kernel (`notebook/link.py` has the words) and shows what is answered. Names, notes,
 * code and outputs may be a stranger's: every one of them becomes a text node, and nothing here makes markup of text.
 *
 * A view outlives its kernel and cannot tell by itself: what was asked and not answered for a while is told, and so is
 * a restart, after which only running the cell again helps.
 */

const PATIENCE_MS = 4000;
const PING_MS = 1500;
const BUSY =
  "The kernel has not answered yet. It may be busy: then this goes on by itself. If it was restarted, run this cell again.";
const NOBODY =
  "No kernel has answered yet: these are the runs there were when the cell ran. Run the cell to look into them.";
const RESTARTED = "The kernel was restarted. Run this cell again to have the panel back.";

/** An element; strings among its children become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) {
      element.addEventListener(name.slice(2), value);
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children);
  return element;
}

const button = (label, onclick, more = {}) => make("button", { type: "button", onclick, ...more }, label);

/** Questions to the kernel, each with its answer. */
class Line {
  constructor(model, told) {
    this._model = model;
    this._told = told;
    this._open = new Map();
    this._view = Math.random().toString(36).slice(2);
    this._count = 0;
    this._onMessage = message => this._answered(message);
    model.on("msg:custom", this._onMessage);
  }

  /** What the kernel answers; a refusal is an error with a hint. */
  ask(word, args = {}) {
    const id = `${this._view}:${++this._count}`;
    return new Promise((resolve, reject) => {
      const silence = setTimeout(() => this._told("silent"), PATIENCE_MS);
      this._open.set(id, { resolve, reject, silence });
      try {
        this._model.send({ id, ask: word, args });
      } catch {
        // The widgets know already that nobody is there.
        this._open.delete(id);
        clearTimeout(silence);
        reject(Object.assign(new Error(RESTARTED), { hint: "", dead: true }));
      }
    });
  }

  /** Whether anybody answers within `wait` milliseconds. */
  ping(wait) {
    return Promise.race([
      this.ask("status").then(
        () => true,
        error => !error.dead
      ),
      new Promise(resolve => setTimeout(() => resolve(false), wait))
    ]);
  }

  _answered(message) {
    const asked = message && this._open.get(message.id);
    if (!asked) {
      return; // another view's
    }
    this._open.delete(message.id);
    clearTimeout(asked.silence);
    this._told("answered");
    const answer = message.answer ?? {};
    if (typeof answer.message === "string" && "hint" in answer) {
      asked.reject(Object.assign(new Error(answer.message), { hint: answer.hint }));
    } else {
      asked.resolve(answer);
    }
  }

  close() {
    this._model.off("msg:custom", this._onMessage);
    for (const { silence } of this._open.values()) {
      clearTimeout(silence);
    }
  }
}

/** What is on the screen. */
class Panel {
  constructor(model, element) {
    this._model = model;
    this._text = "";
    // What there was when the cell ran: all there is to see where no kernel answers.
    this._runs = model.get("first") ?? [];
    this._more = false;
    this._answered = false;
    this._run = null;
    this._steps = [];
    this._step = null;
    this._line = new Line(model, what => this._heard(what));
    this._dead = false;

    this._notice = make("div", { class: "nbcp-notice", role: "status", "aria-live": "polite" });
    this._list = make("ul", { class: "nbcp-list", role: "listbox", "aria-label": "Runs" });
    this._detail = make("section", { class: "nbcp-detail", "aria-label": "The chosen run" });
    const filter = make("input", {
      type: "search",
      placeholder: "Filter runs",
      "aria-label": "Filter runs by name, id or note",
      oninput: () => this._filter(filter.value)
    });
    this._root = make(
      "div",
      { class: "nbcp" },
      make(
        "div",
        { class: "nbcp-head" },
        make("strong", {}, "Checkpoints"),
        filter,
        button("Refresh", () => this.refresh())
      ),
      this._notice,
      make("div", { class: "nbcp-body" }, this._list, this._detail)
    );
    element.append(this._root);
    moveByKeys(this._list);
    if (this._runs.length) {
      this._showRuns();
    }
    this._onLive = () => this._check();
    model.on("comm_live_update", this._onLive);
    void this.refresh();
  }

  close() {
    this._model.off("comm_live_update", this._onLive);
    clearTimeout(this._typing);
    this._line.close();
  }

  async refresh() {
    await this._try(async () => {
      const { runs, more } = await this._line.ask("runs", { text: this._text });
      this._runs = runs;
      this._more = more;
      this._showRuns();
      if (this._run) {
        await this._open(this._run.id);
      }
    });
  }

  _filter(text) {
    clearTimeout(this._typing);
    this._typing = setTimeout(() => {
      this._text = text.trim();
      void this.refresh();
    }, 200);
  }

  /** Do something; what goes wrong is told in the kernel's own words. */
  async _try(work) {
    try {
      await work();
    } catch (error) {
      if (error.dead) {
        this._die();
      } else {
        this._say([error.message, error.hint].filter(Boolean).join(" · "), "problem");
      }
    }
  }

  _heard(what) {
    if (what === "silent" && !this._dead) {
      this._say(this._answered || !this._runs.length ? BUSY : NOBODY, "silent");
    } else if (what === "answered") {
      this._answered = true;
      this._dead = false;
      this._root.classList.remove("nbcp-dead");
      if (this._notice.dataset.kind !== "problem") {
        this._say("", "");
      }
    }
  }

  /** Something has happened to the connection: is anybody there? */
  async _check() {
    if (!(await this._line.ping(PING_MS))) {
      this._die();
    }
  }

  _die() {
    this._dead = true;
    this._root.classList.add("nbcp-dead");
    this._say(RESTARTED, "dead");
  }

  _say(text, kind) {
    this._notice.textContent = text;
    this._notice.dataset.kind = kind;
    this._notice.hidden = !text;
  }

  // The list

  _showRuns() {
    if (!this._runs.length) {
      const none = this._text
        ? "No run has that in its name, id or note."
        : "No runs yet. A cell that begins with %%checkpointed makes the first.";
      this._list.replaceChildren(make("li", { class: "nbcp-none" }, none));
      return;
    }
    const chosen = this._run?.id ?? this._runs[0].id;
    this._list.replaceChildren(
      ...this._runs.map(run =>
        make(
          "li",
          {
            role: "option",
            class: "nbcp-run",
            tabindex: run.id === chosen ? 0 : -1,
            "aria-selected": String(run.id === this._run?.id),
            "data-id": run.id,
            onclick: () => this._choose(run.id),
            onkeydown: event => onEnter(event, () => this._choose(run.id))
          },
          make("span", { class: "nbcp-name", dir: "auto", title: run.workflow }, run.workflow),
          status(run.status),
          make("span", { class: "nbcp-faint" }, [ago(run.updated), run.pinned ? "pinned" : "", run.note].filter(Boolean).join(" · "))
        )
      ),
      this._more
        ? make("li", { class: "nbcp-none", role: "presentation" }, `These are the ${grouped(this._runs.length)} newest. The filter finds older ones.`)
        : ""
    );
  }

  _choose(id) {
    for (const option of this._list.querySelectorAll("[role=option]")) {
      const mine = option.dataset.id === id;
      option.setAttribute("aria-selected", String(mine));
      option.tabIndex = mine ? 0 : -1;
    }
    this._step = null;
    this._say("", "");
    return this._try(() => this._open(id));
  }

  // One run

  async _open(id) {
    const { run, steps, more } = await this._line.ask("steps", { run: id });
    this._run = run;
    this._steps = steps;
    this._moreSteps = more;
    this._showRun();
  }

  _showRun() {
    const run = this._run;
    this._dialog = make("div", { class: "nbcp-dialog", role: "alertdialog", hidden: true });
    this._preview = make("div", { class: "nbcp-preview" });
    const list = make(
      "ul",
      { class: "nbcp-list nbcp-steps", role: "listbox", "aria-label": "Steps" },
      ...this._steps.map((step, at) => this._stepRow(step, at))
    );
    moveByKeys(list);
    const sizes = [
      run.computed_seconds ? `computed ${duration(run.computed_seconds)}` : "",
      run.spared_seconds ? `spared ${duration(run.spared_seconds)}` : "",
      run.bytes ? `saved ${size(run.bytes)}` : "",
      run.trusted ? "" : "not signed by you"
    ];
    this._detail.replaceChildren(
      make("div", { class: "nbcp-title" }, make("strong", {}, run.workflow), status(run.status)),
      make("div", { class: "nbcp-faint" }, [run.id, ago(run.updated), ...sizes].filter(Boolean).join(" · ")),
      make(
        "div",
        { class: "nbcp-actions" },
        button("Restore…", () => this._foretell(run.id), { disabled: !run.trusted }),
        button("Delete…", () => this._confirmDelete(), { disabled: run.status === "running" })
      ),
      this._dialog,
      ...this._steps.filter(step => step.status === "paused" && step.meta?.pause).map(step => this._question(step)),
      this._steps.length ? list : make("p", { class: "nbcp-faint" }, "No steps yet."),
      this._moreSteps
        ? make("p", { class: "nbcp-faint" }, `These are the first ${grouped(this._steps.length)} steps. nbcheckpoint show ${run.id} has all.`)
        : "",
      this._preview
    );
  }

  _stepRow(step, at) {
    const inner = step.address.split(".").length - 1;
    const number = step.kind === "statement" && inner ? ` · statement ${Number(step.address.split(".").pop()) + 1}` : "";
    const why = step.error || step.reason?.text || "";
    const facts = [progress(step), step.seconds ? duration(step.seconds) : "", step.bytes ? size(step.bytes) : "", why];
    const row = make(
      "li",
      {
        role: "option",
        class: "nbcp-step",
        tabindex: at === 0 ? 0 : -1,
        "aria-selected": "false",
        onclick: () => this._look(step, row),
        onkeydown: event => onEnter(event, () => this._look(step, row))
      },
      make("span", { class: "nbcp-name", dir: "auto", title: step.name }, step.name + number),
      status(step.status),
      make("span", { class: "nbcp-faint" }, facts.filter(Boolean).join(" · "))
    );
    row.style.paddingLeft = `${8 + 16 * inner}px`;
    return row;
  }

  async _look(step, row) {
    for (const other of row.parentElement.children) {
      other.setAttribute("aria-selected", String(other === row));
      other.tabIndex = other === row ? 0 : -1;
    }
    this._step = step;
    if (!step.checkpoint) {
      this._preview.replaceChildren(make("p", { class: "nbcp-faint" }, "It left no checkpoint."));
      return;
    }
    await this._try(async () => {
      const preview = await this._line.ask("preview", { checkpoint: step.checkpoint });
      if (this._step === step) {
        this._showPreview(step, preview);
      }
    });
  }

  _showPreview(step, { values, outputs, source }) {
    const rows = values.map(({ name, type, shape, preview }) =>
      make("tr", {}, ...[name, type, shape, preview].map(text => make("td", {}, text)))
    );
    this._preview.replaceChildren(
      make(
        "div",
        { class: "nbcp-actions" },
        button("Restore here…", () => this._foretell(step.checkpoint), { disabled: !step.trusted })
      ),
      source ? make("pre", { "aria-label": "Code" }, source) : "",
      rows.length ? table(["name", "type", "shape", "value"], rows) : make("p", { class: "nbcp-faint" }, "No variables."),
      ...outputs.map(output =>
        output.kind === "image/png"
          ? make("img", { src: `data:image/png;base64,${output.data}`, alt: output.text || "a picture" })
          : make("pre", { class: output.kind === "error" ? "nbcp-error" : "" }, output.text)
      )
    );
  }

  // Doing things

  _foretell(target) {
    return this._try(async () => {
      const { changes, not_bound } = await this._line.ask("restore", { target, dry_run: true });
      const marks = { new: "new", replaced: "replaced", same: "as it is", deleted: "deleted" };
      const rows = changes.map(({ name, now, then, change }) =>
        make("tr", {}, ...[name, marks[change] ?? change, now, then].map(text => make("td", {}, text)))
      );
      const missing = Object.entries(not_bound).map(([name, why]) => make("li", {}, `${name}: ${why}`));
      this._ask(
        changes.length ? "Restore these variables?" : "There is nothing to restore.",
        changes.length ? { Restore: () => this._restore(target) } : {},
        rows.length ? table(["name", "", "now", "then"], rows) : "",
        missing.length ? make("div", {}, "Not restored:", make("ul", {}, ...missing)) : ""
      );
    });
  }

  async _restore(target) {
    const { bound, deleted, not_bound } = await this._line.ask("restore", { target });
    const parts = [
      `Restored: ${Object.keys(bound).join(", ") || "nothing"}`,
      deleted.length ? `deleted: ${deleted.join(", ")}` : "",
      Object.keys(not_bound).length ? `not restored: ${Object.keys(not_bound).join(", ")}` : ""
    ];
    this._say(parts.filter(Boolean).join(" · "), "done");
  }

  _confirmDelete() {
    const { id, workflow } = this._run;
    this._ask(`Delete the run ${id} of ${workflow}, and what no other run uses?`, {
      Delete: async () => {
        await this._line.ask("delete", { run: id });
        this._run = null;
        this._detail.replaceChildren();
        await this.refresh();
        this._say(`Deleted ${id}.`, "done");
      }
    });
  }

  /** A question within the panel: what is lost is said before it is. */
  _ask(text, actions, ...more) {
    const before = document.activeElement;
    const close = () => {
      this._dialog.hidden = true;
      this._dialog.replaceChildren();
      before?.focus();
    };
    const doing = Object.entries(actions).map(([label, act]) =>
      button(label, () => this._try(async () => (close(), await act())), { class: "nbcp-primary" })
    );
    this._dialog.replaceChildren(
      make("p", {}, text),
      ...more,
      make("div", { class: "nbcp-actions" }, ...doing, button(doing.length ? "Cancel" : "Close", close))
    );
    this._dialog.setAttribute("aria-label", text);
    this._dialog.onkeydown = event => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      }
    };
    this._dialog.hidden = false;
    // What loses something is not what Enter does.
    this._dialog.querySelector("button:last-child").focus();
  }

  _question(step) {
    const { name, prompt, choices } = step.meta.pause;
    const answer = value =>
      this._try(async () => {
        await this._line.ask("answer", { run: this._run.id, pause: String(name), value });
        await this._open(this._run.id);
        this._say(`Answered ${name}.`, "done");
      });
    const box = make("div", { class: "nbcp-question" }, make("p", {}, String(prompt || name)));
    if (Array.isArray(choices)) {
      box.append(make("div", { class: "nbcp-actions" }, ...choices.map(choice => button(String(choice), () => answer(choice)))));
    } else {
      const input = make("input", { type: "text", "aria-label": String(prompt || name) });
      const form = make("form", { class: "nbcp-actions" }, input, make("button", { type: "submit" }, "Answer"));
      form.addEventListener("submit", event => {
        event.preventDefault();
        void answer(said(input.value));
      });
      box.append(form);
    }
    return box;
  }
}

/** A text as the command line takes it: JSON where it is JSON, else the text itself. */
function said(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function table(columns, rows) {
  const head = make("tr", {}, ...columns.map(column => make("th", { scope: "col" }, column)));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
}

const status = word => make("span", { class: `nbcp-status nbcp-${/^[a-z]+$/.test(word) ? word : "other"}` }, word);

function onEnter(event, act) {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    event.stopPropagation();
    void act();
  }
}

/** The arrow keys go through a list; the notebook, which has its own idea of them, does not see them. */
function moveByKeys(list) {
  list.addEventListener("keydown", event => {
    const options = [...list.querySelectorAll("[role=option]")];
    const at = options.indexOf(event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: options.length - 1 }[event.key];
    if (at < 0 || to === undefined) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    const next = options[Math.max(0, Math.min(to, options.length - 1))];
    options[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

const grouped = number => number.toLocaleString("en");

/** How far a loop or a map has come that is not over: `2 of 10, inside 21 of 100`. */
function progress({ status, meta }) {
  if (status === "completed" || !Number.isInteger(meta?.done)) {
    return "";
  }
  const inside = Array.isArray(meta.inside) ? meta.inside.filter(Array.isArray) : [];
  return [[meta.done, meta.total], ...inside]
    .map(([done, total]) => (total > 0 ? `${grouped(Number(done))} of ${grouped(Number(total))}` : `${grouped(Number(done))} done`))
    .join(", inside ");
}

function duration(seconds) {
  if (seconds < 1) {
    return `${Math.round(seconds * 1000)} ms`;
  }
  if (seconds < 60) {
    return `${seconds.toFixed(1)} s`;
  }
  const minutes = Math.floor(Math.round(seconds) / 60);
  const two = number => String(number).padStart(2, "0");
  return minutes < 60 ? `${minutes}m ${two(Math.round(seconds) % 60)}s` : `${Math.floor(minutes / 60)}h ${two(minutes % 60)}m`;
}

function size(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (bytes >= 999.5 && at < units.length - 1) {
    bytes /= 1000;
    at += 1;
  }
  return `${at && bytes < 9.95 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

function ago(moment) {
  const seconds = (Date.now() - Date.parse(moment)) / 1000;
  return Number.isFinite(seconds) ? (seconds < 2 ? "just now" : `${duration(seconds)} ago`) : moment;
}

export default {
  render({ model, el }) {
    const panel = new Panel(model, el);
    return () => panel.close();
  }
};
